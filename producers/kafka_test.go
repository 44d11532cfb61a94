package producers

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// lab is a configuration, and the network where its brokers are.
type lab struct {
	config.Config
	network *kfake.VirtualNetwork // nil: the system's
}

// newLab has a network in memory, for brokers that do not exist yet.
func newLab(t *testing.T) *lab {
	t.Helper()
	c := config.Default()
	c.Prefix, c.Interval, c.Grace, c.PlanMargin = "test.", 200*time.Millisecond, 100*time.Millisecond,
		50*time.Millisecond
	c.BackoffCap, c.Collectors, c.Partitions.Routes = 200*time.Millisecond, 4, 2
	c.Kafka.Brokers = []string{"localhost:9092"}
	c.Agent.Node, c.Balance.LDist = "host1", 1
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return &lab{c, &kfake.VirtualNetwork{}}
}

// inBubble runs a test on a fake clock, with a network in memory, which such a clock needs. Only waiting takes time
// there: no load of the machine makes an agent late.
func inBubble(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newLab(t)) })
}

// dial is how clients reach the brokers.
func (l *lab) dial() []kgo.Opt {
	if l.network == nil {
		return nil
	}
	return []kgo.Opt{kgo.Dialer(l.network.DialContext)}
}

// newFleet is a fleet whose clients reach the brokers.
func (l *lab) newFleet(t testing.TB, members []member, log *slog.Logger) *fleet {
	t.Helper()
	f, err := newFleet(l.Config, members, log)
	if err != nil {
		t.Fatal(err)
	}
	f.opts = l.dial()
	return f
}

// simulate starts simulated nodes, until the test ends.
func (l *lab) simulate(t *testing.T, nodes int) (f *fleet, logged *kafkatest.Log, stop func()) {
	t.Helper()
	var members []member
	for _, name := range SimulatedNodes(nodes) {
		members = append(members, member{name, &simulated{node: name}})
	}
	logged = &kafkatest.Log{}
	f = l.newFleet(t, members, logged.Logger())
	return f, logged, start(t, logged, f.serve)
}

// startBroker starts a broker where the configuration looks for it, or anywhere on the system's network. It has data of
// its own or that of the one before, and our topics.
func (l *lab) startBroker(t *testing.T, dir string, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	opts := []kfake.Opt{kfake.DataDir(dir)}
	if l.network != nil {
		opts = append(opts, kfake.Ports(9092), kfake.ListenFn(l.network.Listen))
	}
	cluster := kafkatest.Broker(t, append(opts, more...)...)
	l.Kafka.Brokers = cluster.ListenAddrs()
	kafkatest.CreateTopics(t, cluster, l.Config)
	return cluster
}

// start runs an agent or a simulation until the test ends, and returns what ends it before and waits for it.
func start(t *testing.T, logged *kafkatest.Log, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run returned %v", err)
		}
		if t.Failed() {
			t.Log(logged.String())
		}
	})
	t.Cleanup(stop)
	return stop
}

func (l *lab) client(t *testing.T, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts, err := kafka.ClientOpts(context.Background(), l.Config)
	if err != nil {
		t.Fatal(err)
	}
	return kafkatest.Client(t, l.Kafka.Brokers, append(append(opts, l.dial()...), more...)...)
}

// plan writes routes as the balancer does: keyed, in one transaction.
func (l *lab) plan(t *testing.T, routes ...*schemas.Route) {
	t.Helper()
	cl := l.client(t, kgo.TransactionalID(l.Prefix+t.Name()), kgo.DefaultProduceTopic(l.Prefix+schemas.TopicRoutes))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	records := []*kgo.Record{{Key: []byte("sim0001"), Value: []byte("garbage")}, {Key: []byte("sim0001")}}
	for _, r := range routes {
		b, err := schemas.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &kgo.Record{Key: []byte(r.Node), Value: b})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

// counter is a record of the counters topic.
type counter struct {
	partition int32
	key       string
	head      *schemas.NodeHeader // nil for a Gap
	record    schemas.Record
}

// gather reads the counters topic from its start until enough is true.
func (l *lab) gather(t *testing.T, enough func([]counter) bool) []counter {
	t.Helper()
	cl := l.client(t, kgo.ConsumeTopics(l.Prefix+schemas.TopicCounters),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	var all []counter
	for !enough(all) {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("waited in vain; %d records came", len(all))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			decoded, err := schemas.Unmarshal(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			k := counter{partition: r.Partition, key: string(r.Key), record: decoded}
			switch d := decoded.(type) {
			case *schemas.CounterBatch:
				k.head = &d.NodeHeader
			case *schemas.NodeSummary:
				k.head = &d.NodeHeader
			}
			all = append(all, k)
		})
	}
	return all
}

// from counts the records of a node.
func from(all []counter, node string) int {
	n := 0
	for _, k := range all {
		if k.head != nil && k.head.Node == node {
			n++
		}
	}
	return n
}

func gaps(all []counter) []*schemas.Gap {
	var found []*schemas.Gap
	for _, k := range all {
		if g, ok := k.record.(*schemas.Gap); ok {
			found = append(found, g)
		}
	}
	return found
}

func checkValues(t *testing.T, b *schemas.CounterBatch) {
	t.Helper()
	nodeScoped := 0
	for _, m := range b.Metrics {
		if m.Scope == schemas.ScopeNode {
			nodeScoped++
		}
		for i, v := range m.Values {
			cpu := 0
			if m.Scope == schemas.ScopeCore {
				cpu = int(b.Cpus[i])
			}
			want := SimulatedValue(b.Node, m.Name, cpu, b.IntervalStart)
			if v != want && !(math.IsNaN(v) && math.IsNaN(want)) {
				t.Errorf("%s of cpu %d is %g, want %g", m.Name, cpu, v, want)
			}
		}
	}
	if (nodeScoped > 0) != (b.JobID == schemas.JobRest) {
		t.Errorf("%s carries %d node-scoped metrics", b.JobID, nodeScoped)
	}
}

func checkLocal(t *testing.T, s *schemas.NodeSummary) {
	t.Helper()
	if len(s.Metrics) != len(shapes()) {
		t.Errorf("%d metrics, want %d", len(s.Metrics), len(shapes()))
	}
	for _, m := range s.Metrics {
		low, high, valid := math.Inf(1), math.Inf(-1), 0
		for cpu := range SimulatedCPUs {
			v := SimulatedValue(s.Node, m.Name, cpu, s.IntervalStart)
			if !math.IsNaN(v) {
				low, high, valid = min(low, v), max(high, v), valid+1
			}
		}
		if m.Scope == schemas.ScopeNode {
			valid = 1
		}
		if m.Count != int64(valid) || (*m.Deciles)[0] != low || (*m.Deciles)[10] != high {
			t.Errorf("%s: count %d and deciles %v, want %d within [%g, %g]",
				m.Name, m.Count, *m.Deciles, valid, low, high)
		}
	}
}
