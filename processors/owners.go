package processors

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// Stage is a use of the loop: collect, merge or find.
type Stage struct {
	Name     string // also its group
	Command  string // that runs it
	Input    string // topic
	Progress string // topic, as many partitions as input
	Sizes    []Size
	// NewFold makes the fold of a partition after the loop has fenced it, so that whatever the fold reads is final.
	NewFold func(ctx context.Context, of *Partition, last *schemas.Progress) (fold.Fold, error)
	// Learn lets a fold learn of the world beside its log, between two polls; nil: it knows its log alone.
	Learn func(ctx context.Context, of *Partition, a *fold.Account)
	// Most is how many outputs make the loop commit before it folds the rest of a poll; 0: ManyOutputs.
	Most int
	// Repeats: every record of the input is an output of another stage, which reported its rejects. So rejects are
	// logged, and not written.
	Repeats bool
	// Pause is how long the loop waits between two polls while records come that yield no output. Each batch would be
	// answered by a fetch of its own otherwise, which costs brokers more than the batch.
	Pause time.Duration
	// Hold is how long outputs wait for more, so that one transaction has them all.
	Hold time.Duration
}

// Partition is a partition that the loop owns, as its fold is made and learns.
type Partition struct {
	Number  int32
	Log     *slog.Logger
	Admin   *kadm.Client
	Rubbish *retry.Trouble // unreadable records in topics beside the input

	meter *meter
}

// ShowFindings shows how many findings are open, by class.
func (p *Partition) ShowFindings(open map[string]int) { p.meter.found(open) }

// Size is the number of partitions that a topic must have, and its key in the configuration.
type Size struct {
	Topic      string
	Partitions int
	Key        string
}

// sizesOf returns the partitions of the topics that a stage reads and writes.
func sizesOf(cfg config.Config, input, progress Size) []Size {
	return []Size{
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
	return Own(ctx, cfg, log, metrics, Stage{
		Name: "collect", Command: "weir collect", Input: input, Progress: progress,
		Sizes: sizesOf(cfg, Size{input, cfg.Collectors, "collectors"}, Size{progress, cfg.Collectors, "collectors"}),
		NewFold: func(_ context.Context, of *Partition, last *schemas.Progress) (fold.Fold, error) {
			c := fold.NewCollector(cfg.Cluster, of.Number, int32(cfg.Collectors), last)
			c.Sketch = cfg.Collect.Sketch
			return c, nil
		},
		Pause: collectPause,
	})
}

// collectPause is the pause of collect. Nodes send within the first half of grace, and a Tick follows at its end. So
// the poll that waits for a Tick has begun by then, and the pause delays a summary only if nodes are late.
const collectPause = 20 * time.Millisecond

// Merge folds the partitions of partials that its group gives it, as Collect folds the partitions of counters.
func Merge(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics) error {
	input, progress := cfg.Prefix+schemas.TopicPartials, cfg.Prefix+schemas.TopicMergeProgress
	partials := cfg.Partitions.Partials
	return Own(ctx, cfg, log, metrics, Stage{
		Name: "merge", Command: "weir merge", Input: input, Progress: progress,
		Sizes: sizesOf(cfg,
			Size{input, partials, "partitions.partials"},
			Size{progress, partials, "partitions.partials"}),
		NewFold: func(_ context.Context, _ *Partition, last *schemas.Progress) (fold.Fold, error) {
			m := fold.NewMerger(cfg.Cluster, int32(cfg.Collectors), last)
			m.Sketch = cfg.Collect.Sketch
			return m, nil
		},
	})
}

// owners are the loops of the partitions that this process owns.
type owners struct {
	cfg     config.Config
	stage   Stage
	log     *slog.Logger
	metrics *Metrics
	brokers *kafka.Brokers
	others  *others

	wrongClocks *wrongClocks
}

// Own folds the partitions that the stage's group gives this process. The group is over the progress topic, which has
// as many partitions as the input. The position is in Progress, which the transaction of the outputs contains.
func Own(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics, s Stage) error {
	s.Most = cmp.Or(s.Most, ManyOutputs)
	o := &owners{
		cfg: cfg, stage: s, log: log, metrics: metrics, brokers: kafka.NewBrokers(log), others: &others{},
		wrongClocks: &wrongClocks{told: map[string]time.Time{}, seen: map[int32]seenClocks{}},
	}
	group := cfg.Prefix + s.Name
	var trouble retry.Trouble
	m := kafka.Member{
		Config: cfg, Group: group, Topic: s.Progress, Brokers: o.brokers, Own: o.fold, Beside: o.watchSizes,
		Waiting: func(err error) {
			if trouble.Worth(err, time.Now()) {
				log.Warn("waiting for the group", "group", group, "err", err)
			}
		},
	}
	if cfg.Instance != "" {
		m.Instance = cfg.Instance + "-" + s.Name
	}
	return m.Run(ctx)
}

// fold runs a partition's loop again and again, from what is committed, as long as the partition is ours. It returns an
// error that waiting does not mend.
func (o *owners) fold(ctx context.Context, partition int32) error {
	m := o.metrics.meter(o.stage.Name, partition)
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
				"stage", o.stage.Name, "partition", partition, "tries", tries, "err", err)
		}
		kafka.Yield(ctx, retry.Backoff(tries, o.cfg.BackoffCap))
	}
	return nil
}
