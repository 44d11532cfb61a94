// Package balancer decides which collector, a partition of counters, takes the records of each job from each node. It
// closes every interval.
//
// Jobs come from a scheduler.Source. A pure function makes the plan of an interval from the jobs, the tree of the
// machine and the number of collectors. A plan is a Route for each node. Shortly before the interval ends, the balancer
// commits the Routes that change. Shortly after its end, it commits a Tick in each partition, with the partition's
// share of every job. Each of the two is one transaction under one transactional id, so that two balancers never both
// write. A consumer group elects the active one of several balancers. The decisions are in package assign, plan.go,
// ticks.go, records.go and schedule.go. None of these knows Kafka or reads a clock.
package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// faultsShown bounds the lines about skipped jobs after one change of the jobs.
const faultsShown = 10

// balancer plans. It also remembers its log, because a state is logged when it begins and when it ends, not in each
// interval.
type balancer struct {
	cfg config.Config
	schedule
	tree    *topology.Tree
	layout  *assign.Layout
	source  scheduler.Source
	log     *slog.Logger
	metrics *Metrics
	trouble *trouble
	said    map[scheduler.Fault]bool // the faults that were logged

	saidOverloaded, saidUnnamed bool // the last state that was logged
	saidLeft                    map[schemas.JobKey]bool

	refused map[schemas.JobKey]string // the jobs that the last plan refused, and why

	follower follower

	brokers *kafka.Brokers
	standby standby
}

// standby remembers the time since which the brokers answer a balancer that is not active.
type standby struct {
	mu    sync.Mutex
	since time.Time // zero: it is active, or they do not
}

// begin notes that the brokers answer.
func (s *standby) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// end returns the time since which the brokers answered, and forgets it.
func (s *standby) end() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.since
	s.since = time.Time{}
	return since
}

// Run balances until ctx ends, and then returns nil. Of several balancers with one prefix, one is active. Another takes
// over when it ends, or after six seconds without its heartbeat. Run waits for brokers that are away. An error means
// that cfg makes no client. Only Run may use the tree and the source until it returns.
func Run(
	ctx context.Context, cfg config.Config, tree *topology.Tree, source scheduler.Source,
	log *slog.Logger, metrics *Metrics,
) error {
	return newBalancer(cfg, tree, source, log, metrics).compete(ctx)
}

// newBalancer starts nothing: a standby creates a balancer too, but reads neither jobs nor loads until the group
// chooses it.
func newBalancer(
	cfg config.Config, tree *topology.Tree, source scheduler.Source, log *slog.Logger, metrics *Metrics,
) *balancer {
	return &balancer{
		cfg: cfg, schedule: newSchedule(cfg), source: source,
		tree: tree, layout: assign.NewLayout(tree, cfg.Collectors, nil),
		log: log, metrics: metrics, trouble: &trouble{log: log, what: "routes and ticks"},
		said: map[scheduler.Fault]bool{}, brokers: kafka.NewBrokers(log),
	}
}

// compete serves while the group assigns topic balance to this balancer.
func (b *balancer) compete(ctx context.Context) error {
	topic := b.cfg.Prefix + schemas.TopicBalance
	group := &trouble{log: b.log, what: "its group"}
	b.metrics.standsBy()
	saidStandby := false
	m := kafka.Member{
		Config: b.cfg, Group: topic, Topic: topic, Brokers: b.brokers,
		Own: func(ctx context.Context, partition int32) error {
			if partition == 0 { // the only one, unless somebody added others
				b.serve(ctx)
			}
			return nil
		},
		Assigned: func(owns bool) {
			group.over()
			if !owns {
				b.standby.begin()
			}
			if !owns && !saidStandby {
				b.log.Info("balancer stands by, another one is active", "group", topic)
			}
			saidStandby = !owns
		},
		Waiting: func(err error) {
			b.standby.end()
			group.say(fmt.Errorf("group %s: %w", topic, err))
		},
	}
	return m.Run(ctx)
}

// serve calls active until ctx ends. After an error only the topics are trusted, and active reads them again.
func (b *balancer) serve(ctx context.Context) {
	b.metrics.active.Set(1)
	b.metrics.nodes.Set(float64(len(b.layout.Nodes)))
	defer b.metrics.standsBy()
	for ctx.Err() == nil {
		if err := b.active(ctx); err != nil && ctx.Err() == nil {
			kafka.Yield(ctx, retry.Backoff(b.trouble.say(err), b.cfg.BackoffCap))
		}
	}
}

// jobs asks the source, and leaves out jobs that cannot be followed or that the last plan refused. It logs this once
// per change.
func (b *balancer) jobs(now time.Time) ([]scheduler.Job, []scheduler.Fault) {
	jobs, faults := b.without(scheduler.Ask(b.source, b.tree, now))
	b.note(jobs, faults)
	return jobs, faults
}

// note counts the jobs in the metrics, and logs new faults.
func (b *balancer) note(jobs []scheduler.Job, faults []scheduler.Fault) {
	said := make(map[scheduler.Fault]bool, len(faults))
	fresh, lists, doubtful, remarks := 0, 0, 0, 0
	for _, f := range faults {
		switch {
		case f.JobID == "" && f.Followed:
			remarks++
		case f.JobID == "":
			lists++
		case f.Followed:
			doubtful++
		}
		if !b.said[f] && !said[f] {
			if fresh++; fresh <= faultsShown {
				b.say(f)
			}
		}
		said[f] = true
	}
	skipped := len(faults) - lists - doubtful - remarks
	b.metrics.showJobs(jobs, skipped, lists > 0)
	if fresh > 0 || len(said) != len(b.said) {
		b.log.Info("jobs skipped in all",
			"count", skipped, "jobs", len(jobs), "jobs_in_doubt", doubtful, "lists_unreadable", lists)
	}
	b.said = said
}

// say logs a fault in the list of jobs. Each kind has a message of its own, to be searched for.
func (b *balancer) say(f scheduler.Fault) {
	switch {
	case f.JobID == "" && f.Followed:
		b.log.Warn("list of jobs needs attention", "reason", f.Reason)
	case f.JobID == "":
		b.log.Warn("list of jobs cannot be read", "reason", f.Reason)
	case f.Followed:
		b.log.Warn("job is followed, but not as it is given",
			"job_id", f.JobID, "restart", f.Restart, "reason", f.Reason)
	default:
		b.log.Warn("job skipped", "job_id", f.JobID, "restart", f.Restart, "reason", f.Reason)
	}
}

// trouble logs once that an error interrupts something, and once that it is over.
type trouble struct {
	log   *slog.Logger
	what  string // the thing that is interrupted
	mu    sync.Mutex
	tries int // errors in a row
	retry.Trouble
}

// say logs an error if it is worth a line, and returns the number of errors in a row.
func (t *trouble) say(err error) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tries++
	if t.Worth(err, time.Now()) {
		t.log.Warn("balancer is interrupted, trying again", "what", t.what, "err", err)
	}
	return t.tries
}

func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Over() {
		t.log.Info("balancer goes on", "what", t.what, "tries", t.tries)
	}
	t.tries = 0
}

// calm reports whether there was no error since the last success.
func (t *trouble) calm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tries == 0
}
