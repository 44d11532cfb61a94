package study

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/discovery/discover"
	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/schedule"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// epsilons are tried for the thesis's method. The best of them is chosen by the truth, which a user does not have.
var epsilons = []float64{.05, .1, .2, .3}

// literalSeeds of a goal are enough to show what the thesis's method does.
const literalSeeds = 3

// study collects rows.
type study struct {
	t      *testing.T
	rows   []row
	missed []string

	mu                            sync.Mutex
	exactHigh, exactLow           int
	wrongHigh, wrongLow, declined int
}

// row is one line of the first table.
type row struct{ what, goal, got, literal, time string }

// tally is how often something was exact.
type tally struct {
	exact, of int
	seconds   float64
}

func (t tally) share() float64 { return float64(t.exact) / float64(max(1, t.of)) }

func (t tally) String() string { return fmt.Sprintf("%d of %d", t.exact, t.of) }

// each runs seeds at the same time, on all processors. It returns how many were right, and the mean time of one.
func each(seeds int, right func(seed uint64) (bool, time.Duration)) tally {
	var mu sync.Mutex
	var wait sync.WaitGroup
	all := tally{of: seeds}
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for seed := 1; seed <= seeds; seed++ {
		free <- struct{}{}
		wait.Go(func() {
			ok, took := right(uint64(seed))
			mu.Lock()
			if ok {
				all.exact++
			}
			all.seconds += took.Seconds() / float64(seeds)
			mu.Unlock()
			<-free
		})
	}
	wait.Wait()
	return all
}

// goal measures one goal.
func (s *study) goal(g goal, seeds int) {
	s.t.Helper()
	ours := each(seeds, func(seed uint64) (bool, time.Duration) { return s.found(g, seed) })
	r := row{
		what: g.name, goal: fmt.Sprintf("%.3g %%", 100*g.need), got: ours.String(), literal: "not run",
		time: fmt.Sprintf("%.3g s", ours.seconds),
	}
	if g.literal {
		r.literal = literal(g.network, g.noise, min(seeds, literalSeeds))
	}
	s.row(r, ours.share() >= g.need)
}

// row takes a row, and whether its goal holds.
func (s *study) row(r row, holds bool) {
	s.t.Helper()
	s.rows = append(s.rows, r)
	s.t.Logf("%s: goal %s, ours %s (%s), the thesis's %s", r.what, r.goal, r.got, r.time, r.literal)
	if !holds {
		s.missed = append(s.missed, fmt.Sprintf("%s: %s, goal %s", r.what, r.got, r.goal))
	}
}

// found reports whether a network is found from one seed's latencies.
func (s *study) found(g goal, seed uint64) (bool, time.Duration) {
	n := g.network(seed)
	m := simulated.Matrix(n, g.noise, seed)
	began := time.Now()
	var result discover.Result
	var err error
	if g.loop {
		result, err = discover.Loop(s.t.Context(), simulated.Measurer(n, g.noise, seed+1_000_000), m)
	} else {
		result, err = discover.Build(m)
	}
	took := time.Since(began)
	exact := err == nil && network.Equal(result.Network, n)
	s.confidence(result, err, exact)
	return exact, took
}

// confidence counts how often the confidence was right.
func (s *study) confidence(r discover.Result, err error, exact bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch high := err == nil && r.Confidence.Level == discover.High; {
	case err != nil:
		s.declined++
	case exact && high:
		s.exactHigh++
	case exact:
		s.exactLow++
	case high:
		s.wrongHigh++
	default:
		s.wrongLow++
	}
}

// literal says how often the thesis's method is exact, with its usual epsilon and with the best one of several.
func literal(build func(uint64) *network.Network, noise simulated.Noise, seeds int) string {
	usual, best := literalTally(build, noise, seeds, discover.LiteralEpsilon), tally{}
	for _, epsilon := range epsilons {
		if epsilon == discover.LiteralEpsilon && usual.exact >= best.exact {
			best = usual
			continue
		}
		if t := literalTally(build, noise, seeds, epsilon); t.exact > best.exact {
			best = t
		}
		if best.exact == seeds {
			break
		}
	}
	return fmt.Sprintf("%s (best ε: %d)", usual, best.exact)
}

func literalTally(build func(uint64) *network.Network, noise simulated.Noise, seeds int, epsilon float64) tally {
	return each(seeds, func(seed uint64) (bool, time.Duration) {
		n := build(seed)
		r, err := discover.Literal(simulated.Matrix(n, noise, seed), epsilon)
		return err == nil && network.Equal(r.Network, n), 0
	})
}

// large measures ten thousand nodes adaptively.
func (s *study) large() {
	for i, noise := range []simulated.Noise{{Sigma: .02}, {Sigma: .10}} {
		seed := uint64(i + 1)
		n := simulated.Shuffled(simulated.Tree([]int{10, 25, 40}), seed)
		c := simulated.Measurer(n, noise, seed)
		before := cpu()
		result, err := discover.Adaptive(s.t.Context(), c, discover.AdaptiveOptions{Seed: seed})
		took, pairs, most := cpu()-before, 0, 0
		for _, many := range c.Measured() {
			pairs += many
			most = max(most, many)
		}
		each := float64(pairs) / 2 / float64(n.Nodes)
		exact := err == nil && network.Equal(result.Network, n)
		gigabytes := peak()
		s.confidence(result, err, exact)
		s.row(row{
			what: fmt.Sprintf("tree of 10 x 25 x 40, adaptive, σ %g", noise.Sigma),
			goal: "exact, ≤ 50 pairs a node, ≤ 8 s CPU, ≤ 2 GB",
			got: fmt.Sprintf("exact: %v, %.3g pairs a node, %d rounds, busiest node %d, %.2g GB", exact, each,
				c.Rounds(), most, gigabytes),
			literal: "not run", time: fmt.Sprintf("%.3g s CPU", took),
		}, exact && each <= 50 && took <= 8 && gigabytes <= 2)
	}
}

// cpu returns the processor time of the process in seconds.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return math.Inf(1)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// peak returns the greatest memory of the process in GB.
func peak() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return math.Inf(1)
	}
	return float64(usage.Maxrss) * 1024 / 1e9
}

// cases reads the thesis's tables and the made-up cases, which come with their networks.
func (s *study) cases() {
	s.t.Helper()
	files, err := filepath.Glob("../discover/testdata/cases/*.csv")
	if err != nil || len(files) == 0 {
		s.t.Fatalf("no cases: %v", err)
	}
	var wrong []string
	right, usual, best := 0, 0, 0
	for _, file := range files {
		m, err := latency.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		truth := expected(s.t, strings.TrimSuffix(file, ".csv"))
		r, err := discover.Build(m)
		if err == nil && network.Equal(r.Network, truth) {
			right++
		} else {
			wrong = append(wrong, strings.TrimSuffix(filepath.Base(file), ".csv"))
		}
		some := false
		for _, epsilon := range epsilons {
			r, err := discover.Literal(m, epsilon)
			ok := err == nil && network.Equal(r.Network, truth)
			some = some || ok
			if ok && epsilon == discover.LiteralEpsilon {
				usual++
			}
		}
		if some {
			best++
		}
	}
	got := fmt.Sprintf("%d of %d", right, len(files))
	if wrong != nil {
		got += ", not " + strings.Join(wrong, ", ")
	}
	s.row(row{
		what: "tables 2.1 to 3.5 of the thesis, and made-up cases", goal: "100 %", got: got,
		literal: fmt.Sprintf("%d of %d (best ε: %d)", usual, len(files), best), time: "-",
	}, wrong == nil)
}

// expected reads the network of a case.
func expected(t *testing.T, base string) *network.Network {
	t.Helper()
	for _, ending := range []string{".tree", ".edges"} {
		if _, err := os.Stat(base + ending); err == nil {
			n, err := network.ReadFile(base + ending)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no network", base)
	return nil
}

// regression measures the correction of latencies. TestCorrectAsQR holds it to dense QR.
func (s *study) regression() {
	n := simulated.Tree([]int{8, 8, 16})
	m := simulated.Matrix(n, simulated.Noise{Sigma: .02}, 1)
	best := math.Inf(1)
	for range 5 {
		began := time.Now()
		if _, err := network.Correct(n, m, network.Message{}); err != nil {
			s.t.Fatal(err)
		}
		best = min(best, time.Since(began).Seconds())
	}
	s.row(row{
		what: "regression of the latencies of 1,024 nodes", goal: "≤ 0.1 s", got: fmt.Sprintf("%.2g s", best),
		literal: "not possible", time: "-",
	}, best <= .1)
}

// limits shows what latencies cannot show, and the partition problem.
func (s *study) limits() {
	s.t.Helper()
	r, err := discover.Build(simulated.Matrix(simulated.TwoWays(8), simulated.Noise{Sigma: .01}, 1))
	star := err == nil && network.Equal(r.Network, simulated.Star(8))
	s.row(row{
		what: "a link beside a switch (figure 2.12)", goal: "seen as one switch", got: fmt.Sprintf("%v", star),
		literal: "cannot see it either", time: "-",
	}, star)
	sizes, left := []int{2, 3, 3, 4, 6}, 0
	for i, first := range schedule.Halves(sizes) {
		if first {
			left += sizes[i]
		}
	}
	s.row(row{
		what: "halves of 2, 3, 3, 4, 6 nodes (figure 2.21)", goal: "9 and 9",
		got: fmt.Sprintf("%d and %d", left, 18-left), literal: "9 and 9", time: "-",
	}, left == 9)
}

// doubt measures latencies that no network is behind, and nodes that are slow for a time.
func (s *study) doubt() {
	const seeds = 20
	random := each(seeds, func(seed uint64) (bool, time.Duration) {
		draw := rand.New(rand.NewPCG(seed, 1))
		m := latency.New(network.Numbered(48))
		for a := range m.Len() {
			for b := a + 1; b < m.Len(); b++ {
				m.Set(a, b, 1+draw.Float64())
			}
		}
		r, err := discover.Build(m)
		return err != nil || r.Confidence.Level == discover.Low || len(r.Network.Names) == r.Network.Nodes+1, 0
	})
	s.row(row{
		what: "random latencies from 1 to 2 µs, 48 nodes", goal: "one switch, or low confidence",
		got: random.String(), literal: "no confidence", time: "-",
	}, random.exact == seeds)
	slow := each(seeds, func(seed uint64) (bool, time.Duration) {
		n := simulated.Shuffled(simulated.Tree([]int{4, 8, 8}), seed)
		episode := simulated.Episode{Node: int(seed), From: 60, To: 180, Factor: 1.6}
		noise := simulated.Noise{Sigma: .03, Slow: []simulated.Episode{episode}}
		r, err := discover.Build(simulated.Matrix(n, noise, seed))
		return err != nil || r.Confidence.Level == discover.Low || network.Equal(r.Network, n), 0
	})
	s.row(row{
		what: "tree of 4 x 8 x 8, a node is slow in half of the rounds", goal: "exact, or low confidence",
		got: slow.String(), literal: "no confidence", time: "-",
	}, slow.exact == seeds)
}

// write writes the table of the goals.
func (s *study) write(doc *strings.Builder) {
	fmt.Fprintf(doc, "The goals. The thesis's method has ε = %g. The best of %d values of ε is in brackets, chosen "+
		"by the truth.\nIts count is of up to %d seeds.\n\n", discover.LiteralEpsilon, len(epsilons), literalSeeds)
	doc.WriteString("| network | goal | weir: exact | the thesis's method: exact | time of one |\n" +
		"|---|---|---|---|---|\n")
	for _, r := range s.rows {
		fmt.Fprintf(doc, "| %s | %s | %s | %s | %s |\n", r.what, r.goal, r.got, r.literal, r.time)
	}
	fmt.Fprintf(doc, "\nExact results had high confidence %d times and low %d times. Wrong ones had high %d times and "+
		"low %d times.\n%d times there was no result.\n\n", s.exactHigh, s.exactLow, s.wrongHigh, s.wrongLow,
		s.declined)
}

// noise writes how both methods do as noise grows.
func (s *study) noise(doc *strings.Builder) {
	const seeds = 10
	sigmas := []float64{.005, .01, .02, .03, .05, .08, .10, .15}
	fmt.Fprintf(doc, "Noise alone: exact networks of %d seeds, weir / the thesis's method at ε = %g. It is\n"+
		"not run (-) above a noise at which it is never exact.\n\n", seeds, discover.LiteralEpsilon)
	doc.WriteString("| tree |")
	for _, sigma := range sigmas {
		fmt.Fprintf(doc, " σ %g |", sigma)
	}
	doc.WriteString("\n|---|" + strings.Repeat("---|", len(sigmas)) + "\n")
	for _, fanOuts := range [][]int{{4, 8}, {4, 4, 4}, {16, 16}} {
		fmt.Fprintf(doc, "| %s |", strings.ReplaceAll(strings.Trim(fmt.Sprint(fanOuts), "[]"), " ", " x "))
		failed := false
		for _, sigma := range sigmas {
			g := goal{network: tree(fanOuts...), noise: simulated.Noise{Sigma: sigma}}
			ours := each(seeds, func(seed uint64) (bool, time.Duration) { return s.found(g, seed) })
			if !failed {
				theirs := literalTally(g.network, g.noise, seeds, discover.LiteralEpsilon)
				failed = theirs.exact == 0
				fmt.Fprintf(doc, " %d / %d |", ours.exact, theirs.exact)
			} else {
				fmt.Fprintf(doc, " %d / - |", ours.exact)
			}
		}
		doc.WriteString("\n")
	}
	doc.WriteString("\n")
}

// disturbed writes table 3.10 of the thesis beside what is observed.
func (s *study) disturbed(doc *strings.Builder) {
	const seeds, sigma = 20, .005
	doc.WriteString("Table 3.10 of the thesis: the probability that no pair is disturbed, if one pair is right with " +
		"probability p. Beside\nit is the share of exact networks: predicted / the thesis's method / weir. ")
	fmt.Fprintf(doc, "There are %d seeds with σ %g. A\ndisturbed pair takes up to five times as long.\n\n",
		seeds, sigma)
	doc.WriteString("| p | 12 nodes | 32 nodes | 128 nodes | 256 nodes |\n|---|---|---|---|---|\n")
	for _, p := range []float64{.99, .999, .9999} {
		fmt.Fprintf(doc, "| %g %% |", 100*p)
		for _, fanOuts := range [][]int{{3, 4}, {4, 8}, {8, 16}, {16, 16}} {
			g := goal{network: tree(fanOuts...), noise: simulated.Noise{Sigma: sigma, Outliers: 1 - p}}
			ours := each(seeds, func(seed uint64) (bool, time.Duration) { return s.found(g, seed) })
			theirs := literalTally(g.network, g.noise, seeds, discover.LiteralEpsilon)
			predicted := latency.Success(p, fanOuts[0]*fanOuts[1])
			fmt.Fprintf(doc, " %.1f / %.1f / %.1f %% |", 100*predicted, 100*theirs.share(), 100*ours.share())
		}
		doc.WriteString("\n")
	}
}
