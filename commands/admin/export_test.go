package admin

// What tests of this folder's commands use of its code.
type Sized = sized

var Exposed = exposed
var PrintVerdict = printVerdict
var Si = si
var WrongLines = wrongLines
