package admin

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/schemas/second"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/services"

	"github.com/weirhpc/weir/analysis/topics"
)

// inspectRegistry compares the registry with topic schemas.
func inspectRegistry(ctx context.Context, cfg config.Config, out io.Writer) error {
	if cfg.Registry.URL == "" {
		if cfg.Topics.Wire == config.WireConfluent {
			cli.Say(out, "ids of schemas are not compared with the registry: registry.url is empty")
		}
		_, err := kafka.WithRegistryIDs(ctx, cfg)
		return err
	}
	ids, err := kafka.ReadRegistryIDs(ctx, cfg)
	if err != nil {
		return err
	}
	return kafka.CheckRegistry(ctx, cfg, ids, second.CheckText)
}

// inspect checks brokers and topics for an administrator. It also gives advice on settings that cost time or safety.
func inspect(ctx context.Context, cfg config.Config, out io.Writer) error {
	cl, err := topics.Connect(ctx, cfg)
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
		cli.Say(out, "settings of the brokers are not checked: %v", kafka.Explain(cfg.Kafka, err))
	}
	for _, a := range advice {
		cli.Say(out, "advice: %s", a)
	}
	hidden, err := kafka.CheckTopics(ctx, adm, kafka.Topics(cfg))
	for _, name := range hidden {
		cli.Say(out, "settings of topic %s are not checked: permission DESCRIBE_CONFIGS on it is missing", name)
	}
	return kafka.Explain(cfg.Kafka, errors.Join(err, inspectSchemas(out), inspectRegistry(ctx, cfg, out)))
}

// inspectSchemas has goavro compute the canonical form and the fingerprint of every schema ever shipped: all values on
// the topics begin with weir's fingerprint of their schema.
func inspectSchemas(out io.Writer) error {
	all := schemas.All()
	var faults []error
	for _, s := range all {
		if err := second.CheckText(s, s.Text); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		cli.Say(out, "goavro computes weir's fingerprints of %d schemas", len(all))
	}
	return errors.Join(faults...)
}

// NewTopics returns the command weir topics.
func NewTopics() *cobra.Command {
	topics := &cobra.Command{
		Use:   "topics",
		Short: "Make the topics, check them, or print who may use them",
		Long:  "Makes the topics of a configuration, checks them, or prints the permissions of each role.",
		Example: `  weir topics create --config /etc/weir/weir.yaml
  weir topics check --config /etc/weir/weir.yaml`,
		RunE: cli.NeedsSubcommand,
	}
	topics.AddCommand(newTopicsCommand(&cobra.Command{
		Use:   "create",
		Short: "Make the topics that are missing, and give all the settings that correctness needs",
		Long: `Makes the missing topics, and gives all of them the settings that correctness needs.

A second run does no harm. It never changes a number of partitions, since jobs and nodes are placed by it.

With registry.url it registers the schemas of job-summary, findings and jobs at that schema registry, and writes their
ids into topic schemas. Services take them from there, so the registry may be down while they run.`,
		Example: `  weir topics create --config /etc/weir/weir.yaml`,
	}, "are there", services.CreateTopics), newTopicsCommand(&cobra.Command{
		Use:   "check",
		Short: "Compare brokers and topics with the settings that correctness needs",
		Long: `Compares brokers and topics with the settings that correctness needs.

It reports each difference with its remedy, and ends with status 1 if there is any. Settings of the brokers that cost
time or safety, but with which weir works, are reported as advice.

It compares weir's canonical forms and fingerprints of the schemas with those that goavro computes.

With registry.url it compares the ids in topic schemas with the ids in that schema registry, and the fingerprints of
that registry's texts.`,
		Example: `  weir topics check --config /etc/weir/weir.yaml`,
	}, "are as they should be", inspect))
	topics.AddCommand(newTopicsACL())
	return topics
}

// newTopicsCommand completes a command that acts on all topics of a configuration, and then reports that they are done.
func newTopicsCommand(
	c *cobra.Command, done string, act func(ctx context.Context, cfg config.Config, out io.Writer) error,
) *cobra.Command {
	var conf cli.ConfigFlags
	c.Args = cli.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := conf.Load()
		if err != nil {
			return err
		}
		if err := act(c.Context(), cfg, c.OutOrStdout()); err != nil {
			return err
		}
		cli.Say(c.OutOrStdout(), "%d topics with prefix %s %s", len(kafka.Topics(cfg)), cfg.Prefix, done)
		return nil
	}
	conf.Add(c)
	return c
}
