// Package processors owns partitions of a topic, folds them, and commits the outputs together with the position.
// Collect and Merge do so with the folds of package fold, and package find with one of its own.
//
// owners.go runs a loop for each partition of this process. loop.go is that loop: it reads, folds and commits.
// position.go finds where to go on, output.go encodes the outputs, and stops.go handles a partition that cannot go on.
package processors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errTooManyRejects stops a partition with more unreadable records within a minute of the log than
	// collect.max_rejects allows: a bad deploy. It goes on when an administrator raises the limit.
	errTooManyRejects = errors.New("too many rejected records")
	// errTopicReplaced stops a partition whose position was committed for another topic of the same name.
	errTopicReplaced = errors.New("the topic is not the one of the committed position")
	// errByHand is the fault of a Progress outside of a transaction. No loop wrote it: loops commit in transactions.
	errByHand = errors.New("written by hand: a Progress is part of a transaction")
	// errImpatient starts a loop again with more time for its transactions.
	errImpatient = errors.New("transaction needs more time than its producer allows")
)

const (
	// commitTimeout bounds a transaction of the usual size. It outlasts the failover of a broker that was killed (13 s
	// seen on Kafka 4.3).
	commitTimeout = 20 * time.Second
	// maxCommitTimeout is within the longest transaction that Kafka allows (transaction.max.timeout.ms, 15 minutes).
	maxCommitTimeout = 7 * time.Minute
	// leastBytesPerSecond is the least throughput of brokers. By it a transaction gets time for its bytes.
	leastBytesPerSecond = 2 << 20
	// ManyOutputs is how many outputs make the loop commit before it folds the rest of a poll.
	ManyOutputs = 10_000
	// LearnEvery is how often a fold learns of the world beside its log, at least.
	LearnEvery = time.Second
	// StartTimeout bounds a start, from fencing, which may wait for a new coordinator, to reading Progress. The states
	// of many jobs may take longer.
	StartTimeout = 30 * time.Second
	// readPatience is how long reading may fail before that is logged.
	readPatience = 5 * time.Second
)

// loop folds one partition, from fencing its predecessor to the first error.
type loop struct {
	cfg       config.Config
	stage     Stage
	partition int32
	log       *slog.Logger
	brokers   *kafka.Brokers
	meter     *meter
	others    *others

	wrongClocks *wrongClocks
	commits     int
	patience    time.Duration     // with a commit
	last        *schemas.Progress // committed, as this run knows it
	halted      halted
	rubbish     retry.Trouble // unreadable records in the topics of positions and states
	refused     retry.Trouble // rejects that are logged
}

// run owns the partition until ctx ends (nil) or anything goes wrong. After an error only Progress shows whether the
// last transaction was committed, so the caller starts again from there.
func (l *loop) run(ctx context.Context) error {
	clients, end := context.WithCancel(context.WithoutCancel(ctx)) // a commit that has begun outlives ctx
	producer, err := l.newProducer(clients)
	if err != nil {
		end()
		return err
	}
	defer producer.Close()
	defer end()
	// The producer id comes first. It fences every older owner and ends its open transaction, so that all that is
	// read afterwards is final.
	start, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	if err := producer.Fence(start); err != nil {
		return err
	}
	err = l.follow(ctx, start, producer)
	if isStop(err) && ctx.Err() == nil {
		l.halt(ctx, producer, err)
	}
	return err
}

// follow folds the partition from the last committed Progress on. start bounds its beginning.
func (l *loop) follow(ctx, start context.Context, producer *kafka.Producer) error {
	a, from, err := l.open(ctx, start, producer)
	if err != nil {
		return err
	}
	if errors.Is(l.halted.kind, errTopicReplaced) { // the other kind is over with the next commit
		l.halted = halted{}
		l.meter.stops(false)
	}
	consumer, err := l.newConsumer(ctx, from)
	if err != nil {
		return err
	}
	defer consumer.Close()
	l.meter.owns(true)
	defer l.meter.owns(false)
	level := slog.LevelInfo
	if l.halted.kind != nil { // a partition that stands still is tried every few seconds
		level = slog.LevelDebug
	}
	l.log.Log(ctx, level, "partition is ours", "stage", l.stage.Name, "partition", l.partition,
		"position", a.Position, "replay_from", from)
	return l.consume(ctx, a, consumer, producer)
}

// consume folds and commits until ctx ends or something goes wrong.
func (l *loop) consume(ctx context.Context, a *fold.Account, consumer *kgo.Client, producer *kafka.Producer) error {
	committed, wait := time.Now(), config.QuietCommit
	if l.stage.Learn != nil {
		wait = LearnEvery
	}
	var news time.Time // when the first output came that is not committed; zero: there is none
	var trouble reading
	for ctx.Err() == nil {
		patience := wait
		if !news.IsZero() {
			patience = min(wait, max(0, time.Until(news.Add(l.stage.Hold))))
		}
		poll, cancel := context.WithTimeout(ctx, patience)
		fetches := consumer.PollRecords(poll, 10_000)
		cancel()
		if err := l.checkFetches(ctx, fetches, &trouble); err != nil {
			return err
		}
		if err := l.foldAll(ctx, a, fetches, producer); err != nil {
			return err
		}
		if l.stage.Learn != nil {
			l.stage.Learn(ctx, l.seen(producer.Admin()), a)
		}
		l.meter.reached(fetches, a.Position)
		l.others.log(l, a)
		leader, _, _ := consumer.PartitionLeader(l.stage.Input, l.partition)
		l.wrongClocks.log(l, &a.Clocks, leader)
		quiet := a.Position > a.From && time.Since(committed) >= config.QuietCommit
		if a.HasNews() && news.IsZero() {
			news = time.Now()
		}
		if !l.due(a, news) && !quiet {
			if news.IsZero() && fetches.NumRecords() > 0 {
				retry.Pause(ctx, l.stage.Pause)
			}
			continue
		}
		if err := l.commit(ctx, a, producer); err != nil {
			return err
		}
		committed, news = time.Now(), time.Time{}
	}
	return nil
}

// seen is the partition as its fold knows it.
func (l *loop) seen(adm *kadm.Client) *Partition {
	return &Partition{Number: l.partition, Log: l.log, Admin: adm, Rubbish: &l.rubbish, meter: l.meter}
}

// due reports whether there are outputs to commit, which came at news or later.
func (l *loop) due(a *fold.Account, news time.Time) bool {
	return a.HasNews() && (time.Since(news) >= l.stage.Hold || len(a.Outputs) >= l.stage.Most)
}

// foldAll folds the records of a poll. It commits in between after many outputs, since one Tick may yield more than a
// transaction should hold.
func (l *loop) foldAll(ctx context.Context, a *fold.Account, fetches kgo.Fetches, producer *kafka.Producer) error {
	read, bytes, took := 0, 0, time.Duration(0)
	defer func() { l.meter.folded(read, bytes, took) }()
	for r := range fetches.RecordsAll() {
		if r.Attrs.IsControl() {
			a.Advance(r.Offset + 1)
			continue
		}
		read++
		bytes += len(r.Value)
		began := time.Now()
		a.Add(fold.Entry{Offset: r.Offset, AppendedMs: r.Timestamp.UnixMilli(), Value: r.Value})
		took += time.Since(began)
		if len(a.Outputs) >= l.stage.Most {
			if err := l.commit(ctx, a, producer); err != nil {
				return err
			}
		}
	}
	return nil
}

// reading remembers since when a partition cannot be read.
type reading struct {
	retry.Trouble
	since time.Time // zero: it can be
}

// checkFetches returns the error of a poll that ends the loop. It waits for errors that may pass, such as a partition
// without a leader, and logs them when they last.
func (l *loop) checkFetches(ctx context.Context, fetches kgo.Fetches, trouble *reading) error {
	var passing error
	for _, e := range fetches.Errors() {
		var broker *kerr.Error
		switch {
		case errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, context.Canceled): // of the poll itself
		case errors.As(e.Err, &broker) &&
			(!broker.Retriable || broker == kerr.UnknownTopicID || broker == kerr.InconsistentTopicID):
			// The client never adopts another id of its topic. A new start compares that id with the position's.
			return fmt.Errorf("reading %s-%d: %w", l.stage.Input, l.partition, e.Err)
		default:
			passing = e.Err
		}
	}
	switch {
	case passing == nil:
		if fetches.NumRecords() > 0 {
			trouble.since = time.Time{}
			trouble.Over()
		}
		return nil
	case trouble.since.IsZero():
		trouble.since = time.Now()
	case time.Since(trouble.since) > readPatience && trouble.Worth(passing, time.Now()):
		l.log.Warn("partition cannot be read, trying again",
			"topic", l.stage.Input, "partition", l.partition, "err", passing)
	}
	retry.Pause(ctx, 250*time.Millisecond)
	return nil
}

// commit commits all effects of the account in one transaction.
func (l *loop) commit(ctx context.Context, a *fold.Account, producer *kafka.Producer) error {
	began := time.Now()
	if r := a.Unreadable.Stopped; r != nil {
		return fmt.Errorf("%s-%d: more than %d records within a minute that nobody can read, "+
			"the last at offset %d because: %s: %w; "+
			"mend what writes them, and raise collect.max_rejects (WEIR_COLLECT_MAX_REJECTS) to go on",
			l.stage.Input, l.partition, a.Unreadable.Limit, r.Offset, r.Reason, errTooManyRejects)
	}
	if a.Lost != nil {
		l.log.Error("retention took records before they were used", "topic", l.stage.Input, "partition", l.partition,
			"from", a.Lost[0], "to", a.Lost[1], "count", a.Counts.Lost-l.last.Counts.Lost)
	}
	t, p, err := l.records(a)
	if err != nil {
		return err
	}
	if l.last.Stopped != "" {
		l.log.Info("partition goes on", "stage", l.stage.Name, "partition", l.partition)
	}
	if err := l.transact(ctx, producer, t); err != nil {
		return err
	}
	a.Committed()
	l.commits++
	l.last, l.halted = p, halted{}
	l.meter.stops(false)
	l.meter.committed(p, time.Since(began))
	return nil
}

// transact writes records in one transaction.
func (l *loop) transact(ctx context.Context, producer *kafka.Producer, t *encoded) error {
	if needs := timeFor(t.bytes); needs > l.patience {
		l.patience = needs
		return fmt.Errorf("%d bytes: %w", t.bytes, errImpatient)
	}
	err := producer.Commit(ctx, t.records)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // slow brokers would fail the next try too
		l.patience = min(2*l.patience, maxCommitTimeout)
	}
	return err
}

// timeFor returns how long a transaction of so many bytes may take.
func timeFor(bytes int) time.Duration {
	return max(commitTimeout, min(time.Duration(bytes/leastBytesPerSecond)*time.Second, maxCommitTimeout))
}
