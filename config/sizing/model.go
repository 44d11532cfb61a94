// Package sizing computes the hardware that weir needs for a machine. It is pure: it gets bytes by encoding records
// that look like real ones, and processor time from a model that was fitted to measurements.
package sizing

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/quantile"
)

// measured contains the points that `make bench-growth` measured, and the model that it fitted to them. It is the only
// home of the model's constants, and nobody edits it.
//
//go:embed growth.json
var measured []byte

// Shape contains the sizes on which the cost of folding an interval depends.
type Shape struct {
	Nodes      int `json:"nodes"`
	Cores      int `json:"cores"` // logical CPUs of a node
	Metrics    int `json:"metrics"`
	Jobs       int `json:"jobs"`
	Parts      int `json:"parts"` // shares and whole jobs at all partitions: at least Jobs
	Ranks      int `json:"ranks"` // of one metric, of all parts: Ranks of the values of each
	Partitions int `json:"partitions"`
}

// Ranks returns at how many ranks of a column of values a certified summary looks. A job of many values does not cost
// more than that for its summary.
func Ranks(values int) int { return min(values, quantile.Large.Ranks) }

// JobSizes returns the nodes of each job, largest first. Sizes are lognormal as in docs/balancer.md, with deviation 1.5
// of the logarithm. They are quantiles and not random, so that the same machine has the same jobs each time.
func JobSizes(nodes, jobs int) []int {
	sizes := make([]int, jobs)
	weights, sum := jobWeights(jobs)
	used := 0
	for i := range sizes {
		sizes[i] = 1 + int(float64(nodes-jobs)*weights[i]/sum)
		used += sizes[i]
	}
	for i := 0; used < nodes; i = (i + 1) % jobs {
		sizes[i]++
		used++
	}
	return sizes
}

// jobWeights returns by how much each job is larger than others, and the sum of that.
func jobWeights(jobs int) (weights []float64, sum float64) {
	weights = make([]float64, jobs)
	for i := range weights {
		weights[i] = math.Exp(1.5 * math.Sqrt2 * math.Erfinv(1-(2*float64(i)+1)/float64(jobs)))
		sum += weights[i]
	}
	return weights, sum
}

// Values returns the number of values of an interval.
func (s Shape) Values() int64 { return int64(s.Nodes) * int64(s.Cores) * int64(s.Metrics) }

// Constants are the processor seconds of each cost in an interval. A constant that explains nothing is 0.
type Constants struct {
	Value     float64 `json:"value"`
	Record    float64 `json:"record"`
	Column    float64 `json:"column"`  // a metric of a record
	Summary   float64 `json:"summary"` // a metric of a job, or of a share of it
	Rank      float64 `json:"rank"`    // a rank that its certified summary looks at
	Share     float64 `json:"share"`   // a metric of a partition's share of _system
	Partition float64 `json:"partition"`
}

// amounts returns the quantities of an interval, in the order of Constants. A partition without records has no metrics
// in its share.
func (s Shape) amounts() []float64 {
	metrics := float64(s.Metrics)
	return []float64{
		float64(s.Values()), float64(s.Nodes), float64(s.Nodes) * metrics, float64(s.Parts) * metrics,
		float64(s.Ranks) * metrics, float64(min(s.Partitions, s.Parts)) * metrics, float64(s.Partitions),
	}
}

func (c Constants) list() []float64 {
	return []float64{c.Value, c.Record, c.Column, c.Summary, c.Rank, c.Share, c.Partition}
}

// seconds returns the processor time of an interval, of collect and merge together.
func (c Constants) seconds(s Shape) float64 { return dot(c.list(), s.amounts()) }

// Memory is how many bytes of heap records take.
type Memory struct {
	Byte   float64 `json:"byte"`   // for each byte of the records
	Record float64 `json:"record"` // for each record
}

// Bytes returns the heap that records take.
func (m Memory) Bytes(recordBytes int64, records int) float64 {
	return m.Byte*float64(recordBytes) + m.Record*float64(records)
}

// Point is one measurement.
type Point struct {
	Sweep string `json:"sweep"` // the quantity that is varied
	Shape
	Seconds     []float64 `json:"seconds"`      // processor time of an interval, of each run
	RecordBytes int64     `json:"record_bytes"` // of the records, encoded
	HeldBytes   int64     `json:"held_bytes"`   // of the heap, by all records of the interval before its Tick
	KeptBytes   int64     `json:"kept_bytes"`   // of the heap, after the Tick, for the next interval
	OutputBytes int64     `json:"output_bytes"` // of all JobSummaries, encoded
}

// Median returns the processor time of the run in the middle.
func (p *Point) Median() float64 {
	sorted := slices.Sorted(slices.Values(p.Seconds))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// PerValue returns the nanoseconds of processor time that a value costs.
func (p *Point) PerValue() float64 { return 1e9 * p.Median() / float64(p.Values()) }

// Growth is all that was measured, and the model of it.
type Growth struct {
	Command   string    `json:"command"`
	Processor string    `json:"processor"`
	Go        string    `json:"go"`
	Constants Constants `json:"constants"`
	Held      Memory    `json:"held"` // until the Tick
	Kept      Memory    `json:"kept"` // after the Tick, for the next interval
	Points    []Point   `json:"points"`
}

// NewGrowth fits a model to points.
func NewGrowth(points []Point) Growth {
	var amounts, bytes [][]float64
	var seconds, held, kept []float64
	for i := range points {
		p := &points[i]
		amounts, seconds = append(amounts, p.amounts()), append(seconds, p.Median())
		bytes = append(bytes, []float64{float64(p.RecordBytes), float64(p.Nodes)})
		held, kept = append(held, float64(p.HeldBytes)), append(kept, float64(p.KeptBytes))
	}
	c, h, k := fit(amounts, seconds), fit(bytes, held), fit(bytes, kept)
	return Growth{
		Constants: Constants{c[0], c[1], c[2], c[3], c[4], c[5], c[6]},
		Held:      Memory{h[0], h[1]}, Kept: Memory{k[0], k[1]}, Points: points,
	}
}

// Errors returns the relative error of the model at each point.
func (g *Growth) Errors() []float64 {
	var all []float64
	for i := range g.Points {
		p := &g.Points[i]
		all = append(all, g.Constants.seconds(p.Shape)/p.Median()-1)
	}
	return all
}

// Measured returns the measurements and the model that are compiled in.
func Measured() (Growth, error) {
	var g Growth
	if err := json.Unmarshal(measured, &g); err != nil {
		return g, fmt.Errorf("growth.json: %w", err)
	}
	return g, nil
}
