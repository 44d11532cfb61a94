package study

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/selection"
)

const (
	seeds     = 20
	firstSeed = 101 // the generator was fitted to published numbers on seeds 1 to 20
	draws     = 20  // random sets
)

// benchmark is one kind of case, and the rows that methods may see.
type benchmark struct {
	name      string
	make      func(seed uint64) *Case
	split     func(c *Case, seed uint64) (train, test [][]int) // chunks
	options   selection.Options
	quadratic bool
	prepared  bool // the literal method, RAND and MAIN get columns on the scale of forward: asinh, gauges differenced
}

// first trains on the first chunks, and tests on the last six.
func first(count int) func(*Case, uint64) (train, test [][]int) {
	return func(c *Case, _ uint64) (train, test [][]int) { return c.Chunks[:count], c.Chunks[6:] }
}

// half trains on six chunks by chance, and tests on the others.
func half(c *Case, seed uint64) (train, test [][]int) {
	order := source(seed, "split").Perm(len(c.Chunks))
	a, b := order[:6], order[6:]
	slices.Sort(a)
	slices.Sort(b)
	return pick(c.Chunks, a), pick(c.Chunks, b)
}

// recorded has the same data for every seed. main is a list that a person could write for it.
func recorded(t *testing.T, response string) func(uint64) *Case {
	t.Helper()
	f, err := os.Open("testdata/real_1s.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := Real(f, response)
	if err != nil {
		t.Fatal(err)
	}
	c.Main = []string{
		"stat.cpu.user", "stat.cpu.system", "stat.cpu.iowait", "stat.ctxt", "stat.procs_running", "stat.intr.total",
		"load.1", "psi.cpu.some", "psi.io.some",
	}
	for _, name := range []string{"vmstat.pgfault", "vmstat.pgpgin", "vmstat.pgpgout", "meminfo.MemFree"} {
		if slices.ContainsFunc(c.Table.Metrics, func(m selection.Metric) bool { return m.Name == name }) {
			c.Main = append(c.Main, name)
		}
	}
	return func(uint64) *Case { return c }
}

// measured is what became of one method's set on one case.
type measured struct {
	count, inSample, adjusted, held, falseShare, recall float64
	refused                                             bool
}

// trial is all methods on one case.
type trial struct {
	literal, forward, random, main measured
	estimate                       float64 // of forward's held-out R², from training rows alone
	scale                          string
	warnings                       string
}

// sets scores sets of metrics of one case: all methods alike.
type sets struct {
	c           *Case
	quadratic   bool
	train, test []int
	columns     map[string][][]float64 // of each metric, on the scale that counts
}

func (b *benchmark) sets(c *Case, seed uint64) (*sets, error) {
	trainChunks, testChunks := b.split(c, seed)
	s := &sets{
		c: c, quadratic: b.quadratic, columns: map[string][][]float64{},
		train: slices.Concat(trainChunks...), test: slices.Concat(testChunks...),
	}
	for _, m := range c.Table.Metrics {
		for _, column := range m.Columns {
			if !b.prepared {
				s.columns[m.Name] = append(s.columns[m.Name], column.Values)
			}
		}
	}
	if !b.prepared {
		return s, nil
	}
	d, err := selection.Prepare(Rows(c.Table, s.train), b.options)
	if err != nil {
		return nil, err
	}
	for _, g := range d.Metrics {
		if s.columns[g.Name], err = d.Values(c.Table, []string{g.Name}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// table is what the literal method sees: one column a metric.
func (s *sets) table() *selection.Table {
	t := *s.c.Table
	t.Metrics = nil
	for _, m := range s.c.Table.Metrics {
		values := make([]float64, t.Rows())
		if columns := s.columns[m.Name]; len(columns) > 0 {
			values = columns[0]
		}
		t.Metrics = append(t.Metrics, selection.Metric{Name: m.Name, Columns: []selection.Column{{Values: values}}})
	}
	return Rows(&t, s.train)
}

// terms are the columns of metrics, with squares where the model is quadratic. Squares are of values that the training
// rows standardise.
func (s *sets) terms(names []string) [][]float64 {
	var x [][]float64
	for _, name := range names {
		for _, column := range s.columns[name] {
			x = append(x, column)
			part := pick(column, s.train)
			low, high := slices.Min(part), slices.Max(part)
			two := !slices.ContainsFunc(part, func(v float64) bool { return v != low && v != high })
			if !s.quadratic || two {
				continue
			}
			m, sd, square := mean(part), deviation(part), make([]float64, len(column))
			for i, v := range column {
				square[i] = (v - m) / sd * (v - m) / sd
			}
			x = append(x, square)
		}
	}
	return x
}

func (s *sets) score(names []string) measured {
	x, y := s.terms(names), s.c.Table.Responses[0].Values
	n, k := float64(len(s.train)), float64(len(x))
	m := measured{count: float64(len(names)), held: heldOut(x, y, s.train, s.test)}
	m.inSample = heldOut(x, y, s.train, s.train)
	m.adjusted = 1 - (1-m.inSample)*(n-1)/max(n-1-k, 1)
	if len(s.c.Active) > 0 {
		metrics := s.numbers(names)
		m.falseShare, m.recall = s.c.False(metrics), s.c.Recall(metrics)
	}
	return m
}

func (s *sets) numbers(names []string) []int {
	var all []int
	for i, m := range s.c.Table.Metrics {
		if slices.Contains(names, m.Name) {
			all = append(all, i)
		}
	}
	return all
}

// random is the mean of random sets of as many metrics, constant ones included.
func (s *sets) random(seed uint64, count int) measured {
	r, out := source(seed, "random"), measured{count: float64(count)}
	for range draws {
		var names []string
		for _, i := range r.Perm(len(s.c.Table.Metrics))[:count] {
			names = append(names, s.c.Table.Metrics[i].Name)
		}
		m := s.score(names)
		out.inSample, out.adjusted = out.inSample+m.inSample/draws, out.adjusted+m.adjusted/draws
		out.held += m.held / draws
	}
	return out
}

// literal is the published method at θ .95, or where it refuses, nothing.
func (b *benchmark) literal(s *sets, theta float64) (measured, error) {
	l, err := selection.SelectLiteral(s.table(), 0, selection.LiteralOptions{
		Threshold: theta, FToRemove: 2, Quadratic: b.quadratic,
	})
	if err != nil || l.Error != "" {
		return measured{refused: true}, err
	}
	return s.score(l.Selected), nil
}

func chosen(s *selection.Selection) (names []string) {
	for _, k := range s.Kept {
		if k.Tier == selection.TierResponse {
			names = append(names, k.Name)
		}
	}
	return names
}

func (b *benchmark) trial(seed uint64) (trial, error) {
	c := b.make(seed)
	s, err := b.sets(c, seed)
	if err != nil {
		return trial{}, err
	}
	o := b.options
	o.Quadratic = b.quadratic
	found, err := selection.Select(Rows(c.Table, s.train), o)
	if err != nil {
		return trial{}, err
	}
	out := trial{
		forward: s.score(chosen(found)), main: s.score(c.Main), scale: found.Scale, estimate: found.Score.HeldOut,
		warnings: strings.Join(found.Warnings, "; "),
	}
	out.literal, err = b.literal(s, .95)
	if err != nil {
		return trial{}, fmt.Errorf("seed %d: %w", seed, err)
	}
	if !out.literal.refused {
		out.random = s.random(seed, int(out.literal.count))
	}
	return out, nil
}

// quantile of values by linear interpolation; NaN where there are none.
func quantile(values []float64, q float64) float64 {
	v := slices.Clone(values)
	slices.Sort(v)
	if len(v) == 0 {
		return math.NaN()
	}
	at := q * float64(len(v)-1)
	low := int(at)
	high := min(low+1, len(v)-1)
	return v[low] + (at-float64(low))*(v[high]-v[low])
}

func median(values []float64) float64 { return quantile(values, .5) }

// column takes one number of each trial in which the method did not refuse.
func column(trials []trial, method func(*trial) measured, of func(measured) float64) (values []float64) {
	for i := range trials {
		if m := method(&trials[i]); !m.refused {
			values = append(values, of(m))
		}
	}
	return values
}

func middle(trials []trial, method func(*trial) measured, of func(measured) float64) float64 {
	return median(column(trials, method, of))
}

func literalOf(t *trial) measured { return t.literal }
func forwardOf(t *trial) measured { return t.forward }
func randomOf(t *trial) measured  { return measured{held: t.random.held, refused: t.literal.refused} }
func mainOf(t *trial) measured    { return t.main }

func count(m measured) float64      { return m.count }
func inSample(m measured) float64   { return m.inSample }
func adjusted(m measured) float64   { return m.adjusted }
func held(m measured) float64       { return m.held }
func falseShare(m measured) float64 { return m.falseShare }
func recall(m measured) float64     { return m.recall }
