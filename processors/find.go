package processors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"
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
	turn := make(chan struct{}, 1) // of a partition to read its states: the memory of one start is enough
	sized := func(topic string) size { return size{topic, cfg.Partitions.JobSummary, "partitions.job_summary"} }
	return own(ctx, cfg, log, metrics, stage{
		name: "find", input: input, progress: progress, repeats: true, hold: findHold,
		sizes: []size{sized(input), sized(progress), sized(cfg.Prefix + schemas.TopicFindState)},
		newFold: func(ctx context.Context, l *loop, adm *kadm.Client, p *schemas.Progress) (Fold, error) {
			topic := cfg.Prefix + schemas.TopicJobs
			if err := jobs.wait(ctx, adm, topic); err != nil {
				return nil, fmt.Errorf("waiting for the jobs of %s: %w", topic, err)
			}
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			states, err := l.states(ctx, adm, p, startTimeout)
			if err != nil {
				return nil, err
			}
			f, err := NewFinder(cfg.Cluster, set, types, cfg.Find.Possible, jobs.get, p, states)
			if err != nil {
				return nil, err
			}
			f.keptMs = cfg.Topics.SummaryRetention.Milliseconds() // as what they were found in
			return f, nil
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
				through := sync.OnceValue(func() int64 { return l.foldedThrough(ctx, a, adm, closed, &f.horizon) })
				a.take(f.learn(time.Now().UnixMilli(), through))
			}
			l.meter.found(f.open)
		},
	})
}

// findHold is the hold of find. The collectors commit the summaries of an interval one after the other. Whoever reads
// findings may have them this much later.
const findHold = 500 * time.Millisecond

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
