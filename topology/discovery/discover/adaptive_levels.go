package discover

import (
	"math"
	"slices"
)

// levels is a mixture of normal distributions of ln(latency), with one standard deviation, and outliers that are
// distributed evenly. It describes latencies between the nodes of a set: each level is the latency by one kind of
// switch.
type levels struct {
	centres []float64 // ascending
	weights []float64 // of the centres; with the weight of the outliers they add up to 1
	sd      float64
	outlier float64 // weight
	even    float64 // density of the outliers
	faint   bool    // a lower level is probable, but not sure
}

const (
	levelBins    = 1024
	fewSteps     = 8   // of a fit that is compared with others
	mostSteps    = 200 // of a fit
	mostMixed    = 8
	sureLevel    = 10   // nats that another level must save
	faintLevel   = 3    // nats from which it is probable
	outlierRange = 1.6  // at least, of ln(latency): outliers take up to five times as long
	tooFast      = .01  // as probable as other outliers are outliers below the lowest level: disturbances take time
	leastOutlier = .004 // weight that outliers have at least, so that no single latency decides
)

// fitLevels fits levels to values of ln(latency). The standard deviation is at least floor. Another level must save 10
// nats more than its parameters cost, and be two standard deviations from the others.
func fitLevels(values []float64, floor float64) levels {
	h := newHistogram(values)
	l, likelihood := h.fit([]float64{h.median()}, max(h.spread(), floor), floor, mostSteps)
	for len(l.centres) < mostMixed {
		best, bestLikelihood := levels{}, math.Inf(-1)
		for _, at := range h.starts() {
			for _, narrower := range []float64{1, .4} {
				next, li := h.fit(append(slices.Clone(l.centres), at), l.sd*narrower, floor, fewSteps)
				if li > bestLikelihood {
					best, bestLikelihood = next, li
				}
			}
		}
		best, bestLikelihood = h.fit(best.centres, best.sd, floor, mostSteps)
		gain := bestLikelihood - likelihood - math.Log(float64(len(values)))
		if !best.apart() || gain < sureLevel {
			below := best.centres[0] < l.centres[0]-l.sd // above there are outliers
			l.faint = best.apart() && below && gain > faintLevel
			break
		}
		l, likelihood = best, bestLikelihood
	}
	return l.withoutTail()
}

// apart reports whether all centres differ by two standard deviations.
func (l levels) apart() bool {
	for i := 1; i < len(l.centres); i++ {
		if l.centres[i]-l.centres[i-1] < 2*l.sd {
			return false
		}
	}
	return true
}

// withoutTail makes rare levels above the most frequent one outliers. Outliers are slower, and are not quite even.
func (l levels) withoutTail() levels {
	for {
		last := len(l.centres) - 1
		most := slices.Max(l.weights)
		if last == 0 || l.weights[last] == most || l.weights[last] > max(.03, .5*l.outlier) {
			return l
		}
		l.outlier += l.weights[last]
		l.centres, l.weights = l.centres[:last], l.weights[:last]
	}
}

// ratio returns ln of the likelihood of a value at one of the first levels by that at one of the others.
func (l levels) ratio(value float64, first int) float64 {
	below, top := l.density(value, 0, first), l.density(value, first, len(l.centres))
	out := max(l.outlier, leastOutlier) * l.even
	return max(-7, min(7, math.Log((below+out)/(top+out))))
}

// density returns the density of a value at some levels, given that it is at one of them.
func (l levels) density(value float64, from, to int) float64 {
	var sum, weight float64
	for k := from; k < to; k++ {
		weight += l.weights[k]
		sum += l.weights[k] * normal(value-l.centres[k], l.sd)
	}
	return sum / weight
}

func normal(x, sd float64) float64 {
	z := x / sd
	return math.Exp(-z*z/2) / (sd * math.Sqrt(2*math.Pi))
}

// histogram holds the values in bins, which makes fits fast.
type histogram struct {
	from, width float64
	values      []float64 // the middle of each bin that is not empty
	counts      []float64 // of these
	total       float64
	sorted      []float64
}

func newHistogram(values []float64) *histogram {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	from, to := sorted[0], sorted[len(sorted)-1]
	h := &histogram{
		from: from, width: max((to-from)/levelBins, 1e-6), total: float64(len(values)), sorted: sorted,
	}
	last := -1
	for _, v := range sorted {
		bin := int((v - from) / h.width)
		if bin != last {
			h.values, h.counts = append(h.values, from+(float64(bin)+.5)*h.width), append(h.counts, 0)
			last = bin
		}
		h.counts[len(h.counts)-1]++
	}
	return h
}

func (h *histogram) median() float64 { return h.sorted[len(h.sorted)/2] }

// spread returns a standard deviation from the quartiles.
func (h *histogram) spread() float64 {
	n := len(h.sorted)
	return (h.sorted[n*3/4] - h.sorted[n/4]) / 1.349
}

// starts returns candidates for another level: evenly over the values, and at low quantiles, since rare levels are
// there.
func (h *histogram) starts() []float64 {
	const even = 16
	var at []float64
	to := h.from + h.width*levelBins
	for i := range even {
		at = append(at, h.from+(to-h.from)*(float64(i)+.5)/even)
	}
	for _, q := range []float64{.001, .003, .01, .03, .1, .3, .5, .7, .9} {
		at = append(at, h.sorted[int(q*float64(len(h.sorted)))])
	}
	return at
}

// fit improves centres and the standard deviation by expectation and maximisation. It returns ln of the likelihood.
func (h *histogram) fit(centres []float64, sd, floor float64, steps int) (levels, float64) {
	floor = max(floor, h.width, 1e-4)
	k := len(centres)
	l := levels{centres: centres, weights: make([]float64, k), sd: max(sd, floor), outlier: .01}
	l.even = 1 / max(h.width*levelBins, outlierRange)
	for i := range l.weights {
		l.weights[i] = .99 / float64(k)
	}
	before := math.Inf(-1)
	likelihood := before
	for range steps {
		likelihood = h.step(&l, floor)
		if likelihood-before < 1e-2 {
			break
		}
		before = likelihood
	}
	order := make([]int, k)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if l.centres[a] < l.centres[b] {
			return -1
		}
		return 1
	})
	sorted := l
	sorted.centres, sorted.weights = make([]float64, k), make([]float64, k)
	for i, o := range order {
		sorted.centres[i], sorted.weights[i] = l.centres[o], l.weights[o]
	}
	return sorted, likelihood
}

// step is one step of the fit. It returns ln of the likelihood before it.
func (h *histogram) step(l *levels, floor float64) float64 {
	k := len(l.centres)
	sum, weighted, squares := make([]float64, k), make([]float64, k), 0.0
	density := make([]float64, k)
	var likelihood, out float64
	scale := 1 / (l.sd * math.Sqrt(2*math.Pi))
	lowest := slices.Min(l.centres) - 2*l.sd
	for b, count := range h.counts {
		value := h.values[b]
		outside := l.outlier * l.even
		if value < lowest {
			outside *= tooFast
		}
		all := outside
		for i := range k {
			z := (value - l.centres[i]) / l.sd
			density[i] = 0
			if z*z < 80 {
				density[i] = l.weights[i] * scale * math.Exp(-z*z/2)
			}
			all += density[i]
		}
		likelihood += count * math.Log(max(all, 1e-300))
		out += count * outside / max(all, 1e-300)
		for i := range k {
			if density[i] == 0 {
				continue
			}
			r := count * density[i] / all
			d := value - l.centres[i]
			sum[i] += r
			weighted[i] += r * d
			squares += r * d * d
		}
	}
	inside := h.total - out
	for i := range k {
		if sum[i] > 1e-9 {
			move := weighted[i] / sum[i]
			squares -= sum[i] * move * move
			l.centres[i] += move
		}
		l.weights[i] = max(sum[i]/h.total, 1e-9)
	}
	l.outlier = max(out/h.total, 1e-4)
	l.sd = max(floor, math.Sqrt(max(0, squares)/max(1, inside)))
	return likelihood
}
