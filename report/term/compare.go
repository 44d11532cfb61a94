package term

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/compare"
)

// Compared writes two jobs side by side.
func Compared(w io.Writer, c *compare.Comparison, s Style) error {
	t := &text{Style: s}
	names := c.Names()
	for i := range names {
		names[i] = t.clean(names[i], 24)
	}
	t.line(t.paint(bold, t.clean("Jobs "+names[0]+" and "+names[1], t.cells())))
	t.sides("ASKED", names, c.Asked)
	t.sides("USED", names, c.Used)
	t.line()
	if c.Comparable() {
		t.changes(c, names)
	} else {
		t.hanging(t.paint(bold, "Not comparable")+"  ", 16, 4, t.clean(strings.Join(c.Reasons, "; ")+".", 1000))
	}
	for _, words := range c.Caveats {
		t.hanging("", 0, 2, t.clean("Note: "+words+".", 1000))
	}
	t.foundOfTwo(c)
	return t.print(w)
}

// sides writes facts with a column for each job. A mark stands beside those that differ.
func (t *text) sides(head string, names [2]string, facts []compare.Fact) {
	if len(facts) == 0 {
		return
	}
	t.line()
	all := []column{
		{head: head},
		{head: strings.ToUpper(names[0]), right: true, least: 8},
		{head: strings.ToUpper(names[1]), right: true, least: 8},
		{head: ""},
	}
	for i := range facts {
		f, mark := &facts[i], ""
		if f.Differs() {
			mark = "*"
		}
		cells := []string{t.clean(f.Name, 24), t.factText(f, 0), t.factText(f, 1), mark}
		for k := range all {
			all[k].cells = append(all[k].cells, cells[k])
		}
	}
	t.grid(all)
}

func (t *text) factText(f *compare.Fact, i int) string {
	if f.Unit == compare.UnitText {
		return orDash(t.clean(f.Text[i], 32))
	}
	if f.Value[i] == nil {
		return "-"
	}
	switch v := *f.Value[i]; f.Unit {
	case compare.UnitNumber:
		return count(int64(v))
	case compare.UnitSeconds:
		return clock(v)
	case compare.UnitShare:
		return percent(v)
	case compare.UnitBytes:
		return t.value(v, "B", false)
	case compare.UnitJoules:
		return energy(v)
	default:
		return hoursText(v)
	}
}

// energy writes joules in watt-hours, as on a bill.
func energy(joules float64) string {
	number, prefix := si(joules / 3600)
	return number + " " + prefix + "Wh"
}

// hoursText writes core-hours or GPU-hours: whole ones, and one decimal below 10.
func hoursText(v float64) string {
	if v != 0 && math.Abs(v) < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return count(whole(v))
}

// changes writes the metrics that differ for certain, the largest effect first.
func (t *text) changes(c *compare.Comparison, names [2]string) {
	changes := c.Changes()
	if len(changes) == 0 {
		t.line(t.paint(bold, "No metric changed."))
	} else {
		all := []column{
			{head: "CHANGED", least: 8},
			{head: "AT"},
			{head: strings.ToUpper(names[0]), right: true},
			{head: strings.ToUpper(names[1]), right: true},
			{head: "CHANGE", right: true},
		}
		for i := range changes {
			m := &changes[i]
			v, at := m.Value(), "mean"
			if m.At != compare.Mean {
				at = fmt.Sprintf("d%d", m.At)
			}
			show := func(v float64) string { return t.value(v, m.Unit, m.Share()) }
			cells := []string{t.clean(m.Name, 64), at, show(v[0]), show(v[1]), changeText(m)}
			for k := range all {
				all[k].cells = append(all[k].cells, cells[k])
			}
		}
		t.grid(all)
	}
	t.among("Slightly changed", c.Slight())
	t.among("Not changed for certain", c.Alike())
	for i, of := range c.Only {
		if len(of) > 0 {
			t.hanging("", 0, 2, t.clean("Only in "+names[i]+": "+strings.Join(of, ", ")+".", 2000))
		}
	}
	t.hanging("", 0, 0, "A change is certain for the values that were measured: the bounds of the decile do not "+
		"overlap, or the means differ. Two runs of one program differ by chance too.")
}

func (t *text) among(head string, of []compare.Metric) {
	names := make([]string, 0, len(of))
	for i := range of {
		names = append(names, of[i].Name)
	}
	if len(names) > 0 {
		t.hanging("", 0, 2, t.clean(head+": "+strings.Join(names, ", ")+".", 2000))
	}
}

// changeText writes a change in points, in percent, or as a factor.
func changeText(m *compare.Metric) string {
	v := m.Value()
	switch ratio := v[1] / v[0]; {
	case m.Share():
		return sign(m.Effect) + points(v[1]-v[0])
	case v[0] == 0:
		return "from 0"
	case v[1] == 0:
		return "to 0"
	case !(ratio > 0):
		return sign(m.Effect)
	case ratio >= 3:
		return "x " + threeDigits(ratio)
	case ratio <= 1.0/3:
		return "/ " + threeDigits(1/ratio)
	default:
		return fmt.Sprintf("%+.0f %%", 100*(ratio-1))
	}
}

func sign(v float64) string {
	if v < 0 {
		return "-"
	}
	return "+"
}

// foundOfTwo lists the findings that appeared and went away, then the others.
func (t *text) foundOfTwo(c *compare.Comparison) {
	t.line()
	if len(c.Found) == 0 {
		t.line("Neither job has a finding.")
		return
	}
	t.line(t.paint(bold, "Findings"))
	for i := range c.Found {
		f := &c.Found[i]
		of := f.Finding()
		words := t.clean(of.Title, 200)
		switch {
		case f.Kind == compare.Unknown:
			words += "; " + t.clean(f.Why, 300)
		case f.Kind == compare.Stays && f.Of[0].Class != of.Class:
			words += "; " + t.clean(f.Of[0].Class, 4) + " before"
		}
		rule := t.clean(of.Rule, 40)
		head := left(f.Kind, 9) + t.paint(colorOf(of.Class), left(t.clean(of.Class, 4), 4)) + " " + rule + "  "
		t.hanging(head, 9+5+width(rule)+2, 9, words)
		if f.Kind == compare.Appeared && of.Slurm != "" {
			t.line(strings.Repeat(" ", 9), t.clean(of.Slurm, schemas.MaxFindingText))
		}
	}
}
