package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
)

// connect returns a client that reads the topic from f.next, or from its beginning if that is later.
func (f *Follower[R]) connect(ctx context.Context) (*kgo.Client, error) {
	opts, err := kafka.ClientOpts(ctx, f.Config)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // transaction markers take offsets, by which the end is known
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.WithHooks(f.brokers),
	)...)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	start, _, err := f.bounds(ctx, cl)
	if err == nil {
		if err = f.identify(ctx, cl); errors.Is(err, errReplaced) {
			f.leave(ctx)
			err = f.identify(ctx, cl)
		}
	}
	if err != nil {
		cl.Close()
		return nil, err
	}
	f.next = max(f.next, start)
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{f.Topic: {0: kgo.NewOffset().At(f.next)}})
	return cl, nil
}

// leave writes the pending rows of a topic that is gone. Rows that cannot be written lose against every record of the
// new topic.
func (f *Follower[R]) leave(ctx context.Context) {
	f.writeNow(ctx)
	for k, r := range f.pending {
		*f.table.Position(&r) = Earlier
		f.pending[k] = r
	}
	f.topicID, f.next = "", 0
}

func (f *Follower[R]) bounds(ctx context.Context, cl *kgo.Client) (start, end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, assignLimit)
	defer cancel()
	return kafka.Bounds(ctx, kadm.NewClient(cl), f.Topic, 0)
}

// identify notes the id of the topic. It returns errReplaced if the id differs from the previous one.
func (f *Follower[R]) identify(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, assignLimit)
	defer cancel()
	topics, err := kadm.NewClient(cl).ListTopics(ctx, f.Topic)
	if err != nil {
		return fmt.Errorf("asking for topic %s: %w", f.Topic, err)
	}
	d, ok := topics[f.Topic]
	if !ok {
		d.Err = kerr.UnknownTopicOrPartition
	}
	if d.Err != nil {
		return fmt.Errorf("asking for topic %s: %w", f.Topic, d.Err)
	}
	id := kafka.TopicID(d)
	if !kafka.SameTopic(f.topicID, id) {
		return errReplaced
	}
	f.topicID, f.asked = id, time.Now()
	return nil
}
