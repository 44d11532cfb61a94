package page

import (
	"fmt"
	"html/template"
	"math"
	"time"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/machine"
)

// coreUse is the figure of how the cores or the GPUs were used, day by day.
type coreUse struct {
	Result string
	Unit   string // core-hours or GPU-hours
	Parts  []use
	Figure template.HTML
	Rows   []dayRow
}

type dayRow struct{ Date, Busy, Wasted, Free, Seen string }

const dayMillis = 86_400_000

func newCoreUse(one string, of *machine.Cores, days []machine.Day) coreUse {
	busy, wasted, free, notSeen, ok := of.Shares()
	if !ok {
		return coreUse{Result: "No " + one + " was measured."}
	}
	c := coreUse{Result: "No job held a " + one + ".", Unit: one + "-hours"}
	if held := busy + wasted; held > 0 {
		c.Result = fmt.Sprintf("%s of the %s that jobs held were wasted.", tenths(wasted/held), c.Unit)
	}
	for _, p := range []use{
		{Name: "busy", Percent: busy},
		{Name: "wasted", Percent: wasted, Class: "med"},
		{Name: "free", Percent: free},
		{Name: "not seen", Percent: notSeen},
	} {
		p.Text, p.Percent = tenths(p.Percent), 100*p.Percent
		c.Parts = append(c.Parts, p)
	}
	if of.Machine == nil {
		c.Parts[3].Text, c.Parts[3].Word = "–", "unknown"
	}
	for i := range days {
		d := &days[i]
		if busy, wasted, free, _, ok := d.Shares(); ok {
			c.Rows = append(c.Rows, dayRow{unbroken(d.Date), tenths(busy), tenths(wasted), tenths(free), whole(d.Seen)})
		}
	}
	if len(c.Rows) > 1 {
		c.Figure = drawDays(one, days, c.Result)
	}
	return c
}

// drawDays stacks the shares of each date.
func drawDays(one string, days []machine.Day, result string) template.HTML {
	const left, right, top, bottom = 36.0, 590.0, 22.0, 160.0
	f := chart.Figure{ID: "days-" + one, Title: "Use of the " + one + "s by day", Desc: result, W: 600, H: 186}
	y := chart.Linear(0, 1, bottom, top).As(func(v float64) string { return digits(100 * v) })
	var first, last int64
	at := map[int64][3]float64{}
	for i := range days {
		day, err := time.Parse(time.DateOnly, days[i].Date)
		busy, wasted, free, _, ok := days[i].Shares()
		if err != nil || !ok {
			continue
		}
		ms := day.UnixMilli()
		if len(at) == 0 {
			first = ms
		}
		at[ms], last = [3]float64{busy, busy + wasted, busy + wasted + free}, ms+dayMillis
	}
	x := chart.Time(first, last, left, right)
	n := int((last - first) / dayMillis)
	xs := make([]float64, n+1)
	levels := [4][]float64{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)}
	for i := range xs {
		ms := first + int64(i)*dayMillis
		xs[i] = x.At(float64(ms))
		if i == n {
			break
		}
		shares, has := at[ms]
		levels[0][i] = y.At(0)
		for k, v := range shares {
			if levels[k+1][i] = y.At(v); !has {
				levels[k+1][i] = math.NaN()
			}
		}
	}
	f.Axes(x, y, "", "% of the "+one+"-hours seen")
	for k, class := range []string{"fan2", "sev2", "sev0"} {
		f.Band(xs, levels[k], levels[k+1], class)
	}
	return f.SVG()
}
