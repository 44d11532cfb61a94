package agent

// What tests of this folder's commands use of its code.
var (
	CPUSet      = cpuSet
	DropProgram = dropProgram
)
