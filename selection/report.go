package selection

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Report is a selection with all facts that a person weighs before following it.
type Report struct {
	From      string   `json:"from"`
	Method    string   `json:"method"`
	Model     string   `json:"model"`
	Threshold float64  `json:"threshold"`
	Seed      uint64   `json:"seed"`
	Coverage  float64  `json:"coverage"`
	Notes     []string `json:"notes,omitempty"` // parts of the input that were left out or changed
	*Selection
	InUse    map[string][]string `json:"in_use,omitempty"` // metrics kept for other uses, with their users
	Rivals   []Rival             `json:"rivals,omitempty"`
	Cost     *Cost               `json:"cost,omitempty"`
	Frontier []Trade             `json:"frontier,omitempty"`
}

// Rival is another method of choosing metrics, scored like the selection.
type Rival struct {
	Method  string `json:"method"`
	Metrics int    `json:"metrics"`
	Score
	Refused string `json:"refused,omitempty"` // reason why the method selected nothing
}

// Cost is the cost of measuring before and after a selection.
type Cost struct {
	Measured    string       `json:"measured"`      // place and method
	Before      float64      `json:"cpu_us_before"` // of a reading of all sources
	After       float64      `json:"cpu_us_after"`  // of the sources that are still read
	BytesBefore int          `json:"record_bytes_before"`
	BytesAfter  int          `json:"record_bytes_after"`
	Sources     []SourceCost `json:"sources"`
}

// SourceCost is the cost of one source, with the metrics for which it is still read.
type SourceCost struct {
	Source  string   `json:"source"`
	CPU     float64  `json:"cpu_us"`
	Known   bool     `json:"measured"`
	Metrics int      `json:"metrics"` // of the catalogue
	Kept    []string `json:"kept"`    // metrics for which it is still read; none: its cost is saved
}

// Trade is a selection without some sources.
type Trade struct {
	Without []string `json:"without"`
	Metrics int      `json:"metrics"`
	HeldOut float64  `json:"held_out"`
	CPU     float64  `json:"cpu_us"`
}

// CostOf returns the sources that are still read if these metrics of the catalogue are kept. A source with a single
// kept metric costs as much as before, because its files are read and its event groups are open in any case. cpu
// contains the time of a reading of each source, in microseconds. Sources that are neither measured nor in the table
// are left out.
func CostOf(t *Table, catalogue []Metric, keeps func(name string) bool, cpu map[string]float64) *Cost {
	metrics, kept, shown := map[string]int{}, map[string][]string{}, map[string]bool{}
	for i := range catalogue {
		m := &catalogue[i]
		metrics[m.Source]++
		if keeps(m.Name) {
			kept[m.Source] = append(kept[m.Source], m.Name)
		}
		_, shown[m.Source] = cpu[m.Source]
	}
	for i := range t.Metrics {
		if of := t.Metrics[i].Source; metrics[of] > 0 {
			shown[of] = true
		}
	}
	c := &Cost{}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if !shown[name] {
			continue
		}
		us, known := cpu[name]
		of := SourceCost{Source: name, CPU: us, Known: known, Metrics: metrics[name], Kept: kept[name]}
		slices.Sort(of.Kept)
		c.Before += us
		if len(of.Kept) > 0 {
			c.After += us
		}
		c.Sources = append(c.Sources, of)
	}
	slices.SortStableFunc(c.Sources, func(a, b SourceCost) int {
		switch {
		case a.CPU > b.CPU:
			return -1
		case a.CPU < b.CPU:
			return 1
		}
		return 0
	})
	return c
}

// frontierWithin is the held-out R² that a trade may lose.
const frontierWithin = .05

// Frontier shows the loss of R² for doing without whole sources. Each step leaves out the source with the smallest
// loss. It ends when R² is more than .05 below the selection's. Sources of metrics in use stay. Research, section 4,
// "Cost".
func Frontier(t *Table, o Options, s *Selection) []Trade {
	o.Shifts, o.Halves, o.Coverage = 0, 0, 0
	used := map[string]bool{} // sources that stay
	for _, k := range s.Kept {
		if k.Tier == TierInUse {
			used[k.Source] = true
		}
	}
	trade := func(s *Selection, without []string) Trade {
		read := maps.Clone(used)
		n := 0
		for _, k := range s.Kept {
			if k.Tier == TierResponse {
				n++
				read[k.Source] = true
			}
		}
		cpu := 0.0
		for _, name := range slices.Sorted(maps.Keys(read)) {
			cpu += o.Cost[name]
		}
		return Trade{Without: without, Metrics: n, HeldOut: s.Score.HeldOut, CPU: cpu}
	}
	steps := []Trade{trade(s, nil)}
	for now := s; ; {
		last := steps[len(steps)-1]
		var best *Selection
		var without []string
		for _, name := range responseSources(now, used) {
			less := slices.Sorted(slices.Values(append(slices.Clone(last.Without), name)))
			other, err := Select(t.without(less), o)
			if err == nil && (best == nil || other.Score.HeldOut > best.Score.HeldOut) {
				best, without = other, less
			}
		}
		if best == nil || best.Score.HeldOut < s.Score.HeldOut-frontierWithin {
			return steps
		}
		steps, now = append(steps, trade(best, without)), best
	}
}

// responseSources returns the sources that a selection reads for the responses only.
func responseSources(s *Selection, used map[string]bool) []string {
	of := map[string]bool{}
	for _, k := range s.Kept {
		if k.Tier == TierResponse && k.Source != "" && !used[k.Source] {
			of[k.Source] = true
		}
	}
	return slices.Sorted(maps.Keys(of))
}

// without returns the table without the metrics of some sources.
func (t *Table) without(sources []string) *Table {
	less := *t
	less.Metrics = slices.DeleteFunc(slices.Clone(t.Metrics), func(m Metric) bool {
		return slices.Contains(sources, m.Source)
	})
	return &less
}

const (
	literalMetrics = 1500 // largest number of metrics for which the literal method runs as a rival
	drawnMetrics   = 300  // largest size of a random set: each costs as much as all other rivals
)

// randomDraws is the number of random sets that RAND averages.
const randomDraws = 20

// Rivals scores the literal method, random sets and a person's list in the same way as s, on the same rows and folds.
// One RAND takes as many metrics as s, another as many as the literal method.
func Rivals(t *Table, o Options, s *Selection, literal LiteralOptions, main []string) ([]Rival, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	d, err := Prepare(t, o)
	if err != nil {
		return nil, err
	}
	var all []Rival
	random := rand.New(rand.NewPCG(o.Seed, o.Seed)) //nolint:gosec // draws of a study, from the seed alone
	draw := func(n int) {
		if 0 < n && n <= len(t.Metrics) {
			all = append(all, d.drawn(random, t.Names(), n, o.Folds))
		}
	}
	literally := "literal"
	if len(t.Responses) > 1 { // the method takes a single response
		literally += " for " + t.Responses[0].Name
	}
	chosen := 0
	for _, k := range s.Kept {
		if k.Tier == TierResponse {
			chosen++
		}
	}
	draw(chosen)
	if len(main) > 0 {
		all = append(all, Rival{Method: "main", Metrics: len(main), Score: d.score(main, o.Folds)})
	}
	if len(t.Metrics) > literalMetrics {
		return append(all, Rival{Method: literally, Refused: fmt.Sprintf("not tried on more than %d metrics, "+
			"since it takes minutes: --method literal does", literalMetrics)}), nil
	}
	byName := *t // among equal correlations and F, the order of columns decides
	byName.Metrics = slices.SortedFunc(slices.Values(t.Metrics), func(a, b Metric) int {
		return strings.Compare(a.Name, b.Name)
	})
	l, err := SelectLiteral(&byName, 0, literal)
	if err != nil {
		all = append(all, Rival{
			Method: literally, Refused: strings.TrimPrefix(err.Error(), "the literal method: "),
		})
	}
	if l != nil && l.Error == multicollinearity { // its score with the usual remedy
		literally += ", aliased dropped"
		literal.DropAliased = true
		l, err = SelectLiteral(&byName, 0, literal)
	}
	if err == nil {
		all = append(all, Rival{Method: literally, Metrics: len(l.Selected), Score: d.score(l.Selected, o.Folds)})
		if len(l.Selected) != chosen {
			draw(len(l.Selected))
		}
	}
	return all, nil
}

// drawn returns the mean over random sets of n metrics out of names.
func (d *Design) drawn(random *rand.Rand, names []string, n, folds int) Rival {
	r := Rival{Method: "random", Metrics: n}
	if n > drawnMetrics {
		r.Refused = fmt.Sprintf("not drawn with %d metrics, since it takes minutes: at most %d are", n, drawnMetrics)
		return r
	}
	slices.Sort(names)
	for range randomDraws {
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		r.Score = plus(r.Score, d.score(names[:n], folds), 1.0/randomDraws)
	}
	return r
}

// plus adds a share of a score.
func plus(a, b Score, share float64) Score {
	return Score{
		InSample: a.InSample + share*b.InSample, Adjusted: a.Adjusted + share*b.Adjusted,
		HeldOut: a.HeldOut + share*b.HeldOut, Low: a.Low + share*b.Low, High: a.High + share*b.High,
	}
}

// score scores a set of metrics by its mean R² over the responses, held out block by block. If jobs have coefficients
// of their own, each job is scored alone.
func (d *Design) score(names []string, folds int) Score {
	var x [][]float64
	for _, g := range d.Metrics {
		if slices.Contains(names, g.Name) {
			for _, i := range g.Terms {
				x = append(x, d.Terms[i].X)
			}
		}
	}
	if len(x) == 0 {
		return Score{}
	}
	var sum Score
	parts := d.parts(folds)
	n := 1 / float64(len(parts)*len(d.Y))
	for _, y := range d.Y {
		for _, folds := range parts {
			sum = plus(sum, scoreFolds(x, y, folds), n)
		}
	}
	return sum
}

// scoreFolds scores columns on folds of rows, each predicted from the others. R² is about the mean of all rows, as for
// a selection. Low and High are from single folds, each about its own mean.
func scoreFolds(x [][]float64, y []float64, folds [][]int) Score {
	var s Score
	all := slices.Concat(folds...)
	s.InSample, s.Adjusted = InSample(x, y, all)
	wrong, total, mean := 0., 0., 0.
	for _, row := range all {
		mean += y[row] / float64(len(all))
	}
	for i, test := range folds {
		r2, fit := HeldOut(x, y, slices.Concat(slices.Concat(folds[:i]...), slices.Concat(folds[i+1:]...)), test)
		for _, row := range test {
			e, v := y[row]-fit.predict(x, row), y[row]-mean
			wrong += e * e
			total += v * v
		}
		if i == 0 || r2 < s.Low {
			s.Low = r2
		}
		if i == 0 || r2 > s.High {
			s.High = r2
		}
	}
	if total > 0 {
		s.HeldOut = 1 - wrong/total
	}
	return s
}

// foldsOf is the number of stretches of time in a job that is scored alone.
const foldsOf = 4

// parts returns the folds for scores: blocks, or stretches of each job if jobs have coefficients of their own.
func (d *Design) parts(folds int) [][][]int {
	if !d.Joint {
		blocks := len(d.Bounds) - 1
		folds = max(1, min(folds, blocks))
		var rows [][]int
		for f := range folds {
			rows = append(rows, between(d.Bounds[f*blocks/folds], d.Bounds[(f+1)*blocks/folds]))
		}
		return [][][]int{rows}
	}
	var parts [][][]int
	for from := 0; from < len(d.Rows); {
		to := from
		for to < len(d.Rows) && d.Unit[to] == d.Unit[from] {
			to++
		}
		var folds [][]int
		for k := range foldsOf {
			folds = append(folds, between(from+(to-from)*k/foldsOf, from+(to-from)*(k+1)/foldsOf))
		}
		parts = append(parts, folds)
		from = to
	}
	return parts
}

func between(from, to int) []int {
	rows := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		rows = append(rows, i)
	}
	return rows
}
