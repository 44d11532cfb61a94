package producers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// errNotRoute is returned when a value of the routes topic is not the Route of its key's node.
var errNotRoute = errors.New("not the route of the node that the key names")

// fetchWait is the longest time that a broker waits before it answers that there are no new routes. It answers at once
// when there are some. With the client's own 5 s, ten thousand agents would send 2,000 requests a second for nothing.
const fetchWait = 30 * time.Second

// follower reads the partitions of the routes topic that hold this fleet's nodes, from their beginning and without end.
type follower struct {
	*fleet
	topic      string
	partitions []int32
	opts       []kgo.Opt
	link       link
	caughtUp   chan struct{}     // closed when the reader reaches the end for the first time
	behind     bool              // caughtUp is not closed yet
	gathered   map[*node]*routes // the routes read on the way to the end; nil after it
	skipped    retry.Trouble     // of values that are no routes
	unsaved    retry.Trouble
}

// newFollower reads only the partitions of its own nodes, from their beginning: the topic is compacted, and the last
// Route of a node counts. A machine's agents would otherwise read all Routes each.
func newFollower(f *fleet) (*follower, error) {
	opts, err := f.clientOpts(context.Background())
	if err != nil {
		return nil, fmt.Errorf("following the routes: %w", err)
	}
	r := &follower{fleet: f, topic: f.cfg.Prefix + schemas.TopicRoutes, caughtUp: make(chan struct{}), behind: true}
	r.link = link{log: f.log, topic: r.topic}
	begin := map[int32]kgo.Offset{}
	for _, n := range f.nodes {
		begin[routesPartition(n.name, f.cfg.Partitions.Routes)] = kgo.NewOffset().AtStart()
	}
	for p := range begin {
		r.partitions = append(r.partitions, p)
	}
	r.opts = append(opts,
		kgo.WithHooks(&r.link),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: begin}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // a position out of range is an error, not a jump
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(fetchWait),
		kgo.KeepControlRecords(), // the last offset may be a transaction's marker, and must be reached
	)
	return r, nil
}

// routesPartition is the partition of a node's routes by Kafka's own partitioner. So a keyed write of any client
// arrives there.
func routesPartition(node string, partitions int) int32 {
	byKey := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return int32(byKey.Partition(&kgo.Record{Key: []byte(node)}, partitions))
}

// run follows the routes until ctx ends. After any error it pauses, and starts over with a new client.
func (r *follower) run(ctx context.Context) {
	for tries := 1; ; tries++ {
		served, err := r.read(ctx)
		if ctx.Err() != nil {
			return
		}
		r.link.lost(err)
		if served {
			tries = 1
		}
		pause := retry.Backoff(tries, r.cfg.BackoffCap)
		if !retry.Pause(ctx, pause) {
			return
		}
	}
}

// read reads from the beginning until an error. It reports whether the brokers served a fetch before the error.
func (r *follower) read(ctx context.Context) (served bool, err error) {
	client, err := kgo.NewClient(append(slices.Clone(r.opts), kgo.WithContext(ctx))...)
	if err != nil {
		return false, fmt.Errorf("connecting: %w", err)
	}
	defer client.Close()
	ends, err := r.ends(ctx, client)
	if err != nil {
		return false, err
	}
	r.gathered = map[*node]*routes{}
	for {
		r.reach(ends)
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return served, nil
		}
		for _, e := range fetches.Errors() {
			return served, fmt.Errorf("reading partition %d: %w", e.Partition, e.Err)
		}
		served = true
		r.link.found()
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset+1 >= ends[record.Partition] {
				delete(ends, record.Partition)
			}
			r.apply(record)
		})
		r.save()
	}
}

// ends returns the end of the committed records of each partition. A partition without any is left out.
func (r *follower) ends(ctx context.Context, client *kgo.Client) (map[int32]int64, error) {
	// The client would dial absent brokers for minutes. An answer that takes longer than this counts as none.
	ctx, cancel := context.WithTimeout(ctx, r.cfg.BackoffCap+r.cfg.Kafka.DialTimeout)
	defer cancel()
	ends := map[int32]int64{}
	for _, p := range r.partitions {
		start, end, err := kafka.Bounds(ctx, kadm.NewClient(client), r.topic, p)
		if err != nil {
			return nil, err
		}
		if end > start {
			ends[p] = end
		}
	}
	return ends, nil
}

// reach puts all routes that were read in force at once, when every partition is read to its end: until then, a route
// that was replaced days ago might form a record. A node without a route in the topic ends up without one.
func (r *follower) reach(ends map[int32]int64) {
	if r.gathered == nil || len(ends) > 0 {
		return
	}
	horizon := r.horizon(r.now())
	r.mu.Lock()
	for _, n := range r.nodes {
		var topic []*schemas.Route
		if g := r.gathered[n]; g != nil {
			topic = g.known
		}
		n.routes.replace(topic, horizon)
	}
	r.mu.Unlock()
	r.gathered = nil
	r.save()
	if r.behind {
		r.behind = false
		close(r.caughtUp)
	}
}

// apply remembers a route of one of this fleet's nodes. A value that is no route is skipped.
func (r *follower) apply(record *kgo.Record) {
	n := r.byName[string(record.Key)]
	if n == nil || record.Attrs.IsControl() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := &n.routes
	if r.gathered != nil {
		if r.gathered[n] == nil {
			r.gathered[n] = &routes{}
		}
		known = r.gathered[n]
	}
	if record.Value == nil { // a tombstone: the node has left the machine
		known.known = nil
		return
	}
	route, err := decodeRoute(n.name, record.Value)
	if err != nil {
		if r.skipped.Worth(err, time.Now()) { // a good value in between does not end the trouble
			r.log.Warn("route is skipped", "node", n.name,
				"topic", record.Topic, "partition", record.Partition, "offset", record.Offset, "err", err)
		}
		return
	}
	known.add(route, r.horizon(r.now()))
}

// decodeRoute refuses a Route that names another node than its key. Following it would send this node's values under a
// wrong plan.
func decodeRoute(node string, value []byte) (*schemas.Route, error) {
	decoded, err := schemas.Unmarshal(value)
	if err != nil {
		return nil, fmt.Errorf("decoding a route: %w", err)
	}
	route, ok := decoded.(*schemas.Route)
	if !ok || route.Node != node {
		return nil, errNotRoute
	}
	return route, nil
}

// save logs an error and continues, because the file only serves a start while no broker answers.
func (r *follower) save() {
	err := r.saveRoutes()
	switch {
	case err == nil && r.unsaved.Over():
		r.log.Info("routes are kept on disk again")
	case err != nil && r.unsaved.Worth(err, time.Now()):
		r.log.Warn("routes are not kept on disk", "err", err)
	}
}
