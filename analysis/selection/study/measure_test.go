package study

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/analysis/selection"
)

// knownGoal runs the literal method on the cases whose answers two other programs computed.
func knownGoal(t *testing.T, g *goals) {
	t.Helper()
	files, err := filepath.Glob("../testdata/cases/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no known answers: %v", err)
	}
	same, runs := 0, 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var known struct {
			Response string
			Runs     []map[string]any
		}
		if err := json.Unmarshal(raw, &known); err != nil {
			t.Fatal(err)
		}
		values, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		cases, err := selection.ReadCSV(bytes.NewReader(values), []string{known.Response})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range known.Runs {
			runs++
			l, err := selection.SelectLiteral(cases, 0, selection.LiteralOptions{
				Threshold: want["threshold"].(float64), FToRemove: want["f_to_remove"].(float64),
				Quadratic: want["model"] == "quadratic",
			})
			if l == nil {
				t.Fatalf("%s: %v", file, err)
			}
			text, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if why := differs("", got, want); why != "" {
				t.Logf("%s, θ %v, %v: %s", filepath.Base(file), want["threshold"], want["model"], why)
				continue
			}
			same++
		}
	}
	g.check(1, "the literal method finds the known answers: F within 1e-5, R² within 1e-8, all else exact", same == runs,
		"%d of %d runs on %d tables", same, runs, len(files))
}

// differs says where got is not what was wanted. What nobody asked for does not count.
func differs(at string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		got, is := got.(map[string]any)
		if !is {
			return at + " is missing"
		}
		for key, w := range want {
			if why := differs(at+"/"+key, got[key], w); why != "" {
				return why
			}
		}
		return ""
	case []any:
		got, is := got.([]any)
		if !is || len(got) != len(want) {
			return fmt.Sprintf("%s is %v, not %v", at, got, want)
		}
		for i, w := range want {
			if why := differs(fmt.Sprintf("%s/%d", at, i), got[i], w); why != "" {
				return why
			}
		}
		return ""
	case float64:
		got, is := got.(float64)
		allowed := 1e-5*math.Abs(want) + 5e-7 // F is given with six decimals
		if at == "/r2" || at == "/reduction_degree" {
			allowed = 1e-8
		}
		if !is || !(math.Abs(got-want) <= allowed) {
			return fmt.Sprintf("%s is %v, not %v", at, got, want)
		}
		return ""
	}
	if got != want {
		return fmt.Sprintf("%s is %v, not %v", at, got, want)
	}
	return ""
}

// benchmarkGoals are goals 2 to 5, of the benchmarks that were run.
func benchmarkGoals(g *goals, results map[string][]trial) {
	if trials := results[cactus6]; trials != nil {
		_, worse := wins(trials)
		f := column(trials, forwardOf, held)
		g.check(2, "cactus, 6 chunks: at most 10 metrics, held-out R² at least .92, never .02 below the literal method's",
			median(column(trials, forwardOf, count)) <= 10 && median(f) >= .92 && worse == 0,
			"%.4g metrics, %.3f; below in %d of %d", median(column(trials, forwardOf, count)), median(f), worse, len(trials))
	}
	if a, b := results[gridftp6], results[dense6]; b != nil {
		g.check(3, "gridftp, 6 chunks: at most 9, .90; dense: at most 25, .91",
			median(column(a, forwardOf, count)) <= 9 && median(column(a, forwardOf, held)) >= .90 &&
				median(column(b, forwardOf, count)) <= 25 && median(column(b, forwardOf, held)) >= .91,
			"%.4g, %.3f; %.4g, %.3f", median(column(a, forwardOf, count)), median(column(a, forwardOf, held)),
			median(column(b, forwardOf, count)), median(column(b, forwardOf, held)))
	}
	if trials := results[cactus1]; trials != nil {
		warned := 0
		for _, t := range trials {
			if strings.Contains(t.warnings, "one regime") {
				warned++
			}
		}
		literal, forward := median(column(trials, literalOf, held)), median(column(trials, forwardOf, held))
		g.check(4, "cactus, 1 chunk: at least .6 where the literal method is below 0, and a warning of one regime",
			forward >= .6 && literal < 0 && warned == len(trials), "%.3f, literal %.1f; warned in %d of %d", forward, literal,
			warned, len(trials))
	}
	if a, b := results[cactus6], results[gridftp6]; a != nil && b != nil {
		fa, fb := mean(column(a, forwardOf, falseShare)), mean(column(b, forwardOf, falseShare))
		ra, rb := mean(column(a, forwardOf, recall)), mean(column(b, forwardOf, recall))
		g.check(5, "cactus and gridftp, 6 chunks: unrelated metrics at most .05, factors found at least .95",
			max(fa, fb) <= .05 && min(ra, rb) >= .95, "%.3f and %.3f; %.3f and %.3f (unrelated by the literal method: %.2f, %.2f)",
			fa, fb, ra, rb, mean(column(a, literalOf, falseShare)), mean(column(b, literalOf, falseShare)))
	}
}

// noiseGoal offers responses that nothing explains: two lengths, three autocorrelations.
func noiseGoal(t *testing.T, g *goals, count int) {
	t.Helper()
	found := each(t, "noise", count, func(seed uint64) (wrong int, err error) {
		c := Cactus(seed)
		for _, rows := range [][]int{c.Chunks[0], slices.Concat(c.Chunks[:6]...)} {
			for i, phi := range []float64{0, .5, .9} {
				noise := Noise(c, seed*10+uint64(i), phi)
				s, err := selection.Select(Rows(noise.Table, rows), unreported())
				if err != nil {
					return 0, err
				}
				if s.Predictable || len(s.Kept) > 0 {
					wrong++
				}
			}
		}
		return wrong, nil
	})
	wrong := 0
	for _, n := range found {
		wrong += n
	}
	g.check(6, "noise: nothing is selected in 59 of 60 cases", wrong*60 <= len(found)*6, "%d of %d", len(found)*6-wrong, len(found)*6)
}

func counts(trials []trial) string {
	return fmt.Sprintf("%.4g metrics, %.3f; literal %.4g, %.3f, refuses %d of %d", median(column(trials, forwardOf, count)),
		median(column(trials, forwardOf, held)), median(column(trials, literalOf, count)),
		median(column(trials, literalOf, held)), len(trials)-len(column(trials, literalOf, held)), len(trials))
}

func recordedHolds(trials []trial) bool {
	return median(column(trials, forwardOf, count)) <= 5 && median(column(trials, literalOf, count)) >= 40 &&
		median(column(trials, forwardOf, held)) >= median(column(trials, literalOf, held))
}

// estimateGoal compares what the folds promise with what held-out chunks give.
func estimateGoal(g *goals, results map[string][]trial) {
	holds := true
	var text []string
	for _, name := range []string{cactus6, gridftp6, dense6, recordedRates} {
		var off []float64
		for _, t := range results[name] {
			off = append(off, t.estimate-t.forward.held)
		}
		holds = holds && math.Abs(median(off)) <= .05
		text = append(text, fmt.Sprintf("%s %+.3f", strings.SplitN(name, ",", 2)[0], median(off)))
	}
	g.check(8, "the estimate by cross-validation is within .05 of held-out R² in the median, with 6 chunks", holds, "%s",
		strings.Join(text, ", "))
}

// nodesGoal: the slowest of 32 nodes decides. Deciles see it, means do not.
func nodesGoal(t *testing.T, g *goals, count int) {
	t.Helper()
	type pair struct{ means, deciles float64 }
	found := each(t, "job, slowest node", count, func(seed uint64) (pair, error) {
		b := benchmark{split: first(6), options: unreported(), make: func(seed uint64) *Case { return Job(seed, Largest) }}
		c := b.make(seed)
		var p pair
		for _, statistics := range [][]string{{"mean"}, nil} {
			o := b.options
			o.Statistics = statistics
			s, err := b.sets(c, seed)
			if err != nil {
				return p, err
			}
			found, err := selection.Select(Rows(c.Table, s.train), o)
			if err != nil {
				return p, err
			}
			if statistics != nil {
				for name, columns := range s.columns {
					s.columns[name] = columns[:1]
				}
				p.means = s.score(chosen(found)).held
			} else {
				p.deciles = s.score(chosen(found)).held
			}
		}
		return p, nil
	})
	var means, deciles []float64
	for _, p := range found {
		means, deciles = append(means, p.means), append(deciles, p.deciles)
	}
	g.check(9, "a job whose slowest node decides: deciles as terms give .15 more than means alone",
		median(deciles) >= median(means)+.15, "%.3f, means %.3f", median(deciles), median(means))
}

// manyGoal selects from ten jobs, and counts how much of ten others can be explained.
func manyGoal(t *testing.T, g *goals, count int) {
	t.Helper()
	type many struct{ joint, refit, union, unionRefit float64 }
	found := each(t, "many jobs", count, func(seed uint64) (many, error) {
		b := benchmark{make: Multi, options: unreported(), split: func(c *Case, _ uint64) (train, test [][]int) {
			return c.Chunks[:10], c.Chunks[10:]
		}}
		c := b.make(seed)
		s, err := b.sets(c, seed)
		if err != nil {
			return many{}, err
		}
		joint, err := selection.Select(Rows(c.Table, s.train), b.options)
		if err != nil {
			return many{}, err
		}
		var union []string
		for _, rows := range c.Chunks[:10] {
			l, err := selection.SelectLiteral(Rows(c.Table, rows), 0, selection.LiteralOptions{Threshold: .95, FToRemove: 2})
			if err != nil {
				return many{}, err
			}
			union = append(union, l.Selected...)
		}
		slices.Sort(union)
		union = slices.Compact(union)
		y, names := c.Table.Responses[0].Values, chosen(joint)
		return many{
			float64(len(names)), refit(s.terms(names), y, c.Chunks[10:]),
			float64(len(union)), refit(s.terms(union), y, c.Chunks[10:]),
		}, nil
	})
	take := func(of func(many) float64) float64 {
		var all []float64
		for _, m := range found {
			all = append(all, of(m))
		}
		return median(all)
	}
	size, r2 := take(func(m many) float64 { return m.joint }), take(func(m many) float64 { return m.refit })
	union := take(func(m many) float64 { return m.union })
	g.check(10, "many jobs: at most 10 metrics, refit R² on unseen jobs at least .94; union of literal selections at least 60",
		size <= 10 && r2 >= .94 && union >= 60, "%.4g, %.3f; union %.4g, %.3f", size, r2, union,
		take(func(m many) float64 { return m.unionRefit }))
}

// covering is the mean held-out R² of all metrics that vary, at equal count.
type covering struct {
	share      float64 // of the metrics that are kept
	star, best float64
}

func coverings(t *selection.Table) ([]covering, error) {
	o := unreported()
	t.Responses = nil
	d, err := selection.Prepare(t, o)
	if err != nil {
		return nil, err
	}
	n := len(d.Metrics)
	all := func(c *selection.Covered) float64 {
		sum, missing := 0.0, n
		for _, r2 := range c.R2 {
			sum, missing = sum+r2, missing-1
		}
		return (sum + float64(missing)) / float64(n)
	}
	var out []covering
	for _, share := range []float64{.3, .45, .52, .6} {
		// The threshold whose stars are closest to this count, by bisection: a higher one makes more.
		var kept []int
		for low, high, step := .2, .9999, 0; step < 9; step++ {
			theta := (low + high) / 2
			stars := selection.Stars(d, theta, nil)
			if kept == nil || math.Abs(float64(len(stars))-share*float64(n)) < math.Abs(float64(len(kept))-share*float64(n)) {
				kept = nil
				for _, s := range stars {
					kept = append(kept, s.Metric)
				}
			}
			if float64(len(stars)) < share*float64(n) {
				low = theta
			} else {
				high = theta
			}
		}
		out = append(out, covering{
			float64(len(kept)) / float64(n), all(selection.CoveredBy(d, kept)), all(selection.Cover(d, nil, 1, len(kept))),
		})
	}
	return out, nil
}

func coverageGoal(t *testing.T, g *goals, count int) {
	t.Helper()
	real, err := coverings(Rows(recorded(t, Iterations)(0).Table, upTo(784)))
	if err != nil {
		t.Fatal(err)
	}
	synthetic := each(t, "coverage", count/4, func(seed uint64) ([]covering, error) {
		c := Cactus(seed)
		return coverings(Rows(c.Table, slices.Concat(c.Chunks[:6]...)))
	})
	least, text := math.Inf(1), []string{}
	for i, r := range real {
		var gain []float64
		for _, s := range synthetic {
			gain = append(gain, s[i].best-s[i].star)
			least = min(least, s[i].best-s[i].star)
		}
		least = min(least, r.best-r.star)
		text = append(text, fmt.Sprintf("%.0f %%: %+.3f, %+.3f", 100*r.share, r.best-r.star, median(gain)))
	}
	g.check(11, "coverage: subsets never below stars at equal count, and .04 above at 45 % of the recorded metrics",
		least >= 0 && real[1].best >= real[1].star+.04, "recorded, cactus at %s", strings.Join(text, "; "))
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// sameGoal shuffles the metrics, and lets the runtime have more or fewer CPUs.
func sameGoal(t *testing.T, g *goals, orders int) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	different, tried := 0, 0
	for _, c := range []*Case{Cactus(firstSeed), Gridftp(firstSeed), Multi(firstSeed)} {
		whole := Rows(c.Table, slices.Concat(c.Chunks[:6]...))
		var want []byte
		for order := range orders + 1 {
			runtime.GOMAXPROCS(1 + 3*(order%2))
			r := rand.New(rand.NewPCG(uint64(order), 0))
			if order > 0 {
				r.Shuffle(len(whole.Metrics), func(i, j int) {
					whole.Metrics[i], whole.Metrics[j] = whole.Metrics[j], whole.Metrics[i]
				})
			}
			o := selection.Defaults()
			o.Halves, o.Coverage = 3, .9
			s, err := selection.Select(whole, o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if order == 0 {
				want = got
				continue
			}
			if tried++; !bytes.Equal(got, want) {
				different++
			}
		}
	}
	g.check(14, "the same bytes for any order of the metrics and any number of CPUs", different == 0, "%d of %d the same",
		tried-different, tried)
}
