package balancer

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

var (
	// ErrPartitions is returned when topic routes has another number of partitions than the configuration: agents would look
	// for their Routes in the wrong one.
	ErrPartitions = errors.New("has another number of partitions than the configuration (see weir topics check)")
	// errEnd is returned when a partition is read to its end and the end does not come.
	errEnd = errors.New("the end of the partition was not reached")
)

// memory is what the active balancer knows. All of it comes from topics, and what it adds is committed there first.
type memory struct {
	cursor
	epoch  int64
	routes routeLog
	plans  map[int64]bool // intervals not before next that somebody planned
	jobs   map[schemas.JobKey]jobRecord
	state  *schemas.BalanceState // as it was read; nil where there is none
}

// restore reads topics balance, routes and jobs to their ends. It may only be called after fencing: then nobody else writes
// these topics, no transaction is open, and the last stable offset is the end.
func (b *balancer) restore(ctx context.Context) (*memory, error) {
	m := &memory{routes: routeLog{}, plans: map[int64]bool{}, jobs: map[schemas.JobKey]jobRecord{}}
	unreadable := 0
	each := func(r *kgo.Record) {
		if err := m.take(b.cfg.Prefix, r); err != nil {
			// It is as if it had never been written: a Route is written anew, a Tick's repetition is ignored by collectors.
			if unreadable++; unreadable == 1 {
				b.log.Warn("record of the balancer cannot be used", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "err", err)
			}
		}
	}
	if err := b.readToEnds(ctx, each); err != nil {
		return nil, err
	}
	if unreadable > 1 {
		b.log.Warn("more records of the balancer cannot be used", "count", unreadable-1)
	}
	m.epoch, m.planned = m.routes.last()
	if m.state != nil {
		m.epoch = max(m.epoch, m.state.Epoch)
	}
	return m, nil
}

// take remembers one record, in the order of its partition.
func (m *memory) take(prefix string, r *kgo.Record) error {
	if r.Value == nil {
		switch r.Topic {
		case prefix + schemas.TopicRoutes:
			delete(m.routes, string(r.Key))
		case prefix + schemas.TopicJobs:
			for key := range m.jobs {
				if key.String() == string(r.Key) {
					delete(m.jobs, key)
				}
			}
		}
		return nil
	}
	record, err := schemas.Unmarshal(r.Value)
	if err != nil {
		return err
	}
	switch v := record.(type) {
	case *schemas.BalanceState:
		m.state = v
	case *schemas.Route:
		m.routes.add(*v)
		m.plans[v.IntervalStart] = true
	case *schemas.Job:
		m.jobs[keyOf(v)] = jobRecord{*v, r.Value}
	default:
		return fmt.Errorf("%w: a %T does not belong here", schemas.ErrInvalid, record)
	}
	return nil
}

// readToEnds hands every committed record of the three topics to each, partition by partition in order.
func (b *balancer) readToEnds(ctx context.Context, each func(*kgo.Record)) error {
	topics := []string{b.cfg.Prefix + schemas.TopicBalance, b.cfg.Prefix + schemas.TopicRoutes, b.cfg.Prefix + schemas.TopicJobs}
	opts, err := b.cfg.ClientOpts()
	if err != nil {
		return err
	}
	// Transaction markers take offsets too: without them the last offset might never be seen.
	cl, err := kgo.NewClient(append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}))...)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("listing start offsets: %w", err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("listing last stable offsets: %w", err)
	}
	if n := len(ends[topics[1]]); n != b.cfg.Partitions.Routes {
		return fmt.Errorf("topic %s with %d partitions, where partitions.routes is %d: %w", topics[1], n, b.cfg.Partitions.Routes, ErrPartitions)
	}
	last := map[string]map[int32]int64{} // the last offset of every partition that has any
	from := map[string]map[int32]kgo.Offset{}
	left := 0
	ends.Each(func(end kadm.ListedOffset) {
		start, ok := starts.Lookup(end.Topic, end.Partition)
		if !ok || start.Offset >= end.Offset {
			return
		}
		if last[end.Topic] == nil {
			last[end.Topic], from[end.Topic] = map[int32]int64{}, map[int32]kgo.Offset{}
		}
		last[end.Topic][end.Partition] = end.Offset - 1
		from[end.Topic][end.Partition] = kgo.NewOffset().At(start.Offset)
		left++
	})
	cl.AddConsumePartitions(from)
	return drain(ctx, cl, last, left, each)
}

// drain polls until the last offset of each of so many partitions has come.
func drain(ctx context.Context, cl *kgo.Client, last map[string]map[int32]int64, left int, each func(*kgo.Record)) error {
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			return fmt.Errorf("reading %s/%d: %w: %w", e.Topic, e.Partition, errEnd, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, reading := last[r.Topic][r.Partition]
			if !reading || r.Offset > end {
				return
			}
			if !r.Attrs.IsControl() {
				each(r)
			}
			if r.Offset == end {
				delete(last[r.Topic], r.Partition)
				left--
			}
		})
	}
	return nil
}
