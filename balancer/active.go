package balancer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

const (
	// patience bounds one exchange with the brokers: fencing, a transaction.
	patience = 20 * time.Second
	// readPatience bounds the reading of the topics at the start.
	readPatience = 5 * time.Minute
)

// active plans and closes intervals until ctx ends, and then returns nil. It returns the first error. It begins by
// fencing every other balancer of this prefix, so its reads are the truth until another balancer fences it.
func (b *balancer) active(ctx context.Context) error {
	client, end := context.WithCancel(context.WithoutCancel(ctx)) // an open transaction outlives ctx
	defer end()
	opts, err := kafka.ClientOpts(client, b.cfg)
	if err != nil {
		return err
	}
	producer, err := b.newProducer(client)
	if err != nil {
		return err
	}
	defer producer.Close()
	var reading sync.WaitGroup
	defer reading.Wait()
	defer end()
	m, err := b.begin(ctx, producer)
	if err != nil {
		return err
	}
	reading.Go(func() { b.follow(client, opts) })
	if b.cfg.Triggered() {
		reading.Go(func() { b.trigger(client, slices.Clone(opts)) })
	}
	for {
		now := time.Now()
		if err := b.checkClock(m.cursor, now); err != nil {
			return err
		}
		tick, tickDue := b.nextTick(m.cursor, now)
		start, planDue := b.nextPlan(m.cursor, now)
		due, work := tickDue, func() error { return b.closeInterval(ctx, producer, m, tick) }
		if planDue.Before(tickDue) {
			due, work = planDue, func() error { return b.planInterval(ctx, producer, m, start) }
		}
		if now.Before(due) {
			// The pause is short, since the clock may be set meanwhile.
			if !retry.Pause(ctx, min(due.Sub(now), time.Second)) {
				return nil
			}
			continue
		}
		if err := work(); err != nil {
			return err
		}
		if time.Since(now) > time.Duration(atOnce*b.ms)*time.Millisecond {
			m.answered = time.Now() // the brokers were away, though not so long that anything failed
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (b *balancer) newProducer(ctx context.Context) (*kafka.Producer, error) {
	id := b.cfg.Prefix + schemas.TopicBalance
	return kafka.NewProducer(ctx, b.cfg, id, patience, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// begin fences other balancers, and restores the memory from the topics.
func (b *balancer) begin(ctx context.Context, producer *kafka.Producer) (*memory, error) {
	fence, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := producer.Fence(fence); err != nil {
		return nil, err
	}
	read, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	m, err := b.restore(read, producer)
	if err != nil {
		return nil, err
	}
	if b.layout, err = b.locate(read, producer.Admin()); err != nil {
		return nil, err
	}
	now := time.Now()
	// Brokers that answered a standby all the time answered the agents too, so their rings are empty.
	if m.answered = b.standby.end(); m.answered.IsZero() || b.brokers.Away() {
		m.answered = now
	}
	m.next = b.first(m.state, now)
	b.metrics.epoch.Set(float64(m.epoch))
	if m.state != nil {
		b.metrics.tickStart.Set(float64(m.state.IntervalStart) / 1000)
	}
	if b.trouble.calm() {
		b.log.Info("balancer is active", "interval_start", m.next, "epoch", m.epoch,
			"nodes", len(b.layout.Nodes), "collectors", b.cfg.Collectors)
	}
	if latest := max(m.next-b.ms, m.planned); latest > now.UnixMilli()+b.ms {
		b.log.Warn("balancer waits for the clock to reach what is on the topics", "interval_start", latest)
	}
	return m, nil
}

// planInterval publishes the Routes and the records of jobs that change from the interval on. The memory changes only
// after the commit.
func (b *balancer) planInterval(ctx context.Context, producer *kafka.Producer, m *memory, start int64) error {
	now := time.Now()
	jobs, faults := scheduler.Ask(b.source, b.tree, now)
	changed, gone := b.decide(m, jobs, faults, start)
	records, changed, more := b.routeRecords(m, changed)
	for _, n := range gone {
		records = append(records, b.routeRecord(n, nil))
	}
	jobs, faults = b.without(jobs, append(faults, more...))
	b.note(jobs, faults)
	wantJobs := jobRecords(jobs, faults)
	m.recall(wantJobs)
	jobsChanged := jobChanges(now.UnixMilli(), m.jobs, wantJobs)
	topic := b.cfg.Prefix + schemas.TopicJobs
	for _, r := range jobsChanged {
		records = append(records, &kgo.Record{Topic: topic, Key: r.job.Identity().Key(), Value: r.value})
	}
	expired := m.expired(now.Add(-b.cfg.Topics.SummaryRetention))
	for _, key := range expired {
		records = append(records, &kgo.Record{Topic: topic, Key: key.Key()})
	}
	if err := producer.Commit(ctx, records); err != nil {
		return fmt.Errorf("publishing the plan of %d: %w", start, err)
	}
	for i := range changed {
		m.routes.add(changed[i])
	}
	for _, n := range gone {
		m.routes.end(n, start)
	}
	if len(changed)+len(gone) > 0 {
		m.epoch = nextEpoch(m.epoch)
	}
	for _, key := range expired {
		m.over.take(key, nil)
	}
	for _, r := range applyJobs(m.jobs, wantJobs, jobsChanged) {
		m.over.add(r.job.Identity(), now.UnixMilli(), r.value)
	}
	m.planned, m.plans[start] = start, true
	b.metrics.epoch.Set(float64(m.epoch))
	b.metrics.planSeconds.Observe(time.Since(now).Seconds())
	return nil
}

// routeRecord places a Route in the partition in which its node looks for it, the one that Kafka's own clients choose
// for its key.
func (b *balancer) routeRecord(node string, value []byte) *kgo.Record {
	r := &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicRoutes, Key: []byte(node), Value: value}
	r.Partition = int32(kgo.StickyKeyPartitioner(nil).ForTopic(r.Topic).Partition(r, b.cfg.Partitions.Routes))
	return r
}

// closeInterval writes the Ticks of an interval to all partitions of counters, and the new state to topic balance.
func (b *balancer) closeInterval(ctx context.Context, producer *kafka.Producer, m *memory, start int64) error {
	jobs, _ := b.jobs(time.Now())
	lives := make(map[schemas.JobKey]scheduler.Span, len(jobs))
	for i := range jobs {
		lives[jobs[i].Identity()] = scheduler.Life(&jobs[i])
	}
	all := ticks(closing{
		start: start, ms: b.ms, collectors: b.cfg.Collectors,
		routes: m.routes.at(start), lives: lives, planned: m.plans[start],
	})
	records := make([]*kgo.Record, 0, len(all)+1)
	var left []unfit
	for p := range all {
		values, more, err := encodeTick(all[p])
		if err != nil {
			return fmt.Errorf("the Tick of %d: %w", start, err)
		}
		left = append(left, more...)
		for _, value := range values {
			records = append(records, &kgo.Record{
				Topic: b.cfg.Prefix + schemas.TopicCounters, Partition: int32(p),
				Key: schemas.CollectorKey(int32(p)), Value: value,
			})
		}
	}
	b.sayLeft(start, left)
	value, err := schemas.MarshalChecked(&schemas.BalanceState{Epoch: m.epoch, IntervalStart: start, IntervalMs: b.ms})
	if err != nil {
		return fmt.Errorf("the state after %d: %w", start, err)
	}
	topic := b.cfg.Prefix + schemas.TopicBalance
	records = append(records, &kgo.Record{Topic: topic, Key: []byte("balance"), Value: value})
	if err := producer.Commit(ctx, records); err != nil {
		return fmt.Errorf("writing the Ticks of %d: %w", start, err)
	}
	if skipped := (start - m.next) / b.ms; skipped > 0 {
		b.log.Warn("intervals too long ago stay without ticks", "interval_start", m.next, "count", skipped)
	}
	b.trouble.over() // only after a Tick, so that an error that recurs at every Tick is logged once
	m.next, m.caughtUp = start+b.ms, time.Now()
	b.metrics.tickStart.Set(float64(start) / 1000)
	m.routes.forget(m.next)
	maps.DeleteFunc(m.plans, func(start int64, _ bool) bool { return start < m.next })
	return nil
}

// sayLeft logs the jobs that fit no Tick of an interval. It logs a job again only after the job fitted meanwhile.
func (b *balancer) sayLeft(start int64, left []unfit) {
	now := make(map[schemas.JobKey]bool, len(left))
	for _, u := range left {
		if now[u.job] = true; !b.saidLeft[u.job] {
			b.log.Warn("job is left out of ticks: more collectors, or a smaller balance.l_max",
				"job_id", u.job.JobID, "restart", u.job.Restart, "interval_start", start, "err", u.err)
		}
	}
	b.saidLeft = now
}
