package processors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// ErrTooManyRejects is returned when more records are rejected, between two Ticks or among what a successor would have
	// to fold again, than collect.max_rejects allows: a bad deploy, which goes on only when an administrator says so.
	ErrTooManyRejects = errors.New("too many rejected records")
	// ErrTopicReplaced is returned when a partition ends before the position that was committed for it.
	ErrTopicReplaced = errors.New("partition ends before its committed position: was its topic deleted and made anew?")
)

const (
	// quietCommit is how often the position is committed while there is nothing to say: it bounds what a successor reads
	// again, and what a full retention can make it miss.
	quietCommit = 10 * time.Second
	// transactionTimeout outlasts the failover of a broker that was killed (13 s seen on Kafka 4.3). A dead owner's
	// transaction does not wait for it: its successor's fencing ends it.
	transactionTimeout = 40 * time.Second
	// commitTimeout bounds flush and commit, within the transaction's.
	commitTimeout = 20 * time.Second
	// startTimeout bounds a start, from fencing, which may wait for a new coordinator, to reading Progress.
	startTimeout = 30 * time.Second
	// readPatience is how long reading may fail before that is said.
	readPatience = 5 * time.Second
)

// stage is one of the two uses of the loop.
type stage struct {
	name     string // also its group
	input    string // topic
	progress string // topic, as many partitions as input
	newFold  func(partition int32, p *schemas.Progress) Fold
}

// Collect folds the partitions of counters that its group gives it, until ctx ends. It returns nil then, and
// ErrTooManyRejects or ErrTopicReplaced where an administrator has to look; anything else it waits for.
func Collect(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	return own(ctx, cfg, log, stage{
		name: "collect", input: cfg.Prefix + schemas.TopicCounters, progress: cfg.Prefix + schemas.TopicProgress,
		newFold: func(partition int32, p *schemas.Progress) Fold {
			return NewCollector(cfg.Cluster, partition, int32(cfg.Collectors), p)
		},
	})
}

// Merge folds the partitions of partials that its group gives it, as Collect does those of counters.
func Merge(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	return own(ctx, cfg, log, stage{
		name: "merge", input: cfg.Prefix + schemas.TopicPartials, progress: cfg.Prefix + schemas.TopicMergeProgress,
		newFold: func(_ int32, p *schemas.Progress) Fold { return NewMerger(cfg.Cluster, int32(cfg.Collectors), p) },
	})
}

// loop folds one partition, from fencing its predecessor to the first error.
type loop struct {
	cfg       config.Config
	stage     stage
	partition int32
	log       *slog.Logger
	brokers   *config.Brokers
	meter     *meter
	commits   int
}

// run owns the partition until ctx ends (nil) or anything goes wrong. After an error nobody knows whether the last
// transaction was committed; only Progress does, so the caller starts again from there.
func (l *loop) run(ctx context.Context) error {
	clients, end := context.WithCancel(context.WithoutCancel(ctx)) // a commit in hand outlives ctx
	producer, err := l.newProducer(clients)
	if err != nil {
		end()
		return err
	}
	defer producer.Close()
	defer end()
	// The producer id first: making it fences every older owner and settles its open transaction. What is read after
	// that is final.
	start, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if _, _, err := producer.ProducerID(start); err != nil {
		return fmt.Errorf("fencing older owners of transactional id %s: %w", l.transactionalID(), err)
	}
	a, from, err := l.open(start, kadm.NewClient(producer))
	if err != nil {
		return err
	}
	consumer, err := l.newConsumer(ctx, from)
	if err != nil {
		return err
	}
	defer consumer.Close()
	l.meter.owns(true)
	defer l.meter.owns(false)
	l.log.Info("partition is ours", "stage", l.stage.name, "partition", l.partition, "position", a.position, "replay_from", from)
	return l.consume(ctx, a, consumer, producer)
}

// open reads the last committed Progress and opens the account from it.
func (l *loop) open(ctx context.Context, adm *kadm.Client) (a *account, from int64, err error) {
	logStart, logEnd, err := config.Bounds(ctx, adm, l.stage.input, l.partition)
	if err != nil {
		return nil, 0, err
	}
	p, err := l.lastProgress(ctx, adm)
	if err != nil {
		return nil, 0, err
	}
	if p != nil && p.Position > logEnd {
		return nil, 0, fmt.Errorf("%s-%d ends at %d, its position is %d: %w", l.stage.input, l.partition, logEnd, p.Position, ErrTopicReplaced)
	}
	a, from = openAccount(func(p *schemas.Progress) Fold { return l.stage.newFold(l.partition, p) }, p, logStart)
	if a.lost != nil {
		l.log.Error("retention took records that nobody had read", "topic", l.stage.input, "partition", l.partition,
			"from", a.lost[0], "to", a.lost[1])
	}
	l.meter.lags(logEnd, a.position)
	if p == nil {
		p = &schemas.Progress{Position: a.position}
	}
	l.meter.stands(p)
	return a, from, nil
}

// lastProgress returns the last committed Progress of the partition, nil if there never was one. It looks back further
// and further: aborted transactions and markers take offsets too, and "none" is only known once all has been read.
func (l *loop) lastProgress(ctx context.Context, adm *kadm.Client) (*schemas.Progress, error) {
	logStart, logEnd, err := config.Bounds(ctx, adm, l.stage.progress, l.partition)
	if err != nil {
		return nil, err
	}
	for back := int64(100); ; back *= 10 {
		from := max(logStart, logEnd-back)
		var last *schemas.Progress
		err := config.ReadPartition(ctx, l.cfg, l.stage.progress, l.partition, from, logEnd, func(r *kgo.Record) error {
			value, err := schemas.Unmarshal(r.Value)
			if err != nil {
				return err
			}
			if p, ok := value.(*schemas.Progress); ok {
				last = p
			}
			return nil
		})
		if err != nil || last != nil || from == logStart {
			return last, err
		}
	}
}

// consume folds and commits until ctx ends or something goes wrong.
func (l *loop) consume(ctx context.Context, a *account, consumer, producer *kgo.Client) error {
	committed := time.Now()
	var trouble reading
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, quietCommit)
		fetches := consumer.PollRecords(poll, 10_000)
		cancel()
		if err := l.checkFetches(ctx, fetches, &trouble); err != nil {
			return err
		}
		read, bytes, began := 0, 0, time.Now()
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Attrs.IsControl() {
				a.advance(r.Offset + 1)
				return
			}
			read++
			bytes += len(r.Value)
			a.take(Entry{Offset: r.Offset, AppendedMs: r.Timestamp.UnixMilli(), Value: r.Value})
		})
		l.meter.folded(read, bytes, time.Since(began))
		l.meter.reached(fetches, a.position)
		quiet := a.position > a.from && time.Since(committed) >= quietCommit
		if !a.hasNews() && !quiet {
			continue
		}
		if err := l.commit(ctx, a, producer); err != nil {
			return err
		}
		committed = time.Now()
	}
	return nil
}

// reading remembers how long a partition could not be read.
type reading struct {
	since time.Time // zero: it can be
	said  bool
}

// checkFetches returns the error of a poll that ends the loop. What may pass, such as a partition without a leader, is
// waited for, and said once when it lasts.
func (l *loop) checkFetches(ctx context.Context, fetches kgo.Fetches, trouble *reading) error {
	var passing error
	for _, e := range fetches.Errors() {
		var broker *kerr.Error
		switch {
		case errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, context.Canceled): // of the poll itself
		case errors.As(e.Err, &broker) && !broker.Retriable:
			return fmt.Errorf("reading %s-%d: %w", l.stage.input, l.partition, e.Err)
		default:
			passing = e.Err
		}
	}
	switch {
	case passing == nil:
		if fetches.NumRecords() > 0 {
			*trouble = reading{}
		}
		return nil
	case trouble.since.IsZero():
		trouble.since = time.Now()
	case !trouble.said && time.Since(trouble.since) > readPatience:
		l.log.Warn("partition cannot be read, trying again", "topic", l.stage.input, "partition", l.partition, "err", passing)
		trouble.said = true
	}
	config.Pause(ctx, 250*time.Millisecond)
	return nil
}

// commit says all that the account holds in one transaction. It finishes a transaction that it began even when ctx ends,
// for two seconds; what is then left open the next owner ends.
func (l *loop) commit(ctx context.Context, a *account, producer *kgo.Client) error {
	p := a.progress()
	if n := max(a.refused, len(p.Rejected)); n > l.cfg.Collect.MaxRejects {
		return fmt.Errorf("%d records before %d of %s-%d, the last because: %s: %w; mend what writes them, or raise collect.max_rejects (WEIR_COLLECT_MAX_REJECTS) to go on",
			n, p.Position, l.stage.input, l.partition, lastReason(a), ErrTooManyRejects)
	}
	records, err := l.records(a, p)
	if err != nil {
		return err
	}
	ctx, cancel := config.Outlive(ctx, commitTimeout)
	defer cancel()
	began := time.Now()
	if err := producer.BeginTransaction(); err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	var first firstError
	for _, r := range records {
		producer.Produce(ctx, r, first.promise)
	}
	if err := producer.Flush(ctx); err != nil {
		return fmt.Errorf("flushing a transaction: %w", err)
	}
	// A record that failed does not make flush or commit fail: Progress would be committed without its output.
	if err := first.err(); err != nil {
		return err
	}
	if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("committing a transaction: %w", err)
	}
	a.committed()
	l.commits++
	l.meter.committed(p, time.Since(began))
	return nil
}

func lastReason(a *account) string {
	if len(a.rejects) == 0 {
		return "see the topic of rejects"
	}
	return a.rejects[len(a.rejects)-1].Reason
}

// firstError keeps the first error of a transaction's promises, which come from the client's goroutines.
type firstError struct {
	mu    sync.Mutex
	first error
}

func (f *firstError) promise(r *kgo.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.first == nil {
		f.first = fmt.Errorf("producing to %s: %w", r.Topic, err)
	}
}

func (f *firstError) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}

// records encodes what a transaction holds.
func (l *loop) records(a *account, p *schemas.Progress) ([]*kgo.Record, error) {
	var records []*kgo.Record
	add := func(topic string, partition int32, key []byte, r schemas.Record) error {
		value, err := schemas.Marshal(r)
		if err != nil {
			return err
		}
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value})
		return nil
	}
	for _, o := range a.outputs {
		var err error
		switch o := o.(type) {
		case *schemas.JobSummary:
			err = add(l.cfg.Prefix+schemas.TopicJobSummary, 0, schemas.JobKey{JobID: o.JobID, Restart: o.Restart}.Key(), o)
		case *schemas.JobPartial:
			err = add(l.cfg.Prefix+schemas.TopicPartials, 0, schemas.JobKey{JobID: o.JobID, Restart: o.Restart}.Key(), o)
		case *schemas.Watermark:
			for m := range int32(l.cfg.Partitions.Partials) {
				err = errors.Join(err, add(l.cfg.Prefix+schemas.TopicPartials, m, nil, o))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	for _, x := range a.rejects {
		reject := x.record(l.stage.input, l.partition)
		source := fmt.Sprintf("%s/%d", l.stage.input, l.partition)
		if err := add(l.cfg.Prefix+schemas.TopicRejects, 0, []byte(source), reject); err != nil {
			return nil, err
		}
	}
	if err := add(l.stage.progress, l.partition, schemas.PartitionKey(l.partition), p); err != nil {
		return nil, err
	}
	return records, nil
}
