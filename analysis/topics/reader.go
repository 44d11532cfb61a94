// Package topics reads the topics of an installation: their records as they are, and jobs and findings by their keys.
// It reads only committed records.
package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// errUnreachable is returned when no broker answers.
var errUnreachable = errors.New("no broker answers")

var errNoTopic = errors.New("there is none of this name")

// A person waits for the answer. One limit is for the first contact, one for a whole topic.
const (
	pingTimeout = 5 * time.Second
	ReadTimeout = time.Minute
)

// Connect returns a client with further options, once a broker answers it. The caller closes it.
func Connect(ctx context.Context, cfg config.Config, further ...kgo.Opt) (*kgo.Client, error) {
	opts, err := kafka.ClientOpts(ctx, cfg)
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
		if ctx.Err() != nil { // the caller ended it, and the brokers may be well
			return nil, fmt.Errorf("asking %s: %w", strings.Join(cfg.Kafka.Brokers, ","), ctx.Err())
		}
		return nil, unreachable(cfg, err)
	}
	return cl, nil
}

// unreachable is the error of a failed first contact. It names the brokers that were asked, and the remedy.
func unreachable(cfg config.Config, err error) error {
	brokers := strings.Join(cfg.Kafka.Brokers, ",")
	if explained := kafka.Explain(cfg.Kafka, err); explained != err { //nolint:errorlint // whether it is the same value
		return fmt.Errorf("%w at %s: %w", errUnreachable, brokers, explained)
	}
	remedy := "check kafka.brokers, and that Kafka runs there"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && onlyHere(cfg.Kafka.Brokers):
		remedy = "is weir running? Start `weir up` or `weir broker`, or check kafka.brokers"
	case errors.Is(err, context.DeadlineExceeded):
		remedy = fmt.Sprintf("nothing came in %v: check kafka.brokers, that Kafka runs there, and the firewall",
			pingTimeout)
	}
	return fmt.Errorf("%w at %s (%s): %w", errUnreachable, brokers, remedy, err)
}

// onlyHere reports whether all addresses are on this machine, so that the embedded broker may be meant.
func onlyHere(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(address string) bool {
		host, _, _ := net.SplitHostPort(address)
		return host != "localhost" && !net.ParseIP(host).IsLoopback()
	})
}

// absent returns the error for a topic that cannot be read, by Kafka's details of it, or nil.
func absent(cfg config.Config, topic string, d kadm.TopicDetail) error {
	switch {
	case d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return kafka.Explain(cfg.Kafka, fmt.Errorf("topic %s: %w", topic, d.Err))
	case len(d.Partitions) > 0:
		return nil
	}
	ours := topicNames()
	brokers := strings.Join(cfg.Kafka.Brokers, ",")
	if slices.Contains(ours, strings.TrimPrefix(topic, cfg.Prefix)) {
		return fmt.Errorf("topic %s at %s: %w", topic, brokers, kafka.ErrNoPartition)
	}
	return fmt.Errorf("topic %.100q at %s: %w: weir has %s", topic, brokers, errNoTopic, strings.Join(ours, ", "))
}

// topicNames returns the names of weir's topics, without the prefix.
func topicNames() (names []string) {
	for _, t := range schemas.Topics("", schemas.Sizes{}) {
		names = append(names, t.Name)
	}
	return names
}

// Reader is the one client of a command, for all topics and partitions that it reads.
type Reader struct {
	Config config.Config
	Client *kgo.Client
	Admin  *kadm.Client
	Ends   map[string]map[int32]kafka.Range // of each topic when it was first read
	IDs    map[string]string                // of these topics
}

// Open returns a reader once a broker answers. The caller closes it.
func Open(ctx context.Context, cfg config.Config) (*Reader, error) {
	cl, err := Connect(ctx, cfg, kafka.ReaderOpts()...)
	if err != nil {
		return nil, err
	}
	return &Reader{cfg, cl, kadm.NewClient(cl), map[string]map[int32]kafka.Range{}, map[string]string{}}, nil
}

// Anew returns a reader with the same client. It starts with the ends of topics that r knows now.
func (r *Reader) Anew() *Reader {
	return &Reader{r.Config, r.Client, r.Admin, maps.Clone(r.Ends), maps.Clone(r.IDs)}
}

// Close ends the client.
func (r *Reader) Close() { r.Client.Close() }

// Bounds returns the offsets of a topic's partitions, from begin to end. Each topic is asked for once per command.
func (r *Reader) Bounds(ctx context.Context, topic string) (map[int32]kafka.Range, error) {
	if known := r.Ends[topic]; known != nil {
		return known, nil
	}
	details, err := r.Admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", topic, err)
	}
	if err := absent(r.Config, topic, details[topic]); err != nil {
		return nil, err
	}
	bounds, err := kafka.TopicBounds(ctx, r.Admin, topic)
	if err != nil {
		return nil, err
	}
	r.Ends[topic], r.IDs[topic] = bounds, kafka.TopicID(details[topic])
	return bounds, nil
}

// after returns the part of the bounds that was written since a time.
func (r *Reader) after(
	ctx context.Context, topic string, bounds map[int32]kafka.Range, since time.Time,
) (map[int32]kafka.Range, error) {
	sinceMs := max(0, since.UnixMilli()) // a negative time is a special request
	offsets, err := r.Admin.ListOffsetsAfterMilli(ctx, sinceMs, topic)
	if err != nil {
		return nil, fmt.Errorf("looking for %v in %s: %w", since, topic, err)
	}
	part := make(map[int32]kafka.Range, len(bounds))
	for p, b := range bounds {
		if o, ok := offsets.Lookup(topic, p); ok && o.Err == nil {
			b.From = min(max(b.From, o.Offset), b.To)
		}
		part[p] = b
	}
	return part, nil
}

// All calls each with every committed record of a topic. Records of one partition come in order.
func (r *Reader) All(ctx context.Context, topic string, each func(r *kgo.Record) error) error {
	return r.Since(ctx, topic, time.Time{}, each)
}

// Since calls each with every committed record of a topic that was written since a time.
func (r *Reader) Since(ctx context.Context, topic string, since time.Time, each func(r *kgo.Record) error) (err error) {
	defer func() { err = ended(ctx, kafka.Explain(r.Config.Kafka, err)) }()
	ranges, err := r.Bounds(ctx, topic)
	if err == nil && !since.IsZero() {
		ranges, err = r.after(ctx, topic, ranges, since)
	}
	if err != nil {
		return err
	}
	return kafka.ReadRanges(ctx, r.Client, topic, ranges, each)
}

// Back reads a topic backwards in time, window by window. The first window holds the records written since a time. Each
// further window begins at the earlier time that next returns. It ends when next returns false, or at the topic's
// begin, which it reports. Each record is read once.
func (r *Reader) Back(
	ctx context.Context, topic string, since time.Time,
	each func(r *kgo.Record) error, next func(since time.Time) (time.Time, bool),
) (begin bool, err error) {
	defer func() { err = ended(ctx, kafka.Explain(r.Config.Kafka, err)) }()
	window, err := r.Bounds(ctx, topic)
	for err == nil {
		var ranges map[int32]kafka.Range
		if ranges, err = r.after(ctx, topic, window, since); err != nil {
			break
		}
		if err = kafka.ReadRanges(ctx, r.Client, topic, ranges, each); err != nil {
			break
		}
		older, left := make(map[int32]kafka.Range, len(window)), int64(0)
		for p, w := range window {
			older[p] = kafka.Range{From: w.From, To: ranges[p].From}
			left += older[p].To - older[p].From
		}
		var more bool
		if since, more = next(since); !more || left == 0 {
			return left == 0, nil
		}
		window = older
	}
	return false, err
}

// ended adds the context's error if a read failed only because its client closed when the context ended.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, kgo.ErrClientClosed) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// Recent returns the time from which "the last intervals" are counted.
func Recent(cfg config.Config, now time.Time) time.Time {
	return now.Add(-max(time.Minute, 12*cfg.Interval))
}
