package sink

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// wait is a record that a partition waits at, because its schema is unknown. A newer weir wrote it, so an upgraded sink
// can archive it. To list it as undecodable would lose its rows.
type wait struct {
	partition int32
	offset    int64
	reason    error
	since     time.Time
	checked   time.Time
	trouble   retry.Trouble
}

// attend looks after changes that no record shows: a topic that was replaced, and partitions that wait.
func (s *sink[R]) attend(ctx context.Context, cl *kgo.Client, now time.Time) error {
	if now.Sub(s.identified) >= s.look {
		s.identified = now
		limited, cancel := context.WithTimeout(ctx, awayLimit) // files become due while no broker answers
		err := s.identify(limited, kadm.NewClient(cl))
		cancel()
		if isVerdict(err) { // a new start asks all brokers; any other error shows in the fetches
			return errors.New("one broker does not have the topic as it was: " + err.Error())
		}
	}
	for _, w := range s.waits {
		cl.PauseFetchPartitions(map[string][]int32{s.stream.topic: {w.partition}})
		if w.trouble.Worth(w.reason, now) {
			s.log.Warn("partition waits at a summary with an unknown schema: upgrade the sink; "+
				"if no weir wrote that record, `weir sink accept-gap PARTITION` passes it",
				"partition", w.partition, "offset", w.offset, "since", w.since.Format(time.RFC3339), "err", w.reason)
		}
		if now.Sub(w.checked) < s.look {
			continue
		}
		w.checked = now
		if err := s.passed(s.drafts[w.partition]); err != nil {
			return err
		}
	}
	return nil
}

// passed returns errPassed if an upgraded sink, or accept-gap, has continued the chain of a partition that waits.
func (s *sink[R]) passed(p *draft[R]) error {
	if !p.empty() { // its own file comes first
		return nil
	}
	if has, err := s.archive.has(p.id, p.start); err != nil || !has {
		return err
	}
	t, err := s.archive.follow(p.id, tail{p.start, p.previous, s.topicID})
	if err != nil {
		return err
	}
	*p = *newDraft[R](p.id, t)
	delete(s.waits, p.id)
	s.measure(p)
	s.log.Info("the chain goes on behind the summary with an unknown schema", "partition", p.id, "offset", p.start)
	return errPassed
}

// Unknown is a record that its partition waits at.
type Unknown struct {
	Offset      int64  `json:"offset"`
	TimestampMs int64  `json:"timestamp_ms"` // when it was written
	Reason      string `json:"reason"`
}

// errFirst ends a read behind its first record.
var errFirst = errors.New("the first record")

// nextUnknown returns the first record from position on, if its schema is unknown here. A sink that has archived the
// partition up to position waits at that record. Otherwise nextUnknown returns nil. Records of the sink's draft hide
// it.
func nextUnknown(ctx context.Context, cfg config.Config, partition int32, position, end int64) (*Unknown, error) {
	cl, err := kafka.NewReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return NextUnknownOf(ctx, cl, cfg, partition, position, end)
}

// NextUnknownOf is nextUnknown with a client that kafka.NewReader made, or with the same options.
func NextUnknownOf(ctx context.Context, cl *kgo.Client, cfg config.Config, partition int32, position, end int64,
) (*Unknown, error) {
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
