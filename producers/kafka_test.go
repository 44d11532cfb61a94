package producers

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// testConfig is for brokers that do not exist yet, on a port that was free a moment ago.
func testConfig(t *testing.T) config.Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := config.Default()
	c.Prefix, c.Interval, c.Grace, c.PlanMargin = "test.", 200*time.Millisecond, 100*time.Millisecond,
		50*time.Millisecond
	c.BackoffCap, c.Collectors, c.Partitions.Routes = 200*time.Millisecond, 4, 2
	c.Kafka.Brokers = []string{l.Addr().String()}
	c.Agent.Node, c.Balance.LDist = "host1", 1
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// startBroker starts an in-process broker where the configuration looks for it, with data of its own or that of the one
// before, and our topics.
func startBroker(t *testing.T, c config.Config, dir string, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	_, text, err := net.SplitHostPort(c.Kafka.Brokers[0])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kfake.NewCluster(append(more, kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	for _, topic := range schemas.Topics(c.Prefix, schemas.Sizes{
		Collectors: c.Collectors, Routes: c.Partitions.Routes, Partials: 1, JobSummary: 1, Replication: 1,
		CountersRetention: time.Hour, SummaryRetention: time.Hour,
	}) {
		if cluster.TopicInfo(topic.Name) == nil {
			if err := cluster.CreateTopic(topic.Name, int32(topic.Partitions), topic.Config); err != nil {
				t.Fatal(err)
			}
		}
	}
	return cluster
}

// logBuffer is a log that a test reads while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs an agent or a simulation until the test ends, and returns what ends it before and waits for it.
func start(t *testing.T, run func(context.Context, *slog.Logger) error) (logged *logBuffer, stop func()) {
	t.Helper()
	logged = &logBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}()
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
	return logged, stop
}

func client(t *testing.T, c config.Config, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts, err := kafka.ClientOpts(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// plan writes routes as the balancer does: keyed, in one transaction.
func plan(t *testing.T, c config.Config, routes ...*schemas.Route) {
	t.Helper()
	cl := client(t, c, kgo.TransactionalID(c.Prefix+t.Name()), kgo.DefaultProduceTopic(c.Prefix+schemas.TopicRoutes))
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
func gather(t *testing.T, c config.Config, enough func([]counter) bool) []counter {
	t.Helper()
	cl := client(t, c, kgo.ConsumeTopics(c.Prefix+schemas.TopicCounters),
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

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(90 * time.Second)
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatal("waited in vain")
		}
	}
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
		for cpu := range simulatedCPUs {
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
