package sink

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// wait is a record that a partition waits at: its schema is not known here. A newer weir wrote it, so an upgraded sink
// can archive it; to file it as undecodable would lose its rows.
type wait struct {
	partition int32
	offset    int64
	reason    error
	since     time.Time
	checked   time.Time
	trouble   kafka.Trouble
}

// attend looks after what changes without a record: a topic that is another one now, and the partitions that wait.
func (s *sink) attend(ctx context.Context, cl *kgo.Client, now time.Time) error {
	if now.Sub(s.identified) >= s.look {
		limited, cancel := context.WithTimeout(ctx, awayLimit) // files are due, also while no broker answers
		_, err := s.identify(limited, kadm.NewClient(cl))
		cancel()
		if fatal(err) && !errors.Is(err, ErrNoTopic) {
			return err // any other error shows in the fetches
		}
	}
	for _, w := range s.waits {
		cl.PauseFetchPartitions(map[string][]int32{s.topic: {w.partition}})
		if w.trouble.Worth(w.reason, now) {
			s.log.Warn("partition waits at a summary with an unknown schema: upgrade the sink; "+
				"if no weir wrote that record, `weir sink accept-gap PARTITION` passes it",
				"partition", w.partition, "offset", w.offset, "since", w.since.Format(time.RFC3339), "err", w.reason)
		}
		if now.Sub(w.checked) < s.look {
			continue
		}
		w.checked = now
		if err := s.passed(s.parts[w.partition]); err != nil {
			return err
		}
	}
	return nil
}

// passed returns errPassed where an upgraded sink, or accept-gap, has taken the chain on behind a partition that waits.
func (s *sink) passed(p *part) error {
	if !p.empty() { // its own file comes first
		return nil
	}
	date, err := s.archive.find(p.id, p.start)
	if err != nil || date == "" {
		return err
	}
	t, err := s.archive.follow(p.id, tail{p.start, p.previous, s.topicID})
	if err != nil {
		return err
	}
	*p = *newPart(p.id, t)
	delete(s.waits, p.id)
	s.measure(p)
	s.log.Info("the chain goes on behind the summary with an unknown schema", "partition", p.id, "offset", p.start)
	return errPassed
}

// Unknown is a record of the topic that its partition waits at.
type Unknown struct {
	Offset      int64  `json:"offset"`
	TimestampMs int64  `json:"timestamp_ms"` // when it was written
	Reason      string `json:"reason"`
}

// errFirst ends a read behind its first record.
var errFirst = errors.New("the first record")

// NextUnknown returns the record that a sink waits at in a partition that is archived up to position: the first one that
// follows, if its schema is not known here. Else it returns nil. Records that the sink has in hand, but not yet in the
// archive, hide it.
func NextUnknown(ctx context.Context, cfg config.Config, partition int32, position, end int64) (*Unknown, error) {
	cl, err := kafka.NewReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return NextUnknownOf(ctx, cl, cfg, partition, position, end)
}

// NextUnknownOf is NextUnknown with a client that kafka.NewReader made, or that has its options.
func NextUnknownOf(ctx context.Context, cl *kgo.Client, cfg config.Config, partition int32, position, end int64) (*Unknown, error) {
	var first *kgo.Record
	ranges := map[int32]kafka.Range{partition: {From: position, To: end}}
	err := kafka.ReadRanges(ctx, cl, cfg.Prefix+schemas.TopicJobSummary, ranges, func(r *kgo.Record) error {
		first = r
		return errFirst
	})
	if err != nil && !errors.Is(err, errFirst) || first == nil {
		return nil, err
	}
	it := decode(cfg.Cluster, first)
	if !it.newer {
		return nil, nil
	}
	return &Unknown{first.Offset, first.Timestamp.UnixMilli(), it.reason}, nil
}
