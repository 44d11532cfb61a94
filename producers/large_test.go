package producers

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// wide has the broker on the system's network, and a fleet of one node with 4,096 CPUs, all of which one job holds.
func wide(t *testing.T, metrics int) (l *lab, f *fleet, start int64) {
	t.Helper()
	l = newLab(t)
	l.network, l.Collectors, l.Partitions = nil, 1, config.Partitions{Routes: 1, JobSummary: 1, Partials: 1}
	l.startBroker(t, t.TempDir())
	b := busy{4096, metrics}
	f = b.fleet(t, l, slog.New(slog.DiscardHandler))
	f.nodes[0].routes.known = []*schemas.Route{{
		Node: f.nodes[0].name, Epoch: 1,
		Entries: []schemas.RouteEntry{entry("wide", 0, schemas.ModeCollect, b.sample(0).cpus...)},
	}}
	return l, f, time.Now().Add(-time.Minute).UnixMilli() / 200 * 200
}

// TestLargestNode: a record of 4,096 CPUs and 130 metrics of each goes from the agent through the embedded broker into
// collect, and every value counts.
func TestLargestNode(t *testing.T) {
	t.Parallel()
	const metrics, cpus = 130, 4096
	l, f, from := wide(t, metrics)
	publish(t, f)
	f.forms(t, from)
	all := l.gather(t, func(all []counter) bool { return len(all) > 0 })
	batch, ok := all[0].record.(*schemas.CounterBatch)
	if !ok || len(batch.Metrics) != metrics || len(batch.Metrics[metrics-1].Values) != cpus {
		t.Fatalf("another record: %T, gaps %v", all[0].record, gaps(all))
	}

	tick := foldtest.Tick(from, false, foldtest.TickJob("wide", 1, batch.Node))
	tick.IntervalMs, tick.Jobs[0].Restart = batch.IntervalMs, batch.Restart
	closes := &kgo.Record{
		Topic: l.Prefix + schemas.TopicCounters, Key: schemas.CollectorKey(0), Value: foldtest.Encode(t, tick),
	}
	if err := l.client(t).ProduceSync(t.Context(), closes).FirstErr(); err != nil {
		t.Fatal(err)
	}
	logged := &kafkatest.Log{}
	start(t, logged, func(ctx context.Context) error {
		return processors.Collect(ctx, l.Config, logged.Logger(), processors.NewMetrics(prometheus.NewRegistry()))
	})
	summaries := l.client(t, kgo.ConsumeTopics(l.Prefix+schemas.TopicJobSummary),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		for _, r := range summaries.PollFetches(ctx).Records() {
			record, err := schemas.Unmarshal(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			s := record.(*schemas.JobSummary)
			if s.JobID != "wide" {
				continue
			}
			if len(s.Metrics) != metrics || s.NodesReported != 1 {
				t.Fatalf("%d metrics of %d nodes", len(s.Metrics), s.NodesReported)
			}
			for _, m := range s.Metrics {
				if m.Count != cpus {
					t.Errorf("%s counts %d values", m.Name, m.Count)
				}
			}
			return
		}
	}
	t.Fatal("no summary came")
}

// TestTooLargeNode: what no record can hold is lost, and a Gap gives the reason. The agent goes on.
func TestTooLargeNode(t *testing.T) {
	t.Parallel()
	for metrics, fits := range map[int]bool{255: true, 256: false} {
		l, f, from := wide(t, metrics)
		publish(t, f)
		f.forms(t, from)
		all := l.gather(t, func(all []counter) bool { return len(all) > 0 })
		lost := gaps(all)
		if fits && len(lost) > 0 || !fits && (len(lost) != 1 || lost[0].Reason != "MESSAGE_TOO_LARGE") {
			t.Errorf("%d metrics: gaps %v", metrics, lost)
		}
	}
}
