package discover

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// Bounds of a high confidence. TestConfidence pins that clean matrices are within, and disturbed ones are not.
const (
	leastMargin     = 10. // nats, of the weakest switch and against the next kind of network
	leastPlace      = 5.  // nats, of the node whose switch is least certain
	mostNoise       = .15 // relative: more hides the levels of common switches
	mostOutliers    = .10 // share of the pairs
	mostMissing     = .10 // share of the pairs
	mostCorrelation = .10 // of the residuals of neighbours: higher if they share an effect that the model lacks
	mostOverRepeats = 2.  // residual over the noise of repeats
	suspectSigmas   = 3.  // a pair further off is worth measuring again
	mostSuspects    = 1e6 // pairs that a result lists
	mostStrange     = .5  // share of a node's pairs that are further off
	leastPairs      = 5   // of a node, of which that is a share
	sureOf          = 6.  // standard errors
	correlatedNodes = 500 // nodes that the correlation is taken of
)

// residuals returns the difference of ln(latency) from the model's, NaN for a pair that was not measured.
func (c candidate) residuals(m *latency.Matrix) func(a, b int) float64 {
	return func(a, b int) float64 {
		us := m.At(a, b)
		if !(us > 0) {
			return math.NaN()
		}
		return math.Log(us / c.path(a, b))
	}
}

// result completes a candidate. Rival is the score of the best network of another kind.
func (c candidate) result(m *latency.Matrix, rival float64) Result {
	residual := c.residuals(m)
	confidence := Confidence{Level: High, Residual: c.residual, Noise: m.Noise, Margin: c.margin, Reasons: []string{}}
	if confidence.Noise == 0 {
		confidence.Noise = c.sigma
	}
	doubt := func(format string, args ...any) {
		confidence.Level = Low
		confidence.Reasons = append(confidence.Reasons, fmt.Sprintf(format, args...))
	}
	if gap := rival - c.score; gap < leastMargin {
		confidence.Margin = min(confidence.Margin, gap)
		doubt("a network of another kind describes the latencies as well (%.1f nats)", gap)
	}
	if c.margin < leastMargin {
		doubt("the weakest switch saves %.1f nats only: measure more often", c.margin)
	}
	if c.placed != 0 && c.placed < leastPlace {
		doubt("node %s could hang at another switch as well (%.1f nats): measure it again",
			m.Names()[c.weakest], c.placed)
	}
	if math.IsInf(confidence.Margin, 0) {
		confidence.Margin = max(0, min(rival-c.score, math.MaxFloat64))
		if math.IsInf(rival, 0) {
			confidence.Margin = 0
		}
	}
	if c.sigma > mostNoise {
		doubt("latencies differ by %.0f %% from the model: they hide switches with smaller differences of latency",
			100*c.sigma)
	}
	if m.Noise > 0 && c.sigma > mostOverRepeats*max(m.Noise, leastNoise) {
		doubt("latencies differ by %.1f %% from the model, but by %.1f %% between repeats: the model lacks something",
			100*c.sigma, 100*m.Noise)
	}
	c.doubtPairs(m, residual, doubt)
	return Result{
		Network: c.network, Kind: c.kind, Offsets: c.offsets, Confidence: confidence,
		Suspects: c.suspects(m, residual),
	}
}

// doubtPairs adds doubts because of missing pairs and of patterns in the residuals.
func (c candidate) doubtPairs(m *latency.Matrix, residual func(a, b int) float64, doubt func(string, ...any)) {
	n := m.Len()
	missing, fewest, lonely := 0, n, 0
	for a := range n {
		known := 0
		for b := range n {
			if a != b && m.At(a, b) > 0 {
				known++
			}
		}
		missing += n - 1 - known
		if known < fewest {
			fewest, lonely = known, a
		}
	}
	if share := float64(missing) / float64(n*(n-1)); share > mostMissing {
		doubt("%.0f %% of the pairs were not measured", 100*share)
	}
	if fewest < (n-1)/2 {
		doubt("node %s was measured with %d of %d nodes only", m.Names()[lonely], fewest, n-1)
	}
	if c.outliers > mostOutliers && c.outliers*float64(n*(n-1)/2) > 2 {
		doubt("%.0f %% of the latencies are outliers: measure them again", 100*c.outliers)
	}
	c.doubtNodes(m, residual, doubt)
	if r, sure := c.correlation(m, residual); r > mostCorrelation && sure {
		doubt("the residuals of neighbours are correlated (%.2f): the model lacks a shared effect", r)
	}
}

// doubtNodes doubts a node that fits nowhere: it is broken, or its latencies are made up. They may change how the nodes
// near it are grouped.
func (c candidate) doubtNodes(
	m *latency.Matrix, residual func(a, b int) float64, doubt func(string, ...any),
) {
	bound := suspectSigmas * max(c.sigma, leastNoise)
	worst, name, strange := mostStrange, "", 0
	for a := range m.Len() {
		known, off := 0, 0
		for b := range m.Len() {
			if a == b || math.IsNaN(residual(a, b)) {
				continue
			}
			known++
			if math.Abs(residual(a, b)) > bound {
				off++
			}
		}
		if share := float64(off) / float64(max(known, leastPairs)); share > mostStrange {
			strange++
			if share > worst {
				worst, name = share, m.Names()[a]
			}
		}
	}
	if strange > 0 {
		doubt("%d nodes fit nowhere, above all %s: %.0f %% of its latencies are far off: measure without it",
			strange, name, 100*worst)
	}
}

// correlation returns the correlation of the residuals of nearest nodes, and whether it is beyond chance. Noise is
// uncorrelated. A network that differs from the model shows correlation, and so does a disturbance that lasted.
func (c candidate) correlation(m *latency.Matrix, residual func(a, b int) float64) (float64, bool) {
	n := m.Len()
	sigma := max(c.sigma, leastNoise)
	step := max(1, n/correlatedNodes)
	stride := max(1, n/correlatedNodes)
	var products, squares, count float64
	for a := 0; a < n; a += step {
		near, least := -1, math.Inf(1)
		for b := range n {
			if b != a {
				if us := m.At(a, b); us > 0 && us < least {
					near, least = b, us
				}
			}
		}
		if near < 0 {
			continue
		}
		for d := 0; d < n; d += stride {
			if d == a || d == near {
				continue
			}
			x, y := residual(a, d), residual(near, d)
			if x != x || y != y {
				continue
			}
			x = min(max(x, -3*sigma), 3*sigma)
			y = min(max(y, -3*sigma), 3*sigma)
			products += x * y
			squares += (x*x + y*y) / 2
			count++
		}
	}
	squares = max(squares, count*sigma*sigma/4)
	if count < 20 || c.sigma <= leastNoise {
		return 0, false
	}
	r := products / squares
	// Two nodes are nearest to each other, so about half of the products come twice.
	return r, r*math.Sqrt(count/2) > sureOf
}

// suspects returns the pairs that fit least, worst first.
func (c candidate) suspects(m *latency.Matrix, residual func(a, b int) float64) []latency.Pair {
	type suspect struct {
		pair latency.Pair
		off  float64
	}
	var found []suspect
	n := m.Len()
	bound := suspectSigmas * max(c.sigma, leastNoise)
	low, high := math.Exp(-bound), math.Exp(bound)
	for a := range n {
		for b := a + 1; b < n; b++ {
			us := m.At(a, b)
			if model := c.path(a, b); us < low*model || us > high*model {
				off := math.Abs(residual(a, b))
				found = append(found, suspect{latency.Pair{A: a, B: b}, off})
			}
		}
	}
	slices.SortFunc(found, func(x, y suspect) int {
		switch {
		case x.off > y.off:
			return -1
		case x.off < y.off:
			return 1
		}
		return 0
	})
	found = found[:min(len(found), mostSuspects)]
	pairs := make([]latency.Pair, 0, len(found)+len(c.doubtful))
	seen := map[latency.Pair]bool{}
	for _, s := range found {
		pairs = append(pairs, s.pair)
		seen[s.pair] = true
	}
	for _, p := range c.doubtful {
		if !seen[p] {
			pairs = append(pairs, p)
			seen[p] = true
		}
	}
	return pairs
}
