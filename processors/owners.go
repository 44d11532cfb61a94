package processors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// stage is one of the three uses of the loop.
type stage struct {
	name     string // also its group
	input    string // topic
	progress string // topic, as many partitions as input
	sizes    []size
	// newFold makes the fold of a partition that the loop has fenced, so that what it reads is final.
	newFold func(ctx context.Context, l *loop, adm *kadm.Client, p *schemas.Progress) (Fold, error)
	// learn takes what a fold learns beside its log, between two polls; nil: nothing.
	learn func(ctx context.Context, l *loop, a *account, adm *kadm.Client)
	// repeats: every record of the input is an output of another stage, which reported what it rejected. So rejects are
	// logged, and not written.
	repeats bool
	// pause is how long the loop waits between two polls while records come that yield no output. Each batch would be
	// answered by a fetch of its own otherwise, which costs brokers more than the batch.
	pause time.Duration
	// hold is how long outputs wait for more, so that one transaction has them all.
	hold time.Duration
}

// mostOutputs is how many outputs make the loop commit before it folds the rest of a poll.
func (s *stage) mostOutputs() int {
	if s.learn != nil {
		return manyStates
	}
	return manyOutputs
}

// command is the command that runs the stage.
func (s *stage) command() string {
	if s.learn != nil {
		return "weir find --live"
	}
	return "weir " + s.name
}

// size is the number of partitions that a topic must have, and its key in the configuration.
type size struct {
	topic      string
	partitions int
	key        string
}

// sizesOf returns the partitions of the topics that a stage reads and writes.
func sizesOf(cfg config.Config, input, progress size) []size {
	return []size{
		input, progress,
		{cfg.Prefix + schemas.TopicPartials, cfg.Partitions.Partials, "partitions.partials"},
		{cfg.Prefix + schemas.TopicJobSummary, cfg.Partitions.JobSummary, "partitions.job_summary"},
	}
}

// Collect folds the partitions of counters that its group gives it, until ctx ends. It returns nil then, and
// kafka.ErrTopics if a topic has another number of partitions than configured. A partition that needs an administrator
// stands still alone. Collect waits for anything else.
func Collect(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics) error {
	input, progress := cfg.Prefix+schemas.TopicCounters, cfg.Prefix+schemas.TopicProgress
	return own(ctx, cfg, log, metrics, stage{
		name: "collect", input: input, progress: progress,
		sizes: sizesOf(cfg, size{input, cfg.Collectors, "collectors"}, size{progress, cfg.Collectors, "collectors"}),
		newFold: func(_ context.Context, l *loop, _ *kadm.Client, p *schemas.Progress) (Fold, error) {
			fold := NewCollector(cfg.Cluster, l.partition, int32(cfg.Collectors), p)
			fold.Sketch = cfg.Collect.Sketch
			return fold, nil
		},
		pause: collectPause,
	})
}

// collectPause is the pause of collect. Nodes send within the first half of grace, and a Tick follows at its end. So
// the poll that waits for a Tick has begun by then, and the pause delays a summary only where nodes are late.
const collectPause = 20 * time.Millisecond

// Merge folds the partitions of partials that its group gives it, as Collect does those of counters.
func Merge(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics) error {
	input, progress := cfg.Prefix+schemas.TopicPartials, cfg.Prefix+schemas.TopicMergeProgress
	partials := cfg.Partitions.Partials
	return own(ctx, cfg, log, metrics, stage{
		name: "merge", input: input, progress: progress,
		sizes: sizesOf(cfg,
			size{input, partials, "partitions.partials"},
			size{progress, partials, "partitions.partials"}),
		newFold: func(_ context.Context, _ *loop, _ *kadm.Client, p *schemas.Progress) (Fold, error) {
			fold := NewMerger(cfg.Cluster, int32(cfg.Collectors), p)
			fold.Sketch = cfg.Collect.Sketch
			return fold, nil
		},
	})
}

// owners are the loops of the partitions that this process owns.
type owners struct {
	cfg     config.Config
	stage   stage
	log     *slog.Logger
	metrics *Metrics
	brokers *kafka.Brokers
	others  *others

	wrongClocks *wrongClocks
}

// own folds the partitions that the stage's group gives this process. The group is over the progress topic, which has
// as many partitions as the input. The position is in Progress, which the transaction of the outputs contains.
func own(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics, s stage) error {
	o := &owners{
		cfg: cfg, stage: s, log: log, metrics: metrics, brokers: kafka.NewBrokers(log), others: &others{},
		wrongClocks: &wrongClocks{told: map[string]time.Time{}, seen: map[int32]seenClocks{}},
	}
	group := cfg.Prefix + s.name
	var trouble retry.Trouble
	m := kafka.Member{
		Config: cfg, Group: group, Topic: s.progress, Brokers: o.brokers, Own: o.fold, Beside: o.watchSizes,
		Waiting: func(err error) {
			if trouble.Worth(err, time.Now()) {
				log.Warn("waiting for the group", "group", group, "err", err)
			}
		},
	}
	if cfg.Instance != "" {
		m.Instance = cfg.Instance + "-" + s.name
	}
	return m.Run(ctx)
}

// fold runs a partition's loop again and again, from what is committed, as long as the partition is ours. It returns an
// error that waiting does not mend.
func (o *owners) fold(ctx context.Context, partition int32) error {
	m := o.metrics.meter(o.stage.name, partition)
	defer m.forget()
	l := &loop{
		cfg: o.cfg, stage: o.stage, partition: partition, log: o.log,
		brokers: o.brokers, meter: m, others: o.others, wrongClocks: o.wrongClocks, patience: commitTimeout,
	}
	var trouble retry.Trouble
	for tries := 1; ctx.Err() == nil; tries++ {
		before := l.commits
		err := l.run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kafka.ErrNoBrokers):
			return err
		case isStop(err): // it stands still and stays ours: another process would meet the same error
			m.restarts()
			kafka.Yield(ctx, o.cfg.BackoffCap)
			continue
		case l.commits > before:
			tries = 1 // it had worked for a while
			trouble.Over()
		}
		m.restarts()
		if trouble.Worth(err, time.Now()) {
			o.log.Warn("starting again from what is committed",
				"stage", o.stage.name, "partition", partition, "tries", tries, "err", err)
		}
		kafka.Yield(ctx, retry.Backoff(tries, o.cfg.BackoffCap))
	}
	return nil
}
