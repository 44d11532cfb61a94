package study

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/weirhpc/weir/selection"
)

var full = flag.Bool("full", false, "run the whole study, and rewrite the table of docs/selection.md")

const (
	page  = "../../docs/selection.md"
	begin = "<!-- made by make selection-study: begin -->\n"
	end   = "<!-- made by make selection-study: end -->"
)

// TestStudy measures the 14 goals and rewrites the table of docs/selection.md. It fails where a goal does not hold.
func TestStudy(t *testing.T) {
	if !*full {
		t.Skip("NOT TESTED: the goals of the selection on all cases (make selection-study)")
	}
	g, doc := &goals{}, &strings.Builder{}
	knownGoal(t, g)
	results := map[string][]trial{}
	all := benchmarks(t)
	for i := range all {
		results[all[i].name] = all[i].trials(t, seeds)
	}
	benchmarkGoals(g, results)
	noiseGoal(t, g, seeds/2)
	g.check(7, "recorded rates: at most 5 metrics, and held-out R² at least that of the literal method, which takes 40",
		recordedHolds(results[recordedRates]), "%s", counts(results[recordedRates]))
	estimateGoal(g, results)
	nodesGoal(t, g, seeds)
	manyGoal(t, g, seeds)
	coverageGoal(t, g, seeds)
	driftGoal(t, g, seeds)
	costGoal(t, g)
	sameGoal(t, g, 5)
	table(doc, all, results)
	g.write(doc)
	rewrite(t, doc.String())
	for _, line := range g.lines {
		t.Log(line)
	}
	for _, missed := range g.missed {
		t.Error(missed)
	}
}

// TestStudyInShort is the study on few seeds, for the goals that need no more.
func TestStudyInShort(t *testing.T) {
	g := &goals{}
	knownGoal(t, g)
	results := map[string][]trial{}
	all := benchmarks(t)
	for i := range all {
		if all[i].name == cactus6 || all[i].name == cactus1 || all[i].name == gridftp6 {
			results[all[i].name] = all[i].trials(t, short)
		}
	}
	benchmarkGoals(g, results)
	noiseGoal(t, g, 1)
	sameGoal(t, g, 1)
	for _, line := range g.lines {
		t.Log(line)
	}
	for _, missed := range g.missed {
		t.Error(missed)
	}
}

// TestTableIsOfTheStudy: the page has what the study wrote, and not what somebody changed since.
func TestTableIsOfTheStudy(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), begin)
	block, _, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers of make selection-study", page)
	}
	body, sum, ok := strings.Cut(block, "<!-- sum ")
	if !ok || !strings.HasPrefix(sum, digest(body)) {
		t.Errorf("the table of %s is not what the study wrote: run make selection-study", page)
	}
	for n := 1; n <= 14; n++ {
		if !strings.Contains(body, fmt.Sprintf("\n| %d | ", n)) {
			t.Errorf("the table of %s lacks goal %d", page, n)
		}
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// rewrite replaces what stands between the markers of the page.
func rewrite(t *testing.T, generated string) {
	t.Helper()
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers of make selection-study", page)
	}
	body := "\n" + generated + "\n"
	text := before + begin + body + "<!-- sum " + digest(body) + " -->\n" + end + after
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Names of the benchmarks.
const (
	cactus6        = "cactus, 6 chunks"
	cactus1        = "cactus, 1 chunk"
	gridftp6       = "gridftp, quadratic, 6 chunks"
	gridftp2       = "gridftp, quadratic, 2 chunks"
	dense6         = "dense, 6 chunks"
	slowest6       = "max, 6 chunks"
	recordedRates  = "recorded iterations/s"
	recordedWrites = "recorded writes"
)

// unreported are the options of the study: frequencies and coverage are not measured here.
func unreported() selection.Options {
	o := selection.Defaults()
	o.Halves = 0
	return o
}

func benchmarks(t *testing.T) []benchmark {
	t.Helper()
	o := unreported()
	return []benchmark{
		{name: cactus6, make: Cactus, split: first(6), options: o},
		{name: cactus1, make: Cactus, split: first(1), options: o},
		{name: gridftp6, make: Gridftp, split: first(6), options: o, quadratic: true},
		{name: gridftp2, make: Gridftp, split: first(2), options: o, quadratic: true},
		{name: dense6, make: Dense, split: first(6), options: o},
		{name: slowest6, make: Slowest, split: first(6), options: o},
		{name: recordedRates, make: recorded(t, Iterations), split: half, options: o, prepared: true},
		{name: recordedWrites, make: recorded(t, Writes), split: half, options: o, prepared: true},
	}
}

func (b *benchmark) trials(t *testing.T, count int) []trial {
	t.Helper()
	return each(t, b.name, count, func(seed uint64) (trial, error) { return b.trial(seed) })
}

// each computes something for each seed, two at a time, in the order of the seeds.
func each[T any](t *testing.T, name string, count int, of func(seed uint64) (T, error)) []T {
	t.Helper()
	if *full {
		fmt.Fprintf(os.Stderr, "%s: %d seeds\n", name, count)
	}
	out, errs := make([]T, count), make([]error, count)
	var wait sync.WaitGroup
	for worker := range 2 {
		wait.Go(func() {
			for i := worker; i < count; i += 2 {
				out[i], errs[i] = of(uint64(firstSeed + i))
			}
		})
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s, seed %d: %v", name, firstSeed+i, err)
		}
	}
	return out
}

// table writes all methods side by side.
func table(b *strings.Builder, all []benchmark, results map[string][]trial) {
	b.WriteString("| benchmark | literal: metrics, in-sample, adjusted, **held-out** (q10), unrelated | " +
		"forward: the same | RAND | MAIN | better / equal / worse | fewer |\n|---|---|---|---|---|---|---|\n")
	for _, k := range all {
		trials := results[k.name]
		better, worse := wins(trials)
		refused := ""
		if n := len(trials) - len(column(trials, literalOf, held)); n > 0 {
			refused = fmt.Sprintf(", refuses %d of %d", n, len(trials))
		}
		fmt.Fprintf(b, "| %s | %s%s | %s | %s | %s | %d / %d / %d | %.1f × |\n", k.name,
			method(trials, literalOf, !k.prepared), refused, method(trials, forwardOf, !k.prepared),
			number(middle(trials, randomOf, held)), number(middle(trials, mainOf, held)),
			better, len(trials)-better-worse, worse,
			middle(trials, literalOf, count)/middle(trials, forwardOf, count))
	}
	b.WriteString("\n")
}

// wins counts cases in which forward is more than .02 better or worse than the literal method. A refusal is worse.
func wins(trials []trial) (better, worse int) {
	for _, t := range trials {
		switch {
		case t.literal.refused || t.forward.held > t.literal.held+.02:
			better++
		case t.forward.held < t.literal.held-.02:
			worse++
		}
	}
	return better, worse
}

func method(trials []trial, of func(*trial) measured, truth bool) string {
	text := fmt.Sprintf("%.4g, %s, %s, **%s** (%s)", middle(trials, of, count),
		number(middle(trials, of, inSample)), number(middle(trials, of, adjusted)),
		number(middle(trials, of, held)), number(quantile(column(trials, of, held), .1)))
	if truth {
		text += fmt.Sprintf(", %.0f %%", 100*mean(column(trials, of, falseShare)))
	}
	return text
}

// number has three digits where R² is one, and fewer where it is far below 0.
func number(r2 float64) string {
	if r2 < -1 {
		return fmt.Sprintf("%.1f", r2)
	}
	return fmt.Sprintf("%.3f", r2)
}
