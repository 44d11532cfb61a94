package integration

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/status"
)

// TestWrongClocks runs a machine with a node that is 9 s ahead, and one that is 3 s behind. A third is ahead, and its
// old agent measures no clock. Status, the log of collect and its metrics name them, and no other node. The row of the
// whole machine counts the nodes that sampled together, and names the worst.
func TestWrongClocks(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	s := newSystem(t)
	off := map[string]time.Duration{"sim0023": 9 * time.Second, "sim0024": -3 * time.Second}
	right := producers.SimulatedNodes(simulated)[:simulated-len(off)]
	s.startClocks("right clocks", right, 0)
	for node, by := range off {
		s.startClocks(node, []string{node}, by)
	}
	s.startBalancer()
	s.startMerge()
	registry := prometheus.NewRegistry()
	s.start("collect", func(ctx context.Context) error {
		return processors.Collect(ctx, s.cfg, s.log, processors.NewMetrics(registry))
	})
	off["old01"] = 9 * time.Second
	s.start("an old agent", func(ctx context.Context) error {
		for ctx.Err() == nil {
			s.cl.ProduceSync(ctx, s.oldAgent(off["old01"])) // an error shows in the status
			select {
			case <-ctx.Done():
			case <-time.After(s.cfg.Interval):
			}
		}
		return nil
	})

	var said *status.Status
	s.eventually("the status that names them", func() bool {
		var err error
		if said, err = status.Read(t.Context(), s.cfg); err != nil {
			t.Log(err)
			return false
		}
		// The node that is ahead reports its clock in intervals that the machine closes 9 s later. All nodes with right
		// clocks sampled together. The one ahead did not, and the one behind comes too late to count.
		y := said.Synchrony
		return len(said.ClocksOff) == len(off) && y != nil && y.Nodes > simulated/2 &&
			math.Abs(y.InWindow*float64(y.Nodes)-float64(y.Nodes-1)) < 1e-9
	})
	for _, c := range said.ClocksOff {
		by, known := off[c.Node]
		if !known || math.Abs(float64(c.OffsetMs-by.Milliseconds())) > 500 {
			t.Errorf("%s is named, off by %d ms; it is %v", c.Node, c.OffsetMs, by)
		}
	}
	if !slices.ContainsFunc(said.Wrong, func(w string) bool {
		return strings.HasPrefix(w, "clocks of 3 nodes are off by more than 100ms")
	}) {
		t.Errorf("the verdict is %q", said.Wrong)
	}
	for node := range off {
		s.eventually("the log to name "+node, func() bool {
			return s.said.Count(`msg="clocks of nodes are off"`) > 0 && strings.Contains(s.said.String(), node+" ")
		})
	}
	if n := strings.Count(s.said.String(), "sim0001 +"); n != 0 {
		t.Errorf("a node with a right clock is named %d times", n)
	}
	s.eventually("the metrics to count them", func() bool { return sumOf(t, registry, "weir_clock_off_nodes") >= 3 })
	s.eventually("the row to name the worst", func() bool { return s.worstClock() == "sim0023" })
}

// TestTriggered uses wrong clocks too, but the nodes sample on the balancer's triggers. All of them sample together in
// spite of their clocks, and the machine's rows contain all of them. The wrong clocks are named as before.
func TestTriggered(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	s := newSystem(t)
	s.cfg.Agent.Sampling = "triggered"
	off := map[string]time.Duration{"sim0023": 5 * time.Second, "sim0024": -3 * time.Second}
	s.startClocks("right clocks", producers.SimulatedNodes(simulated)[:simulated-len(off)], 0)
	for node, by := range off {
		s.startClocks(node, []string{node}, by)
	}
	s.startBalancer()
	s.startMerge()
	s.startCollect()
	s.eventually("a row of all nodes, together", func() bool {
		said, err := status.Read(t.Context(), s.cfg)
		if err != nil || said.Synchrony == nil {
			return false
		}
		y := said.Synchrony
		return len(said.ClocksOff) == len(off) && y.Nodes == simulated && y.InWindow == 1
	})
}

// startClocks starts simulated nodes with a wrong clock.
func (s *system) startClocks(name string, nodes []string, off time.Duration) *part {
	return s.start(name, func(ctx context.Context) error {
		return producers.SimulateClock(ctx, s.cfg, nodes, func() time.Time { return time.Now().Add(off) }, s.log)
	})
}

// oldAgent is a record of an agent that does not measure its clock, which is off.
func (s *system) oldAgent(off time.Duration) *kgo.Record {
	s.t.Helper()
	now := time.Now().Add(off)
	value, err := schemas.Marshal(&schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: s.cfg.Cluster, Node: "old01", JobID: "j", IntervalMs: s.cfg.Interval.Milliseconds(),
		IntervalStart: now.Truncate(s.cfg.Interval).Add(-s.cfg.Interval).UnixMilli(), SentAt: now.UnixMilli(),
	}})
	if err != nil {
		s.t.Error(err)
	}
	return &kgo.Record{Topic: s.cfg.Prefix + schemas.TopicCounters, Key: schemas.CollectorKey(0), Value: value}
}

// worstClock is the node that the newest row of the whole machine names for the highest offset.
func (s *system) worstClock() string {
	worst := ""
	for _, r := range s.read(schemas.TopicJobSummary) {
		v, err := schemas.Unmarshal(r.Value)
		row, ok := v.(*schemas.JobSummary)
		if err != nil || !ok || row.JobID != schemas.JobSystem {
			continue
		}
		for _, m := range row.Metrics {
			if m.Name == schemas.MetricClockOffset && m.HighNode != nil {
				worst = *m.HighNode
			}
		}
	}
	return worst
}

// sumOf adds up the series of a gauge.
func sumOf(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue()
		}
	}
	return sum
}
