package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/view"
)

// roofline is the figure of operations against bytes, each bin a point.
type roofline struct {
	Result string
	Figure template.HTML // empty: Result names the missing data
	Rows   []roofRow
}

// RooflineMetrics returns the metrics that the roofline is made of.
func RooflineMetrics() []string { return []string{"flops_any", "operational_intensity"} }

type roofRow struct{ When, Intensity, Flops, Of string }

// roofPoint is a bin of a node's mean.
type roofPoint struct {
	ms                 int64
	x, low, high, rate float64 // FLOP/B; FLOP/s of a node
}

const (
	roofW, roofH                             = 400.0, 300.0
	roofLeft, roofRight, roofTop, roofBottom = 44.0, 390.0, 26.0, 252.0
	letterW                                  = 6.5 // of a letter of a label, at most
)

func newRoofline(j *view.Job) roofline {
	points := roofPoints(j)
	flops, bandwidth := j.Type.PeakFlops, j.Type.PeakMemBW
	switch {
	case j.Find("flops_any") == nil || j.Find("operational_intensity") == nil:
		return roofline{Result: "It needs the metrics flops_any and operational_intensity: the job lacks one of them."}
	case len(points) == 0:
		return roofline{Result: "At no time did half of the sockets compute, so there is no point to draw."}
	case !(flops > 0) || !(bandwidth > 0):
		return roofline{Result: "It needs peak_flops and peak_mem_bw of the nodes, from machine in the configuration."}
	}
	roof := func(x float64) float64 { return min(flops, bandwidth*x) }
	x := middle(points, func(p roofPoint) float64 { return p.x })
	y := middle(points, func(p roofPoint) float64 { return p.rate })
	nearest := "Memory"
	if x >= flops/bandwidth {
		nearest = "Compute"
	}
	r := roofline{Result: fmt.Sprintf("%s is the roof: at %s FLOP/B a node reaches %s of it.",
		nearest, digits(x), percent(y/roof(x)))}
	r.Figure = drawRoofline(points, flops, bandwidth, r.Result)
	for i := 0; i < len(points); i += max(1, (len(points)+fanTableRows-1)/fanTableRows) {
		p := points[i]
		r.Rows = append(r.Rows, roofRow{
			when(j, p.ms), unitText("", "FLOP/B", p.x), unitText("", "FLOP/s", p.rate), percent(p.rate / roof(p.x)),
		})
	}
	return r
}

func roofPoints(j *view.Job) []roofPoint {
	rates, intensities := j.Find("flops_any"), j.Find("operational_intensity")
	if rates == nil || intensities == nil {
		return nil
	}
	flops := map[int64]*view.Bin{}
	for i := range rates.Bins {
		flops[rates.Bins[i].StartMs] = &rates.Bins[i]
	}
	var points []roofPoint
	for _, b := range intensities.Bins {
		f := flops[b.StartMs]
		if f == nil || f.Measured == 0 || b.Measured == 0 {
			continue
		}
		rate := f.Mean * j.PerNode(rates)
		p := roofPoint{b.StartMs, (b.Low[5] + b.High[5]) / 2, b.Low[1], b.High[9], rate}
		if p.x > 0 && p.rate > 0 {
			points = append(points, p)
		}
	}
	return points
}

func middle(points []roofPoint, of func(roofPoint) float64) float64 {
	vs := make([]float64, len(points))
	for i := range points {
		vs[i] = of(points[i])
	}
	slices.Sort(vs)
	return vs[len(vs)/2]
}

func drawRoofline(points []roofPoint, flops, bandwidth float64, result string) template.HTML {
	ridge := flops / bandwidth
	lowX, highX, lowY := ridge, ridge, flops
	for _, p := range points {
		lowX, highX, lowY = min(lowX, p.x), max(highX, p.x), min(lowY, p.rate)
	}
	lowX, highX = math.Pow(10, math.Floor(math.Log10(lowX/2))), math.Pow(10, math.Ceil(math.Log10(highX*2)))
	lowY = math.Pow(10, math.Floor(math.Log10(lowY/3)))
	by, unit := unitFor("", "FLOP/s", flops)
	x := chart.Log(lowX, highX, roofLeft, roofRight).As(digits)
	y := chart.Log(lowY, flops*2, roofBottom, roofTop).As(func(v float64) string { return digits(v / by) })
	f := chart.Figure{ID: "roofline", W: roofW, H: roofH, Title: "Roofline of a node", Desc: result}
	f.Axes(x, y, "operations per byte of memory traffic (FLOP/B)", unit+" of a node, mean")

	from := max(lowX, lowY/bandwidth)
	f.Line([]float64{x.At(from), x.At(ridge), x.At(highX)},
		[]float64{y.At(bandwidth * from), y.At(flops), y.At(flops)}, "roof")
	f.Text(roofRight, y.At(flops)-5, "tick end", "peak "+unitText("", "FLOP/s", flops))
	half := math.Sqrt(from * ridge)
	label := "memory " + unitText("", "B/s", bandwidth)
	if at := x.At(half) - 8; at-letterW*float64(len(label)) > roofLeft {
		f.Text(at, y.At(bandwidth*half), "tick end", label)
	} else { // left of the line it would lie on the axis
		f.Text(x.At(half)+8, y.At(bandwidth*half)+letterW, "tick", label)
	}
	for _, p := range points {
		f.Line([]float64{x.At(max(p.low, lowX)), x.At(p.high)}, []float64{y.At(p.rate), y.At(p.rate)}, "reach")
	}
	dots := make([]chart.Point, len(points))
	for i, p := range points {
		dots[i] = chart.Point{X: x.At(p.x), Y: y.At(p.rate), R: 2.6, Class: "t" + string(rune('0'+4*i/len(points)))}
	}
	f.Points(dots)
	return f.SVG()
}
