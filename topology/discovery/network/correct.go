package network

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// Message is the message that measured a latency. The regression first subtracts its transmission time, by the
// throughput of the links. A link of unknown throughput takes none.
type Message struct {
	Bytes           float64
	StoreAndForward bool // each link sends it again; otherwise the slowest link counts alone
}

// Correction is a network with the latencies of a regression, and how well they explain the matrix.
type Correction struct {
	Network      *Network
	Pairs        int     // in the regression
	Ambiguous    int     // pairs that are left out, since several paths are about as short
	R2           float64 // share of the variance of the latencies that the links explain
	AdjustedR2   float64 // less the share that so many links explain of any data
	RelativeRMS  float64 // of the difference, as a share of the latency
	Undetermined []int   // links of which the pairs give no single latency
	Iterations   int
}

// Correct returns the network with the latencies of links that explain the pairs' latencies best, by ordinary least
// squares. If the solution is not unique, as for two links in a row, it takes the latencies with the least sum of
// squares. R² does not distinguish a right network from a wrong one: a network of links between all nodes always has 1.
// Compare RelativeRMS with the noise. TestCorrectAsQR pins the solution, TestCorrectWestmere R² and RelativeRMS.
func Correct(n *Network, m *latency.Matrix, message Message) (*Correction, error) {
	r, err := newRegression(n, m, message)
	if err != nil {
		return nil, err
	}
	x, iterations, err := r.solve()
	if err != nil {
		return nil, err
	}
	c := &Correction{Network: n.copy(), Iterations: iterations, Ambiguous: r.ambiguous}
	c.Network.nameSwitches()
	for i := range n.Links {
		c.Network.Links[i].LatencyUs = x[i]
	}
	if r.withBase {
		c.Network.BaseUs = x[len(n.Links)]
	}
	r.judge(c, x)
	c.Undetermined, err = r.undetermined()
	return c, err
}

// copy returns a network with links of its own, which can be changed.
func (n *Network) copy() *Network {
	other := *n
	other.Names = append([]string(nil), n.Names...)
	other.Links = append([]Link(nil), n.Links...)
	return &other
}

// regression is a system of equations: the latencies of the links on the path between two nodes add up to the latency
// of the pair.
type regression struct {
	net      *Network
	m        *latency.Matrix
	at       []int // the number of each node in the matrix
	paths    paths
	message  Message
	withBase bool // the last unknown is the base of all pairs

	ambiguous int
}

// paths are the ways between the nodes of a network.
type paths interface {
	// unique reports whether one path between two nodes, a below b, is shorter than others.
	unique(a, b int) bool

	// links returns the links of the path between two nodes, a below b. They are valid until the next call.
	links(a, b int) []int
}

func newRegression(n *Network, m *latency.Matrix, message Message) (*regression, error) {
	if !(message.Bytes >= 0) || math.IsInf(message.Bytes, 0) {
		return nil, fmt.Errorf("a message of %v bytes: it must have 0 or more", message.Bytes)
	}
	r := &regression{net: n, m: m, message: message, at: make([]int, n.Nodes)}
	numbers := make(map[string]int, m.Len())
	for i, name := range m.Names() {
		numbers[name] = i
	}
	for v, name := range n.Names[:n.Nodes] {
		i, known := numbers[name]
		if !known {
			return nil, fmt.Errorf("node %s of the network is not in the matrix", name)
		}
		r.at[v] = i
	}
	if m.Len() != n.Nodes {
		return nil, fmt.Errorf("the matrix has %d nodes and the network %d: they must be the same", m.Len(), n.Nodes)
	}
	if len(n.Links) == 0 {
		return nil, errors.New("the network has no links")
	}
	if n.IsTree() {
		r.paths = newTreePaths(n)
	} else {
		p, err := newGraphPaths(n)
		if err != nil {
			return nil, err
		}
		r.paths, r.withBase = p, n.BaseUs > 0
	}
	return r, r.check()
}

// check looks at each pair once before the work.
func (r *regression) check() error {
	count := 0
	for a := range r.net.Nodes {
		for b := a + 1; b < r.net.Nodes; b++ {
			us := r.m.At(r.at[a], r.at[b])
			switch {
			case math.IsNaN(us):
				continue
			case !r.paths.unique(a, b):
				r.ambiguous++
				continue
			}
			count++
			if own := r.messageUs(a, b); own >= us {
				return fmt.Errorf("between %s and %s the message alone takes %.4g us of %.4g us: give the bytes that "+
					"were sent when the latencies were measured", r.net.Names[a], r.net.Names[b], own, us)
			}
		}
	}
	if count == 0 {
		return errors.New("no latency is measured between nodes with one shortest path")
	}
	return nil
}

// messageUs is the time of the message itself between two nodes. One MB/s is one byte a microsecond. Formulas of Bufe,
// section 2.4; TestCorrectMessage pins them.
func (r *regression) messageUs(a, b int) float64 {
	if r.message.Bytes == 0 {
		return 0
	}
	slowest, sum := 0., 0.
	for _, link := range r.paths.links(a, b) {
		if t := r.net.Links[link].Throughput; t > 0 { // false for NaN
			slowest = max(slowest, r.message.Bytes/t)
			sum += r.message.Bytes / t
		}
	}
	if r.message.StoreAndForward {
		return sum
	}
	return slowest
}

// each visits the equations.
func (r *regression) each(visit func(a, b int, us float64)) {
	for a := range r.net.Nodes {
		for b := a + 1; b < r.net.Nodes; b++ {
			if us := r.m.At(r.at[a], r.at[b]); !math.IsNaN(us) && r.paths.unique(a, b) {
				visit(a, b, us-r.messageUs(a, b))
			}
		}
	}
}

// unknowns is how many values are looked for.
func (r *regression) unknowns() int {
	if r.withBase {
		return len(r.net.Links) + 1
	}
	return len(r.net.Links)
}

// predict returns the latency of a pair by the unknowns.
func (r *regression) predict(x []float64, a, b int) float64 {
	sum := 0.
	for _, link := range r.paths.links(a, b) {
		sum += x[link]
	}
	if r.withBase {
		sum += x[len(x)-1]
	}
	return sum
}

// add adds a value to all unknowns of a pair.
func (r *regression) add(to []float64, a, b int, value float64) {
	for _, link := range r.paths.links(a, b) {
		to[link] += value
	}
	if r.withBase {
		to[len(to)-1] += value
	}
}

// normal applies the matrix of the normal equations. It is never made.
func (r *regression) normal() func(out, x []float64) {
	direct := func(out, x []float64) {
		clear(out)
		r.each(func(a, b int, _ float64) { r.add(out, a, b, r.predict(x, a, b)) })
	}
	t, isTree := r.paths.(*treePaths)
	if !isTree {
		return direct
	}
	var missing [][2]int
	for a := range r.net.Nodes {
		for b := a + 1; b < r.net.Nodes; b++ {
			if math.IsNaN(r.m.At(r.at[a], r.at[b])) {
				missing = append(missing, [2]int{a, b})
			}
		}
	}
	if len(missing) > r.net.Nodes*(r.net.Nodes-1)/4 {
		return direct
	}
	return func(out, x []float64) {
		t.normal(out, x)
		for _, p := range missing {
			r.add(out, p[0], p[1], -r.predict(x, p[0], p[1]))
		}
	}
}

// solve returns the unknowns of the least squares.
func (r *regression) solve() (x []float64, iterations int, err error) {
	right := make([]float64, r.unknowns())
	r.each(func(a, b int, us float64) { r.add(right, a, b, us) })
	return conjugate(r.normal(), right)
}

// undetermined returns the links that the equations leave open. It draws latencies at random, and solves for them from
// their own sums. Links that the equations determine get their latencies back.
func (r *regression) undetermined() ([]int, error) {
	drawn, sums := make([]float64, r.unknowns()), make([]float64, r.unknowns())
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range drawn {
		drawn[i] = 1 + rnd.Float64()
	}
	apply := r.normal()
	apply(sums, drawn)
	back, _, err := conjugate(apply, sums)
	if err != nil {
		return nil, err
	}
	var open []int
	for i := range r.net.Links {
		if math.Abs(back[i]-drawn[i]) > 1e-6 {
			open = append(open, i)
		}
	}
	return open, nil
}

// judge fills in how well the unknowns explain the latencies.
func (r *regression) judge(c *Correction, x []float64) {
	sum, squares, residual, relative := 0., 0., 0., 0.
	r.each(func(_, _ int, us float64) {
		c.Pairs++
		sum += us
	})
	mean := sum / float64(c.Pairs)
	r.each(func(a, b int, us float64) {
		d := us - r.predict(x, a, b)
		residual += d * d
		relative += d * d / (us * us)
		squares += (us - mean) * (us - mean)
	})
	n, unknown := float64(c.Pairs), float64(r.unknowns())
	c.R2, c.AdjustedR2 = math.NaN(), math.NaN()
	if squares > 0 {
		c.R2 = 1 - residual/squares
	}
	if n > unknown { // the links add up to a constant, so it is no further unknown
		c.AdjustedR2 = 1 - (1-c.R2)*(n-1)/(n-unknown)
	}
	c.RelativeRMS = math.Sqrt(relative / n)
}

// errUnsolved is returned if rounding keeps the iteration from the solution.
var errUnsolved = errors.New("the regression does not converge: the latencies span too many orders of magnitude")

// conjugate solves a symmetric system without negative eigenvalues by conjugate gradients. Begun at zero, it comes to
// the solution with the least sum of squares.
func conjugate(apply func(out, x []float64), right []float64) (x []float64, iterations int, err error) {
	const small = 1e-13
	x = make([]float64, len(right))
	r := append([]float64(nil), right...)
	p, q := append([]float64(nil), right...), make([]float64, len(right))
	rr := dot(r, r)
	goal := small * small * rr
	limit := 10*len(right) + 100
	for iterations = 0; rr > goal && iterations < limit; iterations++ {
		apply(q, p)
		pq := dot(p, q)
		if !(pq > 0) {
			break
		}
		alpha := rr / pq
		for i := range x {
			x[i] += alpha * p[i]
			r[i] -= alpha * q[i]
		}
		before := rr
		rr = dot(r, r)
		for i := range p {
			p[i] = r[i] + rr/before*p[i]
		}
	}
	if apply(q, x); distance2(q, right) > 1e-16*dot(right, right) || math.IsNaN(rr) {
		return nil, iterations, errUnsolved
	}
	return x, iterations, nil
}

func dot(a, b []float64) float64 {
	sum := 0.
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func distance2(a, b []float64) float64 {
	sum := 0.
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return sum
}
