package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// slurmBook is the state after Slurm's answers so far: a fold over them that asks nobody and looks at no clock.
type slurmBook struct {
	keepMs      int64 // a job stays for so long after its end
	cpuIDs      numbering
	machine     map[string]slurmNode
	names       []string // of machine, sorted
	asked       time.Time
	allocations map[schemas.JobKey]*allocation // of jobs with parts of nodes
	misfits     map[schemas.JobKey]string      // why the last answer about a job's allocation was not used
	jobs        map[schemas.JobKey]*slurmJob
	faults      []Fault
}

// slurmJob is a job that holds or held nodes.
type slurmJob struct {
	job       schemas.Job // as it is listed
	hostlist  string
	count     int             // of CPUs
	held      map[string]Hold // of each node; nil if it holds nothing
	gpus      map[string][]int32
	cgroup    string
	suspended bool
	seenMs    int64 // when Slurm last had it with its nodes
}

func newSlurmBook(cfg config.Config) *slurmBook {
	cpuIDs, _ := newNumbering(cfg.Balance.Slurm) // CheckCPUIDs reports the error
	return &slurmBook{
		keepMs: (config.Outage + 2) * cfg.Interval.Milliseconds(), cpuIDs: cpuIDs,
		allocations: map[schemas.JobKey]*allocation{}, misfits: map[schemas.JobKey]string{},
		jobs: map[schemas.JobKey]*slurmJob{},
	}
}

func (b *slurmBook) setMachine(machine map[string]slurmNode) {
	b.machine, b.names = machine, slices.Sorted(maps.Keys(machine))
}

// unnamed lists the nodes of balance.slurm.cpu_ids that the machine lacks; empty if none. A wrong name would leave the
// intended node with the default numbering.
func (b *slurmBook) unnamed() string {
	var unknown []string
	for h := range b.cpuIDs.of {
		if _, known := b.machine[h]; !known {
			unknown = append(unknown, h)
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	const text = "balance.slurm.cpu_ids names %d nodes that sinfo does not show, %.80s: " +
		"correct their names, or take them out"
	return fmt.Sprintf(text, len(unknown), topology.FoldHosts(unknown))
}

// strange reports whether a job is on a node that sinfo has not listed.
func (b *slurmBook) strange(rows []slurmRow) bool {
	return slices.ContainsFunc(rows, func(r slurmRow) bool {
		return r.holds() && slices.ContainsFunc(r.hosts, func(h string) bool { return b.machine[h].cpus == 0 })
	})
}

func (r *slurmRow) holds() bool { return r.fault == "" && r.state != slurmOver }

// whole reports whether the job holds all CPUs of its nodes. On an unknown node it counts as holding all.
func (b *slurmBook) whole(r *slurmRow) bool {
	all := 0
	for _, h := range r.hosts {
		if b.machine[h].cpus == 0 {
			return true
		}
		all += b.machine[h].cpus
	}
	return r.cpus >= all
}

// cores returns the total number of logical CPUs of a job. A node that cpus does not name counts as a whole. It is nil
// if sinfo does not list a node.
func (b *slurmBook) cores(r *slurmRow, cpus map[string][]int32) *int64 {
	sum := int64(0)
	for _, h := range r.hosts {
		n := b.machine[h]
		switch {
		case n.cpus == 0:
			return nil
		case len(cpus[h]) > 0:
			sum += int64(len(cpus[h]))
		default:
			sum += int64(n.cores * n.threads)
		}
	}
	return atMost(sum, maxJobCores)
}

// alone reports whether no other job may have CPUs of the job's nodes; nil if sinfo does not show a node.
func (b *slurmBook) alone(r *slurmRow) *bool {
	if r.exclusive {
		return new(true)
	}
	if slices.ContainsFunc(r.hosts, func(h string) bool { return b.machine[h].cpus == 0 }) {
		return nil
	}
	return new(b.whole(r))
}

// unknownAllocations returns the jobs that hold unknown CPUs of parts of nodes.
func (b *slurmBook) unknownAllocations(rows []slurmRow) (unknown []*slurmRow) {
	for i := range rows {
		r := &rows[i]
		if !r.holds() || b.whole(r) {
			continue
		}
		if s := b.allocations[r.job.Identity()]; s == nil || s.hostlist != r.hostlist || s.count != r.cpus {
			unknown = append(unknown, r)
		}
	}
	return unknown
}

// learn notes the CPUs of jobs, in Slurm's numbers by job id. It leaves out CPUs that do not fit the job.
func (b *slurmBook) learn(unknown []*slurmRow, allocations map[string]*rawAllocation) {
	for _, r := range unknown {
		s, asked := allocations[r.job.JobID]
		if !asked {
			continue
		}
		key := r.job.Identity()
		if misfit := s.misfit(r, b.machine); misfit != "" {
			b.misfits[key] = misfit
			continue
		}
		delete(b.misfits, key)
		known := &allocation{
			hostlist: r.hostlist, count: r.cpus, cpus: make(map[string][]int32, len(s.cpus)), gpus: s.gpus,
			cgroup: s.sluid,
		}
		for h, ids := range s.cpus {
			known.cpus[h] = b.machine[h].linux(ids, cmp.Or(b.cpuIDs.of[h], b.cpuIDs.other))
		}
		b.allocations[key] = known
	}
}

// update applies one answer of Slurm. A job that is missing from the answer ended when it was last seen. But if a row
// has no readable id, it may be that job, and nothing is concluded from absence. Even then, a later life of the job
// proves its end.
func (b *slurmBook) update(nowMs int64, rows []slurmRow) {
	b.faults = nil
	there, twice := make(map[schemas.JobKey]bool, len(rows)), repeatedKeys(rows)
	lives := make(map[string]int32, len(rows)) // the highest restart of each
	doubt := false
	for i := range rows {
		r := &rows[i]
		key := r.job.Identity()
		switch {
		case r.job.JobID == noID:
			doubt = true
			b.faults = append(b.faults, Fault{JobID: noID, Reason: r.fault})
			continue
		case twice[key]:
			b.repeats(nowMs, r, there[key])
		case r.fault != "":
			b.faults = append(b.faults, Fault{JobID: r.job.JobID, Restart: r.job.Restart, Reason: r.fault})
			delete(b.jobs, key)
		case r.state == slurmOver:
			b.over(nowMs, r)
		default:
			b.holds(nowMs, r)
		}
		there[key] = true
		lives[key.JobID] = max(lives[key.JobID], key.Restart)
	}
	maps.DeleteFunc(b.allocations, func(key schemas.JobKey, _ *allocation) bool { return !there[key] && !doubt })
	maps.DeleteFunc(b.misfits, func(key schemas.JobKey, _ string) bool { return !there[key] })
	for key, j := range b.jobs {
		if j.job.End == nil && !there[key] && (!doubt || key.Restart < lives[key.JobID]) {
			end := max(j.seenMs, *j.job.Start)
			j.job.End, j.held = &end, nil
		}
		if j.job.End != nil && *j.job.End < nowMs-b.keepMs {
			delete(b.jobs, key)
		}
	}
}

// repeatedKeys returns the jobs that several rows list. Slurm shows a job once.
func repeatedKeys(rows []slurmRow) map[schemas.JobKey]bool {
	seen, twice := make(map[schemas.JobKey]bool, len(rows)), map[schemas.JobKey]bool{}
	for i := range rows {
		key := rows[i].job.Identity()
		if seen[key] {
			twice[key] = true
		}
		seen[key] = true
	}
	return twice
}

// repeats leaves a job as it is if several rows list it, since nobody knows which row is Slurm's.
func (b *slurmBook) repeats(nowMs int64, r *slurmRow, faulted bool) {
	if j := b.jobs[r.job.Identity()]; j != nil {
		j.seenMs = nowMs
	}
	if !faulted {
		b.faults = append(b.faults, Fault{
			JobID: r.job.JobID, Restart: r.job.Restart, Reason: "squeue has several rows of it, so it stays as it was",
			Followed: b.jobs[r.job.Identity()] != nil,
		})
	}
}

// holds applies a row of a job that holds nodes. New nodes and CPUs of a known job count from nowMs on.
func (b *slurmBook) holds(nowMs int64, r *slurmRow) {
	key := r.job.Identity()
	suspended := r.state == slurmSuspended
	old := b.jobs[key]
	if old != nil && old.job.End == nil &&
		old.hostlist == r.hostlist && old.count == r.cpus && old.suspended == suspended {
		old.job.Start, old.seenMs = r.job.Start, nowMs
		old.job.Name, old.job.Account, old.job.Queue = r.job.Name, r.job.Account, r.job.Queue
		old.job.Gpus, old.job.TimeLimitS, old.job.MemRequestedBytes = r.job.Gpus, r.job.TimeLimitS,
			r.job.MemRequestedBytes
		return
	}
	j := &slurmJob{job: r.job, hostlist: r.hostlist, count: r.cpus, suspended: suspended, seenMs: nowMs}
	var cpus map[string][]int32
	if !b.whole(r) {
		s := b.allocations[key]
		if s == nil || s.hostlist != r.hostlist || s.count != r.cpus {
			reason := cmp.Or(b.misfits[key], (*rawAllocation)(nil).misfit(r, b.machine))
			b.faults = append(b.faults, Fault{JobID: r.job.JobID, Restart: r.job.Restart, Reason: reason})
			delete(b.jobs, key)
			return
		}
		cpus, j.gpus, j.cgroup = s.cpus, s.gpus, s.cgroup
	}
	j.job.Nodes, j.job.Cpus = r.hosts, union(cpus)
	j.job.Cores, j.job.Exclusive = b.cores(r, cpus), b.alone(r)
	if !suspended {
		j.held = make(map[string]Hold, len(r.hosts))
		for _, h := range r.hosts {
			hold := Hold{Cpus: cpus[h], Since: *r.job.Start}
			if old != nil {
				hold.Since = nowMs
				if was, had := old.held[h]; had && slices.Equal(was.Cpus, hold.Cpus) {
					hold.Since = was.Since
				}
			}
			j.held[h] = hold
		}
	}
	b.jobs[key] = j
}

// over applies a row of a job that has ended. While a job completes, Slurm takes its nodes away one by one. Its record
// keeps the nodes on which it ran.
func (b *slurmBook) over(nowMs int64, r *slurmRow) {
	key := r.job.Identity()
	j := b.jobs[key]
	if j == nil {
		if r.job.Start == nil || len(r.hosts) == 0 {
			return // it never ran
		}
		j = &slurmJob{job: r.job}
		j.job.Nodes = r.hosts
		if b.whole(r) {
			j.job.Cores = b.cores(r, nil)
		}
		j.job.Exclusive = b.alone(r)
		b.jobs[key] = j
	}
	j.job.State = r.job.State
	end := nowMs
	switch {
	case r.job.End != nil:
		end = *r.job.End
	case j.job.End != nil:
		end = *j.job.End
	}
	end = max(end, *j.job.Start)
	j.job.End, j.held = &end, nil
}

// list returns the jobs by start.
func (b *slurmBook) list() ([]Job, []Fault) {
	jobs := make([]Job, 0, len(b.jobs))
	for _, j := range b.jobs {
		listed := Job{Job: j.job, GPUs: j.gpus, Cgroup: j.cgroup}
		switch {
		case listed.End == nil:
			listed.State = schemas.StateRunning
		case !schemas.Over(listed.State):
			listed.State = schemas.StateCompleted
		}
		if !j.simple() {
			listed.Held = j.held
			if j.held == nil {
				listed.Held = map[string]Hold{}
			}
		}
		jobs = append(jobs, listed)
	}
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(cmp.Compare(*a.Start, *b.Start),
			cmp.Compare(len(a.JobID), len(b.JobID)), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
	})
	return jobs, b.faults
}

// simple reports whether the job has held the same CPUs of all its nodes since its start.
func (j *slurmJob) simple() bool {
	for _, h := range j.held {
		if h.Since > *j.job.Start || !slices.Equal(h.Cpus, j.job.Cpus) {
			return false
		}
	}
	return j.held != nil
}
