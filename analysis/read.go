// Package analysis answers questions from the topics and the archive. It only reads, and only what is committed.
package analysis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// ErrUnreachable is returned when no broker answers.
var ErrUnreachable = errors.New("no broker answers")

var errNoTopic = errors.New("there is none of this name")

// A person waits for the answer: of the first contact, and of a whole topic.
const (
	pingTimeout = 5 * time.Second
	readTimeout = time.Minute
)

// Connect returns a client with further options, once a broker has answered it. The caller closes it.
func Connect(ctx context.Context, cfg config.Config, further ...kgo.Opt) (*kgo.Client, error) {
	opts, err := cfg.ClientOpts(ctx)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, further...)...)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	ping, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := cl.Ping(ping); err != nil {
		cl.Close()
		if ctx.Err() != nil { // the brokers may be well
			return nil, fmt.Errorf("asking %s: %w", strings.Join(cfg.Kafka.Brokers, ","), ctx.Err())
		}
		return nil, unreachable(cfg, err)
	}
	return cl, nil
}

// unreachable is the error of a first contact in vain: with the brokers that were asked, and what to do.
func unreachable(cfg config.Config, err error) error {
	brokers := strings.Join(cfg.Kafka.Brokers, ",")
	if explained := cfg.Kafka.Explain(err); explained != err { //nolint:errorlint // the very same
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, brokers, explained)
	}
	remedy := "check kafka.brokers, and that Kafka runs there"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && onlyHere(cfg.Kafka.Brokers):
		remedy = "is weir running? Start `weir up` or `weir broker`, or check kafka.brokers"
	case errors.Is(err, context.DeadlineExceeded):
		remedy = fmt.Sprintf("nothing came in %v: check kafka.brokers, that Kafka runs there, and the firewall", pingTimeout)
	}
	return fmt.Errorf("%w at %s (%s): %w", ErrUnreachable, brokers, remedy, err)
}

// onlyHere reports whether all addresses are of this machine, where the embedded broker may be.
func onlyHere(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(address string) bool {
		host, _, _ := net.SplitHostPort(address)
		return host != "localhost" && !net.ParseIP(host).IsLoopback()
	})
}

// absent is the error for a topic that cannot be read, by what Kafka reports of it.
func absent(cfg config.Config, topic string, d kadm.TopicDetail) error {
	switch {
	case d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return cfg.Kafka.Explain(fmt.Errorf("topic %s: %w", topic, d.Err))
	case len(d.Partitions) > 0:
		return nil
	}
	var ours []string
	for _, t := range schemas.Topics("", schemas.Sizes{}) {
		ours = append(ours, t.Name)
	}
	brokers := strings.Join(cfg.Kafka.Brokers, ",")
	if slices.Contains(ours, strings.TrimPrefix(topic, cfg.Prefix)) {
		return fmt.Errorf("topic %s at %s: %w", topic, brokers, config.ErrNoPartition)
	}
	return fmt.Errorf("topic %.100q at %s: %w: weir has %s", topic, brokers, errNoTopic, strings.Join(ours, ", "))
}

// readSince calls each with every committed record of a topic that was written since a time, partition by partition.
// A zero time means from the beginning.
func readSince(ctx context.Context, cfg config.Config, topic string, since time.Time, each func(r *kgo.Record) error) (err error) {
	defer func() { err = cfg.Kafka.Explain(err) }()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	cl, err := Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	details, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("listing %s: %w", topic, err)
	}
	if err := absent(cfg, topic, details[topic]); err != nil {
		return err
	}
	var after kadm.ListedOffsets
	if !since.IsZero() {
		if after, err = adm.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topic); err != nil {
			return fmt.Errorf("looking for %v in %s: %w", since, topic, err)
		}
	}
	for p := range details[topic].Partitions {
		start, end, err := config.Bounds(ctx, adm, topic, p)
		if err != nil {
			return err
		}
		if o, ok := after.Lookup(topic, p); ok && o.Err == nil {
			start = max(start, o.Offset)
		}
		if err := config.ReadPartition(ctx, cfg, topic, p, start, end, each); err != nil {
			return err
		}
	}
	return nil
}

// summariesSince returns the summaries of a time on, in the order of their partitions. An undecodable one is passed over:
// the archive's footers and `weir tail` show it.
func summariesSince(ctx context.Context, cfg config.Config, since time.Time) ([]*schemas.JobSummary, error) {
	var all []*schemas.JobSummary
	err := readSince(ctx, cfg, cfg.Prefix+schemas.TopicJobSummary, since, func(r *kgo.Record) error {
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if s, ok := v.(*schemas.JobSummary); ok {
				all = append(all, s)
			}
		}
		return nil
	})
	return all, err
}

// recent is how far back "the last intervals" reaches.
func recent(cfg config.Config) time.Time { return time.Now().Add(-max(time.Minute, 12*cfg.Interval)) }
