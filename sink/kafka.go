package sink

import (
	"cmp"
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

// extent holds the first and the end offsets of the topic's partitions.
type extent struct {
	count        int // of partitions
	id           string
	starts, ends map[int32]int64
	agreed       *kafka.Agreed // nil: reported by a single broker
}

// by names the witness.
func (e extent) by(partition int32) string {
	if e.agreed == nil {
		return "by the broker that was asked"
	}
	return e.agreed.Partitions[partition].By()
}

// assign compares the drafts with the offsets of the topic, and begins to read at their positions. A broker that is cut
// from its peers knows old offsets, and may know an old topic. So no verdict of one broker counts.
func (s *sink[R]) assign(ctx context.Context, cl *kgo.Client) error {
	floors, e, err := s.ask(ctx, cl)
	if err != nil {
		if len(s.drafts) > 0 && errors.Is(err, errNoTopic) {
			// A broker may not know the topic yet: not fatal.
			return errors.New("the topic was there before: " + err.Error())
		}
		return err
	}
	err = s.place(ctx, e, floors)
	if isVerdict(err) {
		if e, err = s.askAll(ctx, cl); err == nil {
			err = s.place(ctx, e, floors)
		}
	}
	if err != nil {
		return err
	}
	positions := map[int32]kgo.Offset{}
	for _, p := range s.drafts {
		positions[p.id] = kgo.NewOffset().At(p.next)
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.stream.topic: positions})
	return nil
}

// isVerdict reports whether an error condemns the topic or the archive.
func isVerdict(err error) bool {
	for _, target := range []error{errOvertaken, errBeyondEnd, errEndLost, errTopicReplaced, kafka.ErrTopics} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// ask asks any broker. The caller logs that the brokers are away, which may be long, and tries again.
func (s *sink[R]) ask(ctx context.Context, cl *kgo.Client) (floors map[int32]int64, e extent, err error) {
	ctx, cancel := context.WithTimeout(ctx, assignLimit)
	defer cancel()
	adm := kadm.NewClient(cl)
	if e.count, e.id, err = describe(ctx, adm, s.stream.topic); err != nil {
		return nil, e, err
	}
	if e.starts, err = offsets(ctx, adm.ListStartOffsets, s.stream.topic); err != nil {
		return nil, e, err
	}
	if floors, err = s.floors(ctx, adm); err != nil { // before the ends, which lie behind them
		return nil, e, err
	}
	e.ends, err = offsets(ctx, adm.ListEndOffsets, s.stream.topic)
	return floors, e, err
}

// askAll asks all brokers.
func (s *sink[R]) askAll(ctx context.Context, cl *kgo.Client) (extent, error) {
	ctx, cancel := context.WithTimeout(ctx, assignLimit)
	defer cancel()
	a, err := kafka.Agree(ctx, cl, s.stream.topic)
	e := extent{len(a.Partitions), a.ID, map[int32]int64{}, map[int32]int64{}, &a}
	for p, of := range a.Partitions {
		e.starts[p], e.ends[p] = of.Start, of.End
	}
	return e, err
}

// place places all drafts in the topic.
func (s *sink[R]) place(ctx context.Context, e extent, floors map[int32]int64) error {
	s.identified = time.Now()
	if err := s.match(e.count, e.id); err != nil {
		return err
	}
	for p := int32(len(s.drafts)); int(p) < e.count; p++ {
		t, ok := s.tails[p]
		if !ok {
			t.next = unread
		}
		s.drafts = append(s.drafts, newDraft[R](p, t))
	}
	for _, p := range s.drafts {
		start, ok := e.starts[p.id]
		end, alsoEnd := e.ends[p.id]
		if !ok || !alsoEnd {
			return fmt.Errorf("listing offsets of %s: nothing about partition %d", s.stream.topic, p.id)
		}
		start = max(start, floors[p.id])
		if !s.stream.optional && e.agreed != nil { // agents write to counters without transactions
			p.passMarker(start, end)
		}
		t, inherited := s.tails[p.id]
		err := p.place(start, end, e.id != "" && (!inherited || t.topicID != ""))
		if errors.Is(err, errOvertaken) && s.stream.optional && e.agreed != nil {
			err = s.pass(ctx, p, start)
		}
		if err != nil {
			return fmt.Errorf("%w (%s)", err, e.by(p.id))
		}
	}
	for p, t := range s.tails { // an archive of before, without the id, goes on with this topic
		t.topicID = cmp.Or(t.topicID, e.id)
		s.tails[p] = t
	}
	return nil
}

// identify checks by any broker that the topic is the archived one, with the configured number of partitions.
func (s *sink[R]) identify(ctx context.Context, adm *kadm.Client) error {
	count, id, err := describe(ctx, adm, s.stream.topic)
	if err != nil {
		return err
	}
	return s.match(count, id)
}

// match compares the topic with the archive and the configuration.
func (s *sink[R]) match(count int, id string) error {
	for p, t := range s.tails {
		if err := sameTopic(s.stream.topic, t.topicID, id); err != nil {
			return err
		}
		if int(p) >= count {
			return fmt.Errorf("%w: partition %d is archived up to %d, the topic has %d partitions",
				errBeyondEnd, p, t.next, count)
		}
	}
	if err := sameTopic(s.stream.topic, s.topicID, id); err != nil {
		return err
	}
	if err := kafka.CheckPartitions(s.stream.topic, count, s.stream.partitions, s.stream.setting); err != nil {
		return err
	}
	s.topicID = id
	return nil
}

// sameTopic compares the ids of a topic, if both are known.
func sameTopic(topic, archived, id string) error {
	if kafka.SameTopic(archived, id) {
		return nil
	}
	return fmt.Errorf("%w: the archive holds %s with the id %s, the brokers have one with the id %s: "+
		"the old archive stays as it is; move it away, or choose another sink.dir",
		errTopicReplaced, topic, archived, id)
}

// describe returns the number of partitions of a topic, and its id in hex. The id is empty if the brokers have none.
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

// offsets returns the offset of each partition of the topic, from list. A missing offset is an error.
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
