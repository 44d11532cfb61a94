package producers

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

const (
	// inHand is the largest number of intervals of one node in the Kafka client. The client cannot give back records
	// that it has begun to send, so the others wait in the ring, which may drop them.
	inHand = 4
	// nodeHand is the number of bytes of one node in the Kafka client at which it gets no more. 257 records that the
	// node reduced take 1.8 MB. They leave together, so that their number does not multiply the latency.
	nodeHand = 4 << 20
	// fleetHand is the limit for all simulated nodes of a process together.
	fleetHand = 32 << 20
	// clientHand is the least limit of a client for many nodes.
	clientHand = 256 << 10
	// recordBytes is the memory of a record in hand beside its value.
	recordBytes = 512
	// drainTime is the longest time that the end of the process waits for records to be sent.
	drainTime = 2 * time.Second
)

// errNoAnswer is logged when the brokers have not answered for the records that were sent.
var errNoAnswer = errors.New("no answer")

// publisher hands the records of some nodes' rings to Kafka, in whole intervals if they fit. A fleet has one, unless
// its simulated nodes are divided among several Kafka clients.
type publisher struct {
	*fleet
	nodes      []*node // the nodes of the fleet that this publisher serves
	topic      string
	client     *kgo.Client
	stop       context.CancelFunc // cancels the client's waiting
	waits      sync.WaitGroup     // of looks at the broker's clock, and for acknowledgements
	wake       chan struct{}      // a ring holds a record
	link       link
	partitions atomic.Int32 // of the topic, once the client knows

	// Guarded by the fleet's mutex.
	flights   map[string]*flight // by node
	inFlight  int                // records, over all nodes
	bytes     int                // of the records in flight
	limit     int                // of bytes: nothing more is handed over from here on
	ready     []*node            // that may have a record to give, in the order of their turns
	flushing  bool               // one node's records are on their way, and all others wait
	progress  time.Time          // when a broker last answered, or the first record in flight left
	failures  int                // in a row
	resume    time.Time          // nothing is handed over before this time
	refusals  retry.Trouble
	madeAgain bool // the topic's id differs from the client's, which never adopts a new one
}

// flight describes the records of one node that the Kafka client holds.
type flight struct {
	intervals map[int64]int // records in flight by interval; only intervals that have some
	gapDue    bool          // a broker has answered since a record was lost, so a Gap may leave
}

// newPublishers divides the nodes among publishers. It gives neighbours in the order of slots to different publishers,
// so that each of them is busy during the whole window.
func newPublishers(f *fleet) ([]*publisher, error) {
	clients := min(max(f.clients, 1), len(f.nodes))
	nodes := make([][]*node, clients)
	for i, n := range f.nodes {
		nodes[i%clients] = append(nodes[i%clients], n)
	}
	all := make([]*publisher, 0, clients)
	for _, of := range nodes {
		p, err := newPublisher(f, of, max(fleetHand/clients, clientHand))
		if err != nil {
			for _, p := range all {
				p.end()
			}
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// newPublisher bounds the bytes in hand. Records that the brokers do not take must wait in the ring, which drops the
// oldest first. The client would keep all of them.
func newPublisher(f *fleet, nodes []*node, limit int) (*publisher, error) {
	sending, stop := context.WithCancel(context.Background()) // records in hand outlive the sampling
	opts, err := f.clientOpts(sending)
	if err != nil {
		stop()
		return nil, fmt.Errorf("publishing: %w", err)
	}
	p := &publisher{
		fleet: f, nodes: nodes, stop: stop, wake: make(chan struct{}, 1),
		topic: f.cfg.Prefix + schemas.TopicCounters, flights: map[string]*flight{},
	}
	p.link = link{log: f.log, topic: p.topic}
	p.limit = min(nodeHand*len(nodes), limit)
	p.client, err = kgo.NewClient(append(opts, together(f),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(p.partitioner)),
		// The last record in hand may exceed the limit. A promise is called before the client forgets its record, so
		// the client needs room for twice as many bytes.
		kgo.MaxBufferedBytes(2*(p.limit+schemas.MaxCountersBytes)),
		kgo.MaxBufferedRecords(2*p.limit/recordBytes),
		kgo.WithHooks(&p.link),
	)...)
	if err != nil {
		stop()
		return nil, fmt.Errorf("publishing: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range nodes {
		p.flights[n.name] = &flight{intervals: map[int64]int{}}
		n.publisher = p
		n.enqueue()
	}
	return p, nil
}

// together makes a node's records, and its neighbours' in a simulation, leave in one request. Without a linger the
// first record would leave alone, and the last of many jobs would wait for its acknowledgement. With a single processor
// no linger is needed: the client begins to send only when the publisher has handed over all records. That takes a
// seventh off the cycle of a node's agent, since a timer wakes the process (docs/overhead.md).
func together(f *fleet) kgo.Opt {
	switch {
	case f.requestPerNode: // a linger a node would add up
		return kgo.ManualFlushing()
	case len(f.nodes) == 1 && runtime.GOMAXPROCS(0) == 1:
		return kgo.ProducerLinger(0)
	}
	return kgo.ProducerLinger(5 * time.Millisecond)
}

// enqueue gives a node a turn with its publisher, if it has none. The caller holds the fleet's mutex, and nudges the
// publisher. Only queued nodes are asked for records: asking each of thousands for every record would take more time
// than the records themselves.
func (n *node) enqueue() {
	if n.publisher != nil && !n.queued {
		n.queued = true
		n.publisher.ready = append(n.publisher.ready, n)
	}
}

// nudge wakes the publisher. It never blocks.
func (p *publisher) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// partitioner is kgo.ManualPartitioner, since the partition was fixed when the record was formed. It also notes the
// number of partitions, because the client's error does not reveal that a partition is missing.
func (p *publisher) partitioner(topic string) func(*kgo.Record, int) int {
	return func(r *kgo.Record, partitions int) int {
		if topic == p.topic { // the other one has the facts
			p.partitions.Store(int32(partitions))
		}
		return int(r.Partition)
	}
}

// run sends until sampled is closed and the rings are empty, for at most drainTime after sampled.
func (p *publisher) run(sampled <-chan struct{}) {
	defer p.end()
	var deadline <-chan time.Time
	timer := time.NewTimer(time.Hour) // one for all turns: each that is stopped may wake the process all the same
	defer timer.Stop()
	for {
		p.forget()
		p.handOver(p.now())
		if deadline != nil && p.idle() {
			return
		}
		timer.Reset(p.untilNext(p.now()))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-sampled:
			sampled, deadline = nil, time.After(drainTime)
		case <-deadline:
			return
		}
	}
}

// forget makes the client look up a topic again that was deleted and made again. The client's records of that topic go
// back to the rings.
func (p *publisher) forget() {
	p.mu.Lock()
	madeAgain := p.madeAgain
	p.madeAgain = false
	p.mu.Unlock()
	if madeAgain {
		p.client.PurgeTopicsFromProducing(p.topic)
	}
}

// end closes the client, and logs the records that were not sent.
func (p *publisher) end() {
	p.stop()
	p.client.Close() // returns the records in flight to the rings
	p.waits.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	left := 0
	for _, n := range p.nodes {
		left += n.ring.depth()
	}
	if left > 0 {
		p.log.Warn("records were not sent before the end", "topic", p.topic, "count", left)
	}
}

// idle reports whether there is nothing left to send.
func (p *publisher) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inFlight > 0 {
		return false
	}
	for _, n := range p.nodes {
		if n.ring.depth() > 0 {
			return false
		}
	}
	return true
}

// patience is the time without an answer after which the brokers count as away.
func (p *publisher) patience() time.Duration {
	return p.cfg.BackoffCap + p.cfg.Kafka.DialTimeout
}

// untilNext is the time that the loop sleeps unless it is woken: to the end of a pause, or of patience.
func (p *publisher) untilNext(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resume.After(now) {
		return p.resume.Sub(now)
	}
	if p.inFlight > 0 {
		return max(p.progress.Add(p.patience()).Sub(now), time.Second)
	}
	return time.Hour
}

// parcel is an item on its way to the client.
type parcel struct {
	node  *node
	item  item
	value []byte // of the record, encoded
	bytes int    // in the client's hand
}

// handOver gives the client as many records as it may hold. It encodes all of them before the client receives the
// first. Otherwise a slow node's interval would leave in many requests, each waiting for the previous one.
func (p *publisher) handOver(now time.Time) {
	p.watch(now)
	var parcels []parcel
	var only *node // the only node that may send, if it must send alone
	for c, ok := p.next(now, nil); ok; c, ok = p.next(now, only) {
		if p.requestPerNode {
			only = c.node
		}
		value, err := encode(c.item, p.now())
		if err != nil {
			p.settle(c, err)
			continue
		}
		c.value, c.bytes = value, recordBytes+len(value)
		p.hold(c.bytes)
		parcels = append(parcels, c)
	}
	for _, c := range parcels {
		key := schemas.CollectorKey(c.item.partition)
		sent := p.now()
		r := &kgo.Record{
			Topic: p.topic, Partition: c.item.partition, Key: key, Value: c.value, Timestamp: sent,
		}
		// The end of the run must not fail records that can still be sent, so they have another context.
		p.client.TryProduce(context.Background(), r, func(r *kgo.Record, err error) {
			if err == nil {
				p.lookAtClock(r, sent)
			}
			if n := p.partitions.Load(); err != nil && n > 0 && c.item.partition >= n {
				err = fmt.Errorf("%w: %d of %d", errNoPartition, c.item.partition, n)
			}
			p.settle(c, err)
		})
	}
	if p.requestPerNode && len(parcels) > 0 {
		p.flush()
	}
}

// flush lets the records in the client's hand leave together. The next node's turn is when all are acknowledged.
func (p *publisher) flush() {
	p.mu.Lock()
	p.flushing = true
	p.mu.Unlock()
	p.waits.Go(func() {
		_ = p.client.Flush(context.Background()) // the client's end ends it, and promises have the errors
		p.mu.Lock()
		p.flushing = false
		p.mu.Unlock()
		p.nudge()
	})
}

// watch notes brokers that do not answer.
func (p *publisher) watch(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inFlight > 0 && now.Sub(p.progress) >= p.patience() {
		p.link.lost(errNoAnswer)
	}
}

// next takes a record for the client from the next ring that can give one, or from the ring of one node only. The nodes
// take turns, so that a node with many records does not keep the others waiting. The caller hands the record over
// without the mutex: the client's promises lock it.
func (p *publisher) next(now time.Time, only *node) (parcel, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes >= p.limit || p.flushing || now.Before(p.resume) {
		return parcel{}, false
	}
	horizon := p.horizon(now)
	for len(p.ready) > 0 {
		n := p.ready[0]
		if only != nil && n != only {
			break
		}
		f := p.flights[n.name]
		it, ok := f.take(n, horizon)
		if !ok {
			p.ready, n.queued = p.ready[1:], false
			if only != nil { // the others wait until this node's records are done
				break
			}
			continue
		}
		if !p.requestPerNode {
			p.ready = append(p.ready[1:], n)
		}
		if p.inFlight == 0 {
			p.progress = now
		}
		f.intervals[it.start]++
		p.inFlight++
		return parcel{node: n, item: it}, true
	}
	return parcel{}, false
}

// take removes a Gap if one is due, otherwise the oldest record. It returns nothing if that record would open one
// interval too many.
func (f *flight) take(n *node, horizon int64) (item, bool) {
	if route := n.routes.at(horizon); f.gapDue && route != nil {
		f.gapDue = false
		if it, ok := n.ring.takeGap(route.Home); ok {
			return it, true
		}
	}
	if start, ok := n.ring.oldest(); !ok || f.intervals[start] == 0 && len(f.intervals) >= inHand {
		return item{}, false
	}
	return n.ring.take()
}

// hold counts the bytes of a record that the client gets.
func (p *publisher) hold(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += bytes
}

func encode(it item, now time.Time) ([]byte, error) {
	b, err := schemas.Marshal(it.record(now.UnixMilli()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEncoding, err)
	}
	return b, nil
}
