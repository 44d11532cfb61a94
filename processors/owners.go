package processors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
)

// owners are the loops of the partitions that this process owns.
type owners struct {
	cfg     config.Config
	stage   stage
	log     *slog.Logger
	metrics *Metrics
	brokers *kafka.Brokers
	others  *others
}

// own folds the partitions that the stage's group gives this process. The group is over the progress topic, which has a
// partition for each of the input's: the position is in Progress, committed with what was said.
func own(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics, s stage) error {
	o := &owners{cfg: cfg, stage: s, log: log, metrics: metrics, brokers: kafka.NewBrokers(log), others: &others{}}
	group := cfg.Prefix + s.name
	var trouble kafka.Trouble
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

// fold runs a partition's loop again and again, from what is committed, for as long as the partition is ours. It
// returns an error that waiting does not mend.
func (o *owners) fold(ctx context.Context, partition int32) error {
	m := o.metrics.meter(o.stage.name, partition)
	defer m.forget()
	l := &loop{cfg: o.cfg, stage: o.stage, partition: partition, log: o.log, brokers: o.brokers, meter: m, others: o.others, patience: commitTimeout}
	var trouble kafka.Trouble
	for tries := 1; ctx.Err() == nil; tries++ {
		before := l.commits
		err := l.run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kafka.ErrNoBrokers):
			return err
		case isStop(err): // it stands still alone, and stays ours: another process would meet the same
			m.restarts()
			kafka.Yield(ctx, o.cfg.BackoffCap)
			continue
		case l.commits > before:
			tries = 1 // it had worked for a while
			trouble.Over()
		}
		m.restarts()
		if trouble.Worth(err, time.Now()) {
			o.log.Warn("starting again from what is committed", "stage", o.stage.name, "partition", partition, "tries", tries, "err", err)
		}
		kafka.Yield(ctx, kafka.Backoff(tries, o.cfg.BackoffCap))
	}
	return nil
}
