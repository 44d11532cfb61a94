package sink

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/weirhpc/weir/retry"
)

// roll writes the draft of a partition. It tries at least once, until the file is there or ctx ends. If another sink
// was first, it returns errTaken, and the draft goes on from that sink's files.
func (s *sink[R]) roll(ctx context.Context, p *draft[R]) error {
	for tries := 1; ; tries++ {
		err := s.commit(p)
		if err == nil && s.unwritten.Over() {
			s.log.Info("the archive is written again", "partition", p.id)
		}
		if err == nil || errors.Is(err, errTaken) || fatal(err) {
			return err
		}
		s.metrics.failures.With(labels(p.id)).Inc()
		if ctx.Err() == nil && s.unwritten.Worth(err, time.Now()) {
			s.log.Warn("cannot write to the archive, keeping the rows and trying again", "partition", p.id, "err", err)
		}
		if !retry.Pause(ctx, retry.Backoff(tries, s.cfg.BackoffCap)) {
			return err
		}
	}
}

// commit writes the draft as the next file of its chain, or yields to another sink that wrote it first.
func (s *sink[R]) commit(p *draft[R]) error {
	f := p.footer(s.stream.topic)
	f.TopicID = s.topicID
	began := time.Now()
	err := s.archive.commitFile(p.date, f, s.stream.encoder(p.rows))
	s.reportDamage()
	if errors.Is(err, errTaken) {
		return s.yield(p)
	}
	if err != nil {
		return err
	}
	if p.badCount > 1 {
		s.log.Warn("undecodable records are listed in a file's footer",
			"partition", p.id, "offset", p.start, "count", p.badCount)
	}
	s.wrote(p, f, time.Since(began))
	*p = *newDraft[R](p.id, tail{p.next, p.date, s.topicID})
	s.measure(p)
	return nil
}

// yield drops a draft and goes on behind the files of another sink, which hold the same records. It returns errTaken
// then.
func (s *sink[R]) yield(p *draft[R]) error {
	s.metrics.conflicts.With(labels(p.id)).Inc()
	t, err := s.archive.follow(p.id, tail{p.start, p.previous, s.topicID})
	if err != nil {
		return err
	}
	*p = *newDraft[R](p.id, t)
	delete(s.waits, p.id) // the chain may have passed the record; otherwise it is found again
	s.measure(p)
	return errTaken
}

// rest keeps the position of a draft that has contained only markers for long. If that fails, it is tried again later.
func (s *sink[R]) rest(ctx context.Context, p *draft[R]) error {
	err := s.keep(ctx, p, lockWait)
	if err == nil || errors.Is(err, errTaken) || fatal(err) {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) { // users delete old dates
		s.log.Warn("cannot keep the position of a quiet partition, trying again in an hour",
			"partition", p.id, "err", err)
	}
	p.since = time.Now()
	return nil
}

// keepAll keeps the positions of the drafts that contain only markers, if nobody else uses the archive just now.
func (s *sink[R]) keepAll(ctx context.Context) {
	for _, p := range s.drafts {
		if p.markersAlone() {
			_ = s.keep(ctx, p, 0) // the markers are read again at the next start, if the topic still has them
		}
	}
}

// keep writes a file that contains only a position. Otherwise retention could delete the markers before it, and the
// sink could not distinguish them from lost summaries. No other sink may write meanwhile: it would choose a date by its
// rows.
func (s *sink[R]) keep(ctx context.Context, p *draft[R], patience time.Duration) error {
	a, f, began := s.archive, p.footer(s.stream.topic), time.Now()
	f.TopicID = s.topicID
	lock, err := TakeLock(ctx, LockPath(a.dir()), true, patience)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := PutBackLocked(a.dir()); err != nil {
		return err
	}
	if _, err := os.Stat(a.dateDir(p.previous)); err != nil {
		return err // it was deleted, and must not come back
	}
	err = a.lockedCommit(p.previous, f, s.stream.encoder(nil))
	if errors.Is(err, errTaken) {
		lock.Unlock() // yield shares it
		return s.yield(p)
	}
	if err != nil {
		return err
	}
	p.date = p.previous
	s.wrote(p, f, time.Since(began))
	*p = *newDraft[R](p.id, tail{p.next, p.date, s.topicID})
	s.measure(p)
	return nil
}

// rollAll writes all drafts.
func (s *sink[R]) rollAll(ctx context.Context) error {
	var faults []error
	for _, p := range s.drafts {
		if !p.empty() {
			faults = append(faults, s.roll(ctx, p))
		}
	}
	return errors.Join(faults...)
}
