package discover

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/network"
)

// place is the position of a switch in the result.
type place struct {
	part   *part
	parent int // number of the place, -1 at the root
	depth  int
	ln     []float64 // of latencies by this switch as the highest one
	us     float64   // their median
}

// result returns the tree as a network. Nodes that never answered are not in it.
func (a *adaptive) result() Result {
	names := a.measurer.Names()
	places, at := a.places()
	residual := a.latencies(places, at)

	number := make([]int, len(names))
	var known []string
	for v, name := range names {
		if at[v] >= 0 {
			number[v] = len(known)
			known = append(known, name)
		}
	}
	n := network.New(known)
	switches := make([]int, len(places))
	for i, p := range places {
		switches[i] = n.AddSwitch(fmt.Sprintf("s%d", i))
		if p.parent >= 0 {
			n.AddLink(switches[p.parent], switches[i], max(0, places[p.parent].us-p.us)/2)
		}
	}
	for v := range names {
		if at[v] >= 0 {
			n.AddLink(number[v], switches[at[v]], places[at[v]].us/2)
		}
	}
	return Result{Network: n, Kind: kindTree, Confidence: a.confidence(places, residual)}
}

// places returns the switches, the root first, and the number of the switch that each node is linked with. It is -1 for
// nodes that are not in the tree.
func (a *adaptive) places() (places []place, at []int) {
	at = make([]int, len(a.samples))
	for v := range at {
		at[v] = -1
	}
	places = []place{{part: a.root, parent: -1}}
	for i := 0; i < len(places); i++ {
		p := places[i]
		for _, v := range p.part.direct {
			at[v] = i
		}
		for _, child := range p.part.children {
			places = append(places, place{part: child, parent: i, depth: p.depth + 1})
		}
	}
	return places, at
}

// latencies finds the latency by each switch, and returns the relative RMS of the residuals. Outliers count as three
// standard deviations.
func (a *adaptive) latencies(places []place, at []int) float64 {
	each(a.samples, at, func(v, w int, ln float64) {
		i := common(places, at[v], at[w])
		places[i].ln = append(places[i].ln, ln)
	})
	for i := len(places) - 1; i >= 0; i-- { // children have higher numbers than their parents
		p := &places[i]
		if len(p.ln) == 0 {
			continue // no two of its children were measured: it is as far as its parent
		}
		slices.Sort(p.ln)
		p.us = math.Exp(p.ln[len(p.ln)/2])
	}
	for i := range places {
		if len(places[i].ln) == 0 && places[i].parent >= 0 {
			places[i].us = places[places[i].parent].us
		}
	}
	var left []float64
	each(a.samples, at, func(v, w int, ln float64) {
		left = append(left, math.Abs(ln-math.Log(places[common(places, at[v], at[w])].us)))
	})
	if len(left) == 0 {
		return 0
	}
	slices.Sort(left)
	most := 3 * 1.4826 * left[len(left)/2]
	sum := 0.0
	for _, d := range left {
		d = min(d, most)
		sum += d * d
	}
	return math.Sqrt(sum / float64(len(left)))
}

// each calls f for each sample between nodes of the tree, once.
func each(samples [][]sample, at []int, f func(v, w int, ln float64)) {
	for v := range samples {
		for _, s := range samples[v] {
			if v < s.with && at[v] >= 0 && at[s.with] >= 0 {
				f(v, s.with, s.ln)
			}
		}
	}
}

// common returns the lowest switch above two switches, or one of them.
func common(places []place, i, j int) int {
	for i != j {
		if places[i].depth >= places[j].depth {
			i = places[i].parent
		} else {
			j = places[j].parent
		}
	}
	return i
}

// confidence rates how certain the tree is.
func (a *adaptive) confidence(places []place, residual float64) Confidence {
	c := Confidence{Level: High, Residual: residual, Noise: a.root.top.sd, Reasons: a.reasons}
	doubt := func(format string, args ...any) { c.Reasons = append(c.Reasons, fmt.Sprintf(format, args...)) }
	if len(places) > 1 {
		c.Margin = math.Inf(1)
		for _, p := range places[1:] {
			c.Margin = min(c.Margin, p.part.margin)
		}
	}
	if a.limited {
		doubt("the most measurements, %d, were made before the tree was complete", a.most)
	}
	if n := len(a.silent); n > 0 {
		doubt("%d nodes did not answer and are not in the tree: %s", n, a.some(a.silent))
	}
	if a.doubtful > 0 {
		doubt("%d nodes fit no switch well", a.doubtful)
	}
	if a.faint > 0 {
		doubt("%d groups of few nodes may have switches of their own: measure all pairs", a.faint)
	}
	if c.Noise > adaptiveNoise {
		doubt("latencies vary by %.0f %% around their levels: that hides switches", 100*c.Noise)
	}
	if share := a.root.top.outlier; share > adaptiveOutliers {
		doubt("%.0f %% of the latencies are outliers", 100*share)
	}
	if residual > 1.5*c.Noise+.005 {
		doubt("the latencies differ from the tree's by %.1f %%, and the noise is %.1f %%", 100*residual, 100*c.Noise)
	}
	if len(c.Reasons) > 0 {
		c.Level = Low
	}
	return c
}

// Noise and share of outliers up to which a result is sure. TestAdaptiveNoise shows that trees are exact up to there.
const (
	adaptiveNoise    = .15
	adaptiveOutliers = .15
)

// some returns the first names of nodes.
func (a *adaptive) some(nodes []int) string {
	text := ""
	for i, v := range nodes {
		switch {
		case i == 5:
			return text + ", …"
		case i > 0:
			text += ", "
		}
		text += a.measurer.Names()[v]
	}
	return text
}
