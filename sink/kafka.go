package sink

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

const (
	fetchBytes          = 8 << 20 // of one answer of a broker
	fetchPartitionBytes = 1 << 20
)

// connect returns a client that reads every partition of the topic from the position of its draft.
func (s *sink[R]) connect(ctx context.Context) (*kgo.Client, error) {
	opts, err := kafka.ClientOpts(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // transaction markers take offsets, which positions must pass
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.WithHooks(s.brokers),
	)...)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	if err := s.assign(ctx, cl); err != nil {
		cl.Close()
		return nil, err
	}
	return cl, nil
}

// assign compares the drafts with the offsets of the topic, and begins to read at their positions.
func (s *sink[R]) assign(ctx context.Context, cl *kgo.Client) error {
	// The brokers may be away for long. The caller logs that and tries again.
	ctx, cancel := context.WithTimeout(ctx, assignLimit)
	defer cancel()
	adm := kadm.NewClient(cl)
	count, err := s.identify(ctx, adm)
	if err != nil {
		if len(s.drafts) > 0 && errors.Is(err, errNoTopic) {
			// A broker may not know the topic yet: not fatal.
			return errors.New("the topic was there before: " + err.Error())
		}
		return err
	}
	starts, err := offsets(ctx, adm.ListStartOffsets, s.stream.topic)
	if err != nil {
		return err
	}
	floors, err := s.floors(ctx, adm) // before the ends, which lie behind them
	if err != nil {
		return err
	}
	ends, err := offsets(ctx, adm.ListEndOffsets, s.stream.topic)
	if err != nil {
		return err
	}
	for p := int32(len(s.drafts)); int(p) < count; p++ {
		t, ok := s.tails[p]
		if !ok {
			t.next = unread
		}
		s.drafts = append(s.drafts, newDraft[R](p, t))
	}
	positions := map[int32]kgo.Offset{}
	for _, p := range s.drafts {
		start, ok := starts[p.id]
		end, alsoEnd := ends[p.id]
		if !ok || !alsoEnd {
			return fmt.Errorf("listing offsets of %s: nothing about partition %d", s.stream.topic, p.id)
		}
		start = max(start, floors[p.id])
		if !s.stream.optional { // agents write to counters without transactions
			p.passMarker(start, end)
		}
		err := p.place(start, end)
		if errors.Is(err, errOvertaken) && s.stream.optional {
			err = s.pass(ctx, p, start)
		}
		if err != nil {
			return err
		}
		positions[p.id] = kgo.NewOffset().At(p.next)
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.stream.topic: positions})
	return nil
}

// identify checks that the topic is the archived one and has the configured number of partitions. It returns that
// number.
func (s *sink[R]) identify(ctx context.Context, adm *kadm.Client) (int, error) {
	s.identified = time.Now()
	count, id, err := describe(ctx, adm, s.stream.topic)
	if err != nil {
		return 0, err
	}
	for p, t := range s.tails {
		if err := sameTopic(s.stream.topic, t.topicID, id); err != nil {
			return 0, err
		}
		if int(p) >= count {
			return 0, fmt.Errorf("%w: partition %d is archived up to %d, the topic has %d partitions",
				errBeyondEnd, p, t.next, count)
		}
	}
	if err := sameTopic(s.stream.topic, s.topicID, id); err != nil {
		return 0, err
	}
	if err := kafka.CheckPartitions(s.stream.topic, count, s.stream.partitions, s.stream.setting); err != nil {
		return 0, err
	}
	s.topicID = id
	return count, nil
}

// sameTopic compares the ids of a topic, where both are known.
func sameTopic(topic, archived, id string) error {
	if kafka.SameTopic(archived, id) {
		return nil
	}
	return fmt.Errorf("%w: the archive holds %s with the id %s, the brokers have one with the id %s: "+
		"the old archive stays as it is; move it away, or choose another sink.dir",
		errTopicReplaced, topic, archived, id)
}

// describe returns how many partitions a topic has, and its id in hex. The id is empty if the brokers have none.
func describe(ctx context.Context, adm *kadm.Client, topic string) (count int, id string, err error) {
	topics, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return 0, "", fmt.Errorf("asking for topic %s: %w", topic, err)
	}
	d, ok := topics[topic]
	switch {
	case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return 0, "", fmt.Errorf("%s: %w", topic, errNoTopic)
	case d.Err != nil:
		return 0, "", fmt.Errorf("asking for topic %s: %w", topic, d.Err)
	}
	return len(d.Partitions), kafka.TopicID(d), nil
}

// lister is one of the methods of kadm that list offsets.
type lister = func(context.Context, ...string) (kadm.ListedOffsets, error)

// offsets returns the offset that list has of each partition of the topic. One missing offset is an error.
func offsets(ctx context.Context, list lister, topic string) (map[int32]int64, error) {
	listed, err := list(ctx, topic)
	if err == nil {
		err = listed.Error() // the first of any partition
	}
	if err != nil {
		return nil, fmt.Errorf("listing offsets of %s: %w", topic, err)
	}
	of := map[int32]int64{}
	for p, o := range listed[topic] {
		of[p] = o.Offset
	}
	return of, nil
}
