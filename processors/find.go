package processors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// Find watches the jobs of the partitions of job-summary that its group gives it, by the rules of set. It writes
// findings, as Collect writes summaries.
func Find(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics, set *rules.Set) error {
	types, err := rules.NewTypes(cfg.Machine)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	jobs, followed := newKnownJobs(), make(chan struct{})
	closed := &closings{cfg: cfg, log: log}
	go func() {
		defer close(followed)
		// The loops log that brokers are away.
		jobs.follow(ctx, cfg, log, kafka.NewBrokers(slog.New(slog.DiscardHandler)))
	}()
	defer func() { end(); <-followed }()

	input, progress := cfg.Prefix+schemas.TopicJobSummary, cfg.Prefix+schemas.TopicFindProgress
	sized := func(topic string) size { return size{topic, cfg.Partitions.JobSummary, "partitions.job_summary"} }
	return own(ctx, cfg, log, metrics, stage{
		name: "find", input: input, progress: progress, repeats: true,
		sizes: []size{sized(input), sized(progress), sized(cfg.Prefix + schemas.TopicFindState)},
		newFold: func(ctx context.Context, l *loop, adm *kadm.Client, p *schemas.Progress) (Fold, error) {
			select {
			case <-jobs.ready:
			case <-ctx.Done():
				return nil, fmt.Errorf("waiting for the jobs of %s: %w", cfg.Prefix+schemas.TopicJobs, ctx.Err())
			}
			states, err := l.states(ctx, adm, p)
			if err != nil {
				return nil, err
			}
			return NewFinder(cfg.Cluster, set, types, cfg.Find.Possible, jobs.get, p, states)
		},
		learn: func(ctx context.Context, l *loop, a *account, adm *kadm.Client) {
			f := a.fold.(*Finder)
			if !f.learns(time.Now()) {
				return
			}
			if f.fault != nil && l.rubbish.Worth(f.fault, time.Now()) {
				l.log.Warn("states of jobs cannot be read, their rules begin anew",
					"partition", l.partition, "count", f.faults, "err", f.fault)
			}
			f.faults, f.fault = 0, nil
			if !a.replays() {
				through := sync.OnceValue(func() int64 { return l.foldedThrough(ctx, a, adm, closed) })
				a.take(f.learn(time.Now().UnixMilli(), through))
			}
			l.meter.found(f.open)
		},
	})
}

// askID returns the id of a topic.
func askID(ctx context.Context, adm *kadm.Client, topic string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	topics, err := adm.ListTopics(ctx, topic)
	if err := errors.Join(err, topics[topic].Err); err != nil {
		return "", fmt.Errorf("asking for the id of topic %s: %w", topic, err)
	}
	return kafka.TopicID(topics[topic]), nil
}

var errNotState = errors.New("not a FindState")

// states returns the last FindState of each job of the partition, in order. p is the last Progress, or nil.
func (l *loop) states(ctx context.Context, adm *kadm.Client, p *schemas.Progress) ([]*schemas.FindState, error) {
	topic := l.cfg.Prefix + schemas.TopicFindState
	start, end, err := kafka.Bounds(ctx, adm, topic, l.partition)
	if err != nil {
		return nil, err
	}
	if end == 0 && p != nil && (p.Hold < p.Position || p.Counts.Outputs > 0) { // there were states
		l.log.Warn("topic of states was emptied, running jobs begin anew", "topic", topic, "partition", l.partition)
	}
	last := map[string]*schemas.FindState{}
	newer := map[string]error{}
	var wrong error
	count := 0
	err = kafka.ReadPartition(ctx, l.cfg, topic, l.partition, start, end, func(r *kgo.Record) error {
		value, err := schemas.Unmarshal(r.Value)
		s, is := value.(*schemas.FindState)
		key := string(r.Key)
		switch {
		case !r.Attrs.IsTransactional():
			err = errByHand
		case len(r.Value) == 0:
			delete(last, key)
			delete(newer, key)
			return nil
		case is && string(s.Identity().Key()) == key:
			delete(newer, key)
			last[key] = s
			return nil
		case errors.Is(err, schemas.ErrUnknownSchema):
			newer[key] = fmt.Errorf("%s-%d at %d: %w: %w", r.Topic, r.Partition, r.Offset, err, errNewerState)
			return nil
		}
		count++
		wrong = fmt.Errorf("%s-%d at %d: %w", r.Topic, r.Partition, r.Offset, cmp.Or(err, errNotState))
		return nil
	})
	if wrong != nil && l.rubbish.Worth(wrong, time.Now()) {
		l.log.Warn("records in the topic of states cannot be read, left out", "count", count, "err", wrong)
	}
	for _, key := range slices.Sorted(maps.Keys(newer)) {
		return nil, newer[key]
	}
	states := make([]*schemas.FindState, 0, len(last))
	for _, key := range slices.Sorted(maps.Keys(last)) {
		states = append(states, last[key])
	}
	return states, err
}
