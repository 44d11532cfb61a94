package page

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/weirhpc/weir/report/machine"
)

// systemDocument is the data of the template for the whole machine.
type systemDocument struct {
	Style        template.CSS
	Now, Version string
	Span, Title  string
	Lead         string
	Facts        []fact
	Cores        coreUse
	GPUs         *coreUse // nil: not measured
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
		Span: r.Span(), Title: unbroken(r.Span()), Lead: systemLead(r), Facts: systemFacts(r),
		Cores: newCoreUse("core", &r.Cores, r.Days), Properties: newPropertyTable(r),
	}
	if r.GPUs.Seen > 0 {
		gpus := newCoreUse("GPU", &r.GPUs, r.GPUDays)
		d.GPUs = &gpus
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
		d.Sizes = append(d.Sizes, monthRow{
			unbroken(s.Month), thousands(s.Jobs),
			whole(s.P25), whole(s.Median), whole(s.P75), whole(s.Mean), whole(s.Weighted),
		})
	}
	if n := len(r.Sizes); n > 0 {
		m := &r.Sizes[n-1]
		d.SizeResult = fmt.Sprintf("A job of %s had %s cores in the mean; the mean core-hour was spent in a job of %s "+
			"cores.", m.Month, whole(m.Mean), whole(m.Weighted))
	}
	return write(w, "system.html", &d)
}

// tenths writes a share in the same form as the terminal report, since a reader compares both.
func tenths(share float64) string { return fmt.Sprintf("%.1f\u00a0%%", 100*share) }

// unbroken keeps dates in a text from being broken at the end of a line.
func unbroken(text string) string { return strings.ReplaceAll(text, "-", "\u2011") }

func whole(v float64) string {
	if math.IsNaN(v) || math.Abs(v) > 1e15 {
		return "unknown"
	}
	return thousands(int64(math.Round(v)))
}

func systemLead(r *machine.Report) string {
	text := count(r.Jobs, "job") + " ran for " + count(int64(math.Round(r.CoreHours)), "core-hour")
	if r.GPUHours > 0 {
		text += " and " + count(int64(math.Round(r.GPUHours)), "GPU-hour")
	}
	text += "."
	if busy, wasted, _, _, ok := r.Cores.Shares(); ok {
		text += fmt.Sprintf(" The cores were busy in %s of the time, and wasted in %s.", tenths(busy), tenths(wasted))
	}
	if busy, wasted, _, _, ok := r.GPUs.Shares(); ok && r.GPUs.Seen > 0 {
		text += fmt.Sprintf(" The GPUs were busy in %s of the time, and wasted in %s.", tenths(busy), tenths(wasted))
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
		if len(why) > 1 {
			why[len(why)-1] += "; overlapping"
		}
		facts = append(facts, fact{"Left out", fmt.Sprintf("%s (%s)", thousands(r.Left.Jobs), strings.Join(why, ", "))})
	}
	if m := r.Cores.Machine; m != nil {
		text := whole(*m) + " core-hours"
		if g := r.GPUs.Machine; g != nil && r.GPUs.Seen > 0 {
			text += " and " + whole(*g) + " GPU-hours"
		}
		facts = append(facts, fact{"Machine", text + "; shares are of these"})
	} else {
		facts = append(facts, fact{"Machine", "not configured, so shares are of what was measured"})
	}
	if e := &r.Energy; e.Of != "" {
		facts = append(facts, fact{
			"Energy", unitText("", "Wh", e.Joules/3600) + " of " + e.Of + ", as far as power was measured",
		})
	}
	return facts
}

// worstOf names the most expensive property of a job.
func worstOf(l *machine.Line, rules []machine.Rule) string {
	if len(l.Cells) == 0 || len(l.Cells) != len(rules) {
		return ""
	}
	best := 0
	for i := range l.Cells {
		if l.Cells[i].Cost > l.Cells[best].Cost {
			best = i
		}
	}
	return fmt.Sprintf("%s (severity %s)", rules[best].Title, two(l.Cells[best].Severity))
}
