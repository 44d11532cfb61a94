package balancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// loads says what a node of each job sends in an interval, in bytes, smoothed. Nil says one for all: nodes are counted.
type loads struct {
	perNode  map[schemas.JobKey]float64
	usual    float64         // of a job that was not measured yet: the mean of all that were
	measured bool            // any was
	heard    map[int32]int64 // by partition: the interval that its collector spoke of last
}

// newestWeight is the weight of the newest interval in a load: after five intervals two thirds of a change are in it.
const newestWeight = 0.2

// newLoads begins with what the configuration says of a node.
func newLoads(nodeBytes int64) *loads {
	return &loads{usual: float64(nodeBytes), heard: map[int32]int64{}}
}

// of returns the load of each node of a job, at least 1.
func (l *loads) of(key schemas.JobKey) int64 {
	if l == nil {
		return 1
	}
	bytes, known := l.perNode[key]
	if !known {
		bytes = l.usual
	}
	return max(1, int64(math.Round(bytes)))
}

// report is what a collector said of the interval that it closed last.
type report struct {
	closedMs int64 // its start
	loads    []schemas.JobLoad
}

// update brings in what the collectors said last, by partition, each interval once. A job of which they say nothing new keeps its
// load; a job that is not among those planned is forgotten.
func (l *loads) update(reports map[int32]report, jobs []scheduler.Job) {
	type sum struct{ nodes, bytes int64 }
	var all sum
	sent := map[schemas.JobKey]sum{}
	for partition, of := range reports {
		before, heard := l.heard[partition]
		for _, r := range of.loads {
			all = sum{all.nodes + int64(r.Nodes), all.bytes + r.Bytes}
			if !heard || before != of.closedMs {
				key := schemas.JobKey{JobID: r.JobID, Restart: r.Restart}
				s := sent[key]
				sent[key] = sum{s.nodes + int64(r.Nodes), s.bytes + r.Bytes}
			}
		}
		l.heard[partition] = of.closedMs
	}
	if all.nodes > 0 {
		l.usual, l.measured = float64(all.bytes)/float64(all.nodes), true
	}
	perNode := make(map[schemas.JobKey]float64, len(jobs))
	for i := range jobs {
		key := jobs[i].Identity()
		before, known := l.perNode[key]
		s, measured := sent[key]
		switch {
		case measured && known:
			perNode[key] = before + newestWeight*(float64(s.bytes)/float64(s.nodes)-before)
		case measured:
			perNode[key] = float64(s.bytes) / float64(s.nodes)
		case known:
			perNode[key] = before
		}
	}
	l.perNode = perNode
}

// follower reads what collectors say of loads, in their Progress.
type follower struct {
	mu      sync.Mutex
	reports map[int32]report // by partition
}

// latest returns what each collector said last.
func (f *follower) latest() map[int32]report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.reports)
}

func (f *follower) hear(partition int32, p *schemas.Progress) {
	if p.Closed == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reports == nil {
		f.reports = map[int32]report{}
	}
	f.reports[partition] = report{*p.Closed, p.Loads}
}

// errOtherInterval is what a collector that closes another interval is to the log.
var errOtherInterval = errors.New("interval differs")

// progressBack is how many offsets before its end a partition of progress is read from: some commits, with their markers.
const progressBack = 20

// follow reads the topic of progress, from shortly before its end, until ctx ends. While that is not possible, loads stay as
// they are, which is said once.
func (b *balancer) follow(ctx context.Context, opts []kgo.Opt) {
	var trouble, rubbish, others kafka.Trouble
	say := func(err error) {
		if ctx.Err() == nil && trouble.Worth(err, time.Now()) {
			b.log.Warn("loads of jobs cannot be read and stay as they are, trying again", "err", err)
		}
	}
	topic := b.cfg.Prefix + schemas.TopicProgress
	// Collectors that have heard of this balancer's Ticks have its interval.
	settled := time.Now().Add(config.Slack(b.cfg.Interval) + 3*b.cfg.Interval)
	from := map[int32]kgo.Offset{}
	for p := range int32(b.cfg.Collectors) {
		from[p] = kgo.NewOffset().AtEnd().Relative(-progressBack)
	}
	cl, err := kgo.NewClient(append(slices.Clip(opts),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), // whatever the topic lost, its end will do
	)...)
	if err != nil {
		say(err)
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			say(fmt.Errorf("reading %s-%d: %w", e.Topic, e.Partition, e.Err))
		}
		if fetches.Err() != nil {
			kafka.Pause(ctx, kafka.Backoff(1, b.cfg.BackoffCap))
		}
		for r := range fetches.RecordsAll() {
			if value, err := schemas.Unmarshal(r.Value); err != nil {
				if rubbish.Worth(err, time.Now()) { // a good record between two of these does not end it
					b.log.Warn("record in the topic of progress cannot be read, left out", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "err", err)
				}
			} else if p, ok := value.(*schemas.Progress); ok {
				trouble.Over()
				other, now := p.Closed != nil && p.ClosedIntervalMs != b.ms, time.Now()
				if other && now.After(settled) && others.Worth(errOtherInterval, now) {
					b.log.Warn("a collector closes another interval than the balancer's: set the same interval everywhere, and start all parts again",
						"partition", r.Partition, "interval_ms", b.ms, "collector_interval_ms", p.ClosedIntervalMs)
				}
				b.follower.hear(r.Partition, p)
			}
		}
	}
}
