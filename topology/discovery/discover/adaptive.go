package discover

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// AdaptiveOptions contains knowledge and limits of the caller. The zero value suits a caller without either.
type AdaptiveOptions struct {
	Seed   uint64  // of random choices: the same answers to the same seed make the same questions
	TickUs float64 // step of the clock in a latency, in microseconds; 0: unknown
	Most   int     // measurements at most; 0, or more than there are pairs: as many as there are pairs
}

// Adaptive returns the tree behind latencies that it asks for in rounds. It measures few pairs of each node.
//
// A set of nodes is divided top down. Random pairs of the set show its levels of latency. The highest level belongs to
// the switch at the top. Nodes with a lower latency between them are under a common switch further down. All nodes look
// for their group at the same time. Each is measured with a random member of its most probable group, until the
// likelihood ratio accepts the group or rejects all groups. Random pairs inside the groups verify them. They show the
// levels of the next sets.
//
// It returns an error only if the context ends or the Measurer fails. Every other problem lowers the confidence.
func Adaptive(ctx context.Context, m latency.Measurer, o AdaptiveOptions) (Result, error) {
	n := len(m.Names())
	if n < 2 {
		return Result{}, errFew
	}
	all := n * (n - 1) / 2
	if o.Most <= 0 || o.Most > all {
		o.Most = all
	}
	a := &adaptive{
		measurer: m, most: o.Most, tickUs: o.TickUs, rng: rand.New(rand.NewPCG(o.Seed, 18)),
		samples: make([][]sample, n), group: make([]int, n), busy: make([]int, n), repeats: 1,
		set: make([]*part, n), seeking: make([]*seeker, n),
	}
	if err := a.run(ctx); err != nil {
		return Result{}, err
	}
	return a.result(), nil
}

// sample is a measurement of a node.
type sample struct {
	with int     // the other node
	ln   float64 // of the latency in microseconds
}

// adaptive is the state of a measurement.
type adaptive struct {
	measurer latency.Measurer
	most     int
	tickUs   float64
	rng      *rand.Rand
	repeats  int // measurements of a pair, of which the lowest counts

	measured, rounds int
	samples          [][]sample // by node
	set              []*part    // of each node: the one that is being divided
	group            []int      // of each node in its set, -1 if none yet
	seeking          []*seeker  // by node; nil if it is none
	busy             []int      // the last round of each node
	silent           []int      // nodes that never answered
	root             *part
	reasons          []string
	limited          bool // the most measurements were made
	doubtful         int  // nodes that fit no place well
	faint            int  // sets with levels or groups that the latencies do not show well
}

// part is a switch of the result, with its subtree.
type part struct {
	nodes    []int // all below, in any order
	children []*part
	direct   []int   // nodes that are linked with this switch
	margin   float64 // nats by which the latencies inside it show it
	top      levels  // of the latencies between its nodes
}

// question is a task that asks for rounds, one at a time.
type question struct {
	next    func() ([]latency.Pair, bool)
	stop    func()
	asked   []latency.Pair
	answers []float64
	then    []*part // to divide afterwards
}

// asking returns the answers to a task's pairs: ln(latency) of each pair, NaN if it is missing. It returns false if the
// task must end.
type asking func(round []latency.Pair) ([]float64, bool)

func newQuestion(task func(asking) []*part) *question {
	q := &question{}
	q.next, q.stop = iter.Pull(func(yield func([]latency.Pair) bool) {
		q.then = task(func(round []latency.Pair) ([]float64, bool) {
			if len(round) == 0 {
				return nil, true
			}
			if !yield(round) {
				return nil, false
			}
			return q.answers, q.answers != nil
		})
	})
	return q
}

// run divides sets until each has a single level. Sets are disjoint, so their rounds are measured together.
func (a *adaptive) run(ctx context.Context) error {
	var questions []*question
	defer func() {
		for _, q := range questions {
			q.stop()
		}
	}()
	questions = append(questions, newQuestion(a.begin))
	for len(questions) > 0 {
		var round []latency.Pair
		var left []*question
		for i := 0; i < len(questions); i++ {
			q := questions[i]
			asked, more := q.next()
			if more {
				q.asked = asked
				round = append(round, asked...)
				left = append(left, q)
				continue
			}
			for _, p := range q.then {
				questions = append(questions, newQuestion(func(ask asking) []*part { return a.divide(p, ask) }))
			}
		}
		questions = left
		if len(round) == 0 {
			continue
		}
		answers, err := a.measure(ctx, round)
		if err != nil {
			return err
		}
		for _, q := range questions {
			q.answers = nil
			if answers != nil {
				q.answers, answers = answers[:len(q.asked)], answers[len(q.asked):]
			}
		}
	}
	return nil
}

// measure measures a round. It returns no answers if there would be too many measurements.
func (a *adaptive) measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	if a.measured+len(round)*a.repeats > a.most {
		a.limited = true
		return nil, nil
	}
	us := make([]float64, len(round))
	for i := range us {
		us[i] = math.NaN()
	}
	for range a.repeats {
		again, err := a.measurer.Measure(ctx, round)
		if err != nil {
			return nil, err
		}
		for i := range us {
			if !(us[i] <= again[i]) && again[i] > 0 && !math.IsInf(again[i], 0) {
				us[i] = again[i]
			}
		}
		a.measured += len(round)
		a.rounds++
	}
	for i, p := range round {
		us[i] = a.ln(us[i])
		if !math.IsNaN(us[i]) {
			a.samples[p.A] = append(a.samples[p.A], sample{p.B, us[i]})
			a.samples[p.B] = append(a.samples[p.B], sample{p.A, us[i]})
		}
	}
	return us, nil
}

// ln returns the logarithm of a latency. A latency of a coarse clock is spread over the step of the clock. Without
// that, each step would look like a level.
func (a *adaptive) ln(us float64) float64 {
	if a.tickUs > 0 {
		us = max(us+(a.rng.Float64()-.5)*a.tickUs, us/4)
	}
	return math.Log(us)
}

// Rounds of random pairs that show the levels of a set, and in a set up to which all pairs are measured.
const (
	levelRounds = 8
	smallSet    = 12
)

// begin measures random pairs of all nodes, and leaves out nodes that never answered.
func (a *adaptive) begin(ask asking) []*part {
	nodes := make([]int, len(a.samples))
	for i := range nodes {
		nodes[i] = i
	}
	a.root = &part{nodes: nodes}
	if !a.sampleInside([][]int{nodes}, ask) {
		return nil
	}
	again := a.tickUs == 0
	if again {
		a.tickUs = a.guessTick()
		again = a.tickUs > 0
	}
	values := a.inside(nodes)
	if len(values) == 0 {
		a.silent, a.root.nodes = nodes, nil
		return nil
	}
	l := fitLevels(values, a.floor(values))
	switch {
	case len(values) < 100: // too few to know
	case l.outlier > .12:
		a.repeats = 3
	case l.outlier > .04:
		a.repeats = 2
	}
	if a.repeats > 1 || again {
		clear(a.samples)
		if !a.sampleInside([][]int{nodes}, ask) {
			return nil
		}
	}
	a.root.nodes = nil
	for _, v := range nodes {
		if len(a.samples[v]) == 0 {
			a.silent = append(a.silent, v)
			continue
		}
		a.root.nodes = append(a.root.nodes, v)
	}
	if len(a.root.nodes) == 0 {
		return nil
	}
	return []*part{a.root}
}

// guessTick returns the step of the clock if latencies repeat often, in microseconds; 0 if they do not.
func (a *adaptive) guessTick() float64 {
	var us []float64
	for v, samples := range a.samples {
		for _, s := range samples {
			if v < s.with {
				us = append(us, math.Exp(s.ln))
			}
		}
	}
	slices.Sort(us)
	var steps []float64
	for i := 1; i < len(us); i++ {
		if us[i]-us[i-1] > 1e-9*us[i] {
			steps = append(steps, us[i]-us[i-1])
		}
	}
	if len(us) < 16 || len(steps) == 0 || 4*len(steps) > len(us) {
		return 0
	}
	slices.Sort(steps)
	return steps[len(steps)/4]
}

// floor returns the least standard deviation of ln(latency). The step of the clock causes it in the shorter latencies.
func (a *adaptive) floor(values []float64) float64 {
	if a.tickUs <= 0 {
		return 1e-3
	}
	sorted := slices.Sorted(slices.Values(values))
	return max(1e-3, a.tickUs/math.Exp(sorted[len(sorted)/20])/math.Sqrt(12))
}

// divide finds the groups of a set, and returns the groups that may contain groups themselves.
func (a *adaptive) divide(p *part, ask asking) []*part {
	p.direct = p.nodes
	values := a.inside(p.nodes)
	if len(values) == 0 {
		return nil
	}
	p.top = fitLevels(values, a.floor(values))
	for _, v := range p.nodes {
		a.set[v] = p
	}
	if p.top.faint && len(p.nodes) > smallSet { // small sets are measured whole
		a.faint++
	}
	if len(p.nodes) < 3 {
		return nil
	}
	for first := len(p.top.centres) - 1; first > 0; first-- {
		g := newGrouping(a, p, first)
		if !g.run(ask) {
			return nil
		}
		if !g.found() {
			continue
		}
		p.direct = nil
		var next []*part
		for _, group := range g.groups {
			if len(group) == 0 {
				continue
			}
			faint := g.margin(group) < groupMargin
			if len(group) > 1 && faint {
				a.faint++
			}
			if len(group) == 1 || faint {
				p.direct = append(p.direct, group...)
				continue
			}
			child := &part{nodes: group, margin: g.margin(group)}
			p.children = append(p.children, child)
			next = append(next, child)
		}
		return next
	}
	if len(p.top.centres) > 1 {
		a.reasons = append(a.reasons, fmt.Sprintf("%d levels of latency between %d nodes form no groups: "+
			"this may be no tree, measure all pairs", len(p.top.centres), len(p.nodes)))
	}
	return nil
}

// groupMargin is how many nats the latencies inside a group must show.
const groupMargin = 15
