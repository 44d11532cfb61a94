package simulated

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/schedule"
)

// Noise is how a measured latency differs from the network's. The zero value is none.
type Noise struct {
	Sigma      float64   // standard deviation of ln(latency)
	Outliers   float64   // share of measurements that take up to five times as long
	AdditiveUs float64   // standard deviation of an error in microseconds
	OffsetsUs  float64   // each node adds up to this to its latencies, in microseconds, always the same
	TickUs     float64   // latencies are multiples of it, in microseconds
	Bursts     float64   // share of the rounds in which all takes up to 80 % longer
	Missing    float64   // share of the measurements that fail
	Dead       []int     // nodes that never answer
	Slow       []Episode // nodes that are slow for a time
}

// Episode is a node that is slow in the rounds From to To-1, counted from 0.
type Episode struct {
	Node, From, To int
	Factor         float64 // its latencies are multiplied by this
}

// Cluster is a made-up network that can be measured. It counts the measurements. It is not safe for concurrent use.
type Cluster struct {
	network  *network.Network
	noise    Noise
	lengths  lengths
	offsets  []float64
	dead     []bool
	draw     *rand.Rand
	rounds   int
	measured []int
}

// Measurer returns a network that is measured with noise. Each measurement is drawn anew. The same calls with the same
// seed return the same latencies.
func Measurer(n *network.Network, noise Noise, seed uint64) *Cluster {
	c := &Cluster{
		network: n, noise: noise, lengths: lengthsOf(n), draw: rand.New(rand.NewPCG(seed, 7)),
		offsets: make([]float64, n.Nodes), dead: make([]bool, n.Nodes), measured: make([]int, n.Nodes),
	}
	for i := range c.offsets {
		c.offsets[i] = noise.OffsetsUs * c.draw.Float64()
	}
	for _, node := range noise.Dead {
		c.dead[node] = true
	}
	return c
}

// Matrix measures each pair of a network once. Without bursts and episodes no latency depends on the order.
func Matrix(n *network.Network, noise Noise, seed uint64) *latency.Matrix {
	c := Measurer(n, noise, seed)
	m := latency.New(c.Names())
	m.TickUs = noise.TickUs
	if noise.Bursts == 0 && len(noise.Slow) == 0 {
		for a := range n.Nodes {
			for b := a + 1; b < n.Nodes; b++ {
				m.Set(a, b, c.one(latency.Pair{A: a, B: b}, 1))
			}
		}
		return m
	}
	for _, round := range schedule.Tournament(n.Nodes) {
		for i, us := range c.measure(round) {
			m.Set(round[i].A, round[i].B, us)
		}
	}
	return m
}

// Names returns the names of the nodes.
func (c *Cluster) Names() []string { return c.network.Names[:c.network.Nodes] }

// Network returns the network that is measured.
func (c *Cluster) Network() *network.Network { return c.network }

// Rounds returns how many rounds were measured.
func (c *Cluster) Rounds() int { return c.rounds }

// Measured returns how often each node was in a measured pair.
func (c *Cluster) Measured() []int { return c.measured }

// Measure implements latency.Measurer.
func (c *Cluster) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.measure(round), nil
}

func (c *Cluster) measure(round []latency.Pair) []float64 {
	slower := 1.0
	if c.noise.Bursts > 0 && c.draw.Float64() < c.noise.Bursts {
		slower += .8 * c.draw.Float64()
	}
	values := make([]float64, len(round))
	for i, p := range round {
		c.measured[p.A]++
		c.measured[p.B]++
		values[i] = c.one(p, slower*c.episodes(p))
	}
	c.rounds++
	return values
}

// episodes returns how much slower a pair is in this round.
func (c *Cluster) episodes(p latency.Pair) float64 {
	slower := 1.0
	for _, e := range c.noise.Slow {
		if (e.Node == p.A || e.Node == p.B) && c.rounds >= e.From && c.rounds < e.To {
			slower *= e.Factor
		}
	}
	return slower
}

// one measures one pair.
func (c *Cluster) one(p latency.Pair, slower float64) float64 {
	failed := c.noise.Missing > 0 && c.draw.Float64() < c.noise.Missing
	if failed || c.dead[p.A] || c.dead[p.B] {
		return math.NaN()
	}
	truth := c.lengths.between(p.A, p.B) + c.offsets[p.A] + c.offsets[p.B]
	us := truth * slower
	if c.noise.Sigma > 0 {
		us *= math.Exp(c.noise.Sigma * c.draw.NormFloat64())
	}
	if c.noise.Outliers > 0 && c.draw.Float64() < c.noise.Outliers {
		us *= 1 + 4*c.draw.Float64()
	}
	if c.noise.AdditiveUs > 0 {
		us = max(us+c.noise.AdditiveUs*c.draw.NormFloat64(), truth/100) // a latency is above zero
	}
	if c.noise.TickUs > 0 {
		us = c.noise.TickUs * max(1, math.Round(us/c.noise.TickUs))
	}
	return us
}
