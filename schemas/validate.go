package schemas

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirhpc/weir/naming"
)

const (
	// MaxMetrics is how many metrics a record may have.
	MaxMetrics = 1024
	// MaxNodes is how many nodes a job may have.
	MaxNodes = 1 << 22
	// MaxEpoch is the last epoch: epochs are counted on from what records have.
	MaxEpoch = 1 << 53
)

// Bounds on what a record may say. They are far above any machine, and far below what would hurt.
const (
	maxNameBytes  = naming.MaxBytes // of units and of ids too
	maxIntervalMs = 24 * 3600 * 1000
	maxCount      = 1_000_000_000_000 // values of one metric of one share: sums over all shares stay within int64
	minTimeMs     = 0
	maxTimeMs     = 4102444800000 // the year 2100: sums and multiples of times stay within int64
	maxTotal      = 1 << 60       // values of one metric of all shares: above 2 × maxCount × maxParts
	maxParts      = 10_000        // collectors, as config has it
	maxCPUs       = 1 << 16       // of one node
	maxTextBytes  = 4096          // of free text
	maxHeadBytes  = 1024          // of a Reject
)

// ValidJobID reports whether s may name a scheduler's job: a valid name that does not begin with "_", which is kept
// for pseudo-jobs.
func ValidJobID(s string) bool { return naming.Valid(s) && s[0] != '_' }

// ShownJobID returns what is given as a job's id for somebody to read: as it is if it may be one, else quoted and cut.
func ShownJobID(s string) string {
	if ValidJobID(s) {
		return s
	}
	return fmt.Sprintf("%.80q", s)
}

// ValidUnit reports whether s may be a unit, a boot id or a run id: at most 64 bytes of printable UTF-8, perhaps none.
func ValidUnit(s string) bool { return len(s) <= maxNameBytes && isPrintable(s) }

// validText is for free text, such as a reason or the name that a user gave a job.
func validText(s string) bool { return len(s) <= maxTextBytes && isPrintable(s) }

// CleanText makes free text valid for a record: it is printable, and cut to at most so many bytes, of which a record takes
// 4,096.
func CleanText(s string, most int) string {
	const cut = "..."
	if s = Printable(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most-len(cut)], "") + cut
	}
	return s
}

// Printable replaces each character that may change what a terminal shows, and each byte that is not UTF-8, by a question
// mark.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// isPrintable reports whether Printable changes nothing but a replacement character.
func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// twice returns the position of an item that equals an earlier one, or -1. It allocates nothing where the items ascend, as
// in records of weir.
func twice(n int, compare func(a, b int) int) int {
	ascending := 1
	for ascending < n && compare(ascending-1, ascending) < 0 {
		ascending++
	}
	if ascending >= n {
		return -1
	}
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return compare(int(a), int(b)) })
	for i := 1; i < n; i++ {
		if compare(int(order[i-1]), int(order[i])) == 0 {
			return int(order[i])
		}
	}
	return -1
}

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

func checkEpoch(epoch int64) error {
	if epoch < 0 || epoch > MaxEpoch {
		return invalid("epoch", "%d is not in 0 to %d", epoch, int64(MaxEpoch))
	}
	return nil
}

// checkTime is for a time that no multiple of an interval is asked of.
func checkTime(field string, ms int64) error {
	if ms < minTimeMs || ms > maxTimeMs {
		return invalid(field, "%d is not between 1970 and 2100", ms)
	}
	return nil
}

func checkNodes(field string, nodes []string) error {
	for _, n := range nodes {
		if !naming.Valid(n) {
			return invalid(field, "%.80q is not a host's name", n)
		}
	}
	if i := twice(len(nodes), func(a, b int) int { return cmp.Compare(nodes[a], nodes[b]) }); i >= 0 {
		return invalid(field, "%s is there twice", nodes[i])
	}
	return nil
}

func checkMetric(name, unit, scope string) error {
	switch {
	case !naming.Valid(name):
		return invalid("metrics.name", "%.80q is not a metric's name", name)
	case !ValidUnit(unit):
		return invalid("metrics.unit", "%.80q of %s is not a unit: at most %d bytes of printable UTF-8", unit, name, maxNameBytes)
	case scope != ScopeCore && scope != ScopeNode:
		return invalid("metrics.scope", "%.80q is neither core nor node", scope)
	}
	return nil
}

// checkMetrics holds for the metrics of every record that has some.
func checkMetrics(n int, name func(i int) string) error {
	if n > MaxMetrics {
		return invalid("metrics", "%d are more than %d", n, MaxMetrics)
	}
	if i := twice(n, func(a, b int) int { return cmp.Compare(name(a), name(b)) }); i >= 0 {
		return invalid("metrics.name", "%s is there twice", name(i))
	}
	return nil
}

func (h *NodeHeader) validate() error {
	if !naming.Valid(h.Cluster) {
		return invalid("cluster", "%.80q is not a name", h.Cluster)
	}
	if !naming.Valid(h.Node) {
		return invalid("node", "%.80q is not a host's name", h.Node)
	}
	if !ValidUnit(h.BootID) || !ValidUnit(h.RunID) {
		return invalid("run_id", "boot_id or run_id is not at most %d bytes of printable UTF-8", maxNameBytes)
	}
	if h.JobID == JobSystem {
		return invalid("job_id", "nobody sends %s", JobSystem)
	}
	if err := checkJob(h.JobID, h.Restart); err != nil {
		return err
	}
	if h.Seq < 0 {
		return invalid("seq", "%d is negative", h.Seq)
	}
	if err := checkEpoch(h.Epoch); err != nil {
		return err
	}
	if len(h.Cpus) > maxCPUs {
		return invalid("cpus", "%d are more than %d", len(h.Cpus), maxCPUs)
	}
	for _, c := range h.Cpus {
		if c < 0 {
			return invalid("cpus", "%d is negative", c)
		}
	}
	if i := twice(len(h.Cpus), func(a, b int) int { return cmp.Compare(h.Cpus[a], h.Cpus[b]) }); i >= 0 {
		return invalid("cpus", "%d is there twice", h.Cpus[i])
	}
	if err := checkTime("sampled_at", h.SampledAt/1000); err != nil {
		return err
	}
	if err := checkTime("sent_at", h.SentAt); err != nil {
		return err
	}
	return checkInterval(h.IntervalStart, h.IntervalMs)
}

// Validate implements Record.
func (b *CounterBatch) Validate() error {
	if err := b.validate(); err != nil {
		return err
	}
	for i := range b.Metrics {
		m := &b.Metrics[i]
		if err := checkMetric(m.Name, m.Unit, m.Scope); err != nil {
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
	return checkMetrics(len(b.Metrics), func(i int) string { return b.Metrics[i].Name })
}

// Validate implements Record.
func (s *NodeSummary) Validate() error {
	if err := s.validate(); err != nil {
		return err
	}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if err := m.validate(); err != nil {
			return err
		}
		if m.Nodes > 1 || (m.Nodes == 1) != (m.Count > 0) {
			return invalid("metrics.nodes", "%s has %d values of %d nodes", m.Name, m.Count, m.Nodes)
		}
		values := int64(1)
		if m.Scope == ScopeCore {
			values = int64(len(s.Cpus))
		}
		if m.Count > values || m.Invalid > values-m.Count {
			return invalid("metrics.count", "%s has %d values and %d invalid ones where %d belong", m.Name, m.Count, m.Invalid, values)
		}
		if err := m.checkReduced(s.Node); err != nil {
			return err
		}
	}
	return checkMetrics(len(s.Metrics), func(i int) string { return s.Metrics[i].Name })
}

// checkReduced holds for what a node reduced from all of its values: the row of a summary is made of it as it is.
func (m *NodeSummaryMetric) checkReduced(node string) error {
	for _, name := range []*string{m.LowNode, m.HighNode} {
		if name != nil && *name != node {
			return invalid("metrics.low_node", "%s: low_node or high_node is not %s", m.Name, node)
		}
	}
	if m.Lo != nil || m.Hi != nil || m.RankError != nil && *m.RankError != 0 {
		return invalid("metrics.rank_error", "%s: a node knows its values exactly, without rank_error, lo and hi", m.Name)
	}
	if m.Count == 0 {
		return nil
	}
	d := *m.Deciles
	if *m.Mean < d[0] || *m.Mean > d[10] {
		return invalid("metrics.mean", "%s: not between the least and the greatest value", m.Name)
	}
	least, greatest, ok := m.Certified.ends(m.Count)
	if ok && (least != d[0] || greatest != d[10]) {
		return invalid("metrics.deciles", "%s: the first and the last are not the ends of certified", m.Name)
	}
	// The order statistic k is the value at or below decile k. From ten values on, the next one is not below it.
	if o := m.Certified.OrderStatistics; ok && len(o) == len(d) && m.Count >= 10 {
		for k := range d {
			if d[k] < o[k] || d[k] > o[min(k+1, 10)] {
				return invalid("metrics.deciles", "%s: decile %d contradicts order_statistics", m.Name, k)
			}
		}
	}
	return nil
}

// ends are the least and the greatest of count values; not ok where there are none, or where the summary contradicts
// itself, which is for quantile.Summary.Check to say.
func (c *Certified) ends(count int64) (least, greatest float64, ok bool) {
	switch n := len(c.Knots); {
	case len(c.Atoms) > 0:
		for i := range c.Atoms {
			count -= c.Atoms[i].Count
		}
		return c.Atoms[0].Value, c.Atoms[len(c.Atoms)-1].Value, count == 0
	case len(c.OrderStatistics) > 0:
		return c.OrderStatistics[0], c.OrderStatistics[len(c.OrderStatistics)-1], ascending(c.OrderStatistics)
	case n > 0:
		return c.Knots[0].Value, c.Knots[n-1].Value, c.Knots[0].Rank == 1 && c.Knots[n-1].Rank == count
	}
	return 0, 0, false
}

func (m *JobSummaryMetric) validate() error {
	if err := checkMetric(m.Name, m.Unit, m.Scope); err != nil {
		return err
	}
	if m.Count < 0 || m.Count > maxTotal || m.Invalid < 0 || m.Invalid > maxTotal || m.Nodes < 0 {
		return invalid("metrics.count", "%s: count, invalid or nodes is out of range", m.Name)
	}
	if (m.Count > 0) != (m.Mean != nil && m.Deciles != nil) {
		return invalid("metrics.mean", "%s: mean and deciles are there exactly where count > 0", m.Name)
	}
	for _, f := range []struct {
		field string
		v     *[]float64
	}{{"deciles", m.Deciles}, {"lo", m.Lo}, {"hi", m.Hi}} {
		if f.v != nil && (len(*f.v) != 11 || !ascending(*f.v)) {
			return invalid("metrics."+f.field, "%s: not eleven ascending finite values", m.Name)
		}
	}
	for _, f := range []struct {
		field      string
		v          *float64
		low, above float64
	}{
		{"mean", m.Mean, -math.MaxFloat64, math.MaxFloat64},
		{"stddev", m.Stddev, 0, math.MaxFloat64},
		{"node_stddev", m.NodeStddev, 0, math.MaxFloat64},
		{"rank_error", m.RankError, 0, 1},
	} {
		if f.v != nil && !(*f.v >= f.low && *f.v <= f.above) { // NaN is neither
			return invalid("metrics."+f.field, "%s: %g is out of range", m.Name, *f.v)
		}
	}
	return checkExtremes(m.Name, m.LowNode, m.HighNode)
}

func checkExtremes(metric string, low, high *string) error {
	for _, n := range []*string{low, high} {
		if n != nil && !naming.Valid(*n) {
			return invalid("metrics.low_node", "%s: %.80q is not a host's name", metric, *n)
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
	switch {
	case !naming.Valid(g.Node):
		return invalid("node", "%.80q is not a host's name", g.Node)
	case !ValidUnit(g.RunID):
		return invalid("run_id", "%.80q is not at most %d bytes of printable UTF-8", g.RunID, maxNameBytes)
	case !validText(g.Reason):
		return invalid("reason", "%.80q is not at most %d bytes of printable UTF-8", g.Reason, maxTextBytes)
	case g.Records < 0:
		return invalid("records", "%d is negative", g.Records)
	}
	if err := checkTime("first_interval_start", g.FirstIntervalStart); err != nil {
		return err
	}
	return checkTime("last_interval_start", g.LastIntervalStart)
}

// Validate implements Record.
func (t *Tick) Validate() error {
	if err := checkInterval(t.IntervalStart, t.IntervalMs); err != nil {
		return err
	}
	if err := checkEpoch(t.Epoch); err != nil {
		return err
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
			return invalid("jobs", "%s/%d: parts %d or job_nodes %d is out of range, or less than its nodes here", j.JobID, j.Restart, j.Parts, j.JobNodes)
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
func (s *JobSummary) Validate() error {
	if !naming.Valid(s.Cluster) {
		return invalid("cluster", "%.80q is not a name", s.Cluster)
	}
	if err := checkJob(s.JobID, s.Restart); err != nil {
		return err
	}
	if s.Method != MethodNode && s.Method != MethodExact && s.Method != MethodEstimated {
		return invalid("method", "%.80q is none", s.Method)
	}
	if s.Parts < 0 || s.PartsReported < 0 || s.NodesExpected < 0 || s.NodesReported < 0 {
		return invalid("parts", "parts or nodes are negative")
	}
	for i := range s.Metrics {
		if err := s.Metrics[i].validate(); err != nil {
			return err
		}
	}
	if err := checkMetrics(len(s.Metrics), func(i int) string { return s.Metrics[i].Name }); err != nil {
		return err
	}
	return checkInterval(s.IntervalStart, s.IntervalMs)
}

// Validate implements Record.
func (p *JobPartial) Validate() error {
	if !naming.Valid(p.Cluster) {
		return invalid("cluster", "%.80q is not a name", p.Cluster)
	}
	if err := checkJob(p.JobID, p.Restart); err != nil {
		return err
	}
	if p.Collector < 0 || p.Parts < 1 || p.Parts > maxParts || p.NodesReported < 0 || p.NodesExpected < p.NodesReported ||
		p.JobNodes < p.NodesExpected || p.JobNodes > MaxNodes {
		return invalid("collector", "collector, parts or nodes out of range")
	}
	for i := range p.Metrics {
		if err := p.Metrics[i].validate(); err != nil {
			return err
		}
	}
	if err := checkMetrics(len(p.Metrics), func(i int) string { return p.Metrics[i].Name }); err != nil {
		return err
	}
	for i := range p.Shared {
		if !naming.Valid(p.Shared[i].Node) {
			return invalid("shared", "%.80q is not a host's name", p.Shared[i].Node)
		}
	}
	if i := twice(len(p.Shared), func(a, b int) int { return cmp.Compare(p.Shared[a].Node, p.Shared[b].Node) }); i >= 0 {
		return invalid("shared", "%s is there twice", p.Shared[i].Node)
	}
	return checkInterval(p.IntervalStart, p.IntervalMs)
}

func (m *JobPartialMetric) validate() error {
	if err := checkMetric(m.Name, m.Unit, m.Scope); err != nil {
		return err
	}
	if m.Count < 0 || m.Count > maxCount || m.Invalid < 0 || m.Invalid > maxCount ||
		m.Nodes < 0 || m.Nodes > MaxNodes || int64(m.Nodes) > m.Count || m.NodeMeans < 0 || m.NodeMeans > maxCount {
		return invalid("metrics.count", "%s: count, invalid, nodes or node_means out of range", m.Name)
	}
	for _, v := range []*float64{m.Mean, m.M2, m.NodeMean, m.NodeM2, m.LowNodeMean, m.HighNodeMean} {
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
	if m.Count > 0 && *m.LowNodeMean > *m.HighNodeMean {
		return invalid("metrics.low_node_mean", "%s: above high_node_mean", m.Name)
	}
	return checkExtremes(m.Name, m.LowNode, m.HighNode)
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
		l := &p.Loads[i]
		if err := checkJob(l.JobID, l.Restart); err != nil {
			return err
		}
		if l.Nodes < 1 || l.Bytes < 0 || l.Bytes > maxLoadBytes {
			return invalid("loads", "job %s with %d nodes and %d bytes", l.JobID, l.Nodes, l.Bytes)
		}
	}
	if !ValidUnit(p.TopicID) {
		return invalid("topic_id", "%.80q is not at most %d bytes of printable UTF-8", p.TopicID, maxNameBytes)
	}
	if p.Open < 0 {
		return invalid("open", "%d is negative", p.Open)
	}
	if !validText(p.Stopped) {
		return invalid("stopped", "%.80q is not at most %d bytes of printable UTF-8", p.Stopped, maxTextBytes)
	}
	return nil
}

// Validate implements Record.
func (r *Reject) Validate() error {
	switch {
	case !validText(r.Topic):
		return invalid("topic", "%.80q is not at most %d bytes of printable UTF-8", r.Topic, maxTextBytes)
	case !validText(r.Reason):
		return invalid("reason", "%.80q is not at most %d bytes of printable UTF-8", r.Reason, maxTextBytes)
	case !ValidUnit(r.Hash):
		return invalid("hash", "%.80q is not a SHA-256 in hex", r.Hash)
	case len(r.Head) > maxHeadBytes:
		return invalid("head", "%d bytes are more than %d", len(r.Head), maxHeadBytes)
	}
	return nil
}

// Validate implements Record.
func (j *Job) Validate() error {
	if !naming.Valid(j.JobID) {
		return invalid("job_id", "%.80q is not a job's name", j.JobID)
	}
	for _, f := range []struct{ field, text string }{
		{"name", j.Name}, {"user", j.User}, {"account", j.Account}, {"queue", j.Queue}, {"state", j.State}, {"reason", j.Reason},
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
	return nil
}
