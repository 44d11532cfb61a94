package recount

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// Topic is the part of a topic to read.
type Topic struct {
	ID     string // Kafka's
	Ranges map[int32]kafka.Range
	// From is the first complete interval of the topic, or Never if nothing was deleted.
	From int64
	// Gone reports that retention deleted records before From.
	Gone bool
}

// Find returns the first and last offsets of a topic. With since, the ranges begin at the records of intervals since
// then. The error wraps kafka.ErrNoPartition if there is no such topic.
func Find(ctx context.Context, cfg config.Config, adm *kadm.Client, name string, since time.Time) (Topic, error) {
	full := cfg.Prefix + name
	listed, err := adm.ListTopics(ctx, full)
	if err != nil {
		return Topic{}, fmt.Errorf("asking for topic %s: %w", full, err)
	}
	if d := listed[full]; d.Err != nil || len(d.Partitions) == 0 {
		return Topic{}, fmt.Errorf("topic %s: %w", full, kafka.ErrNoPartition)
	}
	bounds, err := kafka.TopicBounds(ctx, adm, full)
	if err != nil {
		return Topic{}, err
	}
	t := Topic{ID: kafka.TopicID(listed[full]), Ranges: bounds, From: Never}
	slackMs := 2 * config.Slack(cfg.Interval).Milliseconds()
	var later kadm.ListedOffsets
	if !since.IsZero() {
		t.From = max(0, since.UnixMilli())
		// No record of an interval is older than the interval, but for the slack of clocks.
		if later, err = adm.ListOffsetsAfterMilli(ctx, max(0, t.From-slackMs), full); err != nil {
			return Topic{}, fmt.Errorf("looking for %v in %s: %w", since, full, err)
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
		began, err := firstMs(ctx, cfg, name, p, r)
		if err != nil {
			return Topic{}, err
		}
		if whole := began + slackMs; whole > t.From {
			t.From, t.Gone = whole, true
		}
	}
	return t, nil
}

// firstMs returns the time of the first record of a partition. Retention deleted the records before it, or all: the
// next intervals may be incomplete.
func firstMs(ctx context.Context, cfg config.Config, name string, p int32, r kafka.Range) (int64, error) {
	s := OpenStream(ctx, cfg, cfg.Prefix+name, p, r)
	defer s.Close()
	e, ok, err := s.Next()
	if err != nil || ok {
		return e.AppendedMs, err
	}
	retention := cfg.Topics.CountersRetention
	if name == schemas.TopicJobSummary {
		retention = cfg.Topics.SummaryRetention
	}
	return time.Now().Add(-retention).UnixMilli(), nil
}
