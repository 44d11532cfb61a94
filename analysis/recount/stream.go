package recount

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
)

// Stream reads one partition, as fast as its records are taken.
type Stream struct {
	entries chan Entry
	err     error // set before entries is closed
	cancel  context.CancelFunc
}

// Bounds on the memory of a stream's client. Each partition has its own client.
const (
	fetchBytes          = 1 << 20
	fetchPartitionBytes = 512 << 10
)

// OpenStream begins to read a range of a topic's partition. The caller closes the stream.
func OpenStream(ctx context.Context, cfg config.Config, topic string, partition int32, r kafka.Range) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{entries: make(chan Entry, 16), cancel: cancel}
	go func() {
		defer close(s.entries)
		s.err = s.run(ctx, cfg, topic, partition, r)
	}()
	return s
}

func (s *Stream) run(ctx context.Context, cfg config.Config, topic string, partition int32, r kafka.Range) error {
	if r.From >= r.To {
		return nil
	}
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return err
	}
	opts = append(append(opts, kafka.ReaderOpts()...),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPartitionBytes))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("making a Kafka client: %w", err)
	}
	defer cl.Close()
	err = kafka.ReadRanges(ctx, cl, topic, map[int32]kafka.Range{partition: r}, func(r *kgo.Record) error {
		select {
		case s.entries <- Entry{r.Offset, r.Timestamp.UnixMilli(), r.Value}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return fmt.Errorf("%w: retention deleted it meanwhile: begin later, with --since", err)
	}
	return err
}

// Next returns the next record. It is not ok at the end.
func (s *Stream) Next() (e Entry, ok bool, err error) {
	if e, ok = <-s.entries; ok {
		return e, true, nil
	}
	return Entry{}, false, s.err
}

// Close ends the stream, and waits for the end of its goroutine.
func (s *Stream) Close() {
	s.cancel()
	for range s.entries { // it is closed at the end
	}
}
