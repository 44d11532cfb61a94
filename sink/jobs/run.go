package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

const (
	askLimit   = 10 * time.Second // for the brokers to describe the topic
	lookEvery  = 10 * time.Second // between looks at the topic's id
	drainLimit = 3 * time.Second  // for the rest of the topic at the end
	lockWait   = 10 * time.Second // for readers, who may hold the lock for long
	endWait    = 2 * time.Second  // the same, at the end
	minPause   = time.Second      // between two tries to read the topic
)

// errReplaced ends the reading of a topic that was made anew.
var errReplaced = errors.New("the topic was made anew")

// follower keeps the archive up to date with topic jobs: one goroutine.
type follower struct {
	cfg     config.Config
	log     *slog.Logger
	metrics *Metrics
	store   store
	brokers *kafka.Brokers
	period  time.Duration
	wait    time.Duration // for readers
	// patience is how long the rest of the topic is read at the end.
	patience time.Duration
	look     time.Duration // between looks at the topic's id

	topicID string
	next    int64 // the next offset to read
	// pending has the newest record of each job that is not known to be in the archive, as a row.
	pending map[key]Row
	due     time.Time // when pending is written; zero if it is empty
	asked   time.Time // when the topic's id was last looked at

	reading, writing kafka.Trouble
	told             map[string]bool // faults of files that the log has
}

// Run keeps the jobs of topic jobs in the archive until ctx ends. Then it reads to the topic's end, for at most three
// seconds, and writes what is left. It reads the topic from its beginning at each start, and so never loses a job that
// the topic still has.
//
// Nothing ends it before. It logs trouble and goes on. Several may share a directory.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics) {
	newFollower(cfg, log, metrics).run(ctx)
}

func newFollower(cfg config.Config, log *slog.Logger, metrics *Metrics) *follower {
	topic := cfg.Prefix + schemas.TopicJobs
	return &follower{
		cfg: cfg, log: log.With("topic", topic), metrics: metrics, store: store{dir: cfg.Sink.Dir, topic: topic},
		// The sink of summaries logs that brokers are away.
		brokers: kafka.NewBrokers(slog.New(slog.DiscardHandler)),
		period:  cfg.FilePeriod(), wait: lockWait, patience: drainLimit, look: lookEvery,
		pending: map[key]Row{}, told: map[string]bool{},
	}
}

func (f *follower) run(ctx context.Context) {
	for tries := 1; ctx.Err() == nil; tries++ {
		began := time.Now()
		err := f.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > time.Minute {
			tries = 1
			f.reading.Over()
		}
		if errors.Is(err, errReplaced) {
			f.log.Info("topic jobs was made anew, reading it from the beginning")
		} else if !f.brokers.Away() && f.reading.Worth(err, time.Now()) {
			f.log.Warn("cannot read the jobs, trying again", "err", kafka.Explain(f.cfg.Kafka, err))
		}
		f.flush(ctx, time.Now()) // the brokers may stay away, and the topic may be gone
		kafka.Pause(ctx, max(minPause, kafka.Backoff(tries, f.cfg.BackoffCap)))
	}
	f.finish(context.WithoutCancel(ctx))
}

// follow reads the topic from its beginning until ctx ends or something fails.
func (f *follower) follow(ctx context.Context) error {
	f.next = 0
	cl, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		if err := f.step(ctx, cl); err != nil {
			return err
		}
		now := time.Now()
		if now.Sub(f.asked) >= f.look {
			if err := f.identify(ctx, cl); err != nil {
				return err
			}
		}
		f.flush(ctx, now)
	}
	return nil
}

// step takes the records of one poll.
func (f *follower) step(ctx context.Context, cl *kgo.Client) error {
	wait := time.Second
	if !f.due.IsZero() {
		wait = min(wait, max(time.Until(f.due), time.Millisecond))
	}
	timed, cancel := context.WithTimeout(ctx, wait)
	fetches := cl.PollFetches(timed)
	cancel()
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return fmt.Errorf("reading %s: %w", f.store.topic, e.Err)
		}
	}
	for r := range fetches.RecordsAll() {
		f.take(r)
	}
	f.metrics.pending.Set(float64(len(f.pending)))
	return nil
}

// take remembers a record of a job that has ended. A tombstone is no change: the archive keeps the job.
func (f *follower) take(r *kgo.Record) {
	f.next = r.Offset + 1
	if r.Attrs.IsControl() || r.Value == nil {
		return
	}
	record, err := schemas.Unmarshal(r.Value)
	j, is := record.(*schemas.Job)
	if err == nil && !is {
		err = fmt.Errorf("%w: a %T does not belong here", schemas.ErrInvalid, record)
	}
	if err != nil {
		if f.reading.Worth(err, time.Now()) {
			f.log.Warn("record of topic jobs cannot be used, going on behind it", "offset", r.Offset, "err", err)
		}
		return
	}
	row, over := rowOf(f.cfg.Cluster, j, r.Offset)
	if !over {
		return
	}
	if old, has := f.pending[row.key()]; has && old.Position >= row.Position {
		return
	}
	f.pending[row.key()] = row
	if f.due.IsZero() {
		f.due = time.Now().Add(f.period)
	}
}

// flush writes what is pending if it is due. What cannot be written is tried again a period later.
func (f *follower) flush(ctx context.Context, now time.Time) {
	if f.due.IsZero() || now.Before(f.due) {
		return
	}
	bad, err := f.store.write(ctx, f.wait, f.topicID, f.pending)
	if ctx.Err() != nil {
		return // it is tried once more at the end
	}
	f.due = time.Now().Add(f.period)
	if err != nil {
		f.metrics.failures.Inc()
		if f.writing.Worth(err, now) {
			f.log.Warn("cannot write jobs to the archive, trying again", "err", err)
		}
		return
	}
	if f.writing.Over() {
		f.log.Info("jobs are archived again")
	}
	for _, date := range slices.Sorted(maps.Keys(bad)) {
		f.metrics.failures.Inc()
		if text := bad[date].Error(); !f.told[text] {
			f.told[text] = true
			f.log.Warn("a file of jobs cannot be used, its date stays as it is", "date", date, "err", bad[date])
		}
	}
	// A job may have a row in a file that cannot be used, and now another one. If that file comes back, the old row has
	// to go. So nothing is forgotten before all files can be used.
	if len(bad) == 0 {
		clear(f.pending)
		f.due = time.Time{}
	}
	f.metrics.pending.Set(float64(len(f.pending)))
}

// writeNow writes what is pending, due or not.
func (f *follower) writeNow(ctx context.Context) {
	if len(f.pending) > 0 {
		f.due = time.Now()
		f.flush(ctx, f.due)
	}
}

// finish reads the rest of the topic as far as the brokers answer, and writes what is pending.
func (f *follower) finish(ctx context.Context) {
	timed, cancel := context.WithTimeout(ctx, f.patience)
	err := f.drain(timed)
	cancel()
	f.wait = endWait
	f.writeNow(ctx)
	switch {
	case err != nil:
		f.log.Warn("ended before the end of the jobs, the rest is read at the next start", "err", err)
	case len(f.pending) > 0:
		f.log.Warn("ended before all jobs are archived, they are read again at the next start", "jobs", len(f.pending))
	}
}

// drain reads the topic up to its present end.
func (f *follower) drain(ctx context.Context) error {
	if f.brokers.Away() {
		return errors.New("the brokers are away")
	}
	cl, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	_, end, err := f.bounds(ctx, cl)
	if err != nil {
		return err
	}
	for f.next < end {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := f.step(ctx, cl); err != nil {
			return err
		}
	}
	return nil
}
