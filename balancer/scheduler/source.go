// Package scheduler finds out which jobs run on which nodes and when, so that the balancer can plan for them. A Source
// is Slurm, a directory into which prolog and epilog write, a file, a simulation, or several of these. A job that
// cannot be followed is one Fault, and does not affect the other jobs. The decisions are in slurmbook.go, jobs.go and
// claims.go, which do no I/O and read no clock.
package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// Source lists jobs. Its jobs hold node names and times. Their State may be empty, since the balancer derives it from
// start and end. A source leaves out jobs that it cannot use, and names them in a Fault.
type Source interface {
	// Jobs returns the jobs as known at now. Their order decides between equal loads, and between jobs that claim the
	// same node. A job that has ended stays in the list, with its end, while its intervals may still need Ticks. The
	// caller must not change the contents of the slices. Calls do not overlap.
	Jobs(now time.Time) ([]Job, []Fault)
}

// Job is a job as its source knows it.
type Job struct {
	schemas.Job

	// Held is what the job holds node by node. It is nil if the job holds Cpus on all of Nodes from Start on.
	// Otherwise the job holds nothing of a node that Held does not name.
	Held map[string]Hold
	// GPUs are the minor numbers of the GPUs that the job holds, by node, ascending. The entry under "" applies to
	// every node without an entry of its own. The numbers do not matter on a node on which the job holds all CPUs.
	GPUs map[string][]int32
	// Cgroup is the name of the directory of the job's cgroup. It is empty if that is job_ and the job's number.
	Cgroup string
}

// GPUsOn returns the GPUs that the job holds of one of its nodes.
func (j *Job) GPUsOn(node string) []int32 {
	if gpus, ok := j.GPUs[node]; ok {
		return gpus
	}
	return j.GPUs[""]
}

// Hold is the part of one node that the job holds.
type Hold struct {
	Cpus  []int32 // empty: all
	Since int64   // in Unix milliseconds
}

// Fault is a job that cannot be followed, or not as it is given, or a list of jobs that cannot be read.
type Fault struct {
	JobID   string // empty: the list as a whole; otherwise as it was given, which may be no valid job id
	Restart int32
	Reason  string
	Unread  bool // the list as a whole was never read, so that nobody knows which jobs there are
	// Followed: the job is followed in spite of the fault, though not as it is given. Of a list: it is read in spite
	// of the fault.
	Followed bool
}

// Ask returns the jobs of a source that can be followed on a machine, with their state at now. The faults are about
// these and about all others.
func Ask(source Source, machine *topology.Tree, now time.Time) ([]Job, []Fault) {
	listed, faults := source.Jobs(now)
	jobs, more := admit(machine, listed, now)
	return jobs, slices.Concat(faultsOf(jobs, faults), more)
}

// faultsOf leaves out faults that call a job followed although it is not among the followed jobs.
func faultsOf(jobs []Job, faults []Fault) []Fault {
	if !slices.ContainsFunc(faults, func(f Fault) bool { return f.Followed }) {
		return faults
	}
	followed := make(map[schemas.JobKey]bool, len(jobs))
	for i := range jobs {
		followed[jobs[i].Identity()] = true
	}
	return slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool {
		return f.Followed && f.JobID != "" && !followed[schemas.JobKey{JobID: f.JobID, Restart: f.Restart}]
	})
}

// repeat polls until ctx ends. Before each poll it waits for the pause that the poll before asked for.
func repeat(ctx context.Context, pause time.Duration, poll func() (pause time.Duration)) {
	for {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if ctx.Err() != nil {
			return
		}
		pause = poll()
	}
}

type fixed []Job

// Fixed returns a source of jobs that never change.
func Fixed(jobs ...Job) Source { return fixed(slices.Clone(jobs)) }

func (f fixed) Jobs(time.Time) ([]Job, []Fault) { return f, nil }

type joined []Source

// Join returns the jobs of several sources as one, in the order of the sources.
func Join(sources ...Source) Source { return joined(slices.Clone(sources)) }

func (j joined) Jobs(now time.Time) (jobs []Job, faults []Fault) {
	for _, s := range j {
		more, wrong := s.Jobs(now)
		jobs, faults = append(jobs, more...), append(faults, wrong...)
	}
	return jobs, faults
}
