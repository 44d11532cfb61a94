package processors

import (
	"maps"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// reportedNames are the names of the metrics that a job reported on any of its nodes, and whether each stays in the
// job's summary. It is nil for most jobs.
//
// Users choose these names. So _system has none of them, and a job has at most schemas.MaxReported in an interval: the
// least, in any order of arrival.
type reportedNames map[string]bool

func reportedBy(records []*nodeRecord) (all reportedNames) {
	for _, r := range records {
		for _, name := range r.reported() {
			if all == nil {
				all = reportedNames{}
			}
			all[name] = true
		}
	}
	if len(all) > schemas.MaxReported {
		for _, name := range slices.Sorted(maps.Keys(all))[schemas.MaxReported:] {
			all[name] = false
		}
	}
	return all
}

func (r *nodeRecord) reported() []string {
	if r.summary != nil {
		return r.summary.Reported
	}
	return r.batch.Reported
}

// has reports whether the job reported a metric of this name.
func (all reportedNames) has(name string) bool {
	_, reported := all[name]
	return reported
}

// leavesOut reports whether the job reported the metric, and too many others.
func (all reportedNames) leavesOut(name string) bool {
	stays, reported := all[name]
	return reported && !stays
}

// surplus returns how many names are left out.
func (all reportedNames) surplus() (n int64) {
	for _, stays := range all {
		if !stays {
			n++
		}
	}
	return n
}
