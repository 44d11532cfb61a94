package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/hardware"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// Facts returns the facts about nodes on the topic. Records that cannot be used are passed over. An installation of
// before, which lacks the topic, and a user without the right to read it have no facts, and no error: unread is the
// reason then.
func (r *Reader) Facts(ctx context.Context) (facts *hardware.Facts, unread, err error) {
	facts = hardware.NewFacts(r.Config.Cluster)
	topic := r.Config.Prefix + schemas.TopicFacts
	err = r.All(ctx, topic, func(r *kgo.Record) error {
		_ = facts.Take(r.Key, r.Value) // find logs it
		return nil
	})
	switch {
	case errors.Is(err, kafka.ErrNoPartition), errors.Is(err, kerr.UnknownTopicOrPartition),
		errors.Is(err, kerr.TopicAuthorizationFailed):
		return facts, err, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading the facts about nodes: %w", err)
	}
	return facts, nil, nil
}

// Machine returns the node types of the configuration, completed by the facts about nodes on the topic. Without a
// reader they are those of the configuration.
func Machine(ctx context.Context, r *Reader, cfg config.Config) ([]config.NodeType, error) {
	if r == nil {
		return cfg.Machine, nil
	}
	facts, _, err := r.Facts(ctx)
	if err != nil {
		return nil, err
	}
	return facts.Types(cfg.Machine), nil
}
