package page

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/machine"
)

// sizeFigure is a measure of jobs against their size: figures 6 to 9 of NWPerf.
type sizeFigure struct {
	Title, Result string
	Unit          string // unit of the table's numbers; empty if each number carries its own
	Figure        template.HTML
	Rows          []sizeRow
}

type sizeRow struct{ Cores, Jobs, P25, Median, P75, Mean, Users string }

// manyPoints is the number of dots that a reader can tell apart. More dots are counted in a grid.
const (
	manyPoints = 240
	gridX      = 60
	gridY      = 40
)

func newSizeFigure(f *machine.Figure, id string) sizeFigure {
	text := func(v float64) string {
		if f.Unit == "1" {
			return tenths(v)
		}
		return unitText("", f.Unit, v)
	}
	cell, s := text, sizeFigure{Title: f.Title, Result: sizeResult(f, text)}
	if f.Unit == "1" { // a phone lacks room for a unit in each cell
		s.Unit, cell = "in %", func(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) }
	}
	s.Figure = drawSizes(f, id, s.Result)
	for i := range f.Sizes {
		z := &f.Sizes[i]
		s.Rows = append(s.Rows, sizeRow{
			thousands(z.Cores), thousands(z.Jobs), cell(z.P25), cell(z.Median), cell(z.P75),
			cell(z.Mean), offUsers(z, text),
		})
	}
	return s
}

// sizeResult compares the smallest with the largest class, and names users that need help.
func sizeResult(f *machine.Figure, text func(float64) string) string {
	if len(f.Sizes) == 0 {
		return "No job was measured."
	}
	first, last := &f.Sizes[0], &f.Sizes[len(f.Sizes)-1]
	result := fmt.Sprintf("Median %s at %s", text(first.Median), count(first.Cores, "core"))
	if first != last {
		result += fmt.Sprintf(", %s at %s", text(last.Median), thousands(last.Cores))
	}
	for i := range f.Sizes {
		if z := &f.Sizes[i]; len(z.Low) > 0 {
			u := &z.Low[0]
			return result + fmt.Sprintf(". Below p25 with %s of the jobs of %s cores: %s.",
				percent(u.Share), thousands(z.Cores), u.User)
		}
	}
	return result + "."
}

func offUsers(z *machine.Size, text func(float64) string) string {
	var all []string
	for _, u := range z.High {
		all = append(all, fmt.Sprintf("%s: %s above p75", u.User, percent(u.Share)))
	}
	for _, u := range z.Low {
		all = append(all, fmt.Sprintf("%s: %s below p25", u.User, percent(u.Share)))
	}
	if z.MeanWithout != nil {
		all = append(all, "mean without the high ones: "+text(*z.MeanWithout))
	}
	return strings.Join(all, "; ")
}

func drawSizes(f *machine.Figure, id, result string) template.HTML {
	const left, right, top, bottom = 40.0, 390.0, 22.0, 170.0
	low, high, most := math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range f.Points {
		low, high, most = min(low, float64(max(p.Cores, 1))), max(high, float64(p.Cores)), max(most, p.Value)
	}
	if math.IsInf(low, 0) {
		low, high, most = 1, 2, 1
	}
	by, unit := unitFor("", f.Unit, most)
	if f.Unit == "1" {
		by, unit = 0.01, "%"
	}
	x := chart.Log(low/1.5, high*1.5, left, right).As(func(v float64) string { return cores(v) })
	y := chart.Linear(0, most*1.04, bottom, top).As(func(v float64) string { return digits(v / by) })
	fig := chart.Figure{ID: id, Title: f.Title + " by size of jobs", Desc: result, W: 400, H: 206}
	fig.Axes(x, y, "cores of the job", shorten(unit, 20))
	for i := range f.Sizes {
		z := &f.Sizes[i]
		fig.Band(sizeEdges(z, x), []float64{y.At(z.P25)}, []float64{y.At(z.P75)}, "fan0")
	}
	if len(f.Points) > manyPoints {
		densities(&fig, f.Points, x, y, [4]float64{left, right, top, bottom})
	} else {
		for _, p := range f.Points {
			fig.Points([]chart.Point{{X: x.At(float64(max(p.Cores, 1))), Y: y.At(p.Value), R: 2.2, Class: "t2"}})
		}
	}
	for i := range f.Sizes {
		z := &f.Sizes[i]
		fig.Band(sizeEdges(z, x), []float64{y.At(z.Median)}, []float64{y.At(z.Median)}, "mid")
	}
	return fig.SVG()
}

// sizeEdges returns the edges of a class. It contains jobs with more than half of its cores, up to all of them.
func sizeEdges(z *machine.Size, x chart.Scale) []float64 {
	return []float64{x.At(float64(z.Cores) / 1.9), x.At(float64(z.Cores) * 1.05)}
}

// cores writes a number of cores as people speak of it, such as 10k.
func cores(v float64) string {
	if v >= 1e4 {
		return digits(v/1000) + "k"
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// densities counts the jobs in the cells of a grid. Each of the four classes of density begins at four times the count
// of the one before.
func densities(fig *chart.Figure, points []machine.Point, x, y chart.Scale, box [4]float64) {
	xs := grid(box[0], (box[1]-box[0])/gridX, gridX)
	ys := grid(box[2], (box[3]-box[2])/gridY, gridY)
	var counts [gridY][gridX]int
	for _, p := range points {
		i := min(gridX-1, int((x.At(float64(max(p.Cores, 1)))-box[0])/(box[1]-box[0])*gridX))
		row := min(gridY-1, int((y.At(p.Value)-box[2])/(box[3]-box[2])*gridY))
		counts[row][max(0, i)]++
	}
	fig.Cells(xs, ys, func(i, row int) (class, title string) {
		switch n := counts[row][i]; {
		case n == 0:
			return "", ""
		case n < 4:
			return "t0", ""
		case n < 16:
			return "t1", ""
		case n < 64:
			return "t2", ""
		}
		return "t3", ""
	})
}
