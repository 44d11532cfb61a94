package measure

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/discover"
	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// liar is a Measurer with a node that makes its latencies up.
type liar struct {
	latency.Measurer
	who int
	lie func(us float64, p latency.Pair) float64
}

func (l liar) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	us, err := l.Measurer.Measure(ctx, round)
	for i, p := range round {
		if p.A == l.who || p.B == l.who {
			us[i] = l.lie(us[i], p)
		}
	}
	return us, err
}

// TestLiarShows: latencies that one node makes up leave the switches of all others as they are. Otherwise the
// confidence is low, and its reasons name the node.
func TestLiarShows(t *testing.T) {
	for name, lie := range map[string]func(float64, latency.Pair) float64{
		"low":    func(float64, latency.Pair) float64 { return .001 },
		"high":   func(float64, latency.Pair) float64 { return 1e6 },
		"random": func(us float64, p latency.Pair) float64 { return us * math.Exp(float64((p.A*7+p.B*13)%11)-5) },
		"near":   func(us float64, _ latency.Pair) float64 { return us / 2 },
	} {
		for _, who := range []int{0, 9} {
			truth := simulated.Tree([]int{4, 4, 8})
			cluster := simulated.Measurer(truth, simulated.Noise{Sigma: .03}, 1)
			c := Campaign{Measurer: liar{cluster, who, lie}, Method: MethodAll, Passes: 1}
			out, err := c.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found, sure := out.Result.Network, out.Result.Confidence
			named := strings.Contains(strings.Join(sure.Reasons, "; "), cluster.Names()[who])
			if !othersAlike(truth, found, who) && (sure.Level != discover.Low || !named) {
				t.Errorf("%s of node %d: %d switches, confidence %v", name, who, len(found.Names)-found.Nodes, sure)
			}
		}
	}
}

// othersAlike reports whether two networks put the same nodes together, but for one.
func othersAlike(a, b *network.Network, but int) bool {
	groups := func(n *network.Network) map[string]bool {
		at := map[int][]string{}
		for _, l := range n.Links {
			node, other := min(l.A, l.B), max(l.A, l.B)
			if node < n.Nodes && node != but && other >= n.Nodes {
				at[other] = append(at[other], n.Names[node])
			}
		}
		all := map[string]bool{}
		for _, members := range at {
			slices.Sort(members)
			all[strings.Join(members, " ")] = true
		}
		return all
	}
	x, y := groups(a), groups(b)
	for members := range x {
		if !y[members] {
			return false
		}
	}
	return len(x) == len(y)
}
