// Package scheduler says which jobs run where and when, as the balancer plans for them: from Slurm, from what its
// prolog and epilog drop in a directory, from a file, or from several of these. Whatever a scheduler or a user
// writes, what cannot be followed is one Fault, and the other jobs go on. slurmbook.go and jobs.go decide,
// without asking anybody and without a clock.
package scheduler

import (
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// Source says which jobs there are. Its jobs hold node names and times; their State may be empty, and the balancer
// derives it from start and end. What a source cannot use it leaves out and names as a Fault.
type Source interface {
	// Jobs returns the jobs as they are known at now, in the order in which they are placed where loads tie, and in
	// which they take nodes where two want the same. A job that has ended stays among them, with its end, for as long as
	// its intervals may still want Ticks. The caller must not change what the slices hold. Calls do not overlap.
	Jobs(now time.Time) ([]Job, []Fault)
}

// Job is a job as its source knows it.
type Job struct {
	schemas.Job

	// Held is what the job holds node by node, where that is not Cpus on all of Nodes from Start on. Where it is not nil, the
	// job holds nothing of a node that it does not name.
	Held map[string]Hold
}

// Hold is what a job holds of one node.
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
	// Followed: the job is followed all the same, though not as it is given; or the list as a whole is read all the same.
	Followed bool
}

// Ask returns the jobs of a source that can be followed on a machine, with their state at now, and what is wrong
// with others or with these.
func Ask(source Source, machine *topology.Tree, now time.Time) ([]Job, []Fault) {
	listed, faults := source.Jobs(now)
	jobs, more := admit(machine, listed, now)
	return jobs, slices.Concat(faultsOf(jobs, faults), more)
}

// faultsOf leaves out what is said about jobs that are followed but are not.
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
