package config

import (
	"errors"
	"fmt"
	"math"
)

// MetricDrift lists the checks of `weir metrics drift`: whether the kept metrics still explain the responses, and
// whether each dropped metric still follows from kept ones.
type MetricDrift struct {
	Centred  bool          `yaml:"centred,omitempty"` // there were several jobs or nodes: each is on a level of its own
	Models   []DriftModel  `yaml:"models,omitempty"`
	Columns  []DriftColumn `yaml:"columns,omitempty"` // of the metrics that canaries name
	Canaries []DriftCanary `yaml:"canaries,omitempty"`
}

// DriftModel predicts a response: the intercept, and each term's coefficient times its scaled value.
type DriftModel struct {
	Response string `yaml:"response"`
	// Renewed models contain no coefficients: each job gets coefficients of its own. Drift watches how well the terms
	// explain the response.
	Renewed   bool    `yaml:"renewed,omitempty"`
	Intercept float64 `yaml:"intercept"`
	Low       float64 `yaml:"low"` // predictions are clipped to low and high: the training range ± 25 %
	High      float64 `yaml:"high"`
	// LogMSE and LogMSESD are mean and standard deviation of the log mean squared error of stretches of held-out rows.
	LogMSE   float64     `yaml:"log_mse"`
	LogMSESD float64     `yaml:"log_mse_sd"`
	Terms    []DriftTerm `yaml:"terms"`
}

// DriftTerm is a column of a model.
type DriftTerm struct {
	Metric      string       `yaml:"metric"`
	Statistic   string       `yaml:"statistic,omitempty"`
	Square      bool         `yaml:"square,omitempty"`
	Scaling     DriftScaling `yaml:"scaling,flow"`
	Coefficient float64      `yaml:"coefficient,omitempty"`
}

// DriftScaling makes values of different units comparable. Package selection defines it.
type DriftScaling struct {
	Difference bool    `yaml:"difference,omitempty"`
	Centre     float64 `yaml:"centre"`
	Scale      float64 `yaml:"scale"`
	Asinh      bool    `yaml:"asinh,omitempty"`
	Mean       float64 `yaml:"mean"`
	SD         float64 `yaml:"sd"`
	Square     bool    `yaml:"square,omitempty"`
	MeanSquare float64 `yaml:"mean_square,omitempty"`
	SDSquare   float64 `yaml:"sd_square,omitempty"`
}

// DriftColumn describes the scaling of a metric's values.
type DriftColumn struct {
	Metric    string       `yaml:"metric"`
	Statistic string       `yaml:"statistic,omitempty"`
	Scaling   DriftScaling `yaml:"scaling,flow"`
}

// DriftCanary is a dropped metric. On nodes that still measure it, its scaled value is the sum of the terms. Error is
// the mean square of the residual in training.
type DriftCanary struct {
	Metric string            `yaml:"metric"`
	Terms  []DriftCanaryTerm `yaml:"terms,flow"`
	Error  float64           `yaml:"error"`
}

// DriftCanaryTerm is a kept metric, and the coefficient of its scaled value.
type DriftCanaryTerm struct {
	Metric      string  `yaml:"metric"`
	Coefficient float64 `yaml:"coefficient"`
}

var (
	errNoTerm     = errors.New("has no term: a model predicts from one metric at least")
	errDriftName  = errors.New("is not in keep: the agents do not measure it everywhere")
	errNotDropped = errors.New("is not in dropped: a canary watches a metric that other nodes do not measure")
	errNoScaling  = errors.New("is not in drift.columns: its values cannot be compared with those of training")
)

// validate checks a model of drift: names that the list keeps or drops, and numbers that can be computed with.
func (d *MetricDrift) validate(f *findings, kept, dropped map[string]bool) {
	if d == nil {
		return
	}
	responses := map[string]bool{}
	for i := range d.Models {
		m, key := &d.Models[i], fmt.Sprintf("drift.models[%d]", i)
		f.listed(key+".response", m.Response, responses)
		if len(m.Terms) == 0 {
			f.wrong(errNoTerm, key+".terms", "[]", "")
		}
		f.finite(key, m.Intercept, m.Low, m.High, m.LogMSE, m.LogMSESD)
		if m.Low > m.High {
			f.wrong(errRange, key+".low", m.Low, "at most high")
		}
		for j := range m.Terms {
			t, key := &m.Terms[j], fmt.Sprintf("%s.terms[%d]", key, j)
			if f.name(key+".metric", t.Metric); !kept[t.Metric] {
				f.wrong(errDriftName, key+".metric", t.Metric, "")
			}
			f.finite(key+".coefficient", t.Coefficient)
			t.Scaling.validate(f, key+".scaling")
		}
	}
	scaled := map[string]bool{}
	for i := range d.Columns {
		c, key := &d.Columns[i], fmt.Sprintf("drift.columns[%d]", i)
		f.listed(key+".metric", c.Metric, scaled)
		c.Scaling.validate(f, key+".scaling")
	}
	canaries := map[string]bool{}
	for i := range d.Canaries {
		c, key := &d.Canaries[i], fmt.Sprintf("drift.canaries[%d]", i)
		if f.listed(key+".metric", c.Metric, canaries) && !dropped[c.Metric] {
			f.wrong(errNotDropped, key+".metric", c.Metric, "")
		}
		c.validate(f, key, kept, scaled)
	}
}

func (c *DriftCanary) validate(f *findings, key string, kept, scaled map[string]bool) {
	if len(c.Terms) == 0 {
		f.wrong(errNoTerm, key+".terms", "[]", "")
	}
	if f.finite(key+".error", c.Error); c.Error < 0 {
		f.wrong(errRange, key+".error", c.Error, "at least 0")
	}
	if !scaled[c.Metric] {
		f.wrong(errNoScaling, key+".metric", c.Metric, "")
	}
	for i, t := range c.Terms {
		key := fmt.Sprintf("%s.terms[%d]", key, i)
		if !kept[t.Metric] {
			f.wrong(errDriftName, key+".metric", t.Metric, "")
		}
		if !scaled[t.Metric] {
			f.wrong(errNoScaling, key+".metric", t.Metric, "")
		}
		f.finite(key+".coefficient", t.Coefficient)
	}
}

func (s *DriftScaling) validate(f *findings, key string) {
	f.finite(key, s.Centre, s.Scale, s.Mean, s.SD, s.MeanSquare, s.SDSquare)
	if !(s.Scale > 0) || !(s.SD > 0) || s.Square && !(s.SDSquare > 0) {
		f.wrong(errRange, key, "scale, sd or sd_square", "above 0")
	}
}

// finite checks that all numbers are finite.
func (f *findings) finite(key string, values ...float64) {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			f.wrong(errRange, key, v, "finite numbers")
			return
		}
	}
}
