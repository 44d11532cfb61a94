package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// createTopics checks what it made, since a broker may accept a setting and keep its own.
func createTopics(ctx context.Context, cfg config.Config, out io.Writer) error {
	cl, err := analysis.Connect(ctx, cfg)
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

// registryIDs returns the ids to write into topic schemas: those of the registry, or without one, those that the topic
// has. An administrator whose configuration names no registry must not take them away from the services.
func registryIDs(ctx context.Context, cfg config.Config, out io.Writer) (map[string]uint32, error) {
	before, err := kafka.ReadRegistryIDs(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Registry.URL == "" {
		_, err := kafka.WithRegistryIDs(ctx, cfg)
		if errors.Is(err, kafka.ErrTopics) { // a new release has a new schema, or there never was a registry
			err = usageError{err}
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
				say(out, "schema %s %s had id %d and has %d now: restart collect, merge, find and balance. "+
					"The registry's tools cannot read older records, or take them for something else",
					s.Name, s.Key(), was, is)
			}
		}
		say(out, "registry %s: subject %s has ids %s", cfg.Registry.URL, kafka.Subject(cfg.Prefix, topic),
			strings.Join(listed, ", "))
	}
	return ids, nil
}

// inspectRegistry compares the registry with topic schemas.
func inspectRegistry(ctx context.Context, cfg config.Config, out io.Writer) error {
	if cfg.Registry.URL == "" {
		if cfg.Topics.Wire == config.WireConfluent {
			say(out, "ids of schemas are not compared with the registry: registry.url is empty")
		}
		_, err := kafka.WithRegistryIDs(ctx, cfg)
		return err
	}
	ids, err := kafka.ReadRegistryIDs(ctx, cfg)
	if err != nil {
		return err
	}
	return kafka.CheckRegistry(ctx, cfg, ids)
}

// checkTopics returns nil if a part that uses these topics can run. The names have no prefix.
func checkTopics(ctx context.Context, cfg config.Config, log *slog.Logger, names []string) error {
	cl, err := analysis.Connect(ctx, cfg)
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
		log.Debug("settings of topics are not checked: we may not read them", "topics", hidden)
	}
	return err
}

// inspect checks brokers and topics for an administrator. It also gives advice on settings that cost time or safety.
func inspect(ctx context.Context, cfg config.Config, out io.Writer) error {
	cl, err := analysis.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if err := kafka.CheckBrokers(ctx, adm); err != nil {
		return err
	}
	advice, err := kafka.Advise(ctx, adm, cfg.Topics.Replication)
	if err != nil {
		say(out, "settings of the brokers are not checked: %v", kafka.Explain(cfg.Kafka, err))
	}
	for _, a := range advice {
		say(out, "advice: %s", a)
	}
	hidden, err := kafka.CheckTopics(ctx, adm, kafka.Topics(cfg))
	for _, name := range hidden {
		say(out, "settings of topic %s are not checked: permission DESCRIBE_CONFIGS on it is missing", name)
	}
	return kafka.Explain(cfg.Kafka, errors.Join(err, inspectRegistry(ctx, cfg, out)))
}

func newTopics() *cobra.Command {
	topics := &cobra.Command{
		Use:   "topics",
		Short: "Make the topics, check them, or print who may use them",
		Long:  "Makes the topics of a configuration, checks them, or prints the permissions of each role.",
		Example: `  weir topics create --config /etc/weir/weir.yaml
  weir topics check --config /etc/weir/weir.yaml`,
		RunE: needsSubcommand,
	}
	topics.AddCommand(newTopicsCommand(&cobra.Command{
		Use:   "create",
		Short: "Make the topics that are missing, and give all the settings that correctness needs",
		Long: `Makes the topics that are missing, and gives all the settings that correctness needs.

A second run does no harm. It never changes a number of partitions, since jobs and nodes are placed by it.

With registry.url it registers the schemas of job-summary, findings and jobs at that schema registry, and writes their
ids into topic schemas. Services take them from there, so the registry may be down while they run.`,
		Example: `  weir topics create --config /etc/weir/weir.yaml`,
	}, "are there", createTopics), newTopicsCommand(&cobra.Command{
		Use:   "check",
		Short: "Compare brokers and topics with what correctness needs",
		Long: `Compares brokers and topics with what correctness needs.

It reports each difference with its remedy, and ends with status 1 if there is any. Settings of the brokers that cost
time or safety, but with which weir works, are reported as advice.

With registry.url it compares the ids of topic schemas with those of that schema registry.`,
		Example: `  weir topics check --config /etc/weir/weir.yaml`,
	}, "are as they should be", inspect))
	topics.AddCommand(newTopicsACL())
	return topics
}

// newTopicsCommand completes a command that acts on all topics of a configuration, and then reports that they are done.
func newTopicsCommand(
	c *cobra.Command, done string, act func(ctx context.Context, cfg config.Config, out io.Writer) error,
) *cobra.Command {
	var conf configFlags
	c.Args = noArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := conf.load()
		if err != nil {
			return err
		}
		if err := act(c.Context(), cfg, c.OutOrStdout()); err != nil {
			return err
		}
		say(c.OutOrStdout(), "%d topics with prefix %s %s", len(kafka.Topics(cfg)), cfg.Prefix, done)
		return nil
	}
	conf.add(c)
	return c
}
