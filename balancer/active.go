package balancer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

const (
	// patience is how long one exchange with the brokers may take: fencing, a transaction.
	patience = 20 * time.Second
	// readPatience is how long reading the topics at the start may take.
	readPatience = 5 * time.Minute
)

// active plans and closes intervals until ctx ends, then returns nil, or until anything goes wrong. It fences every other
// balancer of this prefix first, so that what it then reads is the truth until somebody fences it.
func (b *balancer) active(ctx context.Context) error {
	client, end := context.WithCancel(context.WithoutCancel(ctx)) // a transaction in hand outlives ctx
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
			// In short steps, for the clock may be set meanwhile.
			if !kafka.Pause(ctx, min(due.Sub(now), time.Second)) {
				return nil
			}
			continue
		}
		if err := work(); err != nil {
			return err
		}
		if time.Since(now) > time.Duration(atOnce*b.ms)*time.Millisecond {
			m.answered = time.Now() // they were away meanwhile, though not for so long that anything failed
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

// begin fences, and reads what there is.
func (b *balancer) begin(ctx context.Context, producer *kafka.Producer) (*memory, error) {
	fence, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := producer.Fence(fence); err != nil {
		return nil, err
	}
	read, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	m, err := b.restore(read, producer.Admin())
	if err != nil {
		return nil, err
	}
	if b.layout, err = b.locate(read, producer.Admin()); err != nil {
		return nil, err
	}
	m.answered = time.Now()
	m.next = b.first(m.state, m.answered)
	b.metrics.epoch.Set(float64(m.epoch))
	if m.state != nil {
		b.metrics.tickStart.Set(float64(m.state.IntervalStart) / 1000)
	}
	if b.trouble.calm() {
		b.log.Info("balancer is active", "interval_start", m.next, "epoch", m.epoch, "nodes", len(b.layout.Nodes), "collectors", b.cfg.Collectors)
	}
	if latest := max(m.next-b.ms, m.planned); latest > m.answered.UnixMilli()+b.ms {
		b.log.Warn("balancer waits for the clock to reach what is on the topics", "interval_start", latest)
	}
	return m, nil
}

// planInterval publishes what changes from the interval on: Routes, and the records of jobs.
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
	jobsChanged := jobChanges(m.jobs, wantJobs)
	for _, r := range jobsChanged {
		records = append(records, &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicJobs, Key: r.job.Identity().Key(), Value: r.value})
	}
	for key := range wantJobs { // a source may name a job again
		delete(m.over, key)
	}
	expired := m.expired(now.Add(-b.cfg.Topics.SummaryRetention))
	for _, key := range expired {
		records = append(records, &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicJobs, Key: key.Key()})
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
		delete(m.over, key)
	}
	for _, key := range applyJobs(m.jobs, wantJobs, jobsChanged) {
		m.over[key] = now.UnixMilli()
	}
	m.planned, m.plans[start] = start, true
	b.metrics.epoch.Set(float64(m.epoch))
	b.metrics.planSeconds.Observe(time.Since(now).Seconds())
	return nil
}

// decide returns the Routes that change from the interval on, and the nodes that lose theirs. While a list of jobs was never read,
// as after a start beside a scheduler that does not answer, jobs on the Routes that no list names go on.
func (b *balancer) decide(m *memory, jobs []scheduler.Job, faults []scheduler.Fault, start int64) (changed []schemas.Route, gone []string) {
	has := scheduler.Planned(jobs, start, b.ms)
	unnamed := 0
	if slices.ContainsFunc(faults, func(f scheduler.Fault) bool { return f.Unread }) {
		carried := m.routes.carried(b.layout, jobs, faults, has)
		unnamed, has = len(carried), append(has, carried...)
	}
	if (unnamed > 0) != b.saidUnnamed {
		b.saidUnnamed = unnamed > 0
		b.log.Info("jobs of before that no list names go on while one cannot be read", "count", unnamed, "interval_start", start)
	}
	m.loads.update(b.follower.latest(), has)
	weights, lim := m.loads, b.limits()
	if b.weighs() {
		lim.Still = !m.loads.measured
	} else {
		weights = nil
	}
	want, verdict := b.plan(m, has, weights, lim, start)
	b.metrics.showLoad(m.loads, verdict, lim.LMax)
	b.judge(start, verdict)
	return m.routes.changes(want, start, nextEpoch(m.epoch))
}

// plan plans without the jobs that no record takes, and remembers why they are refused.
func (b *balancer) plan(m *memory, has []scheduler.Job, weights *loads, lim assign.Limits, start int64) ([]schemas.Route, assign.Assignment) {
	b.refused = map[schemas.JobKey]string{}
	for {
		want, verdict := plan(b.layout, has, weights, lim, m.routes)
		wrong := unfitting(want, start, b.ms)
		if len(wrong) == 0 {
			return want, verdict
		}
		maps.Copy(b.refused, wrong)
		has = slices.DeleteFunc(slices.Clone(has), func(j scheduler.Job) bool { return wrong[j.Identity()] != "" })
	}
}

// without takes the jobs that the last plan refused from those that are followed.
func (b *balancer) without(jobs []scheduler.Job, faults []scheduler.Fault) ([]scheduler.Job, []scheduler.Fault) {
	if len(b.refused) == 0 {
		return jobs, faults
	}
	var good []scheduler.Job
	faults = slices.Clone(faults)
	for i := range jobs {
		if reason := b.refused[jobs[i].Identity()]; reason != "" {
			faults = append(faults, scheduler.Fault{JobID: jobs[i].JobID, Restart: jobs[i].Restart, Reason: reason})
		} else {
			good = append(good, jobs[i])
		}
	}
	return good, faults
}

// routeRecords returns the records of Routes that change, and those of the Routes that have one. A node whose Route no agent would take
// keeps the one that it has, by which its Ticks are made too.
func (b *balancer) routeRecords(m *memory, changed []schemas.Route) (records []*kgo.Record, written []schemas.Route, faults []scheduler.Fault) {
	for _, r := range changed {
		value, err := schemas.MarshalChecked(&r)
		if err != nil {
			faults = append(faults, scheduler.Fault{Followed: true, Reason: fmt.Sprintf("node %s keeps the route that it has: %v", r.Node, err)})
			continue
		}
		if m.routes.isUntimed(r.Node) {
			// An agent forgets what it has at a tombstone, also a Route that begins later than this one.
			records = append(records, b.routeRecord(r.Node, nil))
		}
		records, written = append(records, b.routeRecord(r.Node, value)), append(written, r)
	}
	return records, written, faults
}

// weighs reports whether jobs count by what they send. Where the configuration says how many nodes a collector takes, and by
// PerSyst's algorithms, nodes are counted.
func (b *balancer) weighs() bool {
	return b.cfg.Balance.LMax == 0 && b.cfg.Balance.Algorithm != "literal"
}

func (b *balancer) limits() assign.Limits {
	l := nodeLimits(b.cfg)
	if b.weighs() {
		l.LMax = int(b.cfg.CollectorBytes())
	}
	return l
}

// nodeLimits are the limits where every node weighs one.
func nodeLimits(cfg config.Config) assign.Limits {
	l := assign.Limits{LocalMax: cfg.Balance.LocalMax, Literal: cfg.Balance.Algorithm == "literal"}
	l.LMax, l.LDist = cfg.CollectorNodes()
	return l
}

// judge logs when it changes whether the collectors may take what the machine sends in an interval.
func (b *balancer) judge(start int64, verdict assign.Assignment) {
	if verdict.Overloaded == b.saidOverloaded {
		return
	}
	b.saidOverloaded = verdict.Overloaded
	if b.saidOverloaded {
		b.log.Warn("jobs exceed what the collectors may take, and are spread evenly", "interval_start", start,
			"collectors", b.cfg.Collectors, "collectors_needed", verdict.Needed, "l_max", b.limits().LMax, "l_max_is_bytes", b.weighs())
	} else {
		b.log.Info("the collectors may take all jobs again", "interval_start", start, "collectors_needed", verdict.Needed)
	}
}

// routeRecord places a Route where its node looks for it: on the partition that Kafka's own clients give its key.
func (b *balancer) routeRecord(node string, value []byte) *kgo.Record {
	r := &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicRoutes, Key: []byte(node), Value: value}
	r.Partition = int32(kgo.StickyKeyPartitioner(nil).ForTopic(r.Topic).Partition(r, b.cfg.Partitions.Routes))
	return r
}

// closeInterval writes the Ticks of an interval to all partitions of counters, and that it did.
func (b *balancer) closeInterval(ctx context.Context, producer *kafka.Producer, m *memory, start int64) error {
	jobs, _ := b.jobs(time.Now())
	lives := make(map[schemas.JobKey]scheduler.Span, len(jobs))
	for i := range jobs {
		lives[jobs[i].Identity()] = scheduler.Life(&jobs[i])
	}
	all := ticks(closing{
		start: start, ms: b.ms, collectors: b.cfg.Collectors, routes: m.routes.at(start), lives: lives, planned: m.plans[start],
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
				Topic: b.cfg.Prefix + schemas.TopicCounters, Partition: int32(p), Key: schemas.CollectorKey(int32(p)), Value: value,
			})
		}
	}
	b.sayLeft(start, left)
	value, err := schemas.MarshalChecked(&schemas.BalanceState{Epoch: m.epoch, IntervalStart: start, IntervalMs: b.ms})
	if err != nil {
		return fmt.Errorf("the state after %d: %w", start, err)
	}
	records = append(records, &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicBalance, Key: []byte("balance"), Value: value})
	if err := producer.Commit(ctx, records); err != nil {
		return fmt.Errorf("writing the Ticks of %d: %w", start, err)
	}
	if skipped := (start - m.next) / b.ms; skipped > 0 {
		b.log.Warn("intervals too long ago stay without ticks", "interval_start", m.next, "count", skipped)
	}
	b.trouble.over() // only now: what fails at every Tick is said once
	m.next, m.caughtUp = start+b.ms, time.Now()
	b.metrics.tickStart.Set(float64(start) / 1000)
	m.routes.forget(m.next)
	maps.DeleteFunc(m.plans, func(start int64, _ bool) bool { return start < m.next })
	return nil
}

// sayLeft logs the jobs that no Tick of an interval could have, each once while it is so.
func (b *balancer) sayLeft(start int64, left []unfit) {
	now := make(map[schemas.JobKey]bool, len(left))
	for _, u := range left {
		if now[u.job] = true; !b.saidLeft[u.job] {
			b.log.Warn("job is left out of ticks: more collectors, or a smaller balance.l_max", "job_id", u.job.JobID, "restart", u.job.Restart,
				"interval_start", start, "err", u.err)
		}
	}
	b.saidLeft = now
}
