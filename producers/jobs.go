package producers

import (
	"slices"

	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// jobColumns returns the columns of each entry's cgroup, or none, in the order of the entries.
//
// The name of the cgroup decides. But Slurm may name cgroups by ids that no route contains. So if exactly one cgroup
// without an entry and exactly one entry without a cgroup hold the same CPUs, they belong together too. have lists the
// sampled CPUs. An entry without CPUs holds all of them.
func jobColumns(entries []schemas.RouteEntry, jobs []source.JobColumns, have []int32) [][]source.Column {
	columns := make([][]source.Column, len(entries))
	if len(jobs) == 0 {
		return columns
	}
	free := slices.Clone(jobs)
	var open []int // entries
	for i := range entries {
		at := cgroupOfEntry(free, &entries[i])
		if at < 0 {
			open = append(open, i)
			continue
		}
		columns[i] = free[at].Columns
		free = slices.Delete(free, at, at+1)
	}
	for _, i := range open {
		cpus := cpusOf(&entries[i], have)
		at, matches := -1, 0
		for k := range free {
			if len(free[k].CPUs) > 0 && slices.Equal(free[k].CPUs, cpus) {
				at, matches = k, matches+1
			}
		}
		for _, other := range open {
			if other != i && slices.Equal(cpusOf(&entries[other], have), cpus) {
				matches++
			}
		}
		if matches == 1 && at >= 0 {
			columns[i] = free[at].Columns
		}
	}
	return columns
}

// cgroupOfEntry returns the position of an entry's cgroup, -1 if there is none. A cgroup with the name in the entry is
// preferred to the names that Slurm or PBS derive from the job's id. Slurm 25.11 introduced SLUIDs but does not name
// cgroups by them. Later versions do, unless configured otherwise.
func cgroupOfEntry(jobs []source.JobColumns, e *schemas.RouteEntry) int {
	at := -1
	for i := range jobs {
		switch jobs[i].Cgroup {
		case e.Cgroup:
			return i
		case e.JobID, "job_" + e.JobID:
			at = i
		}
	}
	return at
}

// cpusOf returns the CPUs of an entry, ascending.
func cpusOf(e *schemas.RouteEntry, have []int32) []int32 {
	if len(e.Cpus) == 0 {
		return have
	}
	return ascending(e.Cpus)
}

// reportedBy returns the metrics that a job reported, or nothing.
func reportedBy(job schemas.JobKey, reports []source.Report) []source.Column {
	for i := range reports {
		if reports[i].Job == job {
			return reports[i].Columns
		}
	}
	return nil
}

// reportedNames returns the names of the metrics that the job reported, ascending.
func (h *portion) reportedNames() (names []string) {
	for i := range h.reported {
		names = append(names, h.reported[i].Name)
	}
	return names
}
