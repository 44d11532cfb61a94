package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/measure"
)

// peerPatience is how long a node tries to reach the coordinator.
const peerPatience = 30 * time.Second

// newTopologyPeer is the process by which an agent takes part in a measurement. Its standard input has a
// measure.Member, and stays open as long as the agent wants it to run.
func newTopologyPeer() *cobra.Command {
	return &cobra.Command{
		Use: "peer", Short: "Take part in a measurement, as standard input says", Hidden: true, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in := json.NewDecoder(c.InOrStdin())
			in.DisallowUnknownFields()
			var m measure.Member
			if err := in.Decode(&m); err != nil {
				return usageError{fmt.Errorf("standard input has no measure.Member: %w", err)}
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			go func() {
				_, _ = io.Copy(io.Discard, c.InOrStdin())
				cancel()
			}()
			return m.Join(ctx, peerPatience)
		},
	}
}
