package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrNoPartition is returned when a topic or its partition is not there.
var ErrNoPartition = errors.New("no such partition: `weir topics create` makes what is missing")

// Bounds returns the first offset that a partition has and its last stable offset: where a reader of committed records
// ends. Who has fenced the partition's only writer may trust the end; for everybody else it moves on.
func Bounds(ctx context.Context, adm *kadm.Client, topic string, partition int32) (start, end int64, err error) {
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, fmt.Errorf("asking where %s begins: %w", topic, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return 0, 0, fmt.Errorf("asking where %s ends: %w", topic, err)
	}
	s, okStart := starts.Lookup(topic, partition)
	e, okEnd := ends.Lookup(topic, partition)
	if !okStart || !okEnd {
		return 0, 0, fmt.Errorf("%s-%d: %w", topic, partition, ErrNoPartition)
	}
	if err := errors.Join(s.Err, e.Err); err != nil {
		return 0, 0, fmt.Errorf("asking for the bounds of %s-%d: %w", topic, partition, err)
	}
	return s.Offset, e.Offset, nil
}

// ReadPartition calls each with every committed record of [from, to), where to is a last stable offset, and ends. The
// record at to - 1 may be a transaction marker, which is passed over; it is never compacted away, being the last.
func ReadPartition(ctx context.Context, c Config, topic string, partition int32, from, to int64, each func(r *kgo.Record) error) error {
	if from >= to {
		return nil
	}
	opts, err := c.ClientOpts(ctx)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(opts,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(200*time.Millisecond),
	)...)
	if err != nil {
		return fmt.Errorf("reading %s-%d: %w", topic, partition, err)
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			return fmt.Errorf("reading %s-%d: %w", topic, partition, e.Err)
		}
		for r := range fetches.RecordsAll() {
			if r.Offset < to && !r.Attrs.IsControl() {
				if err := each(r); err != nil {
					return fmt.Errorf("%s-%d at %d: %w", topic, partition, r.Offset, err)
				}
			}
			if r.Offset >= to-1 {
				return nil
			}
		}
	}
}
