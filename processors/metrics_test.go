package processors

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/schemas"
)

// series returns what is shown of partition 0 of collect, by name, or by name and fate.
func series(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	return seriesOf(t, registry, "collect")
}

// seriesOf are the values of a stage's partition 0. Fate and class follow the name.
func seriesOf(t *testing.T, registry prometheus.Gatherer, stage string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, labels := f.GetName(), map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["stage"] != stage || labels["partition"] != "0" {
				continue
			}
			for _, more := range []string{"fate", "class"} {
				if labels[more] != "" {
					name += " " + labels[more]
				}
			}
			shown[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return shown
}

func TestMetricsSayWhatIsCommitted(t *testing.T) {
	b := newBench(t)
	b.put([]byte("rubbish"))
	b.interval(9)
	stop, _ := b.collect()
	b.eventually("a summary", b.summaries(1))
	b.interval(8)
	b.eventually("the second", b.summaries(2))
	check := func(read, commits float64) {
		t.Helper()
		p := b.progress()
		want := map[string]float64{
			"weir_partition_owned": 1, "weir_position": float64(p.Position), "weir_lag_offsets": 0,
			"weir_closed_interval_start_seconds": float64(*p.Closed) / 1000, "weir_records_read_total": read,
			"weir_outputs_total": float64(p.Counts.Outputs), "weir_records_clock_ahead_total": 0,
			"weir_loop_restarts_total": 0, "weir_partition_stopped": 0, "weir_clock_off_nodes": 0,
			"weir_records_other_interval_total": 0, "weir_metrics_left_out_total": 0,
			"weir_records_total summarized": float64(p.Counts.Summarized), "weir_records_total rejected": 1,
		}
		for _, fate := range []string{"late", "dropped", "duplicate", "misrouted", "ended", "lost"} {
			want["weir_records_total "+fate] = 0
		}
		var got map[string]float64
		var diff string
		defer func() {
			if diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}()
		b.eventually("what Progress says", func() bool { // the loop sets one series after the other
			got = series(t, b.shown)
			shown := maps.Clone(got)
			for _, varies := range []string{"weir_commits_total", "weir_bytes_read_total", "weir_fold_seconds_total"} {
				delete(shown, varies) // commits: as many as polls brought something
			}
			diff = cmp.Diff(want, shown)
			return diff == ""
		})
		if got["weir_commits_total"] < commits {
			t.Errorf("%v commits, want at least %v", got["weir_commits_total"], commits)
		}
		if got["weir_bytes_read_total"] < 20*read || got["weir_fold_seconds_total"] <= 0 {
			t.Errorf("%v bytes folded in %v s", got["weir_bytes_read_total"], got["weir_fold_seconds_total"])
		}
	}
	check(5, 2)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if left := series(t, b.shown); len(left) > 0 {
		t.Errorf("a partition that was given up is still shown: %v", left)
	}
	stop, _ = b.collect()
	b.eventually("the partition back", func() bool { return series(t, b.shown)["weir_partition_owned"] == 1 })
	if got := series(t, b.shown); got["weir_records_total summarized"] != 2 || got["weir_commits_total"] != 0 {
		t.Errorf("the next owner does not go on from what was committed: %v", got)
	}
	b.interval(7)
	b.eventually("the third", b.summaries(3))
	check(2, 1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestMetricsOfALoopThatStartsAgain(t *testing.T) {
	b := newBench(t)
	b.interval(9)
	b.cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		return nil, errors.New("no"), true
	})
	stop, _ := b.collect()
	b.eventually("two tries", func() bool { return series(t, b.shown)["weir_loop_restarts_total"] >= 2 })
	b.eventually("the pause between two", func() bool {
		owned, shown := series(t, b.shown)["weir_partition_owned"]
		return shown && owned == 0
	})
	if got := series(t, b.shown); got["weir_commits_total"] != 0 || got["weir_records_total summarized"] != 0 ||
		got["weir_outputs_total"] != 0 {
		t.Errorf("what was not committed is shown: %v", got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A progress topic that was made anew counts from the beginning; a counter that fell would end the process.
func TestACounterDoesNotFall(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry).meter("collect", 0)
	defer m.forget()
	for _, summarized := range []int64{5, 3, 6} {
		m.stands(&schemas.Progress{Counts: schemas.ProgressCounts{Summarized: summarized}})
	}
	if got := series(t, registry)["weir_records_total summarized"]; got != 6 {
		t.Errorf("got %v", got)
	}
}
