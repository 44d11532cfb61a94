package quantile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
)

// picture is PerSyst's figure 2 for a merge: how many values the merges believe lie below each value, against how many
// do, and the difference. The job has eight shares of one core that leads, cores that wait for memory and cores that
// compute.
func picture() []byte {
	r := rand.New(rand.NewPCG(4, 4))
	var mix population
	for _, p := range populations {
		if p.name == "job mix" {
			mix = p
		}
	}
	t := newTrial(mix.shares(r, 100_000, 8))
	summaries, _ := summarise(t.shares, Large)
	m, _ := newMerger(summaries, &Joiner{})
	n := float64(m.count)

	const points, left, wide, high, from, to = 300, 60, 560, 190, -0.1, 4.6
	type line struct{ real, perSyst, weir bytes.Buffer }
	var cdf, off line
	x := func(v float64) float64 { return left + wide*(v-from)/(to-from) }
	put := func(b *bytes.Buffer, v, y float64) { fmt.Fprintf(b, "%.1f,%.1f ", x(v), y) }
	for i := range points + 1 {
		v := from + (to-from)*float64(i)/points
		upTo := t.truth.upTo(v)
		below := upTo
		for below > 0 && t.truth.sorted[below-1] == v {
			below--
		}
		truth := float64(below+upTo) / 2 / n
		theirs := quantileCurve(t.deciles, v, false) / n
		s := m.at(v)
		ours := float64(s.below+s.above) / 2 / unit / n
		put(&cdf.real, v, 20+high*(1-truth))
		put(&cdf.perSyst, v, 20+high*(1-theirs))
		put(&cdf.weir, v, 20+high*(1-ours))
		percent := func(d float64) float64 { return 330 - 8*math.Max(-11, math.Min(11, 100*d)) }
		put(&off.perSyst, v, percent(theirs-truth))
		put(&off.weir, v, percent(ours-truth))
	}
	var b bytes.Buffer
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 460"` +
		` font-family="sans-serif" font-size="12">
<style>
text { fill: #333 } .axis { stroke: #999; fill: none } .true { stroke: #999; stroke-width: 5; fill: none; opacity: .6 }
.persyst { stroke: #c2410c; stroke-width: 1.5; fill: none } .weir { stroke: #1d6fd1; stroke-width: 1.5; fill: none }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .persyst { stroke: #fb923c } .weir { stroke: #60a5fa } }
</style>
`)
	for _, tick := range []struct {
		y    float64
		text string
	}{{20, "100 %"}, {115, "50 %"}, {210, "0 %"}, {250, "+10 %"}, {330, "0"}, {410, "-10 %"}} {
		fmt.Fprintf(&b,
			`<text x="52" y="%.0f" text-anchor="end">%s</text>`+
				`<path class="axis" d="M56 %.0fH620" opacity=".35"/>`+"\n",
			tick.y+4, tick.text, tick.y)
	}
	for v := range 5 {
		fmt.Fprintf(&b, `<text x="%.0f" y="436" text-anchor="middle">%d</text>`+"\n", x(float64(v)), v)
	}
	for _, l := range []struct {
		class string
		b     *bytes.Buffer
	}{
		{"true", &cdf.real},
		{"persyst", &cdf.perSyst},
		{"weir", &cdf.weir},
		{"persyst", &off.perSyst},
		{"weir", &off.weir},
	} {
		fmt.Fprintf(&b, `<polyline class="%s" points="%s"/>`+"\n", l.class, bytes.TrimSpace(l.b.Bytes()))
	}
	b.WriteString(`<text x="340" y="13" text-anchor="middle">` +
		`values at or below v: the truth, and what a merge takes it to be</text>
<text x="340" y="238" text-anchor="middle">the difference, in ranks</text>
<text x="340" y="454" text-anchor="middle">v</text>
<path class="true" d="M440 150h24"/><text x="470" y="154">true</text>
<path class="persyst" d="M440 168h24"/><text x="470" y="172">PerSyst's deciles</text>
<path class="weir" d="M440 186h24"/><text x="470" y="190">weir's knots, 512 B</text>
</svg>
`)
	return b.Bytes()
}
