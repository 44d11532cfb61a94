package services

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"

	"github.com/weirhpc/weir/analysis/topics"
)

// CreateTopics creates the topics, and then checks them, since a broker may accept a setting and keep its own.
func CreateTopics(ctx context.Context, cfg config.Config, out io.Writer) error {
	cl, err := topics.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer cl.Close()
	ids, err := registryIDs(ctx, cfg, out)
	if err != nil {
		return kafka.Explain(cfg.Kafka, err)
	}
	if err := kafka.CreateTopics(ctx, cl, kafka.Topics(cfg), ids); err != nil {
		return kafka.Explain(cfg.Kafka, err)
	}
	_, err = kafka.CheckTopics(ctx, kadm.NewClient(cl), kafka.Topics(cfg))
	return kafka.Explain(cfg.Kafka, err)
}

// registryIDs returns the ids for topic schemas. They come from the registry, or if none is configured, from the topic
// itself: an administrator without a registry in the configuration must not take the ids away from the services.
func registryIDs(ctx context.Context, cfg config.Config, out io.Writer) (map[string]uint32, error) {
	before, err := kafka.ReadRegistryIDs(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Registry.URL == "" {
		_, err := kafka.WithRegistryIDs(ctx, cfg)
		if errors.Is(err, kafka.ErrTopics) { // a new release has a new schema, or there never was a registry
			err = cli.Usage(err)
		}
		return before, err
	}
	ids, err := kafka.RegisterSchemas(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for _, topic := range schemas.PublicTopics() {
		var listed []string
		for _, s := range schemas.OfTopic(topic) {
			is, was := ids[s.Key()], before[s.Key()]
			if is != 0 {
				listed = append(listed, strconv.FormatUint(uint64(is), 10))
			}
			if is != 0 && was != 0 && is != was {
				cli.Say(out, "schema %s %s had id %d and has %d now: restart collect, merge, find and balance. "+
					"The registry's tools cannot read older records, or take them for something else",
					s.Name, s.Key(), was, is)
			}
		}
		cli.Say(out, "registry %s: subject %s has ids %s", cfg.Registry.URL, kafka.Subject(cfg.Prefix, topic),
			strings.Join(listed, ", "))
	}
	return ids, nil
}

// checkTopics returns nil if a part that uses these topics can run. The names have no prefix.
func checkTopics(ctx context.Context, cfg config.Config, log *slog.Logger, names []string) error {
	cl, err := topics.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if err := kafka.CheckBrokers(ctx, adm); err != nil {
		return err
	}
	used := slices.DeleteFunc(kafka.Topics(cfg), func(t schemas.Topic) bool {
		return !slices.Contains(names, strings.TrimPrefix(t.Name, cfg.Prefix))
	})
	hidden, err := kafka.CheckTopics(ctx, adm, used)
	if len(hidden) > 0 {
		log.Debug("settings of topics not checked: this user may not read them", "topics", hidden)
	}
	return err
}
