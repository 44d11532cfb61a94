package balancer

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// memory is the state of the active balancer. All of it comes from topics. The balancer commits a change there first.
type memory struct {
	cursor
	epoch  int64
	routes routeLog
	plans  map[int64]bool // the planned intervals, from next on
	jobs   map[schemas.JobKey]jobRecord
	over   *ended                // the jobs that no list names any more
	nowMs  int64                 // when the topics were read
	state  *schemas.BalanceState // as it was read; nil if there is none
	loads  *loads
	future future
}

// future counts the records on the topics that are from the future.
type future struct {
	count  int
	latest int64 // interval
}

func (f *future) note(start int64) {
	f.count++
	f.latest = max(f.latest, start)
}

func newMemory(nodeBytes int64, now time.Time) *memory {
	return &memory{
		routes: routeLog{}, plans: map[int64]bool{}, loads: newLoads(nodeBytes),
		jobs: map[schemas.JobKey]jobRecord{}, over: newEnded(), nowMs: now.UnixMilli(),
	}
}

// restore reads topics balance, routes and jobs to their ends. It may only be called after fencing. Then nobody else
// writes these topics, no transaction is open, and the last stable offset is the end. It ignores records from the
// future, which a wrong clock wrote: because of them the balancer would wait until then.
func (b *balancer) restore(ctx context.Context, producer *kafka.Producer) (*memory, error) {
	now := time.Now()
	m := newMemory(b.cfg.Balance.NodeBytes, now)
	unreadable := 0
	each := func(r *kgo.Record) {
		if err := m.apply(b.cfg.Prefix, r, func(ms int64) bool { return b.tooFar(ms, now) }); err != nil {
			// Nothing is lost: the next plan writes the Route again, and collectors ignore a Tick that is repeated.
			if unreadable++; unreadable == 1 {
				b.log.Warn("record of the balancer cannot be used",
					"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "err", err)
			}
		}
	}
	if err := b.readToEnds(ctx, producer, each); err != nil {
		return nil, err
	}
	if unreadable > 1 {
		b.log.Warn("more records of the balancer cannot be used", "count", unreadable-1)
	}
	epoch, planned := m.routes.last()
	m.epoch, m.planned = max(m.epoch, epoch), planned
	if m.future.count > 0 {
		b.log.Warn("state from the future is ignored, a balancer's clock was ahead",
			"interval_start", m.future.latest, "count", m.future.count)
	}
	if m.state != nil && m.state.IntervalMs != b.ms {
		b.log.Info("the interval is another one than before", "interval_ms", b.ms, "before_ms", m.state.IntervalMs,
			"interval_start", b.first(m.state, now))
	}
	return m, nil
}

// maxExpired bounds the records that a plan deletes, for example after a long absence. It is forty times the number
// that ends between two plans on a machine with a million jobs a day.
const maxExpired = 1 << 12

// expired returns completed jobs that were known to be over before a time. Their records are deleted, since topic jobs
// would grow without end. Their summaries have left their topic by then.
func (m *memory) expired(before time.Time) []schemas.JobKey {
	return m.over.before(before.UnixMilli(), maxExpired)
}

// recall takes back the ended jobs that a list still names, or names again. If a job's record is unchanged, it is not
// written again.
func (m *memory) recall(want map[schemas.JobKey]jobRecord) {
	for key, r := range want {
		if m.over.take(key, r.value) {
			m.jobs[key] = r
		}
	}
}

// apply remembers one record, in the order of its partition.
func (m *memory) apply(prefix string, r *kgo.Record, tooFar func(ms int64) bool) error {
	if r.Value == nil {
		switch r.Topic {
		case prefix + schemas.TopicRoutes:
			delete(m.routes, string(r.Key))
		case prefix + schemas.TopicJobs:
			if id, restart, ok := strings.Cut(string(r.Key), "/"); ok {
				if n, err := strconv.ParseInt(restart, 10, 32); err == nil {
					key := schemas.JobKey{JobID: id, Restart: int32(n)}
					delete(m.jobs, key)
					m.over.take(key, nil)
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
		m.epoch = max(m.epoch, v.Epoch)
		if tooFar(v.IntervalStart + v.IntervalMs) {
			m.future.note(v.IntervalStart)
			return nil
		}
		m.state = v
	case *schemas.Route:
		if tooFar(v.IntervalStart) {
			m.future.note(v.IntervalStart)
			m.routes.addUntimed(*v)
			return nil
		}
		m.routes.add(*v)
		m.plans[v.IntervalStart] = true
	case *schemas.Job:
		key := v.Identity()
		delete(m.jobs, key)
		if schemas.Over(v.State) {
			m.over.add(key, min(r.Timestamp.UnixMilli(), m.nowMs), r.Value)
			return nil
		}
		m.over.take(key, nil)
		m.jobs[key] = jobRecord{*v, bytes.Clone(r.Value)} // many records share the memory of a fetch
	default:
		return fmt.Errorf("%w: a %T does not belong here", schemas.ErrInvalid, record)
	}
	return nil
}

// readToEnds hands every committed record of the three topics to each, partition by partition in order.
func (b *balancer) readToEnds(ctx context.Context, producer *kafka.Producer, each func(*kgo.Record)) error {
	adm := producer.Admin()
	routes := b.cfg.Prefix + schemas.TopicRoutes
	details, err := adm.ListTopics(ctx, routes)
	if err != nil {
		return fmt.Errorf("listing %s: %w", routes, err)
	}
	// With another number of partitions agents would look for their Routes in the wrong one.
	there := len(details[routes].Partitions)
	if err := kafka.CheckPartitions(routes, there, b.cfg.Partitions.Routes, "partitions.routes"); err != nil {
		return err
	}
	for _, topic := range []string{b.cfg.Prefix + schemas.TopicBalance, b.cfg.Prefix + schemas.TopicJobs, routes} {
		partitions := 1
		if topic == routes {
			partitions = b.cfg.Partitions.Routes
		}
		for p := range int32(partitions) {
			start, end, err := kafka.Bounds(ctx, adm, topic, p)
			if err != nil {
				return err
			}
			producer.Continue(topic, p, end)
			err = kafka.ReadPartition(ctx, b.cfg, topic, p, start, end, func(r *kgo.Record) error {
				each(r)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
