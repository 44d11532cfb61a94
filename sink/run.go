package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
)

const (
	minPause    = time.Second      // between two tries to read the topic
	assignLimit = 10 * time.Second // for the brokers to describe the topic
	drainLimit  = 3 * time.Second  // for the rest of the topic at the end
	awayLimit   = 2 * time.Second  // the same, if the brokers were away before
	lookEvery   = 10 * time.Second // between looks at the topic's id, and at chains that wait
)

// sink is the loop around the drafts: one goroutine reads all partitions and writes all files.
type sink[R any] struct {
	stream  stream[R]
	cfg     config.Config
	log     *slog.Logger
	metrics *Metrics
	archive *archive
	period  time.Duration // config.Config.FilePeriod
	since   time.Time     // older records are passed; zero: none
	kept    time.Duration // records older than the newest one by more are passed; 0: none
	tails   map[int32]tail
	topicID string // in hex, as at the first contact; empty if the brokers have none
	// identified is when the topic was last looked at.
	identified time.Time
	waits      map[int32]*wait // by partition
	look       time.Duration   // lookEvery
	drafts     []*draft[R]     // by partition; empty before the topic was seen
	ends       map[int32]int64 // of the partitions, from the last fetch
	brokers    *kafka.Brokers
	patience   time.Duration // with the topic, at the end
	unwritten  retry.Trouble
	reported   map[string]bool // damaged files already logged, by path
}

// Run writes the topic job-summary to the archive until ctx ends. Then it reads to the topic's end, for at most three
// seconds, and writes its drafts. It returns nil if every record that it read is archived.
//
// Run logs once that brokers are away or that the disk is full, and waits. Run returns an error with the remedy if
// waiting does not help: for a hole, a damaged file, a directory without hard links, a topic that is gone, made anew or
// behind the archive, and a retention that was too short. Several sinks may share a directory. At a summary with an
// unknown schema, Run waits, in that partition alone.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics) error {
	return newSink(cfg, summaries(cfg), log, metrics, nil).run(ctx)
}

// run follows the topic until ctx ends, and begins anew after every fault that may pass. Whatever ends it, the drafts
// are written first: their records may be deleted before anybody reads them again.
func (s *sink[R]) run(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	standsBy := false
	var trouble retry.Trouble
	for tries := 1; ctx.Err() == nil; {
		began := time.Now()
		err := s.follow(ctx)
		switch {
		case ctx.Err() != nil:
		case fatal(err):
			// The records of the drafts may be gone from the topic.
			return errors.Join(err, s.rollAll(ended()))
		case errors.Is(err, errPassed): // the chain's new end is read next
		case errors.Is(err, errTaken):
			if !standsBy {
				s.log.Info("another sink writes to this archive: this one stands by")
			}
			standsBy = true
		default:
			if time.Since(began) > time.Minute {
				tries = 1
				trouble.Over()
			}
			if !s.brokers.Away() && trouble.Worth(err, time.Now()) { // absent brokers are in the log already
				s.log.Warn("cannot read the topic, trying again", "err", err)
			}
			retry.Pause(ctx, max(minPause, retry.Backoff(tries, s.cfg.BackoffCap)))
			tries++
		}
	}
	return s.finish(context.WithoutCancel(ctx))
}

// open opens the archive and finds the ends of its chains. It waits while the disk is full.
func (s *sink[R]) open(ctx context.Context) error {
	var trouble retry.Trouble
	for tries := 1; ; tries++ {
		err := s.archive.open()
		if err == nil && s.stream.optional {
			err = s.closeHoles(ctx)
		}
		if err == nil {
			s.tails, err = s.archive.tails()
		}
		if err == nil {
			s.reportDamage()
		}
		if err == nil || !diskMayRecover(err) {
			return err
		}
		if trouble.Worth(err, time.Now()) {
			s.log.Warn("cannot write to the archive, trying again", "err", err)
		}
		if !retry.Pause(ctx, retry.Backoff(tries, s.cfg.BackoffCap)) {
			return err
		}
	}
}

// reportDamage logs the files that cannot be read, each once.
func (s *sink[R]) reportDamage() {
	damaged := s.archive.damaged
	s.metrics.damaged.WithLabelValues().Set(float64(len(damaged)))
	for _, path := range slices.Sorted(maps.Keys(damaged)) {
		if !s.reported[path] {
			s.log.Warn("a file of the archive is damaged: its rows cannot be read, the sink goes on without it",
				"err", damaged[path])
		}
		s.reported[path] = true
	}
}

// finish archives all drafts, and the rest of the topic as far as the brokers answer.
func (s *sink[R]) finish(ctx context.Context) error {
	limit := s.patience
	if s.brokers.Away() {
		limit = awayLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := s.drain(ctx)
		if fatal(err) {
			return errors.Join(err, s.rollAll(ended()))
		}
		if err == nil {
			err = s.rollAll(ctx)
			if err == nil {
				s.keepAll(ctx)
				for _, w := range s.waits {
					s.log.Warn("ended at a record that this weir does not know, "+
						"it and what is behind it are read at the next start",
						"partition", w.partition, "offset", w.offset)
				}
				return nil
			}
		}
		if (errors.Is(err, errTaken) || errors.Is(err, errPassed)) && ctx.Err() == nil {
			continue
		}
		s.log.Warn("ended before the topic's end, the rest is read at the next start", "err", err)
		return s.rollAll(ended())
	}
}

// fatal reports whether waiting does not help.
func fatal(err error) bool {
	for _, target := range []error{
		ErrHole, ErrBadFile, errOvertaken, errBeyondEnd, errTopicReplaced, errNoTopic, errNoHardLinks,
		kafka.ErrTopics, kafka.ErrNoBrokers,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// follow reads the topic until ctx ends or something fails.
func (s *sink[R]) follow(ctx context.Context) error {
	cl, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, p := range s.drafts {
		s.measure(p)
	}
	for ctx.Err() == nil {
		if err := s.step(ctx, cl); err != nil {
			return err
		}
	}
	return nil
}

// drain reads the topic up to its present end.
func (s *sink[R]) drain(ctx context.Context) error {
	cl, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := offsets(ctx, kadm.NewClient(cl).ListCommittedOffsets, s.stream.topic)
	if err != nil {
		return err
	}
	behind := func(p *draft[R]) bool { return p.next < ends[p.id] && s.waits[p.id] == nil }
	for slices.ContainsFunc(s.drafts, behind) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.step(ctx, cl); err != nil {
			return err
		}
	}
	return nil
}

// step accepts the records of one poll, and writes the files that end by them or by time.
func (s *sink[R]) step(ctx context.Context, cl *kgo.Client) error {
	wait := time.Second
	for _, p := range s.drafts {
		if !p.empty() {
			wait = min(wait, max(time.Until(p.deadline(s.period)), time.Millisecond))
		}
	}
	timed, cancel := context.WithTimeout(ctx, wait)
	fetches := cl.PollFetches(timed)
	cancel()
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return fmt.Errorf("reading partition %d of %s: %w", e.Partition, s.stream.topic, e.Err)
		}
	}
	for it := fetches.RecordIter(); !it.Done(); {
		if err := s.accept(ctx, it.Next()); err != nil {
			return err
		}
	}
	s.fetched(fetches)
	now := time.Now()
	if err := s.attend(ctx, cl, now); err != nil {
		return err
	}
	for _, p := range s.drafts {
		if p.due(now, s.period) {
			if err := s.roll(ctx, p); err != nil {
				return err
			}
		}
		if p.rests(now) {
			if err := s.rest(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// accept adds a record to its draft, and writes files that end: this one by date, the fullest by size.
func (s *sink[R]) accept(ctx context.Context, r *kgo.Record) error {
	p := s.drafts[r.Partition]
	if s.waits[p.id] != nil {
		return nil
	}
	it := s.stream.decode(r)
	if it.newer {
		s.waits[p.id] = &wait{partition: p.id, offset: it.offset, since: time.Now(), reason: errors.New(it.reason)}
		s.measure(p)
		return nil
	}
	if it.reason != "" && p.badCount == 0 {
		s.log.Warn("undecodable record, listed in the next file's footer",
			"partition", p.id, "offset", it.offset, "err", it.reason)
	}
	if p.ends(it) {
		if err := s.roll(ctx, p); err != nil {
			return err
		}
	}
	p.add(it, time.Now())
	var bytes int64
	fullest := p
	for _, other := range s.drafts {
		if bytes += other.bytes; other.bytes > fullest.bytes {
			fullest = other
		}
	}
	if bytes < s.cfg.Sink.RollBytes {
		return nil
	}
	return s.roll(ctx, fullest)
}

// ended returns a context that is over, for one try without waiting.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
