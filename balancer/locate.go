package balancer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/schemas"
)

// locate lays the collectors over the tree. A collector stands at the vertex of its partition's first replica, by the
// broker's rack. Kafka prefers this replica as the leader, and homes stay the same while it is away.
func (b *balancer) locate(ctx context.Context, adm *kadm.Client) (*assign.Layout, error) {
	topic := b.cfg.Prefix + schemas.TopicCounters
	m, err := adm.Metadata(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("asking where the brokers are: %w", err)
	}
	vertices := map[int32]int{} // of each broker in a rack that the tree knows
	for _, broker := range m.Brokers {
		if broker.Rack == nil {
			continue
		}
		if vertex, ok := b.tree.Rack(*broker.Rack); ok {
			vertices[broker.NodeID] = vertex
		}
	}
	places := make([]int, b.cfg.Collectors)
	for c := range places {
		places[c] = assign.None
		replicas := m.Topics[topic].Partitions[int32(c)].Replicas
		if len(replicas) == 0 {
			continue
		}
		if vertex, ok := vertices[replicas[0]]; ok {
			places[c] = vertex
		}
	}
	return assign.NewLayout(b.tree, b.cfg.Collectors, places), nil
}
