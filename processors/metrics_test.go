package processors

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/processors/looptest"
	"github.com/weirhpc/weir/schemas"
)

// series returns what is shown of partition 0 of collect, by name, or by name and fate.
func series(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	return looptest.SeriesOf(t, registry, "collect")
}

func TestMetricsSayWhatIsCommitted(t *testing.T) {
	b := newBench(t)
	b.Put([]byte("rubbish"))
	b.Interval(9)
	stop, _ := b.collect()
	b.Eventually("a summary", b.Summaries(1))
	b.Interval(8)
	b.Eventually("the second", b.Summaries(2))
	check := func(read, commits float64) {
		t.Helper()
		p := b.Progress()
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
		b.Eventually("what Progress says", func() bool { // the loop sets one series after the other
			got = series(t, b.Shown)
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
	if left := series(t, b.Shown); len(left) > 0 {
		t.Errorf("a partition that was given up is still shown: %v", left)
	}
	stop, _ = b.collect()
	b.Eventually("the partition back", func() bool { return series(t, b.Shown)["weir_partition_owned"] == 1 })
	if got := series(t, b.Shown); got["weir_records_total summarized"] != 2 || got["weir_commits_total"] != 0 {
		t.Errorf("the next owner does not go on from what was committed: %v", got)
	}
	b.Interval(7)
	b.Eventually("the third", b.Summaries(3))
	check(2, 1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestMetricsOfALoopThatStartsAgain(t *testing.T) {
	b := newBench(t)
	b.Interval(9)
	b.Broker.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Broker.KeepControl()
		return nil, errors.New("no"), true
	})
	stop, _ := b.collect()
	b.Eventually("two tries", func() bool { return series(t, b.Shown)["weir_loop_restarts_total"] >= 2 })
	b.Eventually("the pause between two", func() bool {
		owned, shown := series(t, b.Shown)["weir_partition_owned"]
		return shown && owned == 0
	})
	if got := series(t, b.Shown); got["weir_commits_total"] != 0 || got["weir_records_total summarized"] != 0 ||
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
