package admin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"

	"github.com/weirhpc/weir/commands/cli"
)

// NewInit makes the command that writes the first configuration of a part.
func NewInit() *cobra.Command {
	var role, from, output string
	var set []string
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a commented configuration for a part",
		Long: `Writes the configuration of a part, with every key that it reads and a comment to each.

Keys with the default's value are commented out, except for keys on which all parts must agree. Values come from the
file of --from, such as another part's configuration, and then from --set. A kafka.sasl.user weir-PART in that file is
changed to the new part's user. "weir check" tests the file on the host of the part.

Parts are ` + strings.Join(config.Roles(), ", ") + `.
Topics is for "weir topics create" and "check". Status is for "weir status" and other commands that read. Relay is for
"weir console --relay", which knows no broker.`,
		Example: `  weir init --role collect --set cluster=mymachine --set kafka.brokers=kafka1:9093 > collect.yaml
  weir init --role sink --from collect.yaml --set sink.dir=/archive --output /etc/weir/sink.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, s := range set {
				if !strings.Contains(s, "=") {
					return cli.Usage(fmt.Errorf("--set %s: KEY=VALUE is wanted, such as cluster=mymachine", s))
				}
			}
			cfg, err := config.Load(config.Source{File: from, Set: set, Defaults: config.Default()})
			if err != nil {
				return cli.Usage(err)
			}
			if len(cfg.Kafka.Brokers) == 0 && config.NeedsBrokers(role) {
				return cli.Usage(fmt.Errorf("%w: add --set kafka.brokers=HOST:PORT,HOST:PORT", kafka.ErrNoBrokers))
			}
			named := slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, "kafka.sasl.user=") })
			if other, is := strings.CutPrefix(cfg.Kafka.SASL.User, "weir-"); is && !named &&
				slices.Contains(config.Roles(), other) {
				cfg.Kafka.SASL.User = "weir-" + role
			}
			text, err := cfg.Commented(role)
			if err != nil {
				return cli.Usage(fmt.Errorf("--role: %w", err))
			}
			text = fmt.Sprintf("# Configuration of weir for role %s. Keys after # have their default.\n", role) + text
			if output == "" {
				_, err = io.WriteString(c.OutOrStdout(), text)
				return err
			}
			return writeNew(output, text)
		},
	}
	c.Flags().StringVar(&role, "role", "", "`PART` that reads the file")
	c.Flags().StringVar(&from, "from", "", "take values from this `FILE` of another part (default: none)")
	c.Flags().StringArrayVar(&set, "set", nil, "set a key of config/reference.yaml: `KEY=VALUE`; can be repeated")
	c.Flags().StringVar(&output, "output", "", "write this new `FILE` (default: standard output)")
	cli.Offer(c, "role", config.Roles()...)
	cli.OfferFiles(c, "from", cli.YamlFiles...)
	cli.OfferFiles(c, "output", cli.YamlFiles...)
	return c
}

// writeNew writes a new file, and refuses to replace one. All users may read it, since it contains no secret.
func writeNew(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("--output %s: it is there already: remove it, or name another file", name)
	}
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
