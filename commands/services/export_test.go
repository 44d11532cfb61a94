package services

// What tests of this folder's commands use of its code.
type UpFlags = upFlags

var (
	DropProgram    = dropProgram
	ErrOneUse      = errOneUse
	Machine        = machine
	NewRegistry    = newRegistry
	RunningMachine = runningMachine
	ServeMetrics   = serveMetrics
)
