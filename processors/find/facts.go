package find

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/hardware"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// factsLookEvery is the time between two looks for new facts about nodes. A look is two small requests.
const factsLookEvery = 10 * time.Second

// knownTypes are the node types by the configuration and topic facts, as far as it was read. All partitions of a
// process share them. Without the topic, or the right to read it, the types of the configuration count.
type knownTypes struct {
	cfg    config.Config
	log    *slog.Logger
	types  atomic.Pointer[nodetypes.Types]
	tried  chan struct{} // closed after the first look
	once   sync.Once
	facts  *hardware.Facts
	id     string // of the topic
	next   int64  // offset behind the last record that was read
	wrong  retry.Trouble
	unread retry.Trouble
}

// newKnownTypes returns the types of the configuration. The error is that of its hostlists.
func newKnownTypes(cfg config.Config, log *slog.Logger) (*knownTypes, error) {
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		return nil, err
	}
	k := &knownTypes{cfg: cfg, log: log, tried: make(chan struct{})}
	k.types.Store(types)
	return k, nil
}

// get returns the types as they are known now. They never change: new facts make new types.
func (k *knownTypes) get() *nodetypes.Types { return k.types.Load() }

// wait waits for the first look, so that the first intervals are not judged without facts.
func (k *knownTypes) wait(ctx context.Context) error {
	select {
	case <-k.tried:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow looks for new facts until ctx ends. After an error it begins with a new client, since a client does not follow
// a topic that was made anew.
func (k *knownTypes) follow(ctx context.Context) {
	defer k.once.Do(func() { close(k.tried) })
	brokers := kafka.NewBrokers(slog.New(slog.DiscardHandler)) // the loops log that brokers are away
	for ctx.Err() == nil {
		err := k.lookOn(ctx, kgo.WithHooks(brokers))
		if ctx.Err() == nil && !brokers.Away() && k.unread.Worth(err, time.Now()) {
			k.log.Warn("facts about nodes cannot be read: rules go by those that are known, and by `machine`",
				"topic", k.cfg.Prefix+schemas.TopicFacts, "err", err)
		}
		k.once.Do(func() { close(k.tried) })
		retry.Pause(ctx, factsLookEvery)
	}
}

// lookOn looks for new facts with one client until something fails.
func (k *knownTypes) lookOn(ctx context.Context, hooks kgo.Opt) error {
	opts, err := kafka.ClientOpts(ctx, k.cfg)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(append(opts, hooks), kafka.ReaderOpts()...)...)
	if err != nil {
		return fmt.Errorf("making a Kafka client: %w", err)
	}
	defer cl.Close()
	topic := k.cfg.Prefix + schemas.TopicFacts
	for {
		if err := k.look(ctx, cl, topic); err != nil {
			return err
		}
		if k.unread.Over() {
			k.log.Info("facts about nodes can be read", "topic", topic)
		}
		k.once.Do(func() { close(k.tried) })
		if !retry.Pause(ctx, factsLookEvery) {
			return ctx.Err()
		}
	}
}

// look reads the records that are new. A topic that was made anew is read from its beginning.
func (k *knownTypes) look(ctx context.Context, cl *kgo.Client, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	adm := kadm.NewClient(cl)
	start, end, err := askBounds(ctx, adm, topic)
	if err != nil {
		return err
	}
	id, err := askID(ctx, adm, topic)
	if err != nil {
		return err
	}
	if k.facts == nil || !kafka.SameTopic(k.id, id) || k.next > end { // until it is read, the types stay
		k.facts, k.id, k.next = hardware.NewFacts(k.cfg.Cluster), id, start
	}
	if k.next = max(k.next, start); k.next == end {
		return nil
	}
	ranges := map[int32]kafka.Range{0: {From: k.next, To: end}}
	err = kafka.ReadRanges(ctx, cl, topic, ranges, func(r *kgo.Record) error {
		if err := k.facts.Take(r.Key, r.Value); err != nil && k.wrong.Worth(err, time.Now()) {
			k.log.Warn("record of topic facts cannot be used, going on behind it",
				"topic", topic, "offset", r.Offset, "err", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", topic, err)
	}
	k.next = end
	types, err := nodetypes.New(k.facts.Types(k.cfg.Machine))
	if err != nil {
		return err
	}
	k.types.Store(types)
	return nil
}
