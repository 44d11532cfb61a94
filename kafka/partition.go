package kafka

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
)

// ErrNoPartition is returned when a topic or its partition does not exist.
var ErrNoPartition = errors.New("no such partition: `weir topics create` makes what is missing")

// Range is a part of a partition: the offsets from From up to, and without, To. To is at most the last stable offset.
type Range struct{ From, To int64 }

// Bounds returns the first offset of a partition and its last stable offset, at which a reader of committed records
// ends. The end is final only for a caller that has fenced the partition's only writer. For all others it moves on.
func Bounds(ctx context.Context, adm *kadm.Client, topic string, partition int32) (start, end int64, err error) {
	starts, ends, err := listBounds(ctx, adm, topic)
	if err != nil {
		return 0, 0, err
	}
	r, err := boundsOf(starts, ends, topic, partition)
	return r.From, r.To, err
}

// TopicID returns Kafka's id of a topic in hex. It is empty if the brokers give none. A topic that is deleted and made
// again gets another id.
func TopicID(d kadm.TopicDetail) string {
	if d.ID == (kadm.TopicID{}) {
		return ""
	}
	return hex.EncodeToString(d.ID[:])
}

// SameTopic reports whether two ids may be of one topic. An unknown id may be any.
func SameTopic(a, b string) bool { return a == "" || b == "" || a == b }

// TopicBounds returns the Bounds of all partitions of a topic, by the same two requests.
func TopicBounds(ctx context.Context, adm *kadm.Client, topic string) (map[int32]Range, error) {
	starts, ends, err := listBounds(ctx, adm, topic)
	if err != nil {
		return nil, err
	}
	all := make(map[int32]Range, len(ends[topic]))
	for p := range ends[topic] {
		if all[p], err = boundsOf(starts, ends, topic, p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ErrOpenTransaction is returned when a transaction does not end. The brokers end it after its timeout.
var ErrOpenTransaction = errors.New("a transaction is still open: try again when its owner has ended it")

// SettledBounds returns the first offset of each partition of a topic and its end, records of open transactions
// included. It first waits until these transactions have ended, at most for wait.
//
// Brokers mark the end of a transaction in one partition after the other. So a committed record of one topic may be
// read while the last stable offset of another still hides the records of the same transaction there.
func SettledBounds(ctx context.Context, adm *kadm.Client, topic string, wait time.Duration) (map[int32]Range, error) {
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("asking for the end of %s: %w", topic, err)
	}
	for deadline := time.Now().Add(wait); ; {
		bounds, err := TopicBounds(ctx, adm, topic)
		if err != nil {
			return nil, err
		}
		var held error
		for p, r := range bounds {
			e, ok := ends.Lookup(topic, p)
			switch {
			case !ok: // the partition is new
			case e.Err != nil:
				return nil, fmt.Errorf("asking for the end of %s-%d: %w", topic, p, e.Err)
			case r.To < e.Offset:
				held = fmt.Errorf("%s-%d at %d: %w", topic, p, r.To, ErrOpenTransaction)
			default:
				bounds[p] = Range{From: r.From, To: e.Offset}
			}
		}
		if held == nil {
			return bounds, nil
		}
		if time.Now().After(deadline) {
			return nil, held
		}
		if !retry.Pause(ctx, 20*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// listBounds asks for all partitions of a topic at once. The end is the last stable offset, so records of open
// transactions lie beyond it.
func listBounds(ctx context.Context, adm *kadm.Client, topic string) (starts, ends kadm.ListedOffsets, err error) {
	if starts, err = adm.ListStartOffsets(ctx, topic); err != nil {
		return nil, nil, fmt.Errorf("asking for the beginning of %s: %w", topic, err)
	}
	if ends, err = adm.ListCommittedOffsets(ctx, topic); err != nil {
		return nil, nil, fmt.Errorf("asking for the end of %s: %w", topic, err)
	}
	return starts, ends, nil
}

// boundsOf finds one partition in the answers, which may lack it or hold an error of its own.
func boundsOf(starts, ends kadm.ListedOffsets, topic string, partition int32) (Range, error) {
	s, okStart := starts.Lookup(topic, partition)
	e, okEnd := ends.Lookup(topic, partition)
	if !okStart || !okEnd {
		return Range{}, fmt.Errorf("%s-%d: %w", topic, partition, ErrNoPartition)
	}
	if err := errors.Join(s.Err, e.Err); err != nil {
		return Range{}, fmt.Errorf("asking for the bounds of %s-%d: %w", topic, partition, err)
	}
	return Range{s.Offset, e.Offset}, nil
}

// ReaderOpts returns the options of a client for ReadRanges. Small fetches keep the reader small, since a fetch is in
// memory only for a moment. The reader waits shortly, because the records exist already: between two topics the client
// waits for the answer to its last fetch.
func ReaderOpts() []kgo.Opt {
	return []kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(20 * time.Millisecond), kgo.FetchMaxBytes(8 << 20),
	}
}

// NewReader returns a client for ReadRanges. The caller closes it.
func NewReader(ctx context.Context, c config.Config) (*kgo.Client, error) {
	return newClient(ctx, c, ReaderOpts()...)
}

// ReadPartition calls each with every committed record of [from, to) of one partition, then returns.
func ReadPartition(
	ctx context.Context, c config.Config,
	topic string, partition int32, from, to int64, each func(r *kgo.Record) error,
) error {
	if from >= to {
		return nil
	}
	cl, err := NewReader(ctx, c)
	if err != nil {
		return err
	}
	defer cl.Close()
	return ReadRanges(ctx, cl, topic, map[int32]Range{partition: {from, to}}, each)
}

// ReadRanges calls each with every committed record of the ranges of a topic's partitions, then returns. The records of
// one partition come in order. The record at To - 1 may be a transaction's marker, which is not passed on. It ends the
// range, and as the last record it is never compacted away. The client must have been made with ReaderOpts, and reads
// for one caller at a time.
func ReadRanges(
	ctx context.Context, cl *kgo.Client, topic string, ranges map[int32]Range, each func(r *kgo.Record) error,
) error {
	open, from := map[int32]int64{}, map[int32]kgo.Offset{}
	for p, r := range ranges {
		if r.From < r.To {
			open[p], from[p] = r.To, kgo.NewOffset().At(r.From)
		}
	}
	if len(open) == 0 {
		return nil
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	defer cl.PurgeTopicsFromClient(topic)
	for len(open) > 0 {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if e.Topic == "" { // ctx ended
				return fmt.Errorf("reading %s: %w", topic, e.Err)
			}
			return fmt.Errorf("reading %s-%d: %w", topic, e.Partition, e.Err)
		}
		for r := range fetches.RecordsAll() {
			to, reading := open[r.Partition]
			if !reading {
				continue
			}
			if r.Offset < to && !r.Attrs.IsControl() {
				if err := each(r); err != nil {
					return fmt.Errorf("%s-%d at %d: %w", topic, r.Partition, r.Offset, err)
				}
			}
			if r.Offset >= to-1 {
				delete(open, r.Partition)
			}
		}
	}
	return nil
}
