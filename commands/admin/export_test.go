package admin

// What tests of this folder's commands use of its code.
type Sized = sized

var (
	Exposed      = exposed
	PrintVerdict = printVerdict
	Si           = si
	WrongLines   = wrongLines
)
