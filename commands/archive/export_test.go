package archive

// What tests of this folder's commands use of its code.
var (
	PrintAudit = printAudit
	ProgressTo = progressTo
)
