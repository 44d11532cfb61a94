package schemas

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	"github.com/weirhpc/weir/naming"
)

// The records of the balancer: Tick, Route, BalanceState, Trigger, Job. TopologyOrder is a command's.

// Validate implements Record.
func (t *Tick) Validate() error {
	if err := checkInterval(t.IntervalStart, t.IntervalMs); err != nil {
		return err
	}
	if err := checkEpoch(t.Epoch); err != nil {
		return err
	}
	if t.MachineNodes < 0 || t.MachineNodes > MaxNodes {
		return invalid("machine_nodes", "%d is not in 0 to %d", t.MachineNodes, MaxNodes)
	}
	for i := range t.Jobs {
		j := &t.Jobs[i]
		if err := checkJob(j.JobID, j.Restart); err != nil {
			return err
		}
		if j.JobID == JobSystem {
			return invalid("jobs", "nobody plans %s", JobSystem)
		}
		if j.Parts < 0 || j.Parts > maxParts || int(j.JobNodes) < len(j.Nodes) || j.JobNodes > MaxNodes {
			return invalid("jobs", "%s/%d: parts %d or job_nodes %d is out of range, or less than its nodes here",
				j.JobID, j.Restart, j.Parts, j.JobNodes)
		}
		if err := checkNodes("jobs.nodes", j.Nodes); err != nil {
			return err
		}
	}
	key := func(i int) JobKey { return JobKey{t.Jobs[i].JobID, t.Jobs[i].Restart} }
	if i := twice(len(t.Jobs), func(a, b int) int { return compareJobs(key(a), key(b)) }); i >= 0 {
		return invalid("jobs", "%s is there twice", key(i))
	}
	return checkNodes("shared", t.Shared)
}

func compareJobs(a, b JobKey) int {
	return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
}

// Validate implements Record.
func (r *Route) Validate() error {
	if !naming.Valid(r.Node) {
		return invalid("node", "%.80q is not a host's name", r.Node)
	}
	if r.Home < 0 {
		return invalid("home", "%d is not a partition", r.Home)
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		if !ValidJobID(e.JobID) || e.Restart < 0 {
			return invalid("entries.job_id", "%.80q/%d is not a job", e.JobID, e.Restart)
		}
		if e.Partition < 0 {
			return invalid("entries.partition", "%d is not a partition", e.Partition)
		}
		if e.Mode != ModeCollect && e.Mode != ModeLocal {
			return invalid("entries.mode", "%.80q is neither %s nor %s", e.Mode, ModeCollect, ModeLocal)
		}
		if len(e.Cpus) > maxCPUs || slices.ContainsFunc(e.Cpus, func(c int32) bool { return c < 0 }) {
			return invalid("entries.cpus", "more than %d, or a negative one", maxCPUs)
		}
		if len(e.Gpus) > maxDevices || slices.ContainsFunc(e.Gpus, func(g int32) bool { return g < 0 }) {
			return invalid("entries.gpus", "more than %d, or a negative one", maxDevices)
		}
		if e.Cgroup != "" && !naming.Valid(e.Cgroup) {
			return invalid("entries.cgroup", "%.80q is not the name of a directory", e.Cgroup)
		}
	}
	if err := checkEpoch(r.Epoch); err != nil {
		return err
	}
	return checkTime("interval_start", r.IntervalStart)
}

// Validate implements Record.
func (s *BalanceState) Validate() error {
	if err := checkEpoch(s.Epoch); err != nil {
		return err
	}
	return checkInterval(s.IntervalStart, s.IntervalMs)
}

// Validate implements Record.
func (t *Trigger) Validate() error {
	if !naming.Valid(t.Cluster) {
		return invalid("cluster", "%.80q is not a name", t.Cluster)
	}
	if err := checkTime("sent_at", t.SentAt); err != nil {
		return err
	}
	return checkInterval(t.IntervalStart, t.IntervalMs)
}

// Validate implements Record.
func (o *TopologyOrder) Validate() error {
	if !naming.Valid(o.Cluster) {
		return invalid("cluster", "%.80q is not a name", o.Cluster)
	}
	host, port, err := net.SplitHostPort(o.Coordinator)
	number, wrong := strconv.ParseUint(port, 10, 16)
	if err != nil || wrong != nil || number == 0 || host == "" || len(host) > maxHostBytes || !validText(host) {
		return invalid("coordinator", "%.80q is not host:port", o.Coordinator)
	}
	if len(o.Secret) < minSecretBytes || len(o.Secret) > maxSecretBytes {
		return invalid("secret", "%d bytes are not %d to %d", len(o.Secret), minSecretBytes, maxSecretBytes)
	}
	if o.Seconds < 1 || o.Seconds > MaxOrderSeconds {
		return invalid("seconds", "%d is not in 1 to %d", o.Seconds, MaxOrderSeconds)
	}
	if err := checkTime("ordered_at", o.OrderedAt); err != nil {
		return err
	}
	return checkNodes("nodes", o.Nodes)
}

// Validate implements Record.
func (j *Job) Validate() error {
	if !naming.Valid(j.JobID) {
		return invalid("job_id", "%.80q is not a job's name", j.JobID)
	}
	for _, f := range []struct{ field, text string }{
		{"name", j.Name},
		{"user", j.User},
		{"account", j.Account},
		{"queue", j.Queue},
		{"state", j.State},
		{"reason", j.Reason},
	} {
		if !validText(f.text) {
			return invalid(f.field, "%.80q is not at most %d bytes of printable UTF-8", f.text, maxTextBytes)
		}
	}
	for _, n := range j.Nodes {
		if !naming.Valid(n) {
			return invalid("nodes", "%.80q is not a host's name", n)
		}
	}
	if j.Gpus != nil && *j.Gpus < 0 {
		return invalid("gpus", "%d is negative", *j.Gpus)
	}
	for _, f := range []struct {
		field string
		n     *int64
		most  int64
	}{
		{"cores", j.Cores, maxCores},
		{"time_limit_s", j.TimeLimitS, maxSeconds},
		{"mem_requested_bytes", j.MemRequestedBytes, maxBytes},
	} {
		if f.n != nil && (*f.n < 0 || *f.n > f.most) {
			return invalid(f.field, "%d is not in 0 to %d", *f.n, f.most)
		}
	}
	if j.ArrayJob != nil && !naming.Valid(*j.ArrayJob) {
		return invalid("array_job", "%.80q is not a job's name", *j.ArrayJob)
	}
	if j.ArrayTask != nil && *j.ArrayTask < 0 {
		return invalid("array_task", "%d is negative", *j.ArrayTask)
	}
	return nil
}
