package producers

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// request is a produce request as a broker gets it: how many records of each node it has.
type request map[string]int

// watchRequests remembers the produce requests that have records of the counters topic.
func watchRequests(t *testing.T, l *lab, cluster *kfake.Cluster) (seen func() []request) {
	t.Helper()
	var mu sync.Mutex
	var all []request
	cluster.ControlKey(int16(kmsg.Produce), func(asked kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		of := request{}
		for _, topic := range asked.(*kmsg.ProduceRequest).Topics {
			if topic.Topic != l.Prefix+schemas.TopicCounters && topic.Topic != "" { // newer clients name it by its id
				continue
			}
			for _, p := range topic.Partitions {
				for _, r := range recordsIn(t, p.Records) {
					decoded, err := schemas.Unmarshal(r.Value)
					if b, ok := decoded.(*schemas.CounterBatch); ok && err == nil {
						of[b.Node]++
					}
				}
			}
		}
		if len(of) > 0 {
			mu.Lock()
			all = append(all, of)
			mu.Unlock()
		}
		return nil, nil, false
	})
	return func() []request {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// recordsIn reads the records of a produce request as if they had been fetched.
func recordsIn(t *testing.T, batch []byte) []*kgo.Record {
	t.Helper()
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{},
		&kmsg.FetchResponseTopicPartition{RecordBatches: batch}, kgo.DefaultDecompressor(), nil)
	return got.Records
}

// TestWaysOfPublishing: the nodes share a client, or have several, or their records leave node by node. In each way all
// records arrive once. With a request for each node, it has all records of that node's interval and no other node's.
func TestWaysOfPublishing(t *testing.T) {
	const nodes, perNode = 12, 16
	for name, c := range map[string]struct {
		load    Load
		clients int
	}{
		"one client":              {Load{}, 1},
		"five clients":            {Load{Clients: 5}, 5},
		"more clients than nodes": {Load{Clients: 100}, nodes},
		"a request a node":        {Load{RequestPerNode: true}, 1},
		"as real nodes":           {Load{Clients: 5, RequestPerNode: true, SuperMUC: true, Cores: 16, Metrics: 7}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				cluster := l.startBroker(t, t.TempDir())
				l.planShared(t, nodes)
				connected := countConnections(cluster)
				seen := watchRequests(t, l, cluster)
				logged := &kafkatest.Log{}
				f := l.newFleet(t, c.load.members(nil, SimulatedNodes(nodes), false), logged.Logger())
				f.clients, f.requestPerNode = c.load.Clients, c.load.RequestPerNode
				stop := start(t, logged, f.serve)
				kafkatest.Eventually(t, "some intervals", func() bool { return l.inLog(cluster) >= 10*nodes*perNode })
				stop()

				checkOnce(t, l, f, l.inLog(cluster))
				if got := connected(); got != c.clients {
					t.Errorf("%d clients publish, want %d", got, c.clients)
				}
				shared, whole, requests := 0, 0, seen()
				for _, r := range requests {
					if len(r) > 1 {
						shared++
					}
					for node, records := range r {
						if records%perNode == 0 {
							whole++
						}
						if c.load.RequestPerNode && len(r) > 1 {
							t.Errorf("a request has %d records of %s, and %d nodes", records, node, len(r))
						}
					}
				}
				// The client may find one partition after the other at first, and send what it can.
				if c.load.RequestPerNode && whole < len(requests)/2 {
					t.Errorf("%d of %d requests have all records of a node", whole, len(requests))
				}
				if name == "one client" && shared == 0 {
					t.Error("no request has records of several nodes")
				}
			})
		})
	}
}

// planShared gives each node 15 jobs and a rest, which go to all partitions.
func (l *lab) planShared(t *testing.T, nodes int) {
	t.Helper()
	var routes []*schemas.Route
	for i, name := range SimulatedNodes(nodes) {
		r := &schemas.Route{Node: name, Epoch: 1, Home: int32(i % l.Collectors)}
		for c := range int32(15) {
			r.Entries = append(r.Entries, entry(fmt.Sprint("job", c), c%int32(l.Collectors), schemas.ModeCollect, c))
		}
		routes = append(routes, r)
	}
	l.plan(t, routes...)
}

// checkOnce wants each record that the nodes have formed in the log once.
func checkOnce(t *testing.T, l *lab, f *fleet, inLog int) {
	t.Helper()
	all := l.gather(t, func(all []counter) bool { return len(all) >= inLog })
	times := map[string]int{}
	for _, k := range all {
		if k.head == nil {
			t.Fatalf("a gap: %+v", k.record)
		}
		times[fmt.Sprint(k.head.Node, " ", k.head.Seq)]++
	}
	for _, n := range f.nodes {
		for seq := int64(1); seq <= n.head.Seq; seq++ {
			if got := times[fmt.Sprint(n.name, " ", seq)]; got != 1 {
				t.Errorf("record %d of %s arrived %d times", seq, n.name, got)
			}
		}
		if n.head.Seq == 0 {
			t.Errorf("%s formed nothing", n.name)
		}
	}
}

// countConnections counts the clients that have an identity as producers, from now on.
func countConnections(cluster *kfake.Cluster) func() int {
	var mu sync.Mutex
	count := 0
	cluster.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		count++
		return nil, nil, false
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// TestNodesWaitForEachOther: where each node has requests of its own, the second node's records leave only when the
// first one's are acknowledged.
func TestNodesWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		cluster, latency := l.startLateBroker(t)
		f := l.newFleet(t, Load{}.members(nil, SimulatedNodes(3), false), (&kafkatest.Log{}).Logger())
		f.requestPerNode = true
		for _, n := range f.nodes {
			n.routes.known = []*schemas.Route{{Node: n.name, Epoch: 1}}
		}
		p := publish(t, f)
		begin := time.Now().Add(-time.Minute).UnixMilli() / 200 * 200
		f.forms(t, begin)
		kafkatest.Eventually(t, "a client that knows the brokers and its own identity", p.idle)
		latency.Store(int64(time.Second))
		f.forms(t, begin+200)
		for want := 4; want <= 6; want++ {
			time.Sleep(900 * time.Millisecond)
			if got := l.inLog(cluster); got != want {
				t.Errorf("%d records are in the log, want %d", got, want)
			}
			time.Sleep(110 * time.Millisecond)
		}
	})
}

// TestKeptRecordsNeedNoInterval: a record that came back to its ring leaves again, though its node forms no other.
func TestKeptRecordsNeedNoInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		cluster := l.startBroker(t, t.TempDir())
		f := l.newFleet(t, Load{}.members(nil, SimulatedNodes(3), false), (&kafkatest.Log{}).Logger())
		for _, n := range f.nodes {
			n.routes.known = []*schemas.Route{{Node: n.name, Epoch: 1}}
		}
		cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: l.Prefix + schemas.TopicCounters,
			Err: kerr.TopicAuthorizationFailed, Count: 1,
		})
		publish(t, f)
		f.forms(t, time.Now().Add(-time.Minute).UnixMilli()/200*200)
		kafkatest.Eventually(t, "all records", func() bool { return l.inLog(cluster) == 3 })
	})
}
