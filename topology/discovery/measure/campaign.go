package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/topology/discovery/discover"
	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/schedule"
)

// Methods of a campaign.
const (
	MethodAll      = "all"      // each pair of nodes, several times
	MethodAdaptive = "adaptive" // few pairs of each node, chosen by the latencies so far; finds trees only
)

// Most nodes for which MethodAll is the default, and of a campaign. The matrix of 20,000 nodes takes 1.6 GB.
const (
	allNodes  = 500
	mostNodes = 20_000
)

// DefaultPasses is how often MethodAll measures each pair. The lowest latency counts. A disturbance of minutes spoils
// one pass.
const DefaultPasses = 3

// Campaign measures the latencies between nodes, and finds the network behind them.
type Campaign struct {
	Measurer latency.Measurer
	Journal  string // file that keeps each latency, so that a killed campaign goes on; "": none
	Method   string // MethodAll or MethodAdaptive; "": all pairs up to 500 nodes, adaptive above

	Passes     int    // how often each pair is measured; 0: DefaultPasses, once with MethodAdaptive
	Sequential bool   // one pair at a time: nothing else runs in the network, but it takes n/2 times as long
	Seed       uint64 // of the random choices of MethodAdaptive
	Budget     Budget

	// Progress is called after each round, if it is set. It is called by the goroutine of Run.
	Progress func(Progress)
}

// Progress is how far a campaign is.
type Progress struct {
	Phase    string        `json:"phase"`      // "pass 1 of 3", "adaptive" or "suspects"
	Rounds   int           `json:"rounds"`     // measured or replayed so far
	Pairs    int           `json:"pairs"`      // measured or replayed so far, repeats too
	Replayed int           `json:"replayed"`   // pairs of Pairs that the journal answered
	Lost     int           `json:"lost"`       // pairs of Pairs without a latency: a node did not answer
	Of       int           `json:"of"`         // pairs that the phases before the suspects measure; 0: unknown
	Elapsed  time.Duration `json:"elapsed_ns"` // since Run began
}

// Outcome is the result of a campaign.
type Outcome struct {
	Matrix *latency.Matrix // the lowest of each pair's latencies; pairs not measured are NaN
	Result discover.Result
	Progress
	Method   string
	Spent    Spent
	Warnings []string // disturbances of the campaign
}

// Warned is a Measurer that refuses nodes, or gives them up.
type Warned interface {
	// Warnings returns which nodes, and why.
	Warnings() []string
}

var errOneNode = errors.New("at least two nodes are needed")

// Run measures until the network is known. It returns the context's error if that ends it; with a journal, a second
// Run goes on from there.
func (c *Campaign) Run(ctx context.Context) (*Outcome, error) {
	names := c.Measurer.Names()
	r, err := c.begin(names)
	if err != nil {
		return nil, err
	}
	out, err := c.run(ctx, r)
	if r.journal != nil {
		err = errors.Join(err, r.journal.close())
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// begin checks the campaign's settings, and opens the journal.
func (c *Campaign) begin(names []string) (*recorder, error) {
	n := len(names)
	r := &recorder{
		campaign: c, silent: make([]int, n), sent: make([]int, n), began: time.Now(),
	}
	switch {
	case n < 2:
		return nil, errOneNode
	case n > mostNodes:
		return nil, fmt.Errorf("%d nodes are more than %d: measure one node of each chassis", n, mostNodes)
	case !slices.Contains([]string{"", MethodAll, MethodAdaptive}, c.Method):
		return nil, fmt.Errorf("method %.40q must be %s or %s", c.Method, MethodAll, MethodAdaptive)
	case c.Passes < 0:
		return nil, fmt.Errorf("%d passes must be at least 1", c.Passes)
	}
	if err := c.Budget.check(r.packets()); err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == "" || len(name) > longestLine/4 || strings.ContainsAny(name, ",\n\r") {
			return nil, fmt.Errorf("node %.80q needs a name without commas and line breaks", name)
		}
	}
	r.lowest = latency.New(names)
	if c.Journal == "" {
		return r, nil
	}
	var err error
	r.journal, err = openJournal(c.Journal, names)
	return r, err
}

// run measures by the campaign's method.
func (c *Campaign) run(ctx context.Context, r *recorder) (*Outcome, error) {
	n := len(r.silent)
	method := c.Method
	if method == "" {
		method = MethodAll
		if n > allNodes {
			method = MethodAdaptive
		}
	}
	run := c.all
	if method == MethodAdaptive {
		run = c.adaptive
	}
	out, err := run(ctx, r)
	if err != nil {
		return nil, err
	}
	out.Method, out.Progress, out.Spent = method, r.reached, r.spent()
	out.Warnings = r.warnings()
	if w, is := c.Measurer.(Warned); is {
		out.Warnings = append(out.Warnings, w.Warnings()...)
	}
	return out, nil
}

// all measures each pair in each pass, and then repeats the pairs that do not fit.
func (c *Campaign) all(ctx context.Context, r *recorder) (*Outcome, error) {
	passes := c.Passes
	if passes == 0 {
		passes = DefaultPasses
	}
	n := len(r.silent)
	rounds := schedule.Tournament(n)
	r.reached.Of = passes * n * (n - 1) / 2
	for r.pass = 1; r.pass <= passes; r.pass++ {
		r.reached.Phase = fmt.Sprintf("pass %d of %d", r.pass, passes)
		for _, round := range rounds {
			if _, err := r.Measure(ctx, round); err != nil {
				return nil, err
			}
		}
	}
	m, err := r.matrix()
	if err != nil {
		return nil, err
	}
	r.reached.Phase = "suspects"
	some, part := r.answering(m)
	result, err := discover.Loop(ctx, some, part)
	if err != nil {
		return nil, err
	}
	if lost := n - len(some.nodes); lost > 0 {
		result.Confidence.Level = discover.Low
		result.Confidence.Reasons = append(result.Confidence.Reasons,
			fmt.Sprintf("%d nodes did not answer and are not in the network", lost))
	}
	return &Outcome{Matrix: m, Result: result}, nil
}

// adaptive lets the method choose the pairs.
func (c *Campaign) adaptive(ctx context.Context, r *recorder) (*Outcome, error) {
	n := len(r.silent)
	r.reached.Phase, r.pass = "adaptive", 1
	o := discover.AdaptiveOptions{Seed: c.Seed, TickUs: r.tickUs(), Most: n * (n - 1) / 2}
	result, err := discover.Adaptive(ctx, lowestOf{r, max(1, c.Passes)}, o)
	if err != nil {
		return nil, err
	}
	m, err := r.matrix()
	return &Outcome{Matrix: m, Result: result}, err
}

// lowestOf measures each round several times, and takes the lowest latency of each pair.
type lowestOf struct {
	*recorder
	times int
}

// Measure measures a round.
func (l lowestOf) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	var lowest []float64
	for l.pass = 1; l.pass <= l.times; l.pass++ {
		us, err := l.recorder.Measure(ctx, round)
		if err != nil {
			return nil, err
		}
		if lowest == nil {
			lowest = us
			continue
		}
		for i := range us {
			if us[i] < lowest[i] || math.IsNaN(lowest[i]) {
				lowest[i] = us[i]
			}
		}
	}
	return lowest, nil
}

// subset is a Measurer of some of the nodes of another.
type subset struct {
	*recorder
	nodes []int // of the other
	names []string
}

// Names returns the names of the subset.
func (s *subset) Names() []string { return s.names }

// Measure measures a round of pairs of the subset.
func (s *subset) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	whole := make([]latency.Pair, len(round))
	for i, p := range round {
		whole[i] = latency.Pair{A: s.nodes[p.A], B: s.nodes[p.B]} // nodes ascend
	}
	return s.recorder.Measure(ctx, whole)
}

// answering returns the nodes that have a latency, and the matrix of them.
func (r *recorder) answering(m *latency.Matrix) (*subset, *latency.Matrix) {
	s := &subset{recorder: r}
	for v, name := range m.Names() {
		for w := range m.Len() {
			if w != v && !math.IsNaN(m.At(v, w)) {
				s.nodes, s.names = append(s.nodes, v), append(s.names, name)
				break
			}
		}
	}
	part := latency.New(s.names)
	part.TickUs, part.Noise = m.TickUs, m.Noise
	for i, v := range s.nodes {
		for j, w := range s.nodes[:i] {
			part.Set(i, j, m.At(v, w))
		}
	}
	return s, part
}
