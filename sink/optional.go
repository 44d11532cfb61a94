package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sync/errgroup"
)

// The rows of an optional stream are kept for a while, and some may be missing. Lost rows are recorded as a gap without
// anybody's consent. Lost summaries need the consent of a person, by AcceptGap.

// runOptional is run for an optional stream, beside the deletion of its old dates. It passes records that are older
// than since, or than kept if since is 0.
func (s *sink[R]) runOptional(ctx context.Context, old *expiry, kept, since time.Duration) error {
	if s.kept = kept; since > 0 {
		s.kept, s.since = 0, time.Now().Add(-since)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error {
		old.run(ctx)
		return nil
	})
	g.Go(func() error {
		defer cancel()
		return s.run(ctx)
	})
	return g.Wait()
}

// floors returns the earliest offset of an optional stream, by partition.
func (s *sink[R]) floors(ctx context.Context, adm *kadm.Client) (map[int32]int64, error) {
	since, err := s.oldest(ctx, adm)
	if since.IsZero() || err != nil {
		return nil, err
	}
	after := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return adm.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topics...)
	}
	return offsets(ctx, after, s.stream.topic)
}

// oldest returns the time from which records are read. A limited retention counts back from now, or from the newest
// record if the local clock is ahead of the brokers' time for it.
func (s *sink[R]) oldest(ctx context.Context, adm *kadm.Client) (time.Time, error) {
	if s.kept == 0 {
		return s.since, nil
	}
	listed, err := adm.ListMaxTimestampOffsets(ctx, s.stream.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for the newest record of %s: %w", s.stream.topic, err)
	}
	newest := int64(-1) // of an empty topic
	listed.Each(func(o kadm.ListedOffset) { newest = max(newest, o.Timestamp) })
	now := time.Now()
	if at := time.UnixMilli(newest); newest >= 0 && at.Before(now) {
		now = at
	}
	return now.Add(-s.kept), nil
}

// pass records the loss of the positions between a draft and start, and goes on at start. The rows in hand are written
// first.
func (s *sink[R]) pass(ctx context.Context, p *draft[R], start int64) error {
	if !p.empty() {
		if err := s.roll(ctx, p); err != nil {
			return err
		}
	}
	err := s.recordGap(ctx, p.id, hole{link{next: p.start, date: p.previous, topicID: s.topicID}, link{start: start}})
	if errors.Is(err, errTaken) {
		return s.yield(p)
	}
	if err != nil {
		return err
	}
	*p = *newDraft[R](p.id, tail{start, p.previous, s.topicID})
	return nil
}

// closeHoles records the holes between the files of the archive.
func (s *sink[R]) closeHoles(ctx context.Context) error {
	a := s.archive
	var found map[int32][]link
	var oldest string
	err := a.shared(func() (err error) { found, oldest, err = chains(a.root, a.topic); return err })
	if err != nil {
		return err
	}
	for partition, links := range found {
		holes, err := check(links, oldest)
		if err != nil {
			return err
		}
		for _, h := range holes {
			if err := s.recordGap(ctx, partition, h); err != nil && !errors.Is(err, errTaken) {
				return err
			}
		}
	}
	return nil
}

// recordGap adds an empty file for a hole.
func (s *sink[R]) recordGap(ctx context.Context, partition int32, h hole) error {
	date, f := h.footer(s.stream.topic, partition)
	if err := s.archive.commitAlone(ctx, date, f, s.stream.encoder(nil)); err != nil {
		return err
	}
	s.log.Warn("records are lost, the gap is recorded", "partition", partition, "offset", f.Start, "next", f.Next)
	s.metrics.lost.With(labels(partition)).Add(float64(f.Next - f.Start))
	return nil
}

// commitAlone is commitFile while nobody else writes. The other sinks choose a date by their records, and this file is
// without records. Under another date, link(2) would let both files in.
func (a *archive) commitAlone(ctx context.Context, date string, f Footer, encode encodeFunc) error {
	lock, err := Exclusive(ctx, a.dir(), lockWait)
	if err == nil {
		defer lock.Unlock()
	} else if !errors.Is(err, ErrNoLocks) {
		return err
	}
	return a.lockedCommit(date, f, encode)
}
