package schemas

import (
	"cmp"

	"github.com/weirhpc/weir/naming"
)

// The records of agents: CounterBatch, NodeSummary, Gap, NodeFacts.

// validate checks the rules that all records of agents share. It refuses the id of the whole machine, because only
// collectors make records of it.
func (h *NodeHeader) validate() error {
	if !naming.Valid(h.Cluster) {
		return invalid("cluster", "%.80q is not a name", h.Cluster)
	}
	if !naming.Valid(h.Node) {
		return invalid("node", "%.80q is not a host's name", h.Node)
	}
	if !validUnit(h.BootID) || !validUnit(h.RunID) {
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
		if least, most := places(m.Scope, len(b.Cpus)); len(m.Values) < least || len(m.Values) > most {
			return invalid("metrics.values", "%s has %d values instead of %d to %d",
				m.Name, len(m.Values), least, most)
		}
	}
	name := func(i int) string { return b.Metrics[i].Name }
	if err := checkMetrics(len(b.Metrics), name); err != nil {
		return err
	}
	return checkReported(b.Reported, len(b.Metrics), name, func(i int) string { return b.Metrics[i].Scope })
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
		_, most := places(m.Scope, len(s.Cpus))
		if m.Count > int64(most) || m.Invalid > int64(most)-m.Count {
			return invalid("metrics.count", "%s has %d values and %d invalid ones instead of %d in all",
				m.Name, m.Count, m.Invalid, most)
		}
		if err := m.checkReduced(s.Node); err != nil {
			return err
		}
	}
	name := func(i int) string { return s.Metrics[i].Name }
	if err := checkMetrics(len(s.Metrics), name); err != nil {
		return err
	}
	return checkReported(s.Reported, len(s.Metrics), name, func(i int) string { return s.Metrics[i].Scope })
}

// checkReduced checks a metric that a node reduced from all of its values. It becomes the row of a summary unchanged.
func (m *NodeSummaryMetric) checkReduced(node string) error {
	for _, name := range []*string{m.LowNode, m.HighNode} {
		if name != nil && *name != node {
			return invalid("metrics.low_node", "%s: low_node or high_node is not %s", m.Name, node)
		}
	}
	if m.Lo != nil || m.Hi != nil || m.RankError != nil && *m.RankError != 0 {
		return invalid("metrics.rank_error", "%s: a node knows its values exactly, without rank_error, lo and hi",
			m.Name)
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

// ends returns the least and the greatest of count values. It is not ok if there are none, or if the summary
// contradicts itself: quantile.Summary.Check finds that.
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

// Validate implements Record.
func (g *Gap) Validate() error {
	switch {
	case !naming.Valid(g.Node):
		return invalid("node", "%.80q is not a host's name", g.Node)
	case !validUnit(g.RunID):
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

// Validate implements Record. Readers compare each record with its key: it speaks for its own node alone.
func (f *NodeFacts) Validate() error {
	switch {
	case !naming.Valid(f.Cluster):
		return invalid("cluster", "%.80q is not a name", f.Cluster)
	case !naming.Valid(f.Node):
		return invalid("node", "%.80q is not a host's name", f.Node)
	case f.Source != FactsAgent && f.Source != FactsSlurm:
		return invalid("source", "%.80q is not %s or %s", f.Source, FactsAgent, FactsSlurm)
	case len(f.Gpus) > maxDevices:
		return invalid("gpus", "%d are more than %d", len(f.Gpus), maxDevices)
	case len(f.Nics) > maxNICs:
		return invalid("nics", "%d are more than %d", len(f.Nics), maxNICs)
	}
	if err := checkTime("read_at", f.ReadAt); err != nil {
		return err
	}
	for _, text := range []struct{ field, value string }{
		{"boot_id", f.BootID},
		{"version", f.Version},
		{"kernel", f.Kernel},
		{"cpu_model", f.CPUModel},
		{"peak_flops_from", f.PeakFlopsFrom},
		{"peak_mem_bw_from", f.PeakMemBWFrom},
	} {
		if err := checkFact(text.field, text.value); err != nil {
			return err
		}
	}
	for _, number := range []struct {
		field       string
		value, most int64
	}{
		{"cpus", int64(f.CPUs), maxCPUs},
		{"threads_per_core", int64(f.ThreadsPerCore), maxThreads},
		{"sockets", int64(f.Sockets), maxDevices},
		{"numa_nodes", int64(f.NumaNodes), maxDevices},
		{"memory", f.Memory, maxBytes},
	} {
		if number.value < 0 || number.value > number.most {
			return invalid(number.field, "%d is not in 0 to %d", number.value, number.most)
		}
	}
	return f.checkRates()
}

// checkRates checks the peaks of a node, its GPUs and its network ports.
func (f *NodeFacts) checkRates() error {
	for _, peak := range []struct {
		field string
		value float64
	}{{"peak_flops", f.PeakFlops}, {"peak_mem_bw", f.PeakMemBW}} {
		if !finite(peak.value) || peak.value < 0 || peak.value > maxPeak {
			return invalid(peak.field, "%g is not in 0 to %g", peak.value, float64(maxPeak))
		}
	}
	for _, g := range f.Gpus {
		if err := checkFact("gpus.model", g.Model); err != nil {
			return err
		}
		if g.Memory < 0 || g.Memory > maxBytes {
			return invalid("gpus.memory", "%d is not in 0 to %d", g.Memory, int64(maxBytes))
		}
	}
	for _, n := range f.Nics {
		if err := checkFact("nics.name", n.Name); err != nil {
			return err
		}
		if n.Rate < 0 || n.Rate > maxRate {
			return invalid("nics.rate", "%d is not in 0 to %d", n.Rate, int64(maxRate))
		}
	}
	return nil
}

// checkFact checks a text of NodeFacts, which commands print.
func checkFact(field, text string) error {
	if len(text) > maxFactBytes || !isPrintable(text) {
		return invalid(field, "%.80q is not at most %d bytes of printable UTF-8", text, maxFactBytes)
	}
	return nil
}
