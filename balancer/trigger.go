package balancer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// trigger calls the agents to sample at every boundary until ctx ends, if agent.sampling is triggered. It uses a client
// of its own, so that a long plan does not delay a call. It needs no transaction: a repeated call counts once. A call
// that cannot leave soon is dropped, because a late call is useless.
func (b *balancer) trigger(ctx context.Context, opts []kgo.Opt) {
	interval := time.Duration(b.ms) * time.Millisecond
	topic := b.cfg.Prefix + schemas.TopicTriggers
	trouble := &trouble{log: b.log, what: "triggers"}
	client, err := kgo.NewClient(append(opts,
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), // so that a call may be given up
		kgo.RecordDeliveryTimeout(max(interval/10, time.Second)), // the client allows no less
	)...)
	if err != nil {
		trouble.say(err)
		return
	}
	defer client.Close()
	for {
		boundary := nextBoundary(time.Now(), b.ms)
		due := time.UnixMilli(boundary)
		// The pause is short, since the clock may be set meanwhile.
		if left := time.Until(due); !retry.Pause(ctx, min(left, time.Second)) {
			return
		} else if left > time.Second {
			continue
		}
		now := time.Now()
		value, err := schemas.Marshal(&schemas.Trigger{
			Cluster: b.cfg.Cluster, IntervalStart: boundary, IntervalMs: b.ms, SentAt: now.UnixMilli(),
		})
		if err != nil {
			trouble.say(err)
			continue
		}
		client.TryProduce(ctx, &kgo.Record{Topic: topic, Value: value}, func(_ *kgo.Record, err error) {
			if err == nil {
				trouble.over()
			} else if ctx.Err() == nil {
				trouble.say(err)
			}
		})
	}
}

// nextBoundary is the first boundary after now, in Unix milliseconds.
func nextBoundary(now time.Time, ms int64) int64 { return (now.UnixMilli()/ms + 1) * ms }
