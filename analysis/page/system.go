package page

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/analysis/machine"
)

// systemDocument is what the template of the machine shows.
type systemDocument struct {
	Style        template.CSS
	Now, Version string
	From, To     string
	Lead         string
	Facts        []fact
	Cores        coreUse
	Figures      []sizeFigure
	Properties   propertyTable
	Worst        []worstRow
	Kernel       []kernelRow
	Sizes        []monthRow
	SizeResult   string
}

type worstRow struct{ Job, User, Cores, Hours, Worst string }

type kernelRow struct{ Job, User, Cores, System, Disk string }

type monthRow struct{ Month, Jobs, P25, Median, P75, Mean, Weighted string }

// System writes the page of the machine.
func System(w io.Writer, r *machine.Report, o Options) error {
	d := systemDocument{
		Style: template.CSS(style), Now: o.Now.UTC().Format("2006-01-02 15:04"), Version: o.Version,
		From: date(r.FromMs), To: date(r.ToMs), Lead: systemLead(r), Facts: systemFacts(r),
		Cores: newCoreUse(r), Properties: newPropertyTable(r),
	}
	for i := range r.Figures {
		d.Figures = append(d.Figures, newSizeFigure(&r.Figures[i], fmt.Sprintf("size%d", i)))
	}
	for i := range r.Worst {
		l := &r.Worst[i]
		d.Worst = append(d.Worst, worstRow{l.Job, l.User, thousands(l.Cores), whole(l.CoreHours), worstOf(l, r.Rules)})
	}
	for _, k := range r.Kernel {
		disk := "not measured"
		if k.Disk != nil {
			disk = unitText("disk_bytes", "B/s", *k.Disk)
		}
		d.Kernel = append(d.Kernel, kernelRow{k.Job, k.User, thousands(k.Cores), percent(k.System), disk})
	}
	for _, s := range r.Sizes {
		d.Sizes = append(d.Sizes, monthRow{s.Month, thousands(s.Jobs), whole(s.P25), whole(s.Median), whole(s.P75),
			whole(s.Mean), whole(s.Weighted)})
	}
	if n := len(r.Sizes); n > 0 {
		m := &r.Sizes[n-1]
		d.SizeResult = fmt.Sprintf("A job of %s had %s cores in the mean; a core-hour was spent in one of %s.",
			m.Month, whole(m.Mean), whole(m.Weighted))
	}
	return write(w, "system.html", &d)
}

func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }

func whole(v float64) string {
	if math.IsNaN(v) || math.Abs(v) > 1e15 {
		return "unknown"
	}
	return thousands(int64(math.Round(v)))
}

func systemLead(r *machine.Report) string {
	text := count(r.Jobs, "job") + " ran for " + count(int64(math.Round(r.CoreHours)), "core-hour") + "."
	if busy, wasted, _, _, ok := r.Cores.Shares(); ok {
		text += fmt.Sprintf(" The cores were busy in %s of the time, and wasted in %s.", percent(busy), percent(wasted))
	}
	return text
}

func systemFacts(r *machine.Report) []fact {
	facts := []fact{{"Jobs", thousands(r.Jobs) + " counted"}}
	if r.Left.Jobs > 0 {
		var why []string
		for _, l := range r.Left.Reasons {
			why = append(why, l.Text+": "+thousands(l.Jobs))
		}
		facts = append(facts, fact{"Left out", thousands(r.Left.Jobs) + " (" + strings.Join(why, ", ") + "; overlapping)"})
	}
	if r.Cores.Machine == nil {
		facts = append(facts, fact{"Machine", "not configured, so shares are of what was measured"})
	}
	return facts
}

// worstOf names the property that costs most in a job.
func worstOf(l *machine.Line, rules []machine.Rule) string {
	if len(l.Cells) == 0 || len(l.Cells) != len(rules) {
		return ""
	}
	best := slices.MaxFunc(indices(len(l.Cells)), func(a, b int) int { return cmp.Compare(l.Cells[a].Cost, l.Cells[b].Cost) })
	return fmt.Sprintf("%s (severity %s)", rules[best].Title, two(l.Cells[best].Severity))
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
