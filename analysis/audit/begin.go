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

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// begin finds where the topics begin, and the first interval that all of them hold.
func (a *auditor) begin(ctx context.Context) error {
	a.from = Beginning
	if !a.o.Since.IsZero() {
		a.from = max(0, a.o.Since.UnixMilli())
	}
	for _, name := range []string{schemas.TopicCounters, schemas.TopicPartials, schemas.TopicJobSummary} {
		if err := a.beginOf(ctx, name); err != nil {
			return err
		}
	}
	if n := len(a.topics[schemas.TopicCounters].ranges); a.o.Partition >= int32(n) {
		return fmt.Errorf("%w: %d, only 0 to %d", ErrNoPartition, a.o.Partition, n-1)
	}
	return nil
}

func (a *auditor) beginOf(ctx context.Context, name string) error {
	full := a.cfg.Prefix + name
	listed, err := a.adm.ListTopics(ctx, full)
	if err != nil {
		return fmt.Errorf("asking for topic %s: %w", full, err)
	}
	if d := listed[full]; d.Err != nil || len(d.Partitions) == 0 {
		return fmt.Errorf("topic %s: %w", full, kafka.ErrNoPartition)
	}
	bounds, err := kafka.TopicBounds(ctx, a.adm, full)
	if err != nil {
		return err
	}
	a.topics[name] = &topic{kafka.TopicID(listed[full]), bounds}
	slack := 2 * config.Slack(a.cfg.Interval)
	var later kadm.ListedOffsets
	if !a.o.Since.IsZero() {
		// No record of an interval is older than the interval, but for the slack of clocks.
		if later, err = a.adm.ListOffsetsAfterMilli(ctx, max(0, a.from-slack.Milliseconds()), full); err != nil {
			return fmt.Errorf("looking for %v in %s: %w", a.o.Since, full, err)
		}
	}
	for p, r := range bounds {
		if l, ok := later.Lookup(full, p); ok && l.Err == nil && l.Offset > r.From {
			bounds[p] = kafka.Range{From: min(l.Offset, r.To), To: r.To}
			continue
		}
		if r.From == 0 {
			continue
		}
		// Retention deleted the records before the first one, or all: the next intervals may be incomplete.
		retention := a.cfg.Topics.CountersRetention
		if name == schemas.TopicJobSummary {
			retention = a.cfg.Topics.SummaryRetention
		}
		since := time.Now().Add(-retention).UnixMilli()
		first, ok, err := a.first(ctx, full, p, r)
		if err != nil {
			return err
		}
		if ok {
			since = first.AppendedMs
		}
		a.from = max(a.from, since+slack.Milliseconds())
	}
	return nil
}

// first returns the first record of a partition.
func (a *auditor) first(ctx context.Context, topic string, p int32, r kafka.Range) (Entry, bool, error) {
	s := openStream(ctx, a.cfg, topic, p, r)
	defer s.close()
	return s.next()
}

// spans reads the positions of collect or merge, and the fates that were counted. Compaction may move the begin of the
// positions' topic while it is read.
func (a *auditor) spans(ctx context.Context, input, positions string) (spans map[int32]Span, err error) {
	for tries := 1; ; tries++ {
		spans, err = a.readSpans(ctx, input, positions)
		if !errors.Is(err, kerr.OffsetOutOfRange) || tries == 5 || !kafka.Pause(ctx, time.Second) {
			return spans, err
		}
	}
}

func (a *auditor) readSpans(ctx context.Context, input, positions string) (map[int32]Span, error) {
	t := a.topics[input]
	spans := make(map[int32]Span, len(t.ranges))
	for p, r := range t.ranges {
		spans[p] = Span{From: r.From, Position: r.From}
		if a.from == Beginning {
			spans[p] = Span{From: r.From, Position: r.From, Opening: &schemas.ProgressCounts{}}
		}
	}
	bounds, err := kafka.TopicBounds(ctx, a.adm, a.cfg.Prefix+positions)
	if err != nil {
		return nil, err
	}
	last := map[int32]*schemas.Progress{}
	err = kafka.ReadRanges(ctx, a.cl, a.cfg.Prefix+positions, bounds, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		p, ok := v.(*schemas.Progress)
		s, there := spans[r.Partition]
		if err != nil || !ok || !there || !r.Attrs.IsTransactional() { // what no service wrote, collect logs
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
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(last)) {
		a.checkPosition(input, p, last[p], spans)
	}
	return spans, nil
}

// checkPosition reports a position that is not one of this topic, and what a service had to count as lost.
func (a *auditor) checkPosition(input string, p int32, last *schemas.Progress, spans map[int32]Span) {
	s, t := spans[p], a.topics[input]
	at := last.Position
	d := Difference{Kind: KindFates, Topic: a.cfg.Prefix + input, Partition: p, Offset: &at}
	switch {
	case !kafka.SameTopic(last.TopicID, t.id):
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

// topic is what the audit reads of a topic.
type topic struct {
	id     string
	ranges map[int32]kafka.Range
}
