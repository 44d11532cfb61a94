package jobs

// What tests of this folder's commands use of its code.
const MaxTasks = maxTasks
const PageBins = pageBins

type Correlation = correlation
type JobLine = jobLine
type RuleRow = ruleRow
type TotalRow = totalRow

var ArrayTasks = arrayTasks
var Bins = bins
var JobLines = jobLines
var JobPage = jobPage
var Usable = usable
var WritePage = writePage
