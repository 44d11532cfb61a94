package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/selection"
)

// Sizes of the picture of a comparison, in units of its box.
const (
	comparedW      = 820
	comparedMargin = 10
	comparedLeft   = 56
	comparedRight  = comparedW - 14
	sweepTop       = 76
	sweepBottom    = 286
	panelsTop      = 402
	panelH         = 150
	panelStep      = 208
	leastShown     = -.25 // a lower R² is drawn at the lower edge: its size means nothing
	comparedBottom = panelsTop + 2*panelStep + panelH
)

// comparisonStyle colours the picture, which follows the reader's preference for light or dark.
const comparisonStyle = `
:root{--bg:#fff;--ink:#16202b;--soft:#52606d;--grid:#e6ebf0;--rule:#93a1ae;` +
	`--a:#a8480b;--b:#0b62a8;--c:#6b7785;--d:#7a3e9d}
@media(prefers-color-scheme:dark){:root{--bg:#11171d;--ink:#e8edf2;--soft:#a5b2be;--grid:#25303a;--rule:#64727f;` +
	`--a:#f0a063;--b:#6db3ee;--c:#98a6b3;--d:#c79be6}}
.paper{fill:var(--bg)}text{font:12px system-ui,sans-serif;fill:var(--soft)}.head{font-weight:600;font-size:14px}
.head,.name{fill:var(--ink)}.end{text-anchor:end}.mid{text-anchor:middle}path{fill:none}
.grid{stroke:var(--grid)}.axis{stroke:var(--rule)}.zero{stroke:var(--rule);stroke-dasharray:1 3}
.la,.lb,.lc,.ld,.da,.db,.dc,.dd{stroke-width:2;stroke-linejoin:round}.da,.db,.dc,.dd{stroke-dasharray:5 4}
.la,.da{stroke:var(--a)}.lb,.db{stroke:var(--b)}.lc,.dc{stroke:var(--c)}.ld,.dd{stroke:var(--d)}
.pa{fill:var(--a)}.pb{fill:var(--b)}.pc{fill:var(--c)}.pd{fill:var(--d)}.no{fill:none;stroke:var(--soft)}`

// Comparison draws the figures of a comparison as one SVG. The upper figure is the literal method by threshold. The
// lower figure is each method on each chunk that verifies, with in-sample, adjusted and held-out R².
func Comparison(c *selection.Comparison) string {
	sweep, chunks := "Figure 2", "Figure 3"
	if c.Model == "quadratic" {
		sweep, chunks = "Figure 4", "Figures 5 and 6"
	}
	f := &chart.Figure{
		ID: "comparison", W: comparedW, H: comparedBottom + 54,
		Title: "Selections of metrics for " + c.Response,
		Desc: fmt.Sprintf("R² against the threshold of the literal method, and R² of each method on each chunk, "+
			"%s model.", c.Model),
	}
	f.Text(comparedMargin, 20, "head", fmt.Sprintf("%s: the literal method by threshold, %s model", sweep, c.Model))
	f.Text(comparedMargin, 38, "tick", fmt.Sprintf("Response %s. %d of %d chunks choose. R² below -0.25 lies on the "+
		"lower edge. A circle: the method refuses.", c.Response, c.Train, c.Chunks))
	drawSweep(f, c)
	f.Text(comparedMargin, panelsTop-52, "head", fmt.Sprintf("%s: each method on each chunk that verifies, %s model",
		chunks, c.Model))
	drawChunks(f, c)
	return f.File(comparisonStyle)
}

// r2Scale returns the axis of R². Values below its range lie on its edge.
func r2Scale(bottom, top float64) chart.Scale { return chart.Linear(leastShown, 1, bottom, top) }

// r2Axis draws grid lines at quarters of R², and their labels.
func r2Axis(f *chart.Figure, y chart.Scale, title string) {
	for _, v := range []float64{0, .25, .5, .75, 1} {
		class := "grid"
		if v == 0 {
			class = "zero"
		}
		f.Line([]float64{comparedLeft, comparedRight}, []float64{y.At(v), y.At(v)}, class)
		f.Text(comparedLeft-6, y.At(v)+4, "tick end", fmt.Sprintf("%.2f", v))
	}
	f.Line([]float64{comparedLeft, comparedRight}, []float64{y.At(leastShown), y.At(leastShown)}, "axis")
	f.Text(comparedMargin, y.At(1)-10, "name", title)
}

// series is a line with its name in the key.
type series struct {
	name, line, dot string
	ys              []float64
	titles          []string
}

// drawKey names the series in a row above a plot, from x on.
func drawKey(f *chart.Figure, all []series, x, y float64) {
	for _, s := range all {
		f.Line([]float64{x, x + 22}, []float64{y - 4, y - 4}, s.line)
		f.Points([]chart.Point{{X: x + 11, Y: y - 4, R: 3, Class: s.dot}})
		f.Text(x+27, y, "name", s.name)
		x += 27 + 6.2*float64(len([]rune(s.name))) + 18
	}
}

func drawSeries(f *chart.Figure, all []series, xs []float64, y chart.Scale) {
	for _, s := range all {
		ys := make([]float64, len(xs))
		var points []chart.Point
		for i, v := range s.ys {
			ys[i] = y.At(v)
			points = append(points, chart.Point{X: xs[i], Y: ys[i], R: 3, Class: s.dot, Title: s.titles[i]})
		}
		f.Line(xs, ys, s.line)
		f.Points(points)
	}
}

func drawSweep(f *chart.Figure, c *selection.Comparison) {
	x := chart.Linear(0, 1, comparedLeft+10, comparedRight-10)
	y := r2Scale(sweepBottom, sweepTop)
	r2Axis(f, y, "")
	all := []series{
		{name: "reduction degree", line: "dc", dot: "pc"},
		{name: "in-sample R²", line: "la", dot: "pa"},
		{name: "adjusted R²", line: "ld", dot: "pd"},
		{name: "held-out R²", line: "lb", dot: "pb"},
	}
	var xs []float64
	for _, s := range c.Sweep {
		xs = append(xs, x.At(s.Threshold))
		values := []float64{s.Reduction, s.InSample, s.Adjusted, s.HeldOut}
		for i, v := range values {
			if s.Refused != "" {
				v = math.NaN()
			}
			all[i].ys = append(all[i].ys, v)
			all[i].titles = append(all[i].titles, fmt.Sprintf("threshold %.2f, %d metrics: %s %.2f", s.Threshold,
				s.Metrics, all[i].name, v))
		}
		if s.Refused != "" {
			f.Points([]chart.Point{{
				X: x.At(s.Threshold), Y: y.At(leastShown), R: 4, Class: "no",
				Title: fmt.Sprintf("threshold %.2f: %.200s", s.Threshold, s.Refused),
			}})
		}
	}
	drawKey(f, all, comparedLeft, sweepTop-18)
	drawSeries(f, all, xs, y)
	for i := range 11 {
		v := float64(i) / 10
		f.Text(x.At(v), sweepBottom+17, "tick mid", fmt.Sprintf("%.1f", v))
	}
	f.Text((comparedLeft+comparedRight)/2, sweepBottom+34, "tick mid", "threshold")
}

// marks returns the classes of the line and the dot of each method. If a method appears twice, the second is dashed.
func marks(method string, again bool) (line, dot string) {
	mark := "b" // forward
	switch {
	case strings.HasPrefix(method, "literal"):
		mark = "a"
	case method == "RAND":
		mark = "c"
	case method == "MAIN":
		mark = "d"
	}
	if again {
		return "d" + mark, "p" + mark
	}
	return "l" + mark, "p" + mark
}

func drawChunks(f *chart.Figure, c *selection.Comparison) {
	var shown []*selection.Contender
	for i := range c.Contenders {
		if k := &c.Contenders[i]; len(k.Chunks) > 0 && k.Refused == "" {
			shown = append(shown, k)
		}
	}
	if len(shown) == 0 {
		f.Text(comparedMargin, panelsTop, "tick", "No method chose anything.")
		return
	}
	n := len(shown[0].Chunks)
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = comparedLeft + (float64(i)+.5)*(comparedRight-comparedLeft)/float64(n)
	}
	for panel, kind := range []struct {
		title string
		of    func(v *selection.Verified) float64
	}{
		{
			"In-sample R², as in the paper: fitted on the chunk itself",
			func(v *selection.Verified) float64 { return v.InSample },
		},
		{"Adjusted R²: less what noise alone reaches", func(v *selection.Verified) float64 { return v.Adjusted }},
		{
			"Held-out R²: fitted on the chunks that chose. Below 0 the mean of the chunk is the better guess",
			func(v *selection.Verified) float64 { return v.HeldOut },
		},
	} {
		top := float64(panelsTop + panel*panelStep)
		y := r2Scale(top+panelH, top)
		r2Axis(f, y, kind.title)
		var all []series
		for i, k := range shown {
			again := k.Method == "literal, scaled" || slices.ContainsFunc(shown[:i], func(o *selection.Contender) bool {
				return o.Method == k.Method
			})
			s := series{name: fmt.Sprintf("%s [%d]", k.Method, k.Metrics)}
			s.line, s.dot = marks(k.Method, again)
			for j := range k.Chunks {
				v := kind.of(&k.Chunks[j])
				s.ys = append(s.ys, v)
				s.titles = append(s.titles, fmt.Sprintf("%s, chunk %s: %.2f", s.name, k.Chunks[j].Chunk, v))
			}
			all = append(all, s)
		}
		drawSeries(f, all, xs, y)
		if panel == 0 {
			drawKey(f, all, comparedMargin, panelsTop-31)
		}
		every := 1 + n/24
		for i := 0; i < n; i += every {
			f.Text(xs[i], top+panelH+17, "tick mid", fmt.Sprint(c.Train+i+1))
		}
	}
	f.Text((comparedLeft+comparedRight)/2, comparedBottom+34, "tick mid", "chunk; [N] is the number of metrics")
}
