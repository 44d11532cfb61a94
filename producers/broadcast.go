package producers

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
)

// hear passes the records of a topic's only partition on as they come, until ctx ends. It passes records that arrive
// together, as after an outage, on together. from is the offset of the first.
func (f *fleet) hear(
	ctx context.Context, topic string, from kgo.Offset, fetchWait time.Duration,
	take func(calls []*kgo.Record, arrived time.Time),
) {
	l := link{log: f.log, topic: topic}
	opts, err := f.clientOpts(ctx)
	if err == nil {
		opts = append(opts, kgo.WithHooks(&l),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: from}}),
			kgo.ConsumeResetOffset(from),
			// The broker answers a fetch as soon as there is a call. Without a call, empty answers would only cost
			// traffic.
			kgo.FetchMaxWait(fetchWait))
	}
	var client *kgo.Client
	if err == nil {
		client, err = kgo.NewClient(opts...)
	}
	if err != nil {
		f.log.Error("topic cannot be read: what it calls for is not done", "topic", topic, "err", err)
		return
	}
	defer client.Close()
	// The client would wait for a missing topic in silence.
	for {
		_, _, err := kafka.Bounds(ctx, kadm.NewClient(client), topic, 0)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			l.found()
			break
		}
		l.lost(err)
		retry.Pause(ctx, f.cfg.BackoffCap)
	}
	for {
		fetches := client.PollFetches(ctx)
		arrived := f.now()
		if ctx.Err() != nil {
			return
		}
		for _, e := range fetches.Errors() {
			l.lost(fmt.Errorf("reading partition %d: %w", e.Partition, e.Err))
		}
		if calls := fetches.Records(); len(calls) > 0 {
			l.found()
			take(calls, arrived)
		}
		if len(fetches.Errors()) > 0 {
			retry.Pause(ctx, f.cfg.BackoffCap/4) // kgo itself asks again, and need not hurry
		}
	}
}
