package study

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirhpc/weir/selection"
)

const jobNodes = 32

// Decider is the way in which the nodes of a job determine its response.
type Decider string

// The response follows the average over the nodes, the slowest node, or the spread between nodes.
const (
	Average Decider = "mean"
	Largest Decider = "maximum"
	Spread  Decider = "spread"
)

// Job is one job on 32 nodes. Each metric has the mean over the nodes and the deciles 0, 5 and 10. The response follows
// three factors. In each chunk one node is a straggler in one of them.
func Job(seed uint64, by Decider) *Case {
	r := source(seed, "job "+string(by))
	rows := chunks * chunkRows
	active := r.Perm(machineFactors)[:3]
	common := newWorld(r, 1, chunks) // shared by the nodes
	load := make([][]float64, jobNodes)
	values := make([][][]float64, jobNodes) // by node and metric
	stragglers := make([]int, chunks)
	for i := range stragglers {
		stragglers[i] = r.IntN(jobNodes)
	}
	slow := make([]int, chunks)
	for i := range slow {
		slow[i] = active[r.IntN(3)]
	}
	layout := r.Uint64()
	var kinds []view
	for n := range jobNodes {
		// All nodes have the same metrics.
		w := &world{r: r, layout: rand.New(rand.NewPCG(layout, 0)), quietest: .05, loudest: .25, rows: rows}
		for f := range machineFactors {
			x := bursts(r, rows)
			for t := range x {
				x[t] = .4*common.factors[f][t] + .9*x[t]
				if c := t / chunkRows; stragglers[c] == n && slow[c] == f {
					x[t] += 3
				}
			}
			w.factors = append(w.factors, x)
		}
		load[n] = make([]float64, rows)
		for _, f := range active {
			addTo(load[n], w.factors[f], 1)
		}
		kinds = w.views(machineFactors, 0, machineMetrics, constants)
		for _, k := range kinds {
			values[n] = append(values[n], k.values)
		}
	}
	c := &Case{Table: &selection.Table{}, Chunks: stretches(rows, chunks), Oracle: make([]int, machineFactors)}
	for t := range rows {
		c.Table.Start = append(c.Table.Start, int64(t)*30_000)
	}
	names := r.Perm(len(kinds))
	for m, k := range kinds {
		c.Table.Metrics = append(c.Table.Metrics, selection.Metric{
			Name: fmt.Sprintf("metric.%03d", names[m]), Columns: overNodes(values, m, sign(r), between(r, -20, 20)),
		})
		c.Loads = append(c.Loads, k.loads)
	}
	for f := range machineFactors {
		c.Oracle[f] = f
		if f < mainFactors {
			c.Main = append(c.Main, c.Table.Metrics[f].Name)
		}
	}
	return c.respond(r, decide(load, by), active, noiseShare)
}

// overNodes returns the statistics of one metric over the nodes.
func overNodes(values [][][]float64, metric int, scale, offset float64) []selection.Column {
	rows := len(values[0][metric])
	columns := []selection.Column{{Statistic: "mean"}, {Statistic: "d0"}, {Statistic: "d5"}, {Statistic: "d10"}}
	for i := range columns {
		columns[i].Values = make([]float64, rows)
	}
	nodes := make([]float64, len(values))
	for t := range rows {
		sum := 0.0
		for n := range values {
			nodes[n] = scale * values[n][metric][t]
			sum += nodes[n]
		}
		slices.Sort(nodes)
		for i, v := range []float64{sum / float64(len(nodes)), nodes[0], nodes[len(nodes)/2-1], nodes[len(nodes)-1]} {
			columns[i].Values[t] = v + offset
		}
	}
	return columns
}

func decide(load [][]float64, by Decider) []float64 {
	y := make([]float64, len(load[0]))
	for t := range y {
		low, high, sum := math.Inf(1), math.Inf(-1), 0.0
		for n := range load {
			low, high, sum = min(low, load[n][t]), max(high, load[n][t]), sum+load[n][t]
		}
		switch by {
		case Average:
			y[t] = sum
		case Largest:
			y[t] = high
		case Spread:
			y[t] = high - low
		}
	}
	return y
}
