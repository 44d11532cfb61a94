package term

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/report/view"
)

// help explains the screen.
func (v *topView) help() (lines []line) {
	for _, t := range []string{
		"q        quit", "?        this help", "esc      back to the jobs", "up, down select a job (also k, j)",
		"enter    show the selected job's metrics", "s        sort by the next of: " + strings.Join(TopSorts, " "),
		"r        reverse the order", "m        show the band of the next metric",
		"u        show the jobs of one user", "f        show only jobs with findings", "",
		"cores    | busy   x held by jobs and idle   . free   space: not seen; gpus the same",
		"band     line from the 1st to the 9th decile, dots to the extremes, mark at the median",
		"SPREAD   d9 - d1 of cpu_user: how unevenly cores work",
		"FINDING  the worst open finding; `weir job ID` explains it",
		"", "A new frame comes once an interval.",
	} {
		lines = append(lines, line{{text: v.clean(t, v.cells())}})
	}
	return append([]line{{{text: "weir top", color: bold}}, nil}, lines...)
}

// jobPage writes the page of the selected job. If this interval lacks a summary of it, the page says so, and never
// shows another job.
func (v *topView) jobPage() []line {
	at := slices.IndexFunc(v.frame.Jobs, func(j machine.FrameJob) bool { return j.JobKey == v.at })
	if at >= 0 {
		return v.job(&v.frame.Jobs[at])
	}
	const words = "No summary of this interval came: the job has ended, or its summary is late."
	return []line{
		{{text: v.clean("Job "+v.at.JobID, v.cells()), color: bold}},
		{{text: v.clean(v.clock(), v.cells())}},
		nil,
		{{text: v.clean(words, v.cells())}},
		nil, v.jobKeys(),
	}
}

func (v *topView) jobKeys() line {
	return line{{text: v.clean("esc back  q quit   all of its life: weir job "+v.at.JobID+v.Where, v.cells())}}
}

// job shows the metrics of a job in this interval, and its findings.
func (v *topView) job(j *machine.FrameJob) []line {
	head := strings.Join([]string{
		"Job " + j.JobID, orDash(j.Name), orDash(j.User), orDash(j.Account), orDash(j.Queue),
	}, "  ")
	seen := fmt.Sprintf("%s  %s of %s seen  %s", v.clock(),
		count(j.Reported), plural(j.Expected, "node", "nodes"), j.Method)
	lines := []line{{{text: v.clean(head, v.cells()), color: bold}}, {{text: v.clean(seen, v.cells())}}, nil}
	for i := range j.Findings {
		f := &j.Findings[i]
		lines = append(lines, line{
			{text: left(v.clean(f.Class, 5), 5), color: colorOf(f.Class)},
			{text: v.clean(f.Rule+"  "+f.Title, max(1, v.cells()-5))},
		})
	}
	if len(j.Findings) > 0 {
		lines = append(lines, nil)
	}
	columns := fmt.Sprintf("%s %s %s %s  d0 to d10", left("metric", metricCells), right("d1", valueCells),
		right("d5", valueCells), right("d9", valueCells))
	lines = append(lines, line{{text: v.clean(columns, v.cells()), color: bold}})
	for _, name := range firstShown(j) {
		lines = append(lines, line{{text: v.metric(j.Metric(name))}})
	}
	for room := max(1, v.height-footLines); len(lines) > room; {
		lines = lines[:len(lines)-1]
	}
	return append(lines, v.jobKeys())
}

// firstShown returns the metrics of a job in the order of a report, and the others by name. A screen may be too short
// for all.
func firstShown(j *machine.FrameJob) (names []string) {
	for i := range j.Metrics {
		names = append(names, j.Metrics[i].Name)
	}
	first := view.Shown(names)
	return append(first, slices.DeleteFunc(names, func(n string) bool { return slices.Contains(first, n) })...)
}

const metricCells, valueCells = 22, 9

func (v *topView) metric(m *machine.FrameMetric) string {
	name := left(v.clean(m.Name, metricCells), metricCells)
	if m.Deciles == nil {
		return v.clean(name+" -", v.cells())
	}
	share := view.TextOf(m.Name).Percent
	column := func(k int) string { return " " + right(v.value(m.Deciles[k], m.Unit, share), valueCells) }
	text := name + column(1) + column(5) + column(9)
	low, high := m.Deciles[0], m.Deciles[10]
	if share {
		low, high = 0, 1
	}
	if v.cells() >= usual {
		text += "  " + v.band(m.Deciles, low, high, bandCells)
	}
	if v.cells() >= wide {
		text += "  " + v.spark(m.Past[max(0, len(m.Past)-sparkCells):], share) + "  " +
			v.clean(m.LowNode, 12) + " " + v.clean(m.HighNode, 12)
	}
	return v.clean(text, v.cells())
}
