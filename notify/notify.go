// Package notify is the stage that writes to the owners of jobs. It reads final findings and jobs. A job has at most
// one message on each channel: by mail, by a webhook, or as a comment in the accounting of Slurm.
//
// decide.go has all decisions and the limits, waste.go the cost of a finding, text.go the words, send.go the channels.
// active.go reads the topics and commits. A notice is committed to topic notices before its message goes, together with
// the position in topic findings. So no mail goes twice, and a message over a webhook keeps its id.
package notify

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// Metrics are the metrics of notify.
type Metrics struct {
	active, waiting prometheus.Gauge
	notices         *prometheus.CounterVec
}

// NewMetrics registers the metrics of this package. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	add := promauto.With(registry)
	return &Metrics{
		active: add.NewGauge(prometheus.GaugeOpts{
			Name: "weir_notify_active", Help: "1 while the group lets this process send, 0 while it stands by.",
		}),
		waiting: add.NewGauge(prometheus.GaugeOpts{
			Name: "weir_notify_waiting", Help: "Notices that wait for their message, or for another try.",
		}),
		notices: add.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_notify_notices_total", Help: "Notices of this process by channel and committed state.",
		}, []string{"channel", "state"}),
	}
}

// service is a process that sends, or stands by.
type service struct {
	cfg      config.Config
	log      *slog.Logger
	metrics  *Metrics
	facts    func(context.Context) (Machine, error)
	brokers  *kafka.Brokers
	sender   sender
	trouble  retry.Trouble
	users    retry.Trouble
	rubbish  retry.Trouble
	dry      io.Writer // messages are printed, and nothing is written; nil: they are sent
	printing sync.Mutex
}

// On reports whether the configuration switches a channel on.
func On(cfg config.Config) bool { return len(channels(cfg.Notify)) > 0 }

// Check returns an error if the files of the configuration cannot be used.
func Check(cfg config.Config) error {
	if _, err := newTexts(cfg.Cluster, cfg.Notify); err != nil {
		return err
	}
	for _, of := range []struct{ key, file string }{
		{"notify.webhook.url_file", cfg.Notify.Webhook.URLFile},
		{"notify.webhook.secret_file", cfg.Notify.Webhook.SecretFile},
	} {
		if of.file == "" {
			continue
		}
		if _, err := config.ReadFile(of.file); err != nil {
			return fmt.Errorf("%s: %w", of.key, err)
		}
	}
	_, err := readUsers(cfg.Notify)
	return err
}

func newService(
	cfg config.Config, log *slog.Logger, metrics *Metrics, facts func(context.Context) (Machine, error),
) (*service, error) {
	texts, err := newTexts(cfg.Cluster, cfg.Notify)
	if err != nil {
		return nil, err
	}
	for _, channel := range channels(cfg.Notify) {
		for _, state := range []string{schemas.NoticeSent, schemas.NoticeFailed, schemas.NoticeSkipped} {
			metrics.notices.WithLabelValues(channel, state) // at 0, so that a rate sees the first
		}
	}
	return &service{
		cfg: cfg, log: log, metrics: metrics, facts: facts, brokers: kafka.NewBrokers(log),
		sender: sender{cfg: cfg.Notify, slurm: cfg.Balance.Slurm.Bin, texts: texts},
	}, nil
}

// Run sends messages until ctx ends, and then returns nil. Of several processes with one prefix, one sends. facts is
// asked at the start, and every hour. It waits for brokers that are away.
func Run(
	ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics,
	facts func(context.Context) (Machine, error),
) error {
	s, err := newService(cfg, log, metrics, facts)
	if err != nil {
		return err
	}
	topic := cfg.Prefix + schemas.TopicNotices
	var group retry.Trouble
	m := kafka.Member{
		Config: cfg, Group: topic, Topic: topic, Brokers: s.brokers,
		Own: func(ctx context.Context, partition int32) error {
			if partition == 0 { // the only one, unless somebody added others
				s.serve(ctx)
			}
			return nil
		},
		Waiting: func(err error) {
			if group.Worth(err, time.Now()) {
				log.Warn("group does not answer, trying again", "group", topic, "err", err)
			}
		},
	}
	return m.Run(ctx)
}

// Print prints the messages about jobs that ended in the last day, and those of jobs that end, until ctx ends. It
// writes to no topic.
func Print(
	ctx context.Context, cfg config.Config, log *slog.Logger, out io.Writer,
	facts func(context.Context) (Machine, error),
) error {
	s, err := newService(cfg, log, NewMetrics(prometheus.NewRegistry()), facts)
	if err != nil {
		return err
	}
	s.dry = out
	s.serve(ctx)
	return nil
}

// serve sends until ctx ends. After an error only the topics are trusted, and they are read again.
func (s *service) serve(ctx context.Context) {
	defer s.metrics.active.Set(0)
	for tries := 1; ctx.Err() == nil; tries++ {
		began := time.Now()
		err := s.active(ctx)
		if time.Since(began) > time.Minute {
			tries = 1
			s.trouble.Over()
		}
		if ctx.Err() == nil && !s.brokers.Away() && s.trouble.Worth(err, time.Now()) {
			s.log.Warn("notify is interrupted, trying again", "err", kafka.Explain(s.cfg.Kafka, err))
		}
		kafka.Yield(ctx, retry.Backoff(tries, s.cfg.BackoffCap))
	}
}
