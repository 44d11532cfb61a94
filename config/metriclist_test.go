package config

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const goodList = `version: 1
created: "2026-11-23T03:00:00Z"
source: archive
rows: 2880
blocks: 12
responses: [iterations]
method: forward
seed: 1
canary: 0.02
keep: [cpu_user, mem_bw]
kept:
  - {name: cpu_user, why: "in use: rule imbalance"}
  - {name: mem_bw, why: response}
dropped:
  - {name: cpu_idle, representative: cpu_user, r: -0.98, r2: 0.93}
  - {name: psi_io, r: 0, r2: -1.5}
`

func TestMetricListIsReadAsWritten(t *testing.T) {
	want := &MetricList{
		Version: 1, Created: "2026-11-23T03:00:00Z", Source: "archive", Rows: 2880, Blocks: 12,
		Responses: []string{"iterations"}, Method: "forward", Seed: 1, Canary: 0.02,
		Keep: []string{"cpu_user", "mem_bw"},
		Kept: []Kept{{"cpu_user", "in use: rule imbalance"}, {"mem_bw", "response"}},
		Dropped: []Dropped{
			{Name: "cpu_idle", Representative: "cpu_user", R: -0.98, R2: 0.93}, {Name: "psi_io", R2: -1.5},
		},
	}
	l, err := parseMetricList([]byte(goodList))
	if err != nil || !reflect.DeepEqual(l, want) {
		t.Fatalf("got %+v, %v", l, err)
	}
	text, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := parseMetricList(text); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
}

// TestMetricListFaults: each fault names its key, its value and what to do.
func TestMetricListFaults(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"unknown key":        {"seed: 1", "sead: 1", "line 8: field sead is no key of metrics.yaml"},
		"unknown key below":  {"why: response", "reason: response", "field reason is no key of Kept"},
		"newer":              {"version: 1", "version: 2", "version = 2: is no version that this weir knows"},
		"no version":         {"version: 1\n", "", "version = 0: is no version"},
		"time":               {`"2026-11-23T03:00:00Z"`, "today", `created = "today": must be a time such as`},
		"canary above":       {"canary: 0.02", "canary: 2", "canary = 2: out of range: 0 (no node) to 1"},
		"canary below":       {"canary: 0.02", "canary: -0.1", "canary = -0.1: out of range"},
		"canary NaN":         {"canary: 0.02", "canary: .nan", "canary = NaN: out of range"},
		"canary in words":    {"canary: 0.02", "canary: two", "cannot unmarshal"},
		"rows":               {"rows: 2880", "rows: -1", "rows = -1: out of range"},
		"name":               {"[cpu_user, mem_bw]", "[cpu_user, mem_bw, a b]", `keep[2] = "a b": must match`},
		"empty name":         {"[cpu_user, mem_bw]", "[cpu_user, mem_bw, '']", `keep[2] = "": must match`},
		"not UTF-8":          {"[cpu_user, mem_bw]", "[cpu_user, mem_bw, \"\xff\"]", "invalid leading UTF-8"},
		"twice":              {"[cpu_user, mem_bw]", "[cpu_user, cpu_user]", "keep[1] = cpu_user: is there twice"},
		"nothing kept":       {"[cpu_user, mem_bw]", "[]", "keep = []: names no metric: nothing would be measured"},
		"a text for a list":  {"[cpu_user, mem_bw]", "cpu_user", "cannot unmarshal"},
		"kept and dropped":   {"name: cpu_idle", "name: cpu_user", "dropped[0].name = cpu_user: is kept and dropped"},
		"dropped twice":      {"name: psi_io", "name: cpu_idle", "dropped[1].name = cpu_idle: is there twice"},
		"why of another":     {"{name: mem_bw, ", "{name: mem_bv, ", "kept[1].name = mem_bv: is not in keep"},
		"correlation":        {"r: -0.98", "r: -1.1", "dropped[0].r = -1.1: out of range: -1 to 1"},
		"determination":      {"r2: 0.93", "r2: .nan", "dropped[0].r2 = NaN: out of range: at most 1"},
		"representative":     {"representative: cpu_user", "representative: a/b", "dropped[0].representative = "},
		"response":           {"[iterations]", "[it/s]", `responses[0] = "it/s": must match`},
		"two documents":      {"version: 1", "version: 1\n---\nversion: 1", "more than one document"},
		"a list at the top":  {goodList, "- cpu_user", "cannot unmarshal seq as metrics.yaml"},
		"empty":              {goodList, "", "keep names no metric"},
		"tab":                {"canary: 0.02", "canary:\n\t0.02", "a tab? YAML indents with spaces"},
		"every line unknown": {"seed: 1", strings.Repeat("a: 1\n", 1), "is no key"},
	} {
		text := strings.Replace(goodList, c.from, c.to, 1)
		if text == goodList {
			t.Fatalf("%s: nothing was replaced", name)
		}
		l, err := parseMetricList([]byte(text))
		if err == nil || l != nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	many := "version: 1\nkeep:\n" + strings.Repeat("  - a b\n", 1000)
	if _, err := parseMetricList([]byte(many)); err == nil || !strings.Contains(err.Error(), "980 faults more") {
		t.Errorf("a thousand faults: %v", err)
	}
}

func TestReadMetricListNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadMetricList(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	path := filepath.Join(dir, "metrics.yaml")
	if err := os.WriteFile(path, []byte("version: 1\nkeep: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMetricList(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a wrong file: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", maxListBytes+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMetricList(path); err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
		t.Errorf("a large file: %v", err)
	}
	if err := os.WriteFile(path, []byte(goodList), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := ReadMetricList(path); err != nil || !slices.Equal(l.Keep, []string{"cpu_user", "mem_bw"}) {
		t.Errorf("a good file: %+v, %v", l, err)
	}
}

func TestListMeasures(t *testing.T) {
	var none *MetricList
	l := &MetricList{Keep: []string{"cpu_user"}}
	more := l.With([]string{"mem_bw", "cpu_user"})
	all := &MetricList{Keep: []string{"cpu_user"}, Canary: 1}
	explains := &MetricList{Keep: []string{"cpu_user"}, Responses: []string{"psi_cpu"}}
	for _, c := range []struct {
		list   *MetricList
		metric string
		want   bool
	}{
		{explains, "psi_cpu", true},
		{explains, "psi_io", false},
		{none, "psi_io", true},
		{l, "cpu_user", true},
		{l, "psi_io", false},
		{l, "mem_bw", false},
		{l, "weir_agent_cpu_ms", true},
		{more, "mem_bw", true},
		{more, "psi_io", false},
		{all, "psi_io", true},
	} {
		if got := c.list.Measures("n0001", c.metric); got != c.want {
			t.Errorf("%+v measures %s: %v", c.list, c.metric, got)
		}
	}
	if !slices.Equal(l.Keep, []string{"cpu_user"}) || !slices.Equal(more.Keep, []string{"cpu_user", "mem_bw"}) {
		t.Errorf("With changed its list, or is not in order: %v, %v", l.Keep, more.Keep)
	}
}

// TestCanary pins the hash: agents of every version must choose the same nodes. The share is that which was asked for,
// of neighbours in a rack too. A node that is a canary stays one when the share grows.
func TestCanary(t *testing.T) {
	var chosen []string
	for i := range 10_000 {
		node := nodeName(i)
		if Canary(node, 0.001) {
			chosen = append(chosen, node)
		}
		if Canary(node, 0.02) && !Canary(node, 0.05) || Canary(node, 0) || !Canary(node, 1) {
			t.Fatalf("%s: the choice is not monotone in the share", node)
		}
	}
	want := []string{"n0681", "n1649", "n3047", "n4799", "n5184", "n5521", "n6248", "n7667", "n9685"}
	if !slices.Equal(chosen, want) {
		t.Errorf("the canaries of a thousandth are %q, want %q", chosen, want)
	}
	for _, share := range []float64{0.01, 0.02, 0.1, 0.5} {
		for rack := range 5 { // of 2,000 nodes each
			n := 0
			for i := range 2000 {
				if Canary(nodeName(2000*rack+i), share) {
					n++
				}
			}
			// Six standard deviations of a binomial distribution.
			if d := math.Abs(float64(n) - 2000*share); d > 6*math.Sqrt(2000*share*(1-share)) {
				t.Errorf("rack %d: %d of 2000 nodes are canaries at %g", rack, n, share)
			}
		}
	}
	if Canary("n0001", math.NaN()) {
		t.Error("a share that is no number chooses a node")
	}
}

func nodeName(i int) string {
	const digits = "0123456789"
	return "n" + string([]byte{digits[i/1000%10], digits[i/100%10], digits[i/10%10], digits[i%10]})
}

// FuzzMetricList: no text makes it panic, and what it takes is within bounds and is read again as it was written.
func FuzzMetricList(f *testing.F) {
	f.Add([]byte(goodList))
	f.Add([]byte("version: 1\nkeep: [a]\n"))
	f.Add([]byte("version: 1\nkeep: &a [a]\nkept: *a\n"))
	f.Add([]byte("keep:\n\t- a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseMetricList(text)
		if err != nil {
			if l != nil || len(err.Error()) > 10_000 || strings.Contains(err.Error(), "config.") {
				t.Fatalf("%+v with %v", l, err)
			}
			return
		}
		if len(l.Keep) == 0 || !(l.Canary >= 0 && l.Canary <= 1) {
			t.Fatalf("took %+v", l)
		}
		again, err := yaml.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := parseMetricList(again); err != nil || m.Canary != l.Canary || !slices.Equal(m.Keep, l.Keep) {
			t.Fatalf("%q was read again as %+v, %v", again, m, err)
		}
	})
}
