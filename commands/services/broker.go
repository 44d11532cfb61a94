package services

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/kafka"

	"github.com/weirhpc/weir/commands/cli"
)

// NewBroker returns the command weir broker.
func NewBroker() *cobra.Command {
	var data, listen, ready string
	c := &cobra.Command{
		Use:   "broker",
		Short: "Run the embedded broker as a process of its own",
		Long: `Runs the embedded broker, to try weir without Kafka.

It is one node without replicas. It keeps its data through a clean stop, but not through kill -9. Set
topics.replication to 1, and make the topics with "weir topics create".`,
		Example: `  weir broker --data /tmp/weir-broker --listen 127.0.0.1:9092`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := cli.CheckAddress("listen", listen); err != nil {
				return err
			}
			b, err := StartBroker(data, listen)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, b.Close()) }()
			cli.NeverWait(c.OutOrStdout(), c.ErrOrStderr())
			cli.Say(c.OutOrStdout(), "broker    %s", b.Addr())
			if ready != "" {
				if err := os.WriteFile(ready, []byte(b.Addr()+"\n"), 0o644); err != nil {
					return fmt.Errorf("writing --ready-file: %w", err)
				}
			}
			<-c.Context().Done()
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", "weir-broker", "`DIR` for the broker's log")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:9092", "`HOST:PORT` where the broker listens")
	c.Flags().StringVar(&ready, "ready-file", "", "write the address to this `FILE` once the broker listens")
	cli.OfferDirectories(c, "data")
	cli.OfferFiles(c, "ready-file")
	return c
}

// StartBroker starts the embedded broker. A directory that cannot be used is a usage error.
func StartBroker(dir, listen string) (*kafka.Embedded, error) {
	b, err := kafka.StartEmbedded(dir, listen)
	var unusable kafka.DirError
	if errors.As(err, &unusable) {
		return nil, cli.Usage(fmt.Errorf("--data %w", err))
	}
	return b, err
}
