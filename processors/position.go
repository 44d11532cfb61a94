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
	"github.com/weirhpc/weir/schemas"
)

// errNotProgress is the fault of other records in the topic of positions.
var errNotProgress = errors.New("not a Progress")

// open reads the last committed Progress and opens the account from it. start bounds that. The fold is made until ctx
// ends.
func (l *loop) open(ctx, start context.Context, producer *kafka.Producer) (a *account, from int64, err error) {
	adm := producer.Admin()
	logStart, logEnd, err := kafka.Bounds(start, adm, l.stage.input, l.partition)
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
			"topic", l.stage.progress, "partition", l.partition, "position", l.last.Position)
		p = l.last
	}
	l.last = p
	if p != nil && (logStart > p.Hold || l.sameTopic(p, topicID, logEnd, "") != nil) {
		// Nobody takes this back, and the broker that was asked may be cut from its peers.
		agreed, err := producer.Agree(start, l.stage.input, l.partition)
		if err != nil {
			return nil, 0, err
		}
		s := agreed.Partitions[l.partition]
		if err := l.sameTopic(p, agreed.ID, s.End, s.By()); err != nil {
			return nil, 0, err
		}
		topicID, logStart = agreed.ID, s.Start
	}
	fold, err := l.stage.newFold(ctx, l, adm, p)
	if err != nil {
		return nil, 0, err
	}
	a, from = openAccount(func(*schemas.Progress) Fold { return fold }, p, logStart)
	a.topicID, a.intervalMs = topicID, l.cfg.Interval.Milliseconds()
	a.unreadable.limit = int64(l.cfg.Collect.MaxRejects)
	l.meter.lags(logEnd, a.position)
	if p == nil {
		p = &schemas.Progress{From: a.position, Position: a.position, Hold: a.position, TopicID: topicID}
		l.last = p
	}
	l.meter.stands(p)
	return a, from, nil
}

// topicID returns Kafka's id of the input topic, in hex, or "" if the brokers have none.
func (l *loop) topicID(ctx context.Context, adm *kadm.Client) (string, error) {
	topics, err := adm.ListTopics(ctx, l.stage.input)
	if err := errors.Join(err, topics[l.stage.input].Err); err != nil {
		return "", fmt.Errorf("asking for the id of topic %s: %w", l.stage.input, err)
	}
	return kafka.TopicID(topics[l.stage.input]), nil
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
			l.stage.input, l.partition, p.Position, p.TopicID,
			topicID, errTopicReplaced,
			l.stage.command(), l.stage.progress)
	case p.Position > logEnd:
		why := "so that the brokers lost its end"
		if p.TopicID == "" || topicID == "" {
			why = "so that its topic was made again or the brokers lost its end"
		}
		return fmt.Errorf("%s-%d ends at %d %s, position %d was committed for it, %s: %w; "+
			"stop every `%s`, delete topics %s and %s, run `weir topics create` and start them again",
			l.stage.input, l.partition, logEnd, by, p.Position, why, errTopicReplaced,
			l.stage.command(), l.stage.input, l.stage.progress)
	}
	return nil
}

// lastProgress returns the last committed Progress of the partition, nil if there never was one. It looks back further
// and further: aborted transactions and markers take offsets too. It must read the whole partition to find that there
// is none.
func (l *loop) lastProgress(ctx context.Context, producer *kafka.Producer) (*schemas.Progress, error) {
	logStart, logEnd, err := kafka.Bounds(ctx, producer.Admin(), l.stage.progress, l.partition)
	if err != nil {
		return nil, err
	}
	producer.Continue(l.stage.progress, l.partition, logEnd)
	for back := int64(100); ; back *= 10 {
		from := max(logStart, logEnd-back)
		var last *schemas.Progress
		var newer, wrong error
		count := 0
		err := kafka.ReadPartition(ctx, l.cfg, l.stage.progress, l.partition, from, logEnd, func(r *kgo.Record) error {
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
