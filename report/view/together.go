package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/rules"
)

// Several reports whether this is of several jobs together.
func (j *Job) Several() bool { return len(j.Jobs) > 0 }

// busyCores averages the busy cores of several jobs. The share of each job depends on the hardware threads of its
// nodes. Jobs are weighted by logical CPUs, as core-hours are.
type busyCores struct{ busy, cores float64 }

func (b *busyCores) of(j *Job) {
	m := j.measured("cpu_idle")
	if busy := j.BusyCores(); m != nil && !math.IsNaN(busy) {
		b.busy, b.cores = b.busy+busy*float64(m.Total.Count), b.cores+float64(m.Total.Count)
	}
}

func (b *busyCores) mean() float64 {
	if b.cores <= 0 {
		return math.NaN()
	}
	return b.busy / b.cores
}

// nodesOf returns the nodes of all jobs, or nil if the nodes of one job are unknown.
func nodesOf(jobs []*Job) (all []string) {
	for _, j := range jobs {
		if len(j.Nodes) == 0 {
			return nil
		}
		all = append(all, j.Nodes...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sources returns the sources from which the jobs were read.
func sources(jobs []*Job) string {
	var all []string
	for _, j := range jobs {
		if j.From != "" && !slices.Contains(all, j.From) {
			all = append(all, j.From)
		}
	}
	return strings.Join(all, "; ")
}

// notEvaluated returns each rule that was not evaluated for some of the jobs, and the number of these.
func notEvaluated(jobs []*Job) (all []rules.Reason) {
	var whys [][]string
	var counts []int
	for _, j := range jobs {
		for _, r := range j.NotEvaluated {
			i := slices.IndexFunc(all, func(o rules.Reason) bool { return o.Rule == r.Rule })
			if i < 0 {
				i = len(all)
				all, whys, counts = append(all, r), append(whys, nil), append(counts, 0)
			}
			if counts[i]++; !slices.Contains(whys[i], r.Why) {
				whys[i] = append(whys[i], r.Why)
			}
		}
	}
	for i := range all {
		all[i].Why = fmt.Sprintf("in %d of %d jobs: %s", counts[i], len(jobs), strings.Join(whys[i], "; or "))
	}
	return all
}

// Drawn returns the time span of the pictures: the whole job, unless its reader asked for a part. For several jobs it
// is the time since the start of each.
func (j *Job) Drawn() (fromMs, untilMs int64) {
	for i := range j.Metrics {
		bins := j.Metrics[i].Bins
		switch {
		case len(bins) == 0:
		case j.Several():
			return bins[0].StartMs, bins[len(bins)-1].EndMs
		default:
			return max(j.FirstMs, bins[0].StartMs), min(j.UntilMs, bins[len(bins)-1].EndMs)
		}
	}
	if j.Several() {
		return 0, j.UntilMs - j.FirstMs
	}
	return j.FirstMs, j.UntilMs
}
