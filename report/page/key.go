package page

import (
	"html/template"
	"math"

	"github.com/weirhpc/weir/report/chart"
)

// fanKey explains the bands of a fan, with a made-up metric.
func fanKey() template.HTML {
	const left, right, top, bottom, n = 2.0, 240.0, 14.0, 130.0, 24
	f := chart.Figure{
		ID: "key", W: 400, H: 168, Title: "How to read a fan",
		Desc: "From the outside in: all values, 8 of 10 values, 4 of 10 values, and the median.",
	}
	xs, mid := grid(left, (right-left)/n, n), make([]float64, n)
	for i := range mid {
		mid[i] = (top+bottom)/2 - 6*math.Sin(float64(i)/4)
	}
	off := func(by float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = mid[i] + by*(1+0.2*math.Sin(float64(i)/3))
		}
		return out
	}
	f.Band(xs, off(40), off(-42), "fan0")
	f.Band(xs, off(28), off(-24), "fan1")
	f.Band(xs, off(12), off(-10), "fan2")
	f.Band(xs, mid, mid, "mid")
	f.Hatch(xs[9], xs[13], bottom-1, bottom+6)
	f.Line([]float64{left, right}, []float64{bottom + 6, bottom + 6}, "axis")
	end := n - 1
	for _, l := range []struct {
		y    float64
		text string
	}{
		{off(-42)[end], "d10 largest"},
		{off(-24)[end], "d9: a tenth lies above"},
		{off(-10)[end], "d7"},
		{mid[end], "d5 median"},
		{off(12)[end], "d3"},
		{off(28)[end], "d1: a tenth lies below"},
		{off(40)[end], "d0 least"},
	} {
		f.Line([]float64{right + 1, right + 8}, []float64{l.y, l.y}, "axis")
		f.Text(right+12, l.y+4, "tick", l.text)
	}
	f.Text(xs[11], bottom+20, "tick mid", "hatched: some nodes were silent")
	return f.SVG()
}
