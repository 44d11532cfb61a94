package balancer

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// unseen are the metrics of a balancer that no test looks at.
func unseen() *Metrics { return NewMetrics(prometheus.NewRegistry()) }

// shown returns the gauges and counters of the balancer, jobs by state.
func shown(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "weir_balancer_")
		for _, m := range f.GetMetric() {
			if ours && m.GetHistogram() == nil {
				key := name
				if l := m.GetLabel(); len(l) > 0 {
					key += " " + l[0].GetValue()
				}
				all[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// plans returns how many plans the histogram counts, or -1 where it is not shown.
func plans(t *testing.T, registry prometheus.Gatherer) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "weir_balancer_plan_seconds" {
			return int(f.GetMetric()[0].GetHistogram().GetSampleCount())
		}
	}
	return -1
}

func TestMetricsOfTheActiveOne(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	text := "jobs:\n  - {id: big, nodes: [a, b]}\n" +
		"  - {id: later, nodes: [c], start: 2099-01-01T00:00:00Z}\n  - {id: lost, nodes: [nowhere]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	failures := shown(t, registry)["source_failures_total"]
	if n := plans(t, registry); n != 0 {
		t.Errorf("%d plans are counted at first, want 0: a rate has to see the first", n)
	}
	stop := background(t, func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.NewFileSource(path), slog.New(slog.DiscardHandler), metrics)
	})
	r := newReader(t, cfg)
	r.until("three Ticks and a plan", func() bool { return len(r.ticks[0]) >= 3 && len(r.routes) == 6 })
	kafkatest.Eventually(t, "the epoch of the plan", func() bool { return shown(t, registry)["epoch"] == 1 })
	got := shown(t, registry)
	if n := plans(t, registry); n < 1 {
		t.Errorf("%d plans are counted after three Ticks", n)
	}
	// Of the last, its gauge may be a moment behind the topic.
	if tick := got["tick_interval_start_seconds"] * 1000; tick < float64(r.ticks[0][1].IntervalStart) ||
		tick > float64(time.Now().UnixMilli()) {
		t.Errorf("the last interval with Ticks is %v, the one before the last was %d",
			tick, r.ticks[0][1].IntervalStart)
	}
	delete(got, "tick_interval_start_seconds")
	want := map[string]float64{
		"epoch": 1, "overloaded": 0, "collectors_needed": 1, "fullest_ratio": 0.5, // two nodes of four
		"active": 1, "nodes": 6, "source_failures_total": failures,
		"jobs " + schemas.StateRunning: 1, "jobs " + schemas.StatePending: 1, "jobs " + schemas.StateCompleted: 0,
		"jobs " + schemas.StateSkipped: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, "two failures of the source", func() bool {
		return shown(t, registry)["source_failures_total"] >= failures+2
	})
	r.until("Ticks without a list", r.more(1))
	got = shown(t, registry)
	if got["jobs "+schemas.StateSkipped] != 1 ||
		got["jobs "+schemas.StateRunning] != 1 {
		t.Errorf("the list of jobs is away: %v", got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	left := shown(t, registry)
	delete(left, "source_failures_total")
	if diff := cmp.Diff(map[string]float64{"active": 0}, left); diff != "" {
		t.Errorf("it ended, and shows (-want +got)\n%s", diff)
	}
}
