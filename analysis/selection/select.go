package selection

import (
	"errors"
	"fmt"
)

// Options are the choices of a selection. Defaults has those of research: change what differs.
type Options struct {
	Quadratic  bool               // each column also squared
	Threshold  float64            // correlation above which one metric stands for another; 0: .95
	Statistics []string           // columns that count; empty: all that the table has
	Keep       []string           // measured in any case: rules, derived metrics or a person name them
	Previous   []string           // the list in force: it wins ties
	Max        int                // most metrics chosen for the responses; 0: no limit but the rows
	Folds      int                // of the cross-validation; 0: 6
	Tolerance  float64            // the fewest metrics within this of the best R²; 0: .01
	Shifts     int                // circular shifts that a selection must beat; 0: no guard
	Halves     int                // complementary halves of the blocks, for the frequencies; 0: none
	Coverage   float64            // R² that each dropped metric must reach from those kept; 0: no tier of coverage
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
	Gain      float64 `json:"gain"`      // in-sample R² that it added when it was chosen
	F         float64 `json:"f"`         // of its columns in the final model, over its blocks; the mean over jobs
	Frequency float64 `json:"frequency"` // share of the halves that chose it or a metric that it stands for
}

// Dropped is a metric that need not be measured, and what is known of it without.
type Dropped struct {
	Name           string  `json:"name"`
	Source         string  `json:"source,omitempty"`
	Representative string  `json:"representative,omitempty"` // the kept metric that is closest; empty: none
	R              float64 `json:"r"`                        // correlation with it
	R2             float64 `json:"r2"`                       // from all metrics that are kept, on held-out blocks
}

// Left is a metric that took no part, and why.
type Left struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
	Reason string `json:"reason"` // constant, missing
}

// Out counts rows that took no part, by reason.
type Out struct {
	Torn       int `json:"torn"`        // read too soon after the row before
	NoResponse int `json:"no_response"` // a response is missing or infinite
	Outlying   int `json:"outlying"`    // a response is further than 20 robust standard deviations from its median
	ShortUnit  int `json:"short_unit"`  // of a job with too few rows for coefficients of its own
	Unordered  int `json:"unordered"`   // out of order in time: sorted, not left out
}

// Score is R² of a set of metrics, in three ways. Never print InSample alone.
type Score struct {
	InSample float64 `json:"in_sample"` // fitted and scored on the same rows
	Adjusted float64 `json:"adjusted"`  // InSample, less what noise alone would reach
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
	Unit      string      `json:"unit,omitempty"` // whose coefficients these are; empty: of all
	Intercept float64     `json:"intercept"`
	Terms     []ModelTerm `json:"terms"`
	Low       float64     `json:"low"` // training range ± 25 %
	High      float64     `json:"high"`
	// LogMSE and LogMSESD are mean and standard deviation of log mean squared errors of stretches of 60 held-out rows.
	LogMSE   float64 `json:"log_mse"`
	LogMSESD float64 `json:"log_mse_sd"`
}

// Selection is which metrics are worth measuring, and the evidence.
type Selection struct {
	Rows        int             `json:"rows"`
	Blocks      int             `json:"blocks"`
	Units       int             `json:"units"`
	Metrics     int             `json:"metrics"` // of the table, constants included
	Out         Out             `json:"out"`
	Responses   []string        `json:"responses"`
	Joint       bool            `json:"joint"` // each job has coefficients of its own
	Scale       string          `json:"scale"` // asinh or linear: cross-validation decides
	Predictable bool            `json:"predictable"`
	Kept        []Chosen        `json:"kept"` // in the order in which they were chosen, tier after tier
	Dropped     []Dropped       `json:"dropped"`
	Left        []Left          `json:"left"`
	Score       Score           `json:"score"`
	Each        []ResponseScore `json:"each,omitempty"` // where there are several responses
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

// Select finds the fewest metrics that explain the responses of a table. Without responses it covers the metrics.
func Select(t *Table, o Options) (*Selection, error) {
	return nil, errors.New("not written yet")
}

// complete fills in what is zero, and finds what cannot be.
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
