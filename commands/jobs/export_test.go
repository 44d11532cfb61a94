package jobs

// What tests of this folder's commands use of its code.
const (
	MaxTasks = maxTasks
	PageBins = pageBins
)

type (
	Correlation = correlation
	FindingRow  = findingRow
	JobLine     = jobLine
	RuleRow     = ruleRow
	TotalRow    = totalRow
)

var (
	ArrayTasks = arrayTasks
	Bins       = bins
	Separate   = separate
	FindingOf  = findingOf
	JobLines   = jobLines
	JobPage    = jobPage
	Usable     = usable
	WritePage  = writePage
)

// Answers is the number of commands that the console answers.
var Answers = len(answers())

// Allowed returns the flags that the console allows a command.
func Allowed(command string) []string { return answers()[command].allowed }
