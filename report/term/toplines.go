package term

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/report/view"
)

// lines returns the lines of the screen.
func (v *topView) lines() []line {
	switch {
	case v.frame == nil:
		const words = "No interval has come yet. `weir status` reports what is missing."
		head := run{text: "weir top", color: bold}
		return []line{{head}, nil, {{text: v.clean(words, v.cells())}}, nil, {{text: "q quit"}}}
	case v.page == pageHelp:
		return v.help()
	case v.page == pageJob:
		return v.jobPage()
	}
	lines := v.table(v.room())
	for len(lines) < v.height { // the keys are at the bottom
		lines = append(lines[:len(lines)-1], nil, lines[len(lines)-1])
	}
	return lines
}

// table returns the lines for the machine, the jobs, and the keys.
func (v *topView) table(rows int) []line {
	from := v.scroll(rows)
	lines := []line{v.header()}
	if !v.frame.Part {
		lines = append(lines, v.machine())
	}
	if v.hasGPUs() {
		lines = append(lines, v.shares("gpus", &v.frame.GPUs))
	}
	lines = append(lines, v.columns())
	low, high := v.scale()
	for _, j := range v.jobs[from:min(from+rows, len(v.jobs))] {
		l := v.cutLine(v.row(j, low, high))
		if v.height > 0 && j.JobKey == v.at {
			l[0].reverse = true
		}
		lines = append(lines, l)
	}
	if len(v.jobs) == 0 {
		lines = append(lines, line{{text: v.nobody()}})
	}
	return append(lines, v.footer())
}

// scroll returns the index of the first job on the screen, so that the selected job is visible.
func (v *topView) scroll(rows int) int {
	at := max(0, v.selected())
	v.top = min(max(v.top, at-rows+1), at)
	v.top = max(0, min(v.top, len(v.jobs)-rows))
	return v.top
}

// nobody returns the reason for an empty list of jobs.
func (v *topView) nobody() string {
	switch {
	case len(v.frame.Jobs) == 0 && v.frame.Part:
		return "No job of yours has a summary of this interval."
	case len(v.frame.Jobs) == 0:
		return "No job has a summary of this interval."
	case v.found:
		return "No job has a finding. Key f shows all jobs."
	}
	return "No job of this user and queue has a summary of this interval."
}

func (v *topView) header() line {
	f := v.frame
	parts := []string{"weir top", "cluster " + v.clean(f.Cluster, 32), v.clock(), "interval " + span(f.IntervalMs)}
	if f.Expected > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s nodes seen", count(f.Seen), count(f.Expected)))
	}
	return line{{text: v.clean(strings.Join(parts, "  "), v.cells()), color: bold}}
}

// clock writes the start of the interval, or if newer intervals are overdue, the time since which they are.
func (v *topView) clock() string {
	if v.frame == nil {
		return ""
	}
	start := view.Time(v.frame.StartMs)
	end := start.Add(time.Duration(v.frame.IntervalMs) * time.Millisecond)
	age := v.now.Sub(end)
	if v.Late == 0 || age < v.Late {
		return view.Clock(v.frame.StartMs)
	}
	text := view.Clock(end.UnixMilli())
	if end.Format(time.DateOnly) != v.now.UTC().Format(time.DateOnly) {
		text = end.Format("2006-01-02 15:04:05Z")
	}
	step := 10 * time.Second
	switch {
	case age > 2*time.Hour:
		step = time.Hour
	case age > 2*time.Minute:
		step = time.Minute
	}
	return fmt.Sprintf("NOTHING CAME SINCE %s, %s ago", text, span(age.Truncate(step).Milliseconds()))
}

// machine writes how busy the cores are. Each letter of a bar stands for a share of all cores or GPUs.
func (v *topView) machine() line {
	if _, _, _, _, ok := v.frame.Cores.Shares(); !ok {
		return line{{text: v.clean("cores  not measured: no summary of the whole machine came", v.cells())}}
	}
	return v.shares("cores", &v.frame.Cores)
}

// hasGPUs reports whether the machine has GPUs that were measured.
func (v *topView) hasGPUs() bool { return v.frame != nil && v.frame.GPUs.Seen > 0 }

// shares writes a bar of the cores or the GPUs, and its shares in words.
func (v *topView) shares(name string, of *machine.Cores) line {
	busy, wasted, free, notSeen, _ := of.Shares()
	words := fmt.Sprintf("  busy %s wasted %s", percent(busy), percent(wasted))
	if v.cells() >= wide {
		words += fmt.Sprintf(" free %s", percent(free))
		if of.NotSeen != nil {
			words += fmt.Sprintf(" not seen %s", percent(notSeen))
		}
	}
	if v.cells() < narrow {
		return line{{text: v.clean(name+words, v.cells())}}
	}
	cells := max(0, v.cells()-7-width(words))
	part := func(from, to float64, mark string) string {
		n := int(math.Round(to*float64(cells))) - int(math.Round(from*float64(cells)))
		return strings.Repeat(mark, n)
	}
	return line{
		{text: left(name, 7) + part(0, busy, "|")},
		{text: part(busy, busy+wasted, "x"), color: red},
		{text: part(busy+wasted, busy+wasted+free, ".")},
		{text: part(busy+wasted+free, 1, " ") + words},
	}
}

// Cells of the columns.
const (
	userCells, nodesCells, busyCells     = 7, 5, 7
	bandCells, spreadCells, findingCells = 18, 6, 20
	queueCells, accountCells, sparkCells = 8, 8, 20
	gpuCells                             = 6
)

// gpuColumn reports whether there is a column of GPUs.
func (v *topView) gpuColumn() bool {
	return v.cells() >= usual && slices.ContainsFunc(v.jobs, func(j *machine.FrameJob) bool { return j.GPUBusy != nil })
}

// bandRoom returns the cells of a band: the column of GPUs takes its room from it.
func (v *topView) bandRoom() int {
	if v.gpuColumn() {
		return bandCells - gpuCells - 1
	}
	return bandCells
}

// jobCells returns the room for job IDs: the ID of a task of an array is longer than 8 digits, and somebody who looks
// for it types it whole.
func (v *topView) jobCells() int {
	const least, most = 8, 20
	longest := least
	for _, j := range v.jobs {
		longest = max(longest, width(v.clean(j.JobID, most)))
	}
	return longest
}

func (v *topView) columns() line {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s ", left("JOB", v.jobCells()), left("USER", userCells))
	if v.cells() >= wide {
		fmt.Fprintf(&b, "%s %s ", left("ACCOUNT", accountCells), left("QUEUE", queueCells))
	}
	if v.cells() < narrow {
		return line{{text: v.clean(b.String()+right("BUSY", busyCells)+"  FINDING", v.cells()), color: bold}}
	}
	fmt.Fprintf(&b, "%s %s", right("NODES", nodesCells), right("BUSY", busyCells))
	if v.gpuColumn() {
		b.WriteString(" " + right("GPU", gpuCells))
	}
	if v.cells() >= usual {
		b.WriteString("  " + left(v.clean("d1-d9 "+v.Metric, v.bandRoom()), v.bandRoom()))
	}
	if v.cells() >= wide {
		b.WriteString("  " + left("median over time", sparkCells))
	}
	b.WriteString("  " + right("SPREAD", spreadCells) + "  FINDING")
	return line{{text: v.clean(b.String(), v.cells()), color: bold}}
}

// row writes the line of a job.
func (v *topView) row(j *machine.FrameJob, low, high float64) line {
	busy, spread := math.NaN(), math.NaN()
	if j.Busy != nil {
		busy = *j.Busy
	}
	if d := v.spread(j); d != nil {
		spread = *d
	}
	text := left(v.clean(j.JobID, v.jobCells()), v.jobCells())
	l := line{{text: text}}
	var b strings.Builder
	fmt.Fprintf(&b, " %s ", left(v.clean(orDash(j.User), userCells), userCells))
	if v.cells() >= wide {
		fmt.Fprintf(&b, "%s %s ", left(v.clean(orDash(j.Account), accountCells), accountCells),
			left(v.clean(orDash(j.Queue), queueCells), queueCells))
	}
	if v.cells() < narrow {
		return append(append(l, run{text: b.String() + right(percent(busy), busyCells) + "  "}), v.finding(j)...)
	}
	fmt.Fprintf(&b, "%s %s", right(fmt.Sprint(j.Nodes), nodesCells), right(percent(busy), busyCells))
	if v.gpuColumn() {
		b.WriteString(" " + right(maybe(j.GPUBusy, percent), gpuCells))
	}
	m := j.Metric(v.Metric)
	if v.cells() >= usual {
		band := "-"
		if m != nil && m.Deciles != nil {
			band = v.band(m.Deciles, low, high, v.bandRoom())
		}
		b.WriteString("  " + left(band, v.bandRoom()))
	}
	if v.cells() >= wide {
		past := ""
		if m != nil {
			past = v.spark(m.Past[max(0, len(m.Past)-sparkCells):], view.TextOf(m.Name).Percent)
		}
		b.WriteString("  " + left(past, sparkCells))
	}
	b.WriteString("  " + right(points(spread), spreadCells) + "  ")
	return append(append(l, run{text: b.String()}), v.finding(j)...)
}

// finding writes the worst finding, or a dash.
func (v *topView) finding(j *machine.FrameJob) line {
	w := worst(j)
	if w.Finding == nil {
		return line{{text: "-"}}
	}
	return line{
		{text: left(v.clean(w.Class, 5), 5), color: colorOf(w.Class)}, {text: v.clean(w.Rule, findingCells-5)},
	}
}

// cutLine keeps a line within the screen.
func (v *topView) cutLine(l line) line {
	room := v.cells()
	for i := range l {
		l[i].text = v.clean(l[i].text, room)
		room -= width(l[i].text)
	}
	return l
}

// scale returns the range of the bands: the whole of a share, otherwise from the smallest to the largest value of all
// jobs.
func (v *topView) scale() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, j := range v.jobs {
		if m := j.Metric(v.Metric); m != nil && m.Deciles != nil {
			if view.TextOf(m.Name).Percent {
				return 0, 1
			}
			low, high = min(low, m.Deciles[0]), max(high, m.Deciles[10])
		}
	}
	return low, high
}

func (v *topView) footer() line {
	if v.typed != nil {
		return line{{text: v.clean("user: "+*v.typed+"_   (enter: show, empty: all users, esc: cancel)", v.cells())}}
	}
	keys := "q quit  ? help  s/r sort/reverse  m metric  u user  f findings  enter job"
	if v.cells() >= wide {
		keys += "   sorted by " + v.Sort
	}
	return line{{text: v.clean(keys, v.cells())}}
}
