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
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// loads holds the bytes that a node of each job sends in an interval, smoothed. With nil loads every node weighs one.
type loads struct {
	perNode  map[schemas.JobKey]float64
	usual    float64         // of a job that was not measured yet: the mean of all measured jobs
	measured bool            // any job was measured
	heard    map[int32]int64 // by partition: the interval of its collector's last report
}

// newestWeight is the weight of the newest interval in a load: after five intervals two thirds of a change are in it.
const newestWeight = 0.2

// newLoads begins with the load of a node from the configuration.
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

// report lists the loads of the interval that a collector closed last.
type report struct {
	closedMs int64 // its start
	loads    []schemas.JobLoad
}

// update applies the collectors' last reports, by partition, each interval once. A job without a new report keeps its
// load. A job that is not planned is forgotten.
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

// follower keeps the loads that collectors write into their Progress.
type follower struct {
	mu      sync.Mutex
	reports map[int32]report // by partition
}

// latest returns the last report of each collector.
func (f *follower) latest() map[int32]report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.reports)
}

// hear keeps the last report of a partition. A report without a closed interval contains no measurement yet.
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

// errOtherInterval is the trouble of a collector with intervals of another length.
var errOtherInterval = errors.New("interval differs")

// progressBack is the number of offsets before the end of a partition of progress at which the reading begins: some
// commits with their markers.
const progressBack = 20

// follow reads the topic of progress from shortly before its end until ctx ends. While that fails, loads stay as they
// are, and follow logs it once.
func (b *balancer) follow(ctx context.Context, opts []kgo.Opt) {
	var trouble, rubbish, others retry.Trouble
	say := func(err error) {
		if ctx.Err() == nil && trouble.Worth(err, time.Now()) {
			b.log.Warn("loads of jobs cannot be read and stay as they are, trying again", "err", err)
		}
	}
	topic := b.cfg.Prefix + schemas.TopicProgress
	// By then collectors have read Ticks of this balancer. A collector with another interval before that is no fault.
	informed := time.Now().Add(config.Slack(b.cfg.Interval) + 3*b.cfg.Interval)
	from := map[int32]kgo.Offset{}
	for p := range int32(b.cfg.Collectors) {
		from[p] = kgo.NewOffset().AtEnd().Relative(-progressBack)
	}
	cl, err := kgo.NewClient(append(slices.Clip(opts),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), // new reports make up for records that the topic lost
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
			retry.Pause(ctx, retry.Backoff(1, b.cfg.BackoffCap))
		}
		for r := range fetches.RecordsAll() {
			if value, err := schemas.Unmarshal(r.Value); err != nil {
				if rubbish.Worth(err, time.Now()) { // a good record between two of these does not end it
					b.log.Warn("record in the topic of progress cannot be read, left out",
						"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "err", err)
				}
			} else if p, ok := value.(*schemas.Progress); ok {
				trouble.Over()
				other, now := p.Closed != nil && p.ClosedIntervalMs != b.ms, time.Now()
				if other && now.After(informed) && others.Worth(errOtherInterval, now) {
					b.log.Warn("a collector closes another interval than the balancer's: "+
						"set the same interval everywhere, and start all parts again",
						"partition", r.Partition, "interval_ms", b.ms, "collector_interval_ms", p.ClosedIntervalMs)
				}
				b.follower.hear(r.Partition, p)
			}
		}
	}
}
