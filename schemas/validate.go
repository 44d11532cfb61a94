package schemas

import (
	"fmt"
	"math"
)

// Bounds on what a record may say. They are far above any machine, and far below what would hurt.
const (
	maxNameBytes  = 64
	maxIntervalMs = 24 * 3600 * 1000
	maxCount      = 1_000_000_000_000 // values of one metric of one share: sums over all shares stay within int64
	minTimeMs     = 0
	maxTimeMs     = 4102444800000 // the year 2100: sums and multiples of times stay within int64
)

// ValidName reports whether s may name a host, a job or a metric: [A-Za-z0-9._:-]{1,64}, and not only dots, since
// names end up in paths.
func ValidName(s string) bool {
	if s == "" || len(s) > maxNameBytes || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// ValidJobID reports whether s may name a scheduler's job: a valid name that does not begin with "_", which is kept
// for pseudo-jobs.
func ValidJobID(s string) bool { return ValidName(s) && s[0] != '_' }

// ShownJobID returns what is given as a job's id for somebody to read: as it is if it may be one, else quoted and cut.
func ShownJobID(s string) string {
	if ValidJobID(s) {
		return s
	}
	return fmt.Sprintf("%.80q", s)
}

// validTag is for short texts of the reporting side that are shown but never become a path: units, boot and run ids.
func validTag(s string) bool { return len(s) <= maxNameBytes }

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func checkInterval(start, ms int64) error {
	if ms <= 0 || ms > maxIntervalMs {
		return invalid("interval_ms", "%d is not in 1 to %d", ms, int64(maxIntervalMs))
	}
	if start < minTimeMs || start > maxTimeMs || start%ms != 0 {
		return invalid("interval_start", "%d is not a multiple of interval_ms %d between 1970 and 2100", start, ms)
	}
	return nil
}

func checkJob(jobID string, restart int32) error {
	if !ValidJobID(jobID) && jobID != JobRest && jobID != JobSystem {
		return invalid("job_id", "%.80q is not a job's name", jobID)
	}
	if restart < 0 {
		return invalid("restart", "%d is negative", restart)
	}
	return nil
}

func checkMetricName(name, unit, scope string, seen map[string]bool) error {
	switch {
	case !ValidName(name):
		return invalid("metrics.name", "%.80q is not a metric's name", name)
	case seen[name]:
		return invalid("metrics.name", "%s is there twice", name)
	case !validTag(unit):
		return invalid("metrics.unit", "longer than %d bytes", maxNameBytes)
	case scope != ScopeCore && scope != ScopeNode:
		return invalid("metrics.scope", "%.80q is neither core nor node", scope)
	}
	seen[name] = true
	return nil
}

func (h *NodeHeader) validate() error {
	if !ValidName(h.Cluster) {
		return invalid("cluster", "%.80q is not a name", h.Cluster)
	}
	if !ValidName(h.Node) {
		return invalid("node", "%.80q is not a host's name", h.Node)
	}
	if !validTag(h.BootID) || !validTag(h.RunID) {
		return invalid("run_id", "boot_id or run_id longer than %d bytes", maxNameBytes)
	}
	if h.JobID == JobSystem {
		return invalid("job_id", "nobody sends %s", JobSystem)
	}
	if err := checkJob(h.JobID, h.Restart); err != nil {
		return err
	}
	seen := make(map[int32]bool, len(h.Cpus))
	for _, c := range h.Cpus {
		if c < 0 || seen[c] {
			return invalid("cpus", "%d is negative or there twice", c)
		}
		seen[c] = true
	}
	return checkInterval(h.IntervalStart, h.IntervalMs)
}

// Validate implements Record.
func (b *CounterBatch) Validate() error {
	if err := b.validate(); err != nil {
		return err
	}
	seen := make(map[string]bool, len(b.Metrics))
	for i := range b.Metrics {
		m := &b.Metrics[i]
		if err := checkMetricName(m.Name, m.Unit, m.Scope, seen); err != nil {
			return err
		}
		want := 1
		if m.Scope == ScopeCore {
			want = len(b.Cpus)
		}
		if len(m.Values) != want {
			return invalid("metrics.values", "%s has %d values where %d belong", m.Name, len(m.Values), want)
		}
	}
	return nil
}

// Validate implements Record.
func (s *NodeSummary) Validate() error {
	if err := s.validate(); err != nil {
		return err
	}
	seen := make(map[string]bool, len(s.Metrics))
	for i := range s.Metrics {
		if err := s.Metrics[i].validate(seen); err != nil {
			return err
		}
		if n := s.Metrics[i].Nodes; n > 1 {
			return invalid("metrics.nodes", "%s has values of %d nodes", s.Metrics[i].Name, n)
		}
		values := int64(1)
		if s.Metrics[i].Scope == ScopeCore {
			values = int64(len(s.Cpus))
		}
		if m := &s.Metrics[i]; m.Count+m.Invalid > values {
			return invalid("metrics.count", "%s has %d values and %d invalid ones where %d belong", m.Name, m.Count, m.Invalid, values)
		}
	}
	return nil
}

func (m *JobSummaryMetric) validate(seen map[string]bool) error {
	if err := checkMetricName(m.Name, m.Unit, m.Scope, seen); err != nil {
		return err
	}
	if m.Count < 0 || m.Invalid < 0 || m.Nodes < 0 {
		return invalid("metrics.count", "%s: count, invalid or nodes is negative", m.Name)
	}
	if (m.Count > 0) != (m.Mean != nil && m.Deciles != nil) {
		return invalid("metrics.mean", "%s: mean and deciles are there exactly where count > 0", m.Name)
	}
	for field, v := range map[string]*[]float64{"deciles": m.Deciles, "lo": m.Lo, "hi": m.Hi} {
		if v == nil {
			continue
		}
		if len(*v) != 11 || !ascending(*v) {
			return invalid("metrics."+field, "%s: not eleven ascending finite values", m.Name)
		}
	}
	for field, v := range map[string]*float64{"mean": m.Mean, "stddev": m.Stddev, "node_stddev": m.NodeStddev, "rank_error": m.RankError} {
		if v != nil && !finite(*v) {
			return invalid("metrics."+field, "%s: not finite", m.Name)
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func ascending(v []float64) bool {
	for i := range v {
		if !finite(v[i]) || i > 0 && v[i] < v[i-1] {
			return false
		}
	}
	return true
}

// Validate implements Record.
func (g *Gap) Validate() error {
	if !ValidName(g.Node) || !validTag(g.RunID) {
		return invalid("node", "%.80q is not a host's name", g.Node)
	}
	return nil
}

// Validate implements Record.
func (t *Tick) Validate() error {
	if err := checkInterval(t.IntervalStart, t.IntervalMs); err != nil {
		return err
	}
	seen := make(map[JobKey]bool, len(t.Jobs))
	for i := range t.Jobs {
		j := &t.Jobs[i]
		if err := checkJob(j.JobID, j.Restart); err != nil {
			return err
		}
		if j.JobID == JobSystem {
			return invalid("jobs", "nobody plans %s", JobSystem)
		}
		key := JobKey{j.JobID, j.Restart}
		if seen[key] {
			return invalid("jobs", "%s/%d is there twice", j.JobID, j.Restart)
		}
		seen[key] = true
		if j.Parts < 0 || int(j.JobNodes) < len(j.Nodes) {
			return invalid("jobs", "%s/%d: parts is negative or job_nodes less than its nodes here", j.JobID, j.Restart)
		}
		listed := make(map[string]bool, len(j.Nodes))
		for _, n := range j.Nodes {
			if !ValidName(n) || listed[n] {
				return invalid("jobs.nodes", "%.80q is not a host's name, or there twice", n)
			}
			listed[n] = true
		}
	}
	return nil
}

// Validate implements Record.
func (r *Route) Validate() error {
	if !ValidName(r.Node) {
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
	}
	return nil
}

// Validate implements Record.
func (s *BalanceState) Validate() error { return checkInterval(s.IntervalStart, s.IntervalMs) }

// Validate implements Record.
func (s *JobSummary) Validate() error {
	if !ValidName(s.Cluster) {
		return invalid("cluster", "%.80q is not a name", s.Cluster)
	}
	if err := checkJob(s.JobID, s.Restart); err != nil {
		return err
	}
	seen := make(map[string]bool, len(s.Metrics))
	for i := range s.Metrics {
		if err := s.Metrics[i].validate(seen); err != nil {
			return err
		}
	}
	return checkInterval(s.IntervalStart, s.IntervalMs)
}

// Validate implements Record.
func (p *JobPartial) Validate() error {
	if !ValidName(p.Cluster) {
		return invalid("cluster", "%.80q is not a name", p.Cluster)
	}
	if err := checkJob(p.JobID, p.Restart); err != nil {
		return err
	}
	if p.Collector < 0 || p.Parts < 1 || p.NodesReported < 0 || p.NodesExpected < p.NodesReported || p.JobNodes < p.NodesExpected {
		return invalid("collector", "collector, parts or nodes out of range")
	}
	seen := make(map[string]bool, len(p.Metrics))
	for i := range p.Metrics {
		m := &p.Metrics[i]
		if err := m.validate(seen); err != nil {
			return err
		}
	}
	return checkInterval(p.IntervalStart, p.IntervalMs)
}

func (m *JobPartialMetric) validate(seen map[string]bool) error {
	if err := checkMetricName(m.Name, m.Unit, m.Scope, seen); err != nil {
		return err
	}
	if m.Count < 0 || m.Count > maxCount || m.Invalid < 0 || m.Invalid > maxCount || m.Nodes < 0 || int64(m.Nodes) > m.Count {
		return invalid("metrics.count", "%s: count, invalid or nodes out of range", m.Name)
	}
	numbers := []*float64{m.Mean, m.M2, m.NodeMean, m.NodeM2, m.LowNodeMean, m.HighNodeMean}
	for _, v := range numbers {
		if (v != nil) != (m.Count > 0) || v != nil && !finite(*v) {
			return invalid("metrics.mean", "%s: the moments are there, and finite, exactly where count > 0", m.Name)
		}
	}
	if (m.LowNode != nil) != (m.Count > 0) || (m.HighNode != nil) != (m.Count > 0) {
		return invalid("metrics.low_node", "%s: low_node and high_node are there exactly where count > 0", m.Name)
	}
	if m.Count > 0 && (*m.M2 < 0 || *m.NodeM2 < 0) {
		return invalid("metrics.m2", "%s: m2 or node_m2 is negative", m.Name)
	}
	return nil
}

// Validate implements Record.
func (w *Watermark) Validate() error {
	if w.Collector < 0 {
		return invalid("collector", "%d is not a partition", w.Collector)
	}
	return checkInterval(w.IntervalStart, w.IntervalMs)
}

// maxLoadBytes bounds what a job may be said to have sent in an interval, so that sums of it are sums.
const maxLoadBytes = 1 << 50

// Validate implements Record.
func (p *Progress) Validate() error {
	if p.From < 0 || p.Position < p.From || p.Hold < 0 || p.Hold > p.Position {
		return invalid("position", "from %d, hold %d, position %d are out of order", p.From, p.Hold, p.Position)
	}
	for i := range p.Loads {
		if l := &p.Loads[i]; l.Nodes < 1 || l.Bytes < 0 || l.Bytes > maxLoadBytes {
			return invalid("loads", "job %.80s with %d nodes and %d bytes", l.JobID, l.Nodes, l.Bytes)
		}
	}
	return nil
}

// Validate implements Record.
func (r *Reject) Validate() error { return nil }

// Validate implements Record.
func (j *Job) Validate() error {
	if !ValidName(j.JobID) {
		return invalid("job_id", "%.80q is not a job's name", j.JobID)
	}
	return nil
}
