package producers

import (
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// busy samples a node of many CPUs, each of which runs a job of its own.
type busy struct{ cpus, metrics int }

func (busy) Read(source.Vitals) {}

func (b busy) Interval(time.Duration) (cpus []int32, columns []source.Column) {
	s := b.sample(0)
	return s.cpus, s.columns
}

func (busy) Jobs(time.Duration) []source.JobColumns { return nil }

// sample is what the node measures in the interval that begins at start.
func (b busy) sample(start int64) *sample {
	s := &sample{start: start, columns: make([]source.Column, 0, b.metrics)}
	for c := range b.cpus {
		s.cpus = append(s.cpus, int32(c))
	}
	for m := range b.metrics {
		values := make([]float64, b.cpus)
		for c := range values {
			values[c] = unit(mix(uint64(start) + uint64(m*b.cpus+c)))
		}
		s.columns = append(s.columns, source.Column{
			Name: fmt.Sprintf("metric_%02d", m), Unit: "1",
			Scope: schemas.ScopeCore, Values: values,
		})
	}
	return s
}

// route gives every CPU to a job that the node reduces alone, as the balancer does, spread over the partitions. The
// node sends one record more: _rest.
func (b busy) route(node string, partitions int) *schemas.Route {
	r := &schemas.Route{Node: node, Epoch: 1}
	for c := range b.cpus {
		r.Entries = append(r.Entries, entry(fmt.Sprint("job", c), int32(c%partitions), schemas.ModeLocal, int32(c)))
	}
	return r
}

// fleet is a fleet of this one node. Its slot is at the beginning of the window, which leaves most of the grace for
// sending.
func (b busy) fleet(t testing.TB, l *lab, log *slog.Logger) *fleet {
	t.Helper()
	name := "busy0"
	for i := 1; slotOf(name, l.Grace/2) > l.Grace/20; i++ {
		name = fmt.Sprint("busy", i)
	}
	f := l.newFleet(t, []member{{name, b}}, log)
	f.nodes[0].routes.known = []*schemas.Route{b.route(name, l.Collectors)}
	return f
}

// lateListener makes what a broker answers arrive later.
type lateListener struct {
	net.Listener
	latency *atomic.Int64
}

func (l lateListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	late := &lateConn{Conn: conn, latency: l.latency, chunks: make(chan chunk, 64), closed: make(chan struct{})}
	go late.deliver()
	return late, nil
}

type chunk struct {
	at    time.Time
	bytes []byte
}

type lateConn struct {
	net.Conn
	latency *atomic.Int64
	chunks  chan chunk
	closed  chan struct{}
	once    sync.Once
}

func (l *lateConn) Write(b []byte) (int, error) {
	select {
	case l.chunks <- chunk{time.Now().Add(time.Duration(l.latency.Load())), append([]byte(nil), b...)}:
		return len(b), nil
	case <-l.closed:
		return 0, net.ErrClosed
	}
}

func (l *lateConn) deliver() {
	for {
		select {
		case c := <-l.chunks:
			select {
			case <-time.After(time.Until(c.at)):
			case <-l.closed:
				return
			}
			if _, err := l.Conn.Write(c.bytes); err != nil {
				return
			}
		case <-l.closed:
			return
		}
	}
}

func (l *lateConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}

// startLateBroker starts a broker whose answers take the latency returned, which is 0 at first.
func (l *lab) startLateBroker(t *testing.T) (*kfake.Cluster, *atomic.Int64) {
	t.Helper()
	latency := &atomic.Int64{}
	return l.startBroker(t, t.TempDir(), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		listener, err := l.network.Listen(network, address)
		return lateListener{listener, latency}, err
	})), latency
}

// inLog is how many records the topic of counters has.
func (l *lab) inLog(cluster *kfake.Cluster) (count int) {
	for p := range l.Collectors {
		count += int(cluster.PartitionInfo(l.Prefix+schemas.TopicCounters, int32(p)).HighWatermark)
	}
	return count
}

// publish runs the publisher of a fleet until the test ends.
func publish(t *testing.T, f *fleet) *publisher {
	t.Helper()
	p, err := newPublisher(f, f.nodes, fleetHand)
	if err != nil {
		t.Fatal(err)
	}
	sampled, done := make(chan struct{}), make(chan struct{})
	go func() {
		p.run(sampled)
		close(done)
	}()
	t.Cleanup(func() {
		close(sampled)
		<-done
	})
	return p
}

// forms makes the records of the interval that begins at start.
func (f *fleet) forms(t *testing.T, start int64) {
	t.Helper()
	end := start + f.cfg.Interval.Milliseconds()
	f.sampled(t, moment{boundary: start, start: time.UnixMilli(start), end: time.UnixMilli(start)},
		moment{boundary: end, start: time.UnixMilli(end), end: time.UnixMilli(end)})
}

// TestIntervalNeedsNoAcknowledgement: all records of a node's interval leave before the brokers acknowledge the first.
// So the number of jobs on a node does not multiply the latency. An agent on one processor sends without a linger.
func TestIntervalNeedsNoAcknowledgement(t *testing.T) {
	for _, procs := range []int{1, 4} {
		t.Run(fmt.Sprint("GOMAXPROCS=", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			inBubble(t, func(t *testing.T, l *lab) {
				cluster, latency := l.startLateBroker(t)
				f := busy{128, 12}.fleet(t, l, slog.New(slog.DiscardHandler))
				p := publish(t, f)
				start := time.Now().Add(-time.Minute).UnixMilli() / 200 * 200
				f.forms(t, start)
				kafkatest.Eventually(t, "a client that knows the brokers and its own identity", p.idle)
				if got := l.inLog(cluster); got != 129 {
					t.Fatalf("%d records are in the log, want 129", got)
				}
				latency.Store(int64(time.Hour))
				f.forms(t, start+200)
				time.Sleep(10 * time.Second)
				if got := l.inLog(cluster); got != 2*129 {
					t.Errorf("%d of 129 records left before the first acknowledgement", got-129)
				}
			})
		})
	}
}

// TestLinger: only an agent of one node on one processor sends without a linger.
func TestLinger(t *testing.T) {
	for _, c := range []struct {
		procs, nodes int
		want         time.Duration
	}{
		{1, 1, 0}, {4, 1, 5 * time.Millisecond}, {1, 2, 5 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("GOMAXPROCS=%d, %d nodes", c.procs, c.nodes), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.procs))
			inBubble(t, func(t *testing.T, l *lab) {
				l.startBroker(t, t.TempDir())
				f := l.newFleet(t, Load{}.members(nil, SimulatedNodes(c.nodes), false), (&kafkatest.Log{}).Logger())
				if got := publish(t, f).client.OptValue(kgo.ProducerLinger); got != c.want {
					t.Errorf("records linger for %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestBusyNodeIsInTime: at any latency of acknowledgements, all records of an interval are in the log when its grace
// ends. Nothing but the latency takes time here: what the machine needs for the work is in the benchmarks.
func TestBusyNodeIsInTime(t *testing.T) {
	for _, latency := range []time.Duration{20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, l *lab) {
				l.Interval, l.Grace, l.PlanMargin = time.Second, 500*time.Millisecond, 250*time.Millisecond
				cluster, late := l.startLateBroker(t)
				b := busy{128, 12}
				logged := &kafkatest.Log{}
				f := b.fleet(t, l, logged.Logger())
				stop := start(t, logged, f.serve)
				l.plan(t, b.route(f.nodes[0].name, l.Collectors))
				kafkatest.Eventually(t, "the first interval", func() bool { return l.inLog(cluster) >= 129 })
				late.Store(int64(latency))
				for range 5 {
					boundary := time.UnixMilli(boundaryAfter(time.Now(), l.Interval))
					time.Sleep(time.Until(boundary))
					before := l.inLog(cluster)
					time.Sleep(time.Until(boundary.Add(l.Grace)))
					if got := l.inLog(cluster); got%129 != 0 || before%129 != 0 {
						t.Errorf("%d of 129 records came before the boundary, %d before the end of grace",
							before%129, got%129)
					}
				}
				stop()
				if got := l.inLog(cluster); int64(got) != f.nodes[0].head.Seq {
					t.Errorf("%d of %d records are in the log at the end", got, f.nodes[0].head.Seq)
				}
				if d := f.nodes[0].ring.depth(); d != 0 {
					t.Errorf("%d records are left", d)
				}
			})
		})
	}
}

// heap is what is in use behind everything unused.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what a pool held for one more cycle is free now
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryWhileKafkaIsAway: the heap of an agent with 256 jobs takes at most half of the unit's GOMEMLIMIT of 72 MiB.
// That holds after any number of intervals and with any number of metrics.
func TestMemoryWhileKafkaIsAway(t *testing.T) {
	for _, metrics := range []int{37, 300} {
		t.Run(fmt.Sprint(metrics, " metrics"), func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				f := busy{256, metrics}.fleet(t, l, slog.New(slog.DiscardHandler))
				before := heap()
				start := time.Now().Add(-time.Hour).UnixMilli() / 200 * 200
				p := publish(t, f)
				for i := range int64(60) {
					f.forms(t, start+i*200)
					if i < 8 { // the client takes what it may have
						time.Sleep(200 * time.Millisecond)
					}
				}
				used := heap() - before
				f.mu.Lock()
				n := &f.nodes[0].ring
				t.Logf("%d intervals of %d bytes wait, %d bytes are in hand; the heap grew by %d",
					len(n.batches), n.bytes, p.bytes, used)
				f.mu.Unlock()
				if used > 36<<20 {
					t.Errorf("the heap grew by %d bytes", used)
				}
			})
		})
	}
}

// TestRingCountsItsMemory: the bytes that a ring counts are those that the heap has of it. The runtime itself takes and
// frees some meanwhile, which is little against several rings.
func TestRingCountsItsMemory(t *testing.T) {
	const rings = 4
	for _, b := range []busy{{256, 37}, {8, 100}, {256, 1}} {
		var fleets []*fleet
		for range rings {
			fleets = append(fleets, b.fleet(t, newLab(t), slog.New(slog.DiscardHandler)))
		}
		before := heap()
		start := time.Now().Add(-time.Hour).UnixMilli() / 200 * 200
		counted := int64(0)
		for _, f := range fleets {
			for i := range int64(32) {
				f.forms(t, start+i*200)
			}
			counted += f.nodes[0].ring.bytes
		}
		used := heap() - before
		t.Logf("%d CPUs, %d metrics: the rings count %d bytes, the heap grew by %d", b.cpus, b.metrics, counted, used)
		if float64(used) > 1.2*float64(counted)+256<<10 || float64(used) < 0.6*float64(counted)-256<<10 {
			t.Errorf("%d CPUs, %d metrics: the rings count %d bytes, the heap grew by %d",
				b.cpus, b.metrics, counted, used)
		}
		runtime.KeepAlive(fleets)
	}
}

// TestHandIsBoundedInBytes: while nobody acknowledges, the client holds no more than its limit, of however many nodes.
// Later all that was formed is in the log once, in the order of forming, or in a Gap.
func TestHandIsBoundedInBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		b := busy{64, 10}
		var members []member
		for i := range 10 {
			members = append(members, member{fmt.Sprint("busy", i), b})
		}
		f := l.newFleet(t, members, slog.New(slog.DiscardHandler))
		for _, n := range f.nodes {
			// all in one partition, so that batches are as large as can be
			n.routes.known = []*schemas.Route{b.route(n.name, 1)}
			n.ring.limit = 64 << 10
		}
		p := publish(t, f)
		f.mu.Lock()
		if p.limit != fleetHand {
			t.Errorf("%d nodes may have %d bytes in hand", len(f.nodes), p.limit)
		}
		p.limit = 512 << 10
		f.mu.Unlock()
		start := time.Now().Add(-time.Hour).UnixMilli() / 200 * 200
		held := func() (bytes, records int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, n := range f.nodes {
				if n.ring.bytes > n.ring.limit {
					t.Errorf("a ring has %d bytes", n.ring.bytes)
				}
			}
			return p.bytes, p.inFlight
		}
		f.forms(t, start)
		f.forms(t, start+200)
		kafkatest.Eventually(t, "a client with its hands full", func() bool {
			bytes, records := held()
			return bytes >= p.limit && p.client.BufferedProduceRecords() == int64(records)
		})
		for i := range int64(12) {
			f.forms(t, start+400+i*200)
			held()
		}
		const aRecord = 64 << 10 // that begins below the limit
		if bytes, records := held(); int64(bytes) > int64(p.limit)+aRecord ||
			p.client.BufferedProduceBytes() > int64(p.limit)+aRecord {
			t.Errorf("%d bytes of %d records are in hand, the client has %d",
				bytes, records, p.client.BufferedProduceBytes())
		}
		l.startBroker(t, t.TempDir())
		kafkatest.Eventually(t, "empty rings", p.idle)
		if bytes, records := held(); bytes != 0 || records != 0 {
			t.Errorf("%d bytes of %d records are in hand at the end", bytes, records)
		}

		formed := int64(0)
		for _, n := range f.nodes {
			formed += n.head.Seq
		}
		lost := int64(0)
		all := l.gather(t, func(all []counter) bool {
			lost = 0
			for _, g := range gaps(all) {
				lost += g.Records
				if g.Reason != reasonFull {
					t.Fatalf("gap %+v", g)
				}
			}
			return int64(len(all)-len(gaps(all)))+lost >= formed
		})
		if lost == 0 {
			t.Error("nothing was dropped: the test does not test")
		}
		type place struct {
			node      string
			partition int32
		}
		seqs := map[place]int64{}
		count := int64(0)
		for _, k := range all {
			if k.head == nil {
				continue
			}
			count++
			at := place{k.head.Node, k.partition}
			if k.head.Seq <= seqs[at] {
				t.Fatalf("record %d of %s is behind %d in partition %d", k.head.Seq, at.node, seqs[at], at.partition)
			}
			seqs[at] = k.head.Seq
		}
		if count+lost != formed {
			t.Errorf("%d records and %d in gaps, of %d formed", count, lost, formed)
		}
	})
}

// BenchmarkInterval256Jobs is what an interval of 256 jobs that the node reduces costs, formed and encoded.
func BenchmarkInterval256Jobs(b *testing.B) {
	node := busy{256, 37}
	route := node.route("n", 64)
	s := node.sample(4000)
	b.ReportAllocs()
	bytes := 0
	for b.Loop() {
		items, _ := form(route, s, schemas.NodeHeader{Cluster: "c", Node: "n", IntervalMs: 1000})
		bytes = 0
		for _, it := range items {
			value, err := encode(it, time.UnixMilli(5000))
			if err != nil {
				b.Fatal(err)
			}
			bytes += len(value)
		}
	}
	b.ReportMetric(float64(bytes), "value-B")
}

func BenchmarkForm256Jobs(b *testing.B) {
	node := busy{256, 37}
	route := node.route("n", 64)
	s := node.sample(4000)
	b.ReportAllocs()
	for b.Loop() {
		form(route, s, schemas.NodeHeader{Cluster: "c", Node: "n", IntervalMs: 1000})
	}
}
