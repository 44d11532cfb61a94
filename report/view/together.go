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

// busyCores are those of several jobs. Each job's nodes tell how many hardware threads a core has. They count by
// logical CPUs, as core-hours do.
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

// nodesOf returns the nodes of all jobs; none if those of one job are not known.
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

// sources returns where the jobs were read.
func sources(jobs []*Job) string {
	var all []string
	for _, j := range jobs {
		if j.From != "" && !slices.Contains(all, j.From) {
			all = append(all, j.From)
		}
	}
	return strings.Join(all, "; ")
}

// notEvaluated has each rule that was not evaluated for all jobs, and for how many it was not.
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

// Drawn is the time that pictures of a job show: all of it, unless its reader asked for a part. Of several jobs it is
// the time since the start of each.
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
