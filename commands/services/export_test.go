package services

// What tests of this folder's commands use of its code.
type UpFlags = upFlags

var (
	ErrOneUse      = errOneUse
	Machine        = machine
	NewRegistry    = newRegistry
	RunningMachine = runningMachine
	ServeMetrics   = serveMetrics
)
