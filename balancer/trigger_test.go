package balancer

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// triggersOf runs a balancer for some intervals, and returns the triggers that it wrote.
func triggersOf(t *testing.T, cfg config.Config, intervals int) (all []*schemas.Trigger) {
	t.Helper()
	cl := kafkatest.Client(t, cfg.Kafka.Brokers, kgo.ConsumeTopics(cfg.Prefix+schemas.TopicTriggers),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	cfg.Balance.Nodes = []string{"n1", "n2"}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- newBalancer(cfg, topology.Flat(cfg.Balance.Nodes),
			scheduler.NewSimulated(cfg.Balance.Nodes, cfg.Interval), (&kafkatest.Log{}).Logger(),
			NewMetrics(prometheus.NewRegistry())).active(ctx)
	}()
	for deadline := time.Now().Add(time.Duration(intervals) * cfg.Interval); time.Now().Before(deadline); {
		poll, end := context.WithTimeout(t.Context(), cfg.Interval)
		for r := range cl.PollFetches(poll).RecordsAll() {
			v, err := schemas.Unmarshal(r.Value)
			trigger, ok := v.(*schemas.Trigger)
			if err != nil || !ok || trigger.Validate() != nil {
				t.Errorf("%T: %v", v, err)
				continue
			}
			all = append(all, trigger)
		}
		end()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return all
}

// The active balancer calls once at each boundary, and never before it. Where agents follow their clocks, nobody calls.
func TestBalancerCalls(t *testing.T) {
	_, cfg := broker(t)
	if all := triggersOf(t, cfg, 8); len(all) > 0 {
		t.Errorf("%d calls, and agents sample by their clocks", len(all))
	}
	cfg.Agent.Sampling = "triggered"
	all := triggersOf(t, cfg, 24)
	if len(all) < 5 {
		t.Fatalf("%d calls in 24 intervals", len(all))
	}
	ms := cfg.Interval.Milliseconds()
	for i, c := range all {
		if c.Cluster != cfg.Cluster || c.IntervalMs != ms || c.SentAt < c.IntervalStart || c.IntervalStart%ms != 0 {
			t.Errorf("%+v", c)
		}
		if i > 0 && c.IntervalStart <= all[i-1].IntervalStart {
			t.Errorf("boundary %d follows %d", c.IntervalStart, all[i-1].IntervalStart)
		}
	}
}
