package processors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// errNotProgress is the fault of other records in the topic of positions.
var errNotProgress = errors.New("not a Progress")

// open reads the last committed Progress and opens the account from it. start bounds that. The fold is made until ctx
// ends.
func (l *loop) open(ctx, start context.Context, producer *kafka.Producer) (a *fold.Account, from int64, err error) {
	adm := producer.Admin()
	logStart, logEnd, err := kafka.Bounds(start, adm, l.stage.Input, l.partition)
	if err != nil {
		return nil, 0, err
	}
	topicID, err := l.topicID(start, adm)
	if err != nil {
		return nil, 0, err
	}
	p, err := l.lastProgress(start, producer)
	if err != nil {
		return nil, 0, err
	}
	if p == nil && l.commits > 0 { // this process is still the owner, and knows its last position
		l.log.Warn("topic of positions was emptied, going on from what this process committed last",
			"topic", l.stage.Progress, "partition", l.partition, "position", l.last.Position)
		p = l.last
	}
	l.last = p
	if p != nil && (logStart > p.Hold || l.sameTopic(p, topicID, logEnd, "") != nil) {
		// Nobody takes this back, and the broker that was asked may be cut from its peers.
		agreed, err := producer.Agree(start, l.stage.Input, l.partition)
		if err != nil {
			return nil, 0, err
		}
		s := agreed.Partitions[l.partition]
		if err := l.sameTopic(p, agreed.ID, s.End, s.By()); err != nil {
			return nil, 0, err
		}
		topicID, logStart = agreed.ID, s.Start
	}
	f, err := l.stage.NewFold(ctx, l.seen(adm), p)
	if err != nil {
		return nil, 0, err
	}
	a, from = fold.OpenAccount(func(*schemas.Progress) fold.Fold { return f }, p, logStart)
	a.TopicID, a.IntervalMs = topicID, l.cfg.Interval.Milliseconds()
	a.Unreadable.Limit = int64(l.cfg.Collect.MaxRejects)
	l.meter.lags(logEnd, a.Position)
	if p == nil {
		p = &schemas.Progress{From: a.Position, Position: a.Position, Hold: a.Position, TopicID: topicID}
		l.last = p
	}
	l.meter.stands(p)
	return a, from, nil
}

// topicID returns Kafka's id of the input topic, in hex, or "" if the brokers have none.
func (l *loop) topicID(ctx context.Context, adm *kadm.Client) (string, error) {
	topics, err := adm.ListTopics(ctx, l.stage.Input)
	if err := errors.Join(err, topics[l.stage.Input].Err); err != nil {
		return "", fmt.Errorf("asking for the id of topic %s: %w", l.stage.Input, err)
	}
	return kafka.TopicID(topics[l.stage.Input]), nil
}

// sameTopic returns errTopicReplaced if p is a position in another log than the partition's, in the words of a witness.
// p is nil at the beginning.
func (l *loop) sameTopic(p *schemas.Progress, topicID string, logEnd int64, by string) error {
	switch {
	case p == nil:
		return nil
	case !kafka.SameTopic(p.TopicID, topicID):
		return fmt.Errorf("%s-%d: position %d was committed for the topic with the id %s, "+
			"the topic there has the id %s, so that it was deleted and made again: %w; "+
			"to begin at its start, stop every `%s`, delete topic %s too, "+
			"run `weir topics create` and start them again",
			l.stage.Input, l.partition, p.Position, p.TopicID,
			topicID, errTopicReplaced,
			l.stage.Command, l.stage.Progress)
	case p.Position > logEnd:
		why := "so that the brokers lost its end"
		if p.TopicID == "" || topicID == "" {
			why = "so that its topic was made again or the brokers lost its end"
		}
		return fmt.Errorf("%s-%d ends at %d %s, position %d was committed for it, %s: %w; "+
			"stop every `%s`, delete topics %s and %s, run `weir topics create` and start them again",
			l.stage.Input, l.partition, logEnd, by, p.Position, why, errTopicReplaced,
			l.stage.Command, l.stage.Input, l.stage.Progress)
	}
	return nil
}

// lastProgress returns the last committed Progress of the partition, nil if there never was one. It looks back further
// and further: aborted transactions and markers take offsets too. It must read the whole partition to find that there
// is none.
func (l *loop) lastProgress(ctx context.Context, producer *kafka.Producer) (*schemas.Progress, error) {
	logStart, logEnd, err := kafka.Bounds(ctx, producer.Admin(), l.stage.Progress, l.partition)
	if err != nil {
		return nil, err
	}
	producer.Continue(l.stage.Progress, l.partition, logEnd)
	for back := int64(100); ; back *= 10 {
		from := max(logStart, logEnd-back)
		var last *schemas.Progress
		var newer, wrong error
		count := 0
		err := kafka.ReadPartition(ctx, l.cfg, l.stage.Progress, l.partition, from, logEnd, func(r *kgo.Record) error {
			value, err := schemas.Unmarshal(r.Value)
			p, ok := value.(*schemas.Progress)
			if ok && !r.Attrs.IsTransactional() {
				ok, err = false, errByHand
			}
			switch {
			case ok:
				last, newer = p, nil
			case errors.Is(err, schemas.ErrUnknownSchema) && r.Attrs.IsTransactional():
				newer = fmt.Errorf("%s-%d at %d: %w: a newer weir wrote it", r.Topic, r.Partition, r.Offset, err)
			default: // not written by weir
				count++
				wrong = fmt.Errorf("%s-%d at %d: %w", r.Topic, r.Partition, r.Offset, cmp.Or(err, errNotProgress))
			}
			return nil
		})
		// A partition that stands still reads these records again and again.
		if wrong != nil && l.rubbish.Worth(wrong, time.Now()) {
			l.log.Warn("records in the topic of positions cannot be read, left out", "count", count, "err", wrong)
		}
		if err := errors.Join(err, newer); err != nil || last != nil || from == logStart {
			return last, err
		}
	}
}
