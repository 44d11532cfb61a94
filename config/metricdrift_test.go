package config

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const goodDrift = goodList + `drift:
  models:
    - response: iterations
      intercept: 2
      low: -1
      high: 5
      log_mse: -0.5
      log_mse_sd: 0.2
      terms:
        - metric: mem_bw
          statistic: d0
          scaling: {centre: 1, scale: 2, asinh: true, mean: 0.1, sd: 0.9}
          coefficient: 3
  columns:
    - {metric: cpu_idle, scaling: {centre: 1, scale: 2, mean: 0, sd: 1, difference: true}}
    - {metric: cpu_user, scaling: {centre: 1, scale: 3, mean: 0, sd: 1}}
  canaries:
    - {metric: cpu_idle, terms: [{metric: cpu_user, coefficient: -0.98}], error: 0.04}
`

func TestMetricDriftIsReadAsWritten(t *testing.T) {
	l, err := parseMetricList([]byte(goodDrift))
	if err != nil {
		t.Fatal(err)
	}
	d := l.Drift
	if d.Models[0].Terms[0].Scaling != (DriftScaling{Centre: 1, Scale: 2, Asinh: true, Mean: .1, SD: .9}) ||
		!d.Columns[0].Scaling.Difference || d.Canaries[0].Terms[0].Coefficient != -.98 {
		t.Errorf("read %+v", d)
	}
	text, err := yaml.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := parseMetricList(text); err != nil || !reflect.DeepEqual(again, l) {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
}

// TestMetricDriftFaults: what cannot be computed with is refused with its key, before any row is read.
func TestMetricDriftFaults(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"model of another":    {"- metric: mem_bw", "- metric: psi_io", "terms[0].metric = psi_io: is not in keep"},
		"response":            {"response: iterations", "response: a/b", "drift.models[0].response = "},
		"not finite":          {"intercept: 2", "intercept: .nan", "drift.models[0] = NaN"},
		"infinite":            {"coefficient: 3", "coefficient: .inf", "terms[0].coefficient = +Inf"},
		"clip":                {"low: -1", "low: 9", "drift.models[0].low = 9"},
		"scale 0":             {"scale: 2, asinh", "scale: 0, asinh", "terms[0].scaling = "},
		"no deviation":        {"mean: 0, sd: 1}", "mean: 0}", "drift.columns[1].scaling"},
		"square":              {"mean: 0, sd: 1}", "mean: 0, sd: 1, square: true}", "drift.columns[1].scaling"},
		"canary that is kept": {"{metric: cpu_idle, terms", "{metric: cpu_user, terms", "is not in dropped"},
		"canary by a dropped": {"[{metric: cpu_user, coeff", "[{metric: cpu_idle, coeff", "is not in keep"},
		"canary by none":      {"[{metric: cpu_user, coefficient: -0.98}]", "[]", "[0].terms = []: has no term"},
		"canary unscaled":     {"- {metric: cpu_idle, scal", "- {metric: psi_io, scal", "is not in drift.columns"},
		"error":               {"error: 0.04", "error: -1", "drift.canaries[0].error = -1"},
		"unknown key":         {"centre: 1", "center: 1", "field center is no key of DriftScaling"},
		"column twice":        {"- {metric: cpu_user, scaling", "- {metric: cpu_idle, scaling", "is there twice"},
	} {
		text := strings.Replace(goodDrift, c.from, c.to, 1)
		if name == "no deviation" || name == "square" { // of the second column
			at := strings.LastIndex(goodDrift, c.from)
			text = goodDrift[:at] + c.to + goodDrift[at+len(c.from):]
		}
		if text == goodDrift {
			t.Fatalf("%s: nothing was replaced", name)
		}
		if _, err := parseMetricList([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
