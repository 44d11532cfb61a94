package page

import (
	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/view"
)

// timeOf returns the axis of time of a job's figures.
func timeOf(j *view.Job, left, right float64) chart.Scale {
	from, until := j.Drawn()
	if j.Several() {
		return chart.Elapsed(from, until, left, right)
	}
	return chart.Time(from, until, left, right)
}

// when writes the time of a bin.
func when(j *view.Job, ms int64) string {
	if j.Several() {
		return span(ms)
	}
	return moment(ms)
}

// times describes the axes of time.
func times(j *view.Job) string {
	from, until := j.Drawn()
	switch {
	case j.Several():
		return "Time runs from the start of each job."
	case from > j.FirstMs || until < j.UntilMs:
		return "Only " + moment(from) + " to " + moment(until) + " is shown. Times are UTC."
	}
	return "Times are UTC."
}
