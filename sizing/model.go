// Package sizing computes what weir needs for a machine. It is pure: bytes come from encoding records that look like
// real ones, and processor time comes from a model that was fitted to measurements.
package sizing

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/quantile"
)

// measured has the points that `make bench-growth` measured and the model that it fitted to them. It is the only place
// where the constants of the model stand, and nobody edits it.
//
//go:embed growth.json
var measured []byte

// Shape is what the cost of folding an interval depends on.
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
// of the logarithm. They are quantiles, not drawn, so that the same machine has the same jobs each time.
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

// Values returns how many values an interval has.
func (s Shape) Values() int64 { return int64(s.Nodes) * int64(s.Cores) * int64(s.Metrics) }

// Constants are the seconds of one processor that each thing costs in an interval. Those that explain nothing are 0.
type Constants struct {
	Value     float64 `json:"value"`
	Record    float64 `json:"record"`
	Summary   float64 `json:"summary"` // a metric of a job, or of a share of it
	Rank      float64 `json:"rank"`    // a rank that its certified summary looks at
	Share     float64 `json:"share"`   // a metric of a partition's share of _system
	Partition float64 `json:"partition"`
}

// terms is the number of Constants.
const terms = 6

// amounts returns how much of each thing an interval has, in the order of Constants.
func (s Shape) amounts() [terms]float64 {
	return [terms]float64{
		float64(s.Values()), float64(s.Nodes), float64(s.Parts) * float64(s.Metrics),
		float64(s.Ranks) * float64(s.Metrics), float64(s.Partitions) * float64(s.Metrics), float64(s.Partitions),
	}
}

func (c Constants) list() [terms]float64 {
	return [terms]float64{c.Value, c.Record, c.Summary, c.Rank, c.Share, c.Partition}
}

// Seconds returns the processor time of an interval, of collect and merge together.
func (c Constants) Seconds(s Shape) float64 {
	sum := 0.0
	for i, n := range s.amounts() {
		sum += c.list()[i] * n
	}
	return sum
}

// Point is one measurement.
type Point struct {
	Sweep string `json:"sweep"` // what is varied
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
	Held      float64   `json:"held"` // bytes of heap for a byte of records, at the worst point
	Kept      float64   `json:"kept"` // likewise, kept after the Tick for the next interval
	Points    []Point   `json:"points"`
}

// NewGrowth fits a model to points.
func NewGrowth(points []Point) Growth {
	g := Growth{Constants: Fit(points), Points: points}
	for i := range points {
		p := &points[i]
		g.Held = max(g.Held, float64(p.HeldBytes)/float64(p.RecordBytes))
		g.Kept = max(g.Kept, float64(p.KeptBytes)/float64(p.RecordBytes))
	}
	return g
}

// Errors returns by how much the model misses each point, as a fraction of what was measured.
func (g *Growth) Errors() []float64 {
	var all []float64
	for i := range g.Points {
		p := &g.Points[i]
		all = append(all, g.Constants.Seconds(p.Shape)/p.Median()-1)
	}
	return all
}

// Measured returns what is compiled in.
func Measured() (Growth, error) {
	var g Growth
	if err := json.Unmarshal(measured, &g); err != nil {
		return g, fmt.Errorf("growth.json: %w", err)
	}
	return g, nil
}
