// Package find is the stage that watches running jobs: it folds their summaries by the rules, and writes findings.
// fold.go is the fold, life.go the life of a job in it, and state.go the state of a job that a successor reads. jobs.go
// follows the topic of jobs, and closed.go knows which intervals are over.
package find

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
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
)

// Run watches the jobs of the partitions of job-summary that its group gives it, by the rules of set. It writes
// findings, as processors.Collect writes summaries.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *processors.Metrics, set *rules.Set) error {
	types, err := newKnownTypes(cfg, log)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	jobs := newKnownJobs()
	closed := &closings{cfg: cfg, log: log}
	var followers sync.WaitGroup
	// The loops log that brokers are away.
	followers.Go(func() { jobs.follow(ctx, cfg, log, kafka.NewBrokers(slog.New(slog.DiscardHandler))) })
	followers.Go(func() { types.follow(ctx) })
	defer func() { end(); followers.Wait() }()

	input, progress := cfg.Prefix+schemas.TopicJobSummary, cfg.Prefix+schemas.TopicFindProgress
	turn := make(chan struct{}, 1) // of a partition to read its states: the memory of one start is enough
	sized := func(topic string) processors.Size {
		return processors.Size{
			Topic: topic, Partitions: cfg.Partitions.JobSummary, Key: "partitions.job_summary",
		}
	}
	return processors.Own(ctx, cfg, log, metrics, processors.Stage{
		Name: "find", Command: "weir find --live", Most: manyStates, Input: input, Progress: progress,
		Repeats: true, Hold: findHold,
		Sizes: []processors.Size{sized(input), sized(progress), sized(cfg.Prefix + schemas.TopicFindState)},
		NewFold: func(ctx context.Context, of *processors.Partition, last *schemas.Progress) (fold.Fold, error) {
			topic := cfg.Prefix + schemas.TopicJobs
			if err := jobs.wait(ctx, of.Admin, topic); err != nil {
				return nil, fmt.Errorf("waiting for the jobs of %s: %w", topic, err)
			}
			if err := types.wait(ctx); err != nil {
				return nil, err
			}
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			states, err := states(ctx, cfg, of, last, processors.StartTimeout)
			if err != nil {
				return nil, err
			}
			f, err := newFinder(cfg.Cluster, set, types.get, cfg.Find.Possible, jobs.get, last, states)
			if err != nil {
				return nil, err
			}
			f.keptMs = cfg.Topics.SummaryRetention.Milliseconds() // as long as the summaries that they were found in
			return f, nil
		},
		Learn: func(ctx context.Context, of *processors.Partition, a *fold.Account) { learn(ctx, of, a, closed) },
	})
}

// learn lets the fold of a partition learn from topic jobs, and from the intervals that are closed.
func learn(ctx context.Context, of *processors.Partition, a *fold.Account, closed *closings) {
	f := a.Fold.(*finder)
	if !f.learns(time.Now()) {
		return
	}
	if f.fault != nil && of.Rubbish.Worth(f.fault, time.Now()) {
		of.Log.Warn("states of jobs cannot be read, their rules begin anew",
			"partition", of.Number, "count", f.faults, "err", f.fault)
	}
	f.faults, f.fault = 0, nil
	if !a.Replays() {
		through := sync.OnceValue(func() int64 { return closed.foldedThrough(ctx, of, a.Position, &f.horizon) })
		a.Take(f.learn(time.Now().UnixMilli(), through))
	}
	of.ShowFindings(f.open)
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
