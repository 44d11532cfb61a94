package metrics

// What tests of this folder's commands use of its code.
const (
	ExitRedo    = exitRedo
	ExitUnknown = exitUnknown
)
