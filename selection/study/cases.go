package study

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirhpc/weir/selection"
)

// noiseShare is the deviation of the response's noise as a share of the signal's: at most R² 1/(1+.22²) = .954 can be
// explained.
const noiseShare = .22

// Cactus has six machines, and a response that depends on nine of their 72 factors.
func Cactus(seed uint64) *Case { return cactus(seed, "cactus", 9, 1, noiseShare) }

// Dense is Cactus with 40 factors, each with nine tenths of the weight of the one before.
func Dense(seed uint64) *Case { return cactus(seed, "dense", 40, .9, noiseShare) }

func cactus(seed uint64, stream string, active int, falling, noise float64) *Case {
	r := source(seed, stream)
	w := newWorld(r, 6, chunks)
	c := w.table(6, 4)
	factors := r.Perm(len(w.factors))[:active]
	y, scale := make([]float64, w.rows), 1.0
	for _, f := range factors {
		weight := sign(r) * scale
		if falling == 1 {
			weight *= between(r, .5, 1.5)
		}
		scale *= falling
		addTo(y, w.factors[f], weight)
	}
	return c.respond(r, y, factors, noise)
}

func addTo(y, x []float64, weight float64) {
	for t := range y {
		y[t] += weight * x[t]
	}
}

// Gridftp has two machines, and a response that depends on eight factors. Every second factor also has a quadratic
// part.
func Gridftp(seed uint64) *Case {
	r := source(seed, "gridftp")
	w := newWorld(r, 2, chunks)
	c := w.table(2, 9)
	factors := r.Perm(len(w.factors))[:8]
	y := make([]float64, w.rows)
	for i, f := range factors {
		weight := sign(r) * between(r, .5, 1.5)
		addTo(y, w.factors[f], weight)
		if i%2 == 0 {
			for t, x := range w.factors[f] {
				y[t] += .5 * weight * x * x
			}
		}
	}
	return c.respond(r, y, factors, noiseShare)
}

// Slowest is Cactus with a response that the slowest machine decides: three factors of each machine are summed, and the
// largest sum counts. Linear models of single machines must fail.
func Slowest(seed uint64) *Case {
	r := source(seed, "max")
	w := newWorld(r, 6, chunks)
	c := w.table(6, 4)
	kinds := r.Perm(machineFactors)[:3]
	y := make([]float64, w.rows)
	var active []int
	for m := range 6 {
		for _, k := range kinds {
			active = append(active, m*machineFactors+k)
		}
	}
	for t := range y {
		y[t] = math.Inf(-1)
		for m := range 6 {
			sum := 0.0
			for _, k := range kinds {
				sum += w.factors[m*machineFactors+k][t]
			}
			y[t] = max(y[t], sum)
		}
	}
	return c.respond(r, y, active, noiseShare)
}

// Noise replaces the response by an AR(1) process that nothing sees.
func Noise(c *Case, seed uint64, phi float64) *Case {
	out := *c
	t := *c.Table
	t.Responses = []selection.Response{{Name: "y", Values: autoregressive(source(seed, "noise"), t.Rows(), phi)}}
	out.Table, out.Active, out.Oracle = &t, nil, nil
	return &out
}

// Drift is Cactus with some of the nine factors replaced by others after two thirds of the time. The factors with the
// largest weights are replaced, because then the published delays are reproduced. The noise is a share of the signal's
// deviation.
func Drift(seed uint64, replaced int, noise float64) *Case {
	r := source(seed, "drift")
	w := newWorld(r, 6, chunks)
	c := w.table(6, 4)
	factors := r.Perm(len(w.factors))[:9+replaced]
	y, weights := make([]float64, w.rows), make([]float64, 9)
	for i := range weights {
		weights[i] = sign(r) * between(r, .5, 1.5)
	}
	slices.SortFunc(weights, func(a, b float64) int { return cmp.Compare(math.Abs(b), math.Abs(a)) })
	for t := range y {
		for i, weight := range weights {
			f := factors[i]
			if i < replaced && t >= w.rows*2/3 {
				f = factors[9+i]
			}
			y[t] += weight * w.factors[f][t]
		}
	}
	return c.respond(r, y, factors, noise)
}

// Large is Cactus on any number of machines, with 3,000 rows, to measure the cost of a selection. 48 machines have
// 5,000 metrics.
func Large(seed uint64, machines int) *Case {
	const rows = 3000
	r := source(seed, "large")
	w := newWorld(r, machines, rows/chunkRows+1)
	c := w.table(machines, max(4, machines/6))
	factors := r.Perm(len(w.factors))[:9]
	y := make([]float64, w.rows)
	for _, f := range factors {
		addTo(y, w.factors[f], sign(r)*between(r, .5, 1.5))
	}
	c.respond(r, y, factors, noiseShare)
	for m := range c.Table.Metrics {
		c.Table.Metrics[m].Columns[0].Values = c.Table.Metrics[m].Columns[0].Values[:rows]
	}
	c.Table.Start, c.Table.Responses[0].Values = c.Table.Start[:rows], c.Table.Responses[0].Values[:rows]
	c.Chunks = stretches(rows, rows/chunkRows)
	return c
}
