package selection

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Options are the options of a selection. Start from Defaults, which research has chosen.
type Options struct {
	Quadratic  bool               // also use the square of each column
	Threshold  float64            // correlation above which one metric stands for another; 0: .95
	Statistics []string           // columns to use; empty: all columns of the table
	Keep       []string           // metrics to measure in any case, named by rules, derived metrics or a person
	Previous   []string           // the list in force: it wins ties
	Max        int                // limit for the chosen metrics, for responses and coverage together; 0: no limit
	Folds      int                // of the cross-validation; 0: 6
	Tolerance  float64            // distance to the best R² within which the smallest size wins; 0: .01
	Shifts     int                // circular shifts that a selection must beat; 0: no guard
	Halves     int                // number of complementary halves of the blocks, for the frequencies; 0: none
	Coverage   float64            // R² that each dropped metric must reach from the kept ones; 0: no coverage tier
	Seed       uint64             // of the halves
	Cost       map[string]float64 // CPU µs of one reading, by source
}

// Defaults are the options of a selection with its full report.
func Defaults() Options {
	return Options{Threshold: .95, Folds: 6, Tolerance: .01, Shifts: 19, Halves: 25, Seed: 1}
}

// Tiers of a kept metric, and the reason why.
const (
	TierResponse = "response" // it explains the responses
	TierCoverage = "coverage" // it stands for metrics that are dropped
	TierInUse    = "in use"   // Options.Keep names it
)

// Chosen is a metric that is kept.
type Chosen struct {
	Name      string  `json:"name"`
	Source    string  `json:"source,omitempty"`
	Tier      string  `json:"tier"`
	Gain      float64 `json:"gain"`             // in-sample R² that it added when it was chosen
	F         float64 `json:"f"`                // of its columns in the final model; a mean over jobs and responses
	Frequency float64 `json:"frequency"`        // share of the halves of the blocks that chose it
	Filled    float64 `json:"filled,omitempty"` // share of missing values, which the median of the block replaced
}

// Dropped is a metric that need not be measured, with the quality of its prediction.
type Dropped struct {
	Name           string  `json:"name"`
	Source         string  `json:"source,omitempty"`
	Representative string  `json:"representative,omitempty"` // the closest kept metric; empty: none
	R              float64 `json:"r"`                        // correlation with the representative
	R2             float64 `json:"r2"`                       // from kept metrics, on held-out blocks
}

// Left is a metric that took no part, with the reason.
type Left struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
	Reason string `json:"reason"` // constant, missing
}

// Out counts rows that took no part, by reason.
type Out struct {
	Torn       int `json:"torn"`        // read too soon after the row before
	NoResponse int `json:"no_response"` // a response is missing or infinite
	Outlying   int `json:"outlying"`    // a response is more than 20 robust standard deviations from its median
	ShortUnit  int `json:"short_unit"`  // of a job with too few rows for coefficients of its own
	Unordered  int `json:"unordered"`   // out of order in time: sorted, not left out
}

// Score is R² of a set of metrics in three ways. Never print InSample alone.
type Score struct {
	InSample float64 `json:"in_sample"` // fitted and scored on the same rows
	Adjusted float64 `json:"adjusted"`  // InSample, reduced by the expectation for noise
	HeldOut  float64 `json:"held_out"`  // mean over blocked folds: coefficients from the other folds
	Low      float64 `json:"low"`       // of the folds
	High     float64 `json:"high"`
}

// Point is one size on the curve of R² against the number of metrics.
type Point struct {
	Count   int     `json:"count"`
	HeldOut float64 `json:"held_out"`
}

// ModelTerm is a column of a model: coefficient × transform(value), see Scaled.
type ModelTerm struct {
	Metric      string  `json:"metric"`
	Statistic   string  `json:"statistic,omitempty"`
	Square      bool    `json:"square,omitempty"`
	Scaling     Scaling `json:"scaling"`
	Coefficient float64 `json:"coefficient"`
}

// Model predicts a response: Intercept + sum of the terms, clipped to Low and High.
type Model struct {
	Response  string      `json:"response"`
	Unit      string      `json:"unit,omitempty"`    // job or node of the coefficients; empty: all
	Centred   bool        `json:"centred,omitempty"` // metrics minus their median, response minus its mean, per unit
	Intercept float64     `json:"intercept"`
	Terms     []ModelTerm `json:"terms"`
	Low       float64     `json:"low"` // training range ± 25 %
	High      float64     `json:"high"`
	// LogMSE and LogMSESD are mean and standard deviation of log mean squared errors of stretches of 60 held-out rows.
	LogMSE   float64 `json:"log_mse"`
	LogMSESD float64 `json:"log_mse_sd"`
}

// Selection is a selection of metrics worth measuring, with the evidence.
type Selection struct {
	Rows        int             `json:"rows"`
	Blocks      int             `json:"blocks"`
	Units       int             `json:"units"`
	Metrics     int             `json:"metrics"` // of the table, constants included
	Out         Out             `json:"out"`
	Responses   []string        `json:"responses"`
	Joint       bool            `json:"joint"` // each job has coefficients of its own
	Scale       string          `json:"scale"` // asinh or linear, chosen by cross-validation
	Predictable bool            `json:"predictable"`
	Kept        []Chosen        `json:"kept"` // in the order of choice, tier after tier
	Dropped     []Dropped       `json:"dropped"`
	Left        []Left          `json:"left"`
	Score       Score           `json:"score"`
	Each        []ResponseScore `json:"each,omitempty"` // if there are several responses
	Curve       []Point         `json:"curve"`
	Shifted     float64         `json:"shifted"` // best held-out R² of the circular shifts
	Regimes     int             `json:"regimes"`
	Reduction   float64         `json:"reduction_degree"` // 1 − kept / metrics
	Models      []Model         `json:"models"`
	Warnings    []string        `json:"warnings,omitempty"`
}

// ResponseScore is the score of one of several responses.
type ResponseScore struct {
	Response string `json:"response"`
	Score
}

// Select finds the smallest set of metrics that explain the responses of a table. Without responses it covers the
// metrics.
func Select(t *Table, o Options) (*Selection, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	d, err := Prepare(t, o)
	if err != nil {
		return nil, err
	}
	out := &Selection{
		Rows: len(d.Rows), Blocks: len(d.Bounds) - 1, Units: len(d.names), Metrics: len(t.Metrics), Out: d.Out,
		Responses: d.Responses, Joint: d.Joint, Scale: "asinh", Left: d.Left, Warnings: d.Warnings,
	}
	prefer := newPreference(o)
	stars := stars(d, o.Threshold, d.named(o.Keep), prefer)
	out.Regimes = regimes(d, stars)
	out.warnRegimes()
	if len(d.Y) > 0 {
		s := bestScale(d, stars, o, prefer, out)
		if !s.decide(out) {
			return out, nil
		}
		s.explain(out)
	} else if o.Coverage == 0 {
		o.Coverage = .9
	}
	out.keepInUse(t, o)
	out.cover(d, o)
	out.Reduction = 1 - float64(len(out.Kept))/float64(out.Metrics)
	return out, nil
}

func (s *Selection) warnRegimes() {
	switch {
	case s.Regimes == 1:
		s.Warnings = append(s.Warnings, "one regime: all rows are alike, so nothing is known of other conditions, "+
			"and held-out R² is too high; measure at least three regimes, such as inputs, sizes or phases")
	case s.Regimes < 3:
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d regimes: held-out R² may be too high; measure at least three, "+
			"such as inputs, sizes or phases", s.Regimes))
	}
}

// scaleMargin is the R² by which raw values must beat asinh. On the recorded counters of the study, smaller differences
// were chance, and later rows favoured asinh.
const scaleMargin = .02

// bestScale searches on both scales and lets the folds decide, which compute each scale from training rows only. Asinh
// tames heavy-tailed rates, but a response that is linear in raw values loses by it.
func bestScale(d *Design, stars []Star, o Options, prefer preference, out *Selection) *search {
	var lead []int
	for _, s := range stars {
		lead = append(lead, s.Metric)
	}
	slices.Sort(lead)
	best := newSearch(d.only(lead), o, prefer)
	best.held = best.curve(best.problems, patience)
	clear(best.g.column) // of 5,000 metrics, both would be 130 MB
	other := newSearch(d.linear(lead), o, prefer)
	other.held = other.curve(other.problems, patience)
	if slices.Max(other.held) > slices.Max(best.held)+scaleMargin {
		best, out.Scale = other, "linear"
	}
	best.stars, best.regimes = stars, out.Regimes
	return best
}

// decide finds the size of the selection, and decides whether it is better than chance.
func (s *search) decide(out *Selection) bool {
	for k, r := range s.held {
		out.Curve = append(out.Curve, Point{Count: k, HeldOut: r})
	}
	s.size, out.Score.HeldOut = size(s.held, s.o.Tolerance)
	best := slices.Max(s.held)
	var folds []float64
	if s.size > 0 {
		s.errors, folds = s.foldErrors()
	}
	if len(folds) > 0 {
		out.Score.Low, out.Score.High = folds[0], folds[len(folds)-1]
		// Different levels in different folds can be predicted by chance. Movement within most folds cannot.
		out.Predictable = best >= unpredictable && folds[len(folds)/2] > 0
	}
	if out.Predictable {
		out.Shifted = s.shifted()
		out.Predictable = s.o.Shifts == 0 || best > out.Shifted+guardMargin
	}
	if !out.Predictable {
		out.Warnings = append(out.Warnings, fmt.Sprintf("these metrics do not predict %s: held-out R² is %.2f, and "+
			"%.2f with the response shifted in time; nothing is dropped", strings.Join(out.Responses, ", "), best,
			out.Shifted))
		if n := s.d.differenced(); n > 0 {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s by the differences of values, for their level drifts: "+
				"measure conditions that change more often, if it is their level that counts",
				counted(n, "metric counts", "metrics count")))
		}
	}
	return out.Predictable
}

// differenced counts the metrics that are used by their differences.
func (d *Design) differenced() (n int) {
	for _, g := range d.Metrics {
		if d.Terms[g.Terms[0]].Scaling.Difference {
			n++
		}
	}
	return n
}

// explain fills in the kept metrics, with the evidence for them.
func (s *search) explain(out *Selection) {
	frequency := make([]float64, len(s.d.Metrics))
	path := s.whole(s.size)
	if s.o.Halves > 0 {
		frequency = s.frequencies(s.size)
	}
	f := s.judge(path.chosen, out)
	for i, m := range path.chosen {
		out.Kept = append(out.Kept, Chosen{
			Name: s.d.Metrics[m].Name, Source: s.d.Metrics[m].Source, Tier: TierResponse,
			Gain: path.gains[i], F: f[m], Frequency: frequency[m], Filled: s.d.Metrics[m].Filled,
		})
	}
}

// named returns the indices of the named metrics of d.
func (d *Design) named(names []string) []int {
	var out []int
	for i, m := range d.Metrics {
		if slices.Contains(names, m.Name) {
			out = append(out, i)
		}
	}
	return out
}

// keepInUse adds the metrics of the table that Options.Keep names, even if they could not be judged.
func (s *Selection) keepInUse(t *Table, o Options) {
	kept := make(map[string]bool)
	for _, c := range s.Kept {
		kept[c.Name] = true
	}
	use := make(map[string]bool)
	for _, name := range o.Keep {
		use[name] = !kept[name]
	}
	var add []Chosen
	for _, m := range t.Metrics {
		if use[m.Name] {
			add = append(add, Chosen{Name: m.Name, Source: m.Source, Tier: TierInUse})
		}
	}
	slices.SortFunc(add, func(a, b Chosen) int { return strings.Compare(a.Name, b.Name) })
	s.Kept = append(s.Kept, add...)
	s.Left = slices.DeleteFunc(s.Left, func(l Left) bool { return use[l.Name] })
}

// cover adds the coverage tier, and fills in how well each dropped metric is predicted.
func (s *Selection) cover(d *Design, o Options) {
	var names []string
	for _, c := range s.Kept {
		names = append(names, c.Name)
	}
	var covered *Covered
	switch {
	case o.Coverage > 0 && o.Max == 0:
		covered = Cover(d, d.named(names), o.Coverage, 0)
	case o.Coverage > 0 && o.Max > len(names):
		covered = Cover(d, d.named(names), o.Coverage, o.Max-len(names))
	default:
		covered = coveredBy(d, d.named(names))
	}
	for _, name := range covered.Added {
		g := d.Metrics[d.named([]string{name})[0]]
		s.Kept = append(s.Kept, Chosen{Name: name, Source: g.Source, Tier: TierCoverage, Filled: g.Filled})
	}
	for _, g := range d.Metrics {
		if r2, dropped := covered.R2[g.Name]; dropped {
			s.Dropped = append(s.Dropped, Dropped{
				Name: g.Name, Source: g.Source, Representative: covered.Representative[g.Name],
				R: covered.R[g.Name], R2: r2,
			})
		}
	}
}

// only returns d with some of its metrics, and shares the columns. metrics must ascend.
func (d *Design) only(metrics []int) *Design {
	o := *d
	o.Metrics, o.Terms = nil, nil
	for _, m := range metrics {
		g := d.Metrics[m]
		terms := g.Terms
		g.Terms = nil
		for _, t := range terms {
			term := d.Terms[t]
			term.Metric = len(o.Metrics)
			g.Terms = append(g.Terms, len(o.Terms))
			o.Terms = append(o.Terms, term)
		}
		o.Metrics = append(o.Metrics, g)
	}
	return &o
}

// complete replaces zero values by defaults, and returns an error for invalid ones.
func (o Options) complete() (Options, error) {
	if o.Threshold == 0 {
		o.Threshold = .95
	}
	if o.Folds == 0 {
		o.Folds = 6
	}
	if o.Tolerance == 0 {
		o.Tolerance = .01
	}
	switch {
	case !(o.Threshold > 0 && o.Threshold <= 1):
		return o, fmt.Errorf("the threshold is %g: it must be above 0 and at most 1", o.Threshold)
	case !(o.Tolerance >= 0 && o.Tolerance < 1):
		return o, fmt.Errorf("the tolerance is %g: it must be from 0 to below 1", o.Tolerance)
	case o.Folds < 2 || o.Folds > 24:
		return o, fmt.Errorf("%d folds: there must be 2 to 24", o.Folds)
	case o.Max < 0 || o.Shifts < 0 || o.Halves < 0:
		return o, errors.New("a negative number of metrics, shifts or halves: 0 is none")
	case !(o.Coverage >= 0 && o.Coverage < 1):
		return o, fmt.Errorf("a coverage of %g: it must be from 0 to below 1", o.Coverage)
	}
	return o, nil
}
