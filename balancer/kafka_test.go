package balancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// broker starts an in-process broker with weir's topics, and a configuration with short intervals for it.
func broker(t *testing.T) (*kfake.Cluster, config.Config) {
	t.Helper()
	cluster := kafkatest.Broker(t)
	cfg := config.Default()
	cfg.Prefix = "t."
	cfg.Interval, cfg.PlanMargin, cfg.Grace, cfg.BackoffCap = 150*time.Millisecond, 50*time.Millisecond,
		50*time.Millisecond, 100*time.Millisecond
	cfg.Collectors, cfg.Partitions = 3, config.Partitions{Routes: 5, JobSummary: 1, Partials: 1}
	cfg.Balance.LMax, cfg.Balance.LDist = 4, 3
	cfg.Kafka.Brokers = cluster.ListenAddrs()
	kafkatest.CreateTopics(t, cluster, cfg)
	return cluster, cfg
}

// reader follows what is committed on all topics of the balancer.
type reader struct {
	t      *testing.T
	cl     *kgo.Client
	ticks  map[int32][]*schemas.Tick
	routes map[string][]*schemas.Route
	jobs   map[string]*schemas.Job // nil: a tombstone
	gone   []string                // nodes with a tombstone, in order
	states []*schemas.BalanceState
	hash   map[string]int32 // partition of each node's Route
	began  time.Time        // when the first Tick was written
}

func newReader(t *testing.T, cfg config.Config) *reader {
	t.Helper()
	var topics []string
	for _, name := range []string{schemas.TopicCounters, schemas.TopicRoutes, schemas.TopicBalance, schemas.TopicJobs} {
		topics = append(topics, cfg.Prefix+name)
	}
	cl := kafkatest.Client(t, cfg.Kafka.Brokers, kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	return &reader{
		t: t, cl: cl, ticks: map[int32][]*schemas.Tick{}, routes: map[string][]*schemas.Route{},
		jobs: map[string]*schemas.Job{}, hash: map[string]int32{},
	}
}

// until reads on until it has what done wants.
func (r *reader) until(what string, done func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
	defer cancel()
	for !done() {
		fetches := r.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			r.t.Fatalf("waited in vain for %s", what)
		}
		fetches.EachRecord(func(k *kgo.Record) {
			if k.Value == nil && strings.HasSuffix(k.Topic, schemas.TopicRoutes) {
				r.gone = append(r.gone, string(k.Key))
				return
			}
			if k.Value == nil {
				r.jobs[string(k.Key)] = nil
				return
			}
			record, err := schemas.Unmarshal(k.Value)
			if err != nil {
				r.t.Errorf("%s/%d/%d: %v", k.Topic, k.Partition, k.Offset, err)
			}
			switch v := record.(type) {
			case *schemas.Tick:
				if r.began.IsZero() {
					r.began = k.Timestamp
				}
				r.ticks[k.Partition] = append(r.ticks[k.Partition], v)
				if string(k.Key) != fmt.Sprintf("c%d", k.Partition) {
					r.t.Errorf("a Tick of partition %d has key %s", k.Partition, k.Key)
				}
			case *schemas.Route:
				r.routes[v.Node], r.hash[v.Node] = append(r.routes[v.Node], v), k.Partition
			case *schemas.Job:
				r.jobs[string(k.Key)] = v
			case *schemas.BalanceState:
				r.states = append(r.states, v)
			}
		})
	}
}

func (r *reader) atLeast(ticks int) func() bool {
	return func() bool { return len(r.ticks[0]) >= ticks }
}

// more is for so many Ticks of intervals that begin from now on. Others may be on the topic already, and not yet read.
func (r *reader) more(ticks int) func() bool {
	since := time.Now().UnixMilli()
	return func() bool {
		i := slices.IndexFunc(r.ticks[0], func(t *schemas.Tick) bool { return t.IntervalStart >= since })
		return i >= 0 && len(r.ticks[0])-i >= ticks
	}
}

// entries returns how many jobs the newest Route of each of some nodes has.
func (r *reader) entries(nodes ...string) (counts []int) {
	for _, n := range nodes {
		count := 0
		if of := r.routes[n]; len(of) > 0 {
			count = len(of[len(of)-1].Entries)
		}
		counts = append(counts, count)
	}
	return counts
}

// checkTicks wants every partition to have one Tick for each interval, without a hole.
func (r *reader) checkTicks(cfg config.Config) {
	r.t.Helper()
	ms := cfg.Interval.Milliseconds()
	for p := range int32(cfg.Collectors) {
		for i, tick := range r.ticks[p] {
			if want := r.ticks[0][0].IntervalStart + int64(i)*ms; tick.IntervalStart != want || tick.IntervalMs != ms {
				r.t.Errorf("partition %d, Tick %d: interval %d of %d ms, want %d of %d ms",
					p, i, tick.IntervalStart, tick.IntervalMs, want, ms)
			}
		}
	}
}

// background runs a balancer until the returned function ends it, and waits for it.
func background(t *testing.T, run func(ctx context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return stop
}

// produce writes a record to topic balance, as an earlier balancer did.
func produce(t *testing.T, cfg config.Config, record schemas.Record) {
	t.Helper()
	produceTo(t, cfg, record, cfg.Prefix+schemas.TopicBalance, "balance")
}

// produceRoute writes a Route, as an earlier balancer did.
func produceRoute(t *testing.T, cfg config.Config, route *schemas.Route) {
	t.Helper()
	produceTo(t, cfg, route, cfg.Prefix+schemas.TopicRoutes, route.Node)
}

func produceTo(t *testing.T, cfg config.Config, record schemas.Record, topic, key string) {
	t.Helper()
	producer, err := kafka.NewProducer(context.Background(), cfg, cfg.Prefix+schemas.TopicBalance, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	value, err := schemas.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := producer.Commit(t.Context(), []*kgo.Record{{Topic: topic, Key: []byte(key), Value: value}}); err != nil {
		t.Fatal(err)
	}
}
