package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// begin finds the first offsets of the topics, and the first interval that all of them hold.
func (a *auditor) begin(ctx context.Context) error {
	a.from = Beginning
	for _, name := range []string{schemas.TopicCounters, schemas.TopicPartials, schemas.TopicJobSummary} {
		t, err := recount.Find(ctx, a.cfg, a.adm, name, a.o.Since)
		if err != nil {
			return err
		}
		a.topics[name], a.from = t, max(a.from, t.From)
	}
	if t, err := recount.Find(ctx, a.cfg, a.adm, schemas.TopicRejects, a.o.Since); err == nil {
		a.topics[schemas.TopicRejects] = t
	} else {
		a.notes = append(a.notes, fmt.Sprintf("topic rejects is not compared: %v", err))
	}
	if n := len(a.topics[schemas.TopicCounters].Ranges); a.o.Partition >= int32(n) {
		return fmt.Errorf("%w: %d, only 0 to %d", ErrNoPartition, a.o.Partition, n-1)
	}
	return nil
}

// spans reads the positions of collect or merge, and the fates that were counted.
func (a *auditor) spans(ctx context.Context, input, positions string) (map[int32]Span, error) {
	spans, last, err := a.readSpans(ctx, input, positions, kafka.TopicBounds)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(last)) {
		a.checkPosition(input, p, last[p], spans)
	}
	return spans, nil
}

// later reads the positions again, behind the ends of all topics: no other commit is in flight.
func (a *auditor) later(ctx context.Context, input, positions string, spans map[int32]Span) error {
	settled := func(ctx context.Context, adm *kadm.Client, topic string) (map[int32]kafka.Range, error) {
		return kafka.SettledBounds(ctx, adm, topic, settleWait)
	}
	now, last, err := a.readSpans(ctx, input, positions, settled)
	for p, s := range spans {
		s.Later = now[p].Position
		spans[p] = s
	}
	if input == schemas.TopicCounters {
		a.standing(spans, last)
	}
	return err
}

// boundsOf returns the offsets of the topic of positions to read.
type boundsOf func(context.Context, *kadm.Client, string) (map[int32]kafka.Range, error)

// readSpans also returns the last Progress of each partition, if there is one. Compaction may move the begin of the
// positions' topic while it is read.
func (a *auditor) readSpans(ctx context.Context, input, positions string, bounds boundsOf,
) (spans map[int32]Span, last map[int32]*schemas.Progress, err error) {
	for tries := 1; ; tries++ {
		spans, last, err = a.trySpans(ctx, input, positions, bounds)
		if !errors.Is(err, kerr.OffsetOutOfRange) || tries == 5 || !retry.Pause(ctx, time.Second) {
			return spans, last, err
		}
	}
}

func (a *auditor) trySpans(ctx context.Context, input, positions string, boundsOf boundsOf,
) (map[int32]Span, map[int32]*schemas.Progress, error) {
	t := a.topics[input]
	spans := make(map[int32]Span, len(t.Ranges))
	for p, r := range t.Ranges {
		spans[p] = Span{From: r.From, Position: r.From}
		if a.from == Beginning {
			spans[p] = Span{From: r.From, Position: r.From, Opening: &schemas.ProgressCounts{}}
		}
	}
	bounds, err := boundsOf(ctx, a.adm, a.cfg.Prefix+positions)
	if err != nil {
		return nil, nil, err
	}
	last := map[int32]*schemas.Progress{}
	err = kafka.ReadRanges(ctx, a.cl, a.cfg.Prefix+positions, bounds, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		p, ok := v.(*schemas.Progress)
		s, there := spans[r.Partition]
		if err != nil || !ok || !there || !r.Attrs.IsTransactional() { // not written by a service: collect logs it
			return nil //nolint:nilerr // see above
		}
		last[r.Partition] = p
		if s.Opening == nil && p.Closed != nil && *p.Closed >= a.from && p.Position >= s.From {
			s.Opening, s.OpenedAt = &p.Counts, p.Position
		}
		s.Position, s.Closing = max(p.Position, s.From), p.Counts
		spans[r.Partition] = s
		return nil
	})
	return spans, last, err
}

// standing notes the collectors that stand still or lag: their records behind the position are not audited.
func (a *auditor) standing(spans map[int32]Span, last map[int32]*schemas.Progress) {
	closed, newest := map[int32]int64{}, int64(never)
	for p := range spans {
		closed[p] = never
		if l := last[p]; l != nil && l.Closed != nil {
			closed[p] = *l.Closed
		}
		newest = max(newest, closed[p])
	}
	patience := max(standingIntervals*a.cfg.Interval, standingTime).Milliseconds()
	for _, p := range slices.Sorted(maps.Keys(spans)) {
		upTo := "no interval"
		switch {
		case newest == never, closed[p] >= newest-patience:
			continue
		case closed[p] != never:
			upTo = "intervals up to " + Instant(closed[p])
		}
		a.notes = append(a.notes, fmt.Sprintf(
			"collect %d stands still or lags: it has closed %s, another one up to %s; "+
				"its records from offset %d on are not audited", p, upTo, Instant(newest), spans[p].Position))
	}
}

// A collector that is behind the newest one by more than both is reported.
const (
	standingIntervals = 3
	standingTime      = 30 * time.Second
)

// checkPosition reports a position in a deleted topic of the same name, and records that retention deleted before they
// were folded.
func (a *auditor) checkPosition(input string, p int32, last *schemas.Progress, spans map[int32]Span) {
	s, t := spans[p], a.topics[input]
	at := last.Position
	d := Difference{Kind: kindFates, Topic: a.cfg.Prefix + input, Partition: p, Offset: &at}
	switch {
	case !kafka.SameTopic(last.TopicID, t.ID):
		d.Text = "the position is of a topic that was deleted and made again"
		a.faults = append(a.faults, d)
		s.Position, s.Opening = s.From, nil
	case s.Opening != nil && last.Counts.Lost > s.Opening.Lost:
		a.notes = append(a.notes, fmt.Sprintf(
			"%s%s-%d: retention deleted %d records before they were folded", a.cfg.Prefix, input, p,
			last.Counts.Lost-s.Opening.Lost))
	}
	spans[p] = s
}
