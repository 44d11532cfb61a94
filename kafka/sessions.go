package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/retry"
)

// StartSessions lets an embedded broker give up every dead member of a group, until stop is called. Its client needs
// opts only on a network other than the system's.
//
// The broker, kfake, starts a new member's session when it answers the join. If the connection has ended by then, it
// may start none. The leader then gives partitions to a member that no timeout ever removes. One heartbeat in the name
// of each member of a new generation starts its session. A live member continues with its own heartbeats, and kfake
// gives up a dead one. StartSessions itself removes no member. It becomes unnecessary once kfake starts a session even
// if its answer is lost (group.reply).
func StartSessions(cluster *kfake.Cluster, opts ...kgo.Opt) (stop func(), err error) {
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	if err != nil {
		return nil, fmt.Errorf("making a client of the embedded broker: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cl.Close()
		started := map[string]int32{} // by group: the last generation with sessions for its members
		for retry.Pause(ctx, time.Second) {
			groups, err := kadm.NewClient(cl).ListGroups(ctx)
			if err != nil {
				continue // the next second tries again
			}
			for _, name := range groups.Groups() {
				g := cluster.GroupInfo(name)
				// A group that is not stable itself removes members that do not join or sync. A member that waits for
				// its answer must not have a session yet: in a slow rebalance a live one would lose it.
				if g == nil || g.State != "Stable" {
					delete(started, name)
				} else if of, ok := started[name]; (!ok || of != g.Epoch) && beatFor(ctx, cl, g) == nil {
					started[name] = g.Epoch
				}
			}
		}
	}()
	return func() { cancel(); <-done }, nil
}

// beatFor sends one heartbeat for each member. The answer does not matter: a member that has left needs no session, and
// a newer generation gets heartbeats of its own.
func beatFor(ctx context.Context, cl *kgo.Client, g *kfake.GroupInfo) error {
	for _, m := range g.Members {
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.MemberID, beat.Generation = g.Group, m.MemberID, g.Epoch
		if _, err := beat.RequestWith(ctx, cl); err != nil {
			return err
		}
	}
	return nil
}
