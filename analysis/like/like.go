// Package like compares jobs: which ones used their hardware as a given one did, and which metrics move together.
//
// A job's signature is the deciles of its metrics over its whole life, each as a rank among the jobs of a queue. So no
// unit counts, and no outlier counts more than its rank. The distance of two jobs is the mean difference of their
// ranks. For one metric that is the Wasserstein-1 distance of the two distributions in rank space.
package like

import (
	"math"
	"slices"
)

// MinShared is the least number of shared metrics for which two jobs are compared.
const MinShared = 6

// deciles is the number of deciles that describe a metric of a job.
const deciles = 11

// Distribution maps a value to its rank among known values, from 0 to 1. Values are kept with seven digits, since there
// are millions of them.
type Distribution struct{ values []float32 } // ascending

// NewDistribution returns the distribution of values, which it sorts and keeps. It ignores NaN.
func NewDistribution(values []float32) *Distribution {
	values = slices.DeleteFunc(values, func(v float32) bool { return v != v }) // NaN
	slices.Sort(values)
	return &Distribution{values}
}

// rank returns the share of known values below v, plus half of the share of equal ones. It interpolates linearly
// between two values.
func (d *Distribution) rank(v float64) float64 {
	if len(d.values) == 0 || math.IsNaN(v) {
		return math.NaN()
	}
	x := float32(v)
	i, same := slices.BinarySearch(d.values, x)
	switch {
	case same:
		return d.middle(i, d.after(i))
	case i == 0:
		return 0
	case i == len(d.values):
		return 1
	}
	low, high := d.values[i-1], d.values[i]
	first, _ := slices.BinarySearch(d.values[:i], low)
	from, to := d.middle(first, i), d.middle(i, d.after(i))
	return from + float64((x-low)/(high-low))*(to-from)
}

// after returns the index behind the values that equal value i.
func (d *Distribution) after(i int) int {
	if i+1 == len(d.values) || d.values[i+1] != d.values[i] {
		return i + 1 // nearly always
	}
	next, _ := slices.BinarySearch(d.values[i:], math.Nextafter32(d.values[i], float32(math.Inf(1))))
	return i + next
}

// middle is the rank of equal values.
func (d *Distribution) middle(from, to int) float64 {
	return (float64(from) + float64(to-from)/2) / float64(len(d.values))
}

// Metric is the deciles of a metric over the life of a job, with their bounds.
type Metric struct{ D, Lo, Hi [deciles]float64 }

// Space maps metrics to ranks. Metrics are numbered.
type Space []*Distribution

// Signature is the ranks of a job's deciles. The ranks of metric i begin at i*11, and are NaN if the job lacks the
// metric.
type Signature []float32

// Unsigned returns room for the deciles of some metrics, which are missing until they are set.
func Unsigned(metrics int) Signature {
	s := make(Signature, deciles*metrics)
	for i := range s {
		s[i] = float32(math.NaN())
	}
	return s
}

// Of returns the numbers of a metric, or none if it is missing.
func (s Signature) Of(metric int) []float32 {
	of := s[metric*deciles:][:deciles]
	if of[0] != of[0] { // NaN
		return nil
	}
	return of
}

// Set sets the deciles of a metric.
func (s Signature) Set(metric int, d [deciles]float64) {
	for k, v := range d {
		s[metric*deciles+k] = float32(v)
	}
}

// Sign makes ranks of deciles.
func (s Space) Sign(of Signature) {
	for i := range of {
		of[i] = float32(s[i/deciles].rank(float64(of[i])))
	}
}

// Distance returns the mean difference of two jobs' ranks, over the metrics that both have. It is not ok if these are
// less than MinShared.
func Distance(a, b Signature) (distance float64, shared int, ok bool) {
	var sum float32
	for at := 0; at+deciles <= len(a); at += deciles {
		x, y := (*[deciles]float32)(a[at:]), (*[deciles]float32)(b[at:])
		if x[0] != x[0] || y[0] != y[0] { // NaN
			continue
		}
		shared++
		var of float32
		for k := range deciles {
			of += math.Float32frombits(math.Float32bits(x[k]-y[k]) &^ (1 << 31)) // without its sign; max takes longer
		}
		sum += of
	}
	if shared < MinShared {
		return 0, shared, false
	}
	return float64(sum) / float64(deciles*shared), shared, true
}

// Bounds returns the least and the greatest possible distance of two jobs, given the bounds of their deciles.
func (s Space) Bounds(a, b []*Metric) (low, high float64) {
	n := 0
	for i := range s {
		if a[i] == nil || b[i] == nil {
			continue
		}
		n++
		for k := range deciles {
			aLow, aHigh := s[i].rank(min(a[i].Lo[k], a[i].D[k])), s[i].rank(max(a[i].Hi[k], a[i].D[k]))
			bLow, bHigh := s[i].rank(min(b[i].Lo[k], b[i].D[k])), s[i].rank(max(b[i].Hi[k], b[i].D[k]))
			low += max(0, aLow-bHigh, bLow-aHigh)
			high += max(aHigh-bLow, bHigh-aLow)
		}
	}
	if n == 0 {
		return 0, 1
	}
	return low / float64(deciles*n), high / float64(deciles*n)
}
