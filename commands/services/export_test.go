package services

// What tests of this folder's commands use of its code.
type UpFlags = upFlags

var DropProgram = dropProgram
var ErrOneUse = errOneUse
var Machine = machine
var NewRegistry = newRegistry
var RunningMachine = runningMachine
var ServeMetrics = serveMetrics
