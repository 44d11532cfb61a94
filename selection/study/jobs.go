package study

import (
	"fmt"
	"math"

	"github.com/weirhpc/weir/selection"
)

const (
	multiJobs    = 20
	multiFactors = 20
	multiMetrics = 120
	multiActive  = 8
	multiNoise   = .20
)

// Multi has 20 jobs of 240 rows with the same 120 metrics. Each job depends on three factors of its own, out of eight,
// and has its own levels, gains and scale. A chunk is a job. Proxies have less noise than in Cactus, so that the union
// of literal selections reaches a refit R² of .92, close to the published .91.
func Multi(seed uint64) *Case {
	r := source(seed, "multi")
	w := &world{r: r, layout: r, jobs: true, quietest: 0, loudest: .05, rows: multiJobs * chunkRows}
	for range multiFactors {
		w.factors = append(w.factors, regimes(r, bursts(r, w.rows), multiJobs, 0))
	}
	c := &Case{Table: &selection.Table{}, Chunks: stretches(w.rows, multiJobs), Oracle: make([]int, multiFactors)}
	for t := range w.rows {
		c.Table.Start = append(c.Table.Start, int64(t%chunkRows)*30_000)
		c.Table.Unit = append(c.Table.Unit, int32(t/chunkRows))
	}
	for j := range multiJobs {
		c.Table.Units = append(c.Table.Units, fmt.Sprintf("%d/0", 4711+j))
	}
	all := w.views(multiFactors, 0, multiMetrics, 0)
	for place, i := range r.Perm(len(all)) {
		name := fmt.Sprintf("metric.%03d", place)
		if i < multiFactors {
			c.Oracle[i] = place
		}
		if i < mainFactors {
			c.Main = append(c.Main, name)
		}
		c.add(r, name, all[i])
	}
	active := r.Perm(multiFactors)[:multiActive]
	direction := make([]float64, multiActive)
	for i := range direction {
		direction[i] = sign(r)
	}
	var y []float64
	for _, rows := range c.Chunks {
		signal, noise := make([]float64, len(rows)), autoregressive(r, len(rows), .5)
		for _, k := range r.Perm(multiActive)[:3] {
			addTo(signal, w.factors[active[k]][rows[0]:rows[0]+len(rows)], direction[k]*between(r, .5, 1.5))
		}
		standardise(signal)
		scale, level := math.Exp(.7*r.NormFloat64()), .5*r.NormFloat64()
		for t := range signal {
			y = append(y, 100+10*scale*(level+signal[t]+multiNoise*noise[t]))
		}
	}
	c.Table.Responses = []selection.Response{{Name: "y", Values: y}}
	c.Active, c.Oracle = active, pick(c.Oracle, active)
	return c
}
