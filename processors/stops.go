package processors

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// halted remembers why a partition stands still.
type halted struct {
	kind    error // errTooManyRejects or errTopicReplaced; nil: it does not
	trouble retry.Trouble
}

// isStop reports whether an error makes a partition stand still until an administrator looks at it.
func isStop(err error) bool { return stopKind(err) != nil }

func stopKind(err error) error {
	for _, kind := range []error{errTooManyRejects, errTopicReplaced} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// halt shows that the partition stands still, and why. It sets a metric, logs, and commits a Progress for other
// processes. The position does not move.
func (l *loop) halt(ctx context.Context, producer *kafka.Producer, why error) {
	l.meter.stops(true)
	if kind := stopKind(why); !errors.Is(kind, l.halted.kind) {
		l.halted = halted{kind: kind}
	}
	if l.halted.trouble.Worth(why, time.Now()) {
		l.log.Error("partition stopped", "stage", l.stage.Name, "partition", l.partition, "err", why)
	}
	reason := schemas.CleanText(why.Error(), maxReasonBytes)
	if l.last == nil || l.last.Stopped == reason {
		return
	}
	p := *l.last
	p.From, p.LostFrom, p.LostTo, p.Stopped = p.Position, nil, nil, reason
	value, err := encodeProgress(&p)
	if err == nil {
		var t encoded
		t.add(l.stage.Progress, l.partition, schemas.PartitionKey(l.partition), value)
		err = l.transact(ctx, producer, &t)
	}
	if err != nil { // the next try commits it
		l.log.Debug("reason of a stop not committed", "stage", l.stage.Name, "partition", l.partition, "err", err)
	}
}

// sizesEvery is how often the numbers of partitions are compared with the configuration.
const sizesEvery = 10 * time.Second

// watchSizes ends the stage once a topic has another number of partitions than configured. Otherwise windows would be
// split, or a partition would have no reader.
func (o *owners) watchSizes(ctx context.Context, adm *kadm.Client) error {
	for ctx.Err() == nil {
		for _, s := range o.stage.Sizes {
			topics, err := adm.ListTopics(ctx, s.Topic)
			n := len(topics[s.Topic].Partitions)
			if err != nil || topics[s.Topic].Err != nil || n == 0 {
				continue // an absent topic may come back
			}
			if err := kafka.CheckPartitions(s.Topic, n, s.Partitions, s.Key); err != nil {
				return err
			}
		}
		retry.Pause(ctx, sizesEvery)
	}
	return nil
}

// others logs, once for all partitions, which entries name another interval_ms than ours.
type others struct {
	mu           sync.Mutex
	ticks, nodes retry.Trouble
}

var errOtherInterval = errors.New("interval differs: " +
	"set interval to the same value in the configuration of every part, and start it again")

// log logs and counts the entries with another interval_ms that an account met.
func (o *others) log(l *loop, a *fold.Account) {
	ticks, nodes := a.OtherTicks, a.OtherNodes
	if ticks.N+nodes.N == 0 {
		return
	}
	a.OtherTicks, a.OtherNodes = fold.OtherInterval{}, fold.OtherInterval{}
	l.meter.otherInterval(ticks.N + nodes.N)
	o.mu.Lock()
	defer o.mu.Unlock()
	attrs := func(n fold.OtherInterval) []any {
		return []any{
			"stage", l.stage.Name, "partition", l.partition, "node", n.Sender, "count", n.N,
			"interval_ms", n.LengthMs, "own_interval_ms", a.IntervalMs, "err", errOtherInterval,
		}
	}
	if ticks.N > 0 && o.ticks.Worth(errOtherInterval, time.Now()) {
		l.log.Error("Ticks have another interval than this process", attrs(ticks)...)
	}
	if nodes.N > 0 && o.nodes.Worth(errOtherInterval, time.Now()) {
		l.log.Error("records have another interval than this process", attrs(nodes)...)
	}
}
