package page

import (
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/usage"
)

// usageDocument is the data of the template for a user or an account.
type usageDocument struct {
	Style               template.CSS
	Now, Version        string
	Kind, Title, Kicker string
	Lead                string
	Bars                []use
	Figures             []monthFigure
	Months              []usageRow
	Judged              bool
	Rules               []usageRule
	Notes               []note
	HasGPUs, HasEnergy  bool
}

// monthFigure shows hours by month: used and wasted ones.
type monthFigure struct {
	Title, Result string
	Figure        template.HTML
}

type usageRow struct{ Month, Jobs, Cores, CoresWasted, GPUs, GPUsWasted, Energy string }

type usageRule struct{ Class, Rule, Title, Jobs, Cores, GPUs string }

// Usage writes the page of a month of a user or an account.
func Usage(w io.Writer, r *usage.Report, o Options) error {
	total := r.Total()
	d := usageDocument{
		Style: template.CSS(style), Now: o.Now.UTC().Format("2006-01-02 15:04"), Version: o.Version, Kind: r.Kind,
		Title: r.Name, Kicker: r.Month.Format("January 2006"), Lead: usageLead(r), Judged: r.Judged,
		HasGPUs: total.GPUs.Held > 0, HasEnergy: total.Powered > 0,
	}
	if !r.Until.IsZero() {
		d.Kicker += " so far"
	}
	for _, of := range []struct {
		name string
		of   func(*usage.Sum) *usage.Hours
	}{
		{"core-hours", func(s *usage.Sum) *usage.Hours { return &s.Cores }},
		{"GPU-hours", func(s *usage.Sum) *usage.Hours { return &s.GPUs }},
	} {
		if share, ok := of.of(&r.Sum).Share(); ok {
			d.Bars = append(d.Bars, use{
				Name: of.name, Text: percent(share), Word: "wasted", Percent: 100 * share, Class: "med",
			})
		}
		if of.of(&total).Held > 0 {
			d.Figures = append(d.Figures, newMonthFigure(r, of.name, of.of))
		}
	}
	for _, s := range months(r) {
		d.Months = append(d.Months, usageRow{
			unbroken(s.Month.Format("2006-01")), thousands(s.Jobs), hours(s.Cores.Held), wastedText(&s.Cores),
			hours(s.GPUs.Held), wastedText(&s.GPUs), energyText(&s),
		})
	}
	for i := range r.Rules {
		f := &r.Rules[i]
		d.Rules = append(d.Rules, usageRule{
			f.Class, f.ID, f.Title, thousands(f.Jobs), hours(f.CoreHours), hours(f.GPUHours),
		})
	}
	for i := range r.Worst {
		d.Notes = append(d.Notes, worstNote(r, &r.Worst[i]))
	}
	return write(w, "usage.html", &d)
}

// months are the reported month and those before, the oldest first.
func months(r *usage.Report) []usage.Sum { return append(append([]usage.Sum{}, r.Before...), r.Sum) }

func usageLead(r *usage.Report) string {
	if r.Sum.Jobs == 0 {
		return "No job ended in this month."
	}
	text := fmt.Sprintf("%s held %s core-hours", count(r.Sum.Jobs, "job"), hours(r.Sum.Cores.Held))
	if r.Sum.GPUs.Held > 0 {
		text += " and " + hours(r.Sum.GPUs.Held) + " GPU-hours"
	}
	text += "."
	if share, ok := r.Sum.Cores.Share(); ok {
		text += fmt.Sprintf(" %s of the measured core-hours were wasted", percent(share))
		if before, _ := r.Trend(); before != nil {
			text += fmt.Sprintf(", after %s in the %d months before", percent(*before), usage.MonthsBefore)
		}
		text += "."
	}
	return text
}

func wastedText(h *usage.Hours) string {
	if share, ok := h.Share(); ok {
		return fmt.Sprintf("%s (%s)", hours(h.Wasted), percent(share))
	}
	if h.Held == 0 {
		return "–"
	}
	return "unknown"
}

func energyText(s *usage.Sum) string {
	switch {
	case s.Jobs == 0:
		return "–"
	case s.Powered == 0:
		return "not measured"
	case s.Powered < s.Jobs:
		return fmt.Sprintf("%s of %s", unitText("", "Wh", s.Energy/3600), count(s.Powered, "job"))
	}
	return unitText("", "Wh", s.Energy/3600)
}

func newMonthFigure(r *usage.Report, name string, of func(*usage.Sum) *usage.Hours) monthFigure {
	f := monthFigure{Title: "Held and wasted " + name + " by month"}
	now := of(&r.Sum)
	f.Result = fmt.Sprintf("%s %s in %s", hours(now.Held), name, r.Month.Format("January"))
	if _, ok := now.Share(); ok {
		f.Result += fmt.Sprintf(", of which %s wasted", hours(now.Wasted))
	}
	f.Result += "."
	f.Figure = drawMonths(r, name, of, f.Result)
	return f
}

// drawMonths draws a bar for each month: the wasted hours at the bottom, the others above.
func drawMonths(r *usage.Report, name string, of func(*usage.Sum) *usage.Hours, result string) template.HTML {
	const left, right, top, bottom = 44.0, 390.0, 22.0, 170.0
	all := months(r)
	most := 0.0
	for i := range all {
		most = max(most, of(&all[i]).Held, of(&all[i]).Wasted)
	}
	by, title := 1.0, name
	if most >= 1e4 {
		by, title = 1000, "thousand "+name
	}
	y := chart.Linear(0, most*1.04, bottom, top).As(func(v float64) string { return digits(v / by) })
	fig := chart.Figure{ID: "months-" + name, Title: name + " by month", Desc: result, W: 400, H: 196}
	for _, t := range y.Ticks(6) {
		fig.Line([]float64{left, right}, []float64{t.At, t.At}, "grid")
		fig.Text(left-5, t.At+4, "tick end", t.Text)
	}
	fig.Text(0, top-8, "tick", title)
	step := (right - left) / float64(len(all))
	for i := range all {
		h := of(&all[i])
		x0, x1 := left+step*(float64(i)+0.2), left+step*(float64(i)+0.8)
		if h.Held > 0 {
			wasted := y.At(h.Wasted)
			fig.Band([]float64{x0, x1}, []float64{wasted}, []float64{min(wasted, y.At(h.Held))}, "fan2")
			if h.Measured > 0 {
				fig.Band([]float64{x0, x1}, []float64{y.At(0)}, []float64{wasted}, "sev2")
			}
		}
		fig.Text((x0+x1)/2, bottom+16, "tick mid", all[i].Month.Format("2006\u201101"))
	}
	fig.Line([]float64{left, right}, []float64{bottom, bottom}, "axis")
	return fig.SVG()
}

// worstNote is one of the worst jobs, with the one thing to change.
func worstNote(r *usage.Report, w *usage.Worst) note {
	f := &w.Finding
	n := note{Class: f.Class, Title: "Job " + w.JobID, Rule: f.Rule, Hint: f.Hint, Slurm: f.Slurm, How: f.Title}
	if w.Name != "" {
		n.Title += " " + w.Name
	}
	if r.Kind == usage.Account {
		n.Title += " of " + w.User
	}
	for _, h := range []struct {
		wasted *float64
		name   string
	}{{w.WastedH, "core-hours"}, {w.GPUWastedH, "GPU-hours"}} {
		if h.wasted != nil && !math.IsNaN(*h.wasted) {
			n.How += fmt.Sprintf("; %s %s wasted", hours(*h.wasted), h.name)
		}
	}
	return n
}
