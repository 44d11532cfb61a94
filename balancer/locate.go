package balancer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/schemas"
)

// locate lays the collectors over the tree. A collector stands in the island of its partition's first replica, by the
// broker's rack. Kafka prefers this replica as the leader, and homes stay the same while it is away.
func (b *balancer) locate(ctx context.Context, adm *kadm.Client) (*assign.Layout, error) {
	topic := b.cfg.Prefix + schemas.TopicCounters
	m, err := adm.Metadata(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("asking where the brokers are: %w", err)
	}
	islands := map[int32]int{} // of each broker whose rack the tree knows
	for _, broker := range m.Brokers {
		if broker.Rack == nil {
			continue
		}
		if island, ok := b.tree.RackIsland(*broker.Rack); ok {
			islands[broker.NodeID] = island
		}
	}
	places := make([]int, b.cfg.Collectors)
	for c := range places {
		places[c] = assign.None
		replicas := m.Topics[topic].Partitions[int32(c)].Replicas
		if len(replicas) == 0 {
			continue
		}
		if island, ok := islands[replicas[0]]; ok {
			places[c] = island
		}
	}
	return assign.NewLayout(b.tree, b.cfg.Collectors, places), nil
}
