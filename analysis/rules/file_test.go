package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// oneRule is a rule file with one rule, of which a line may be another one.
func oneRule(change, to string) string {
	text := strings.TrimPrefix(idleRule, "\n")
	if change == "" {
		return text + to
	}
	return strings.Replace(text, change, to, 1)
}

// TestFaultsOfFiles: each fault names the file, the line and the rule, and tells what is wanted.
func TestFaultsOfFiles(t *testing.T) {
	for _, c := range [][2]string{
		{"- id: x\n  titel: y\n", "site.yaml:2: rule x: not a rule file: unknown key \"titel\""},
		{"rulez: []\n", "site.yaml:1: not a rule file: unknown key \"rulez\""},
		{"- id: x\n  id: y\n", "site.yaml:2: rule x: not a rule file: key id is given twice"},
		{"just text", "site.yaml:1: not a rule file: a list is wanted here"},
		{"- 3\n", "site.yaml:1: not a rule file: a mapping of keys is wanted here"},
		{"- [", "site.yaml: not a rule file: yaml"},
		{"a: &a [*a]\n", "unknown key"},
		{"- id: &x a\n  title: *x\n", "title is an alias: write it out"},
		{"guards: {seen: 2}\n", "seen and complete are from 0 to 1"},
		{"guards: {seen: .nan}\n", "seen and complete are from 0 to 1"},
		{"guards: {after: -3s}\n", "a duration is from 0s to 8784h"},
		{"guards: {after: 3}\n", "after: it has the value \"3\""},
		{"guards: {intervals: 0}\n", "intervals is at least 1"},
		{"metrics: [{name: a-b}]\n", "a rule cannot name it"},
		{"metrics: [{name: job}]\n", "a rule cannot name it"},
		{
			oneRule("id: idle", "id: Idle"),
			"site.yaml:1: rule Idle: wrong rule: id \"Idle\" must match [a-z0-9-]{1,40}",
		},
		{oneRule("id: idle", "id: low-cpu"), "rule low-cpu: wrong rule: shipped.yaml:"},
		{oneRule("  title: idle\n", ""), "title must have 1 to 200 bytes"},
		{oneRule("each: ", "job: 3 > cpu_idle.d0\n  each: "), "write either each"},
		{oneRule("  each: cpu_idle.mean > 0.5\n", ""), "write either each"},
		{oneRule("share: 0.5", "share: 1.5"), "share 1.5 must be from 0 to 1"},
		{oneRule("share: 0.5", "share: .nan"), "share NaN must be from 0 to 1"},
		{oneRule("share: 0.5", "share: [1]"), "share: it has a list"},
		{oneRule("share: 0.5", "by: node"), "by \"node\" must be low_node or high_node"},
		{oneRule("share: 0.5", "guards: {last: false}"), "the guard last is one for all rules"},
		{oneRule("share: 0.5", "silences: [nothing]"), "it silences \"nothing\", which is no rule"},
		{oneRule("share: 0.5", "silences: [serial]"), "serial, which silences others"},
		{oneRule("share: 0.5", "parameters: {a b: 1}"), "parameter \"a b\" must be a name and a finite number"},
		{oneRule("share: 0.5", "parameters: {a: .inf}"), "must be a name and a finite number"},
		{oneRule("share: 0.5", "examples: {fires: [../a]}"), "must be the name of a file in examples/"},
		{oneRule("needs: [cpu_idle]", "needs: [nope]"), "unknown metric \"nope\""},
		{oneRule("needs: [cpu_idle]", "needs: []"), "metric cpu_idle is not in needs of the rule"},
		{oneRule("to: 1}", "to: 0}"), "from and to must be two finite numbers"},
		{oneRule("to: 1}", "to: .inf}"), "from and to must be two finite numbers"},
		{oneRule("to: 1}", "high: 1}"), "severity is {of, from, to}"},
		{oneRule("from: 0, to: 1}", "high: 0}"), "the limit must be finite and not 0"},
		{oneRule("from: 0, to: 1}", "low: 1, exponent: 0}"), "the exponent must be above 0"},
		{oneRule("from: 0, to: 1}", "low: p.x}"), "neither a number nor a parameter"},
		{oneRule("of: cpu_idle.mean, ", ""), "severity.of: wrong expression"},
		{oneRule("cpu_idle.mean > 0.5", "job.gpus"), "each: wrong expression: expected bool"},
		{oneRule("share: 0.5", "require: cpu_idle.mean > 1"), "require: wrong expression: unknown name cpu_idle"},
		{oneRule("", "  hint: \"{{.job.nothing}}\"\n"), "wrong text"},
		{oneRule("", "  hint: \"{{range 1000000000}}a{{end}}\"\n"), "is not for hints"},
		{oneRule("", "  hint: \"{{printf \\\"%999999999d\\\" 1}}\"\n"), "printf is not for hints"},
		{oneRule("", "  hint: \"{{define \\\"a\\\"}}{{end}}\"\n"), "defines a template"},
		{oneRule("", "  hint: \"{{template \\\"hint\\\" .}}\"\n"), "is not for hints"},
		{oneRule("", "  hint: \"{{with .job}}a{{end}}\"\n"), "is not for hints"},
		{oneRule("", "  hint: \"{{$x := 1}}\"\n"), "there are no variables"},
		{oneRule("", "  hint: \"{{.job.nodes\"\n"), "wrong text"},
		{oneRule("", "  hint: "+strings.Repeat("x", 5000)+"\n"), "at most 4096"},
		{oneRule("", "  evidence: [x]\n"), "key evidence is given twice"},
		{oneRule("[cpu_idle.mean]", "["+strings.Repeat("cpu_idle.mean, ", 17)+"]"), "evidence has 17 numbers"},
		{"x: " + strings.Repeat("y", maxFileBytes), "are more than"},
	} {
		text, wanted := c[0], c[1]
		set, err := Compile(catalogue, nil, Source{"site.yaml", []byte(text)})
		if err == nil || !strings.Contains(err.Error(), wanted) || set != nil {
			t.Errorf("%.80q: %v, without %q", text, err, wanted)
		}
	}
	_, err := Compile(catalogue, []string{"nothing"})
	if err == nil || !strings.Contains(err.Error(), `find.off: wrong rule: weir ships no rule "nothing"`) {
		t.Errorf("%v", err)
	}
	_, err = Compile(catalogue, nil, Source{"site.yaml", []byte(strings.Repeat(oneRule("", ""), 300))})
	if err == nil || !strings.Contains(err.Error(), "more than 256") {
		t.Errorf("%.200v", err)
	}
}

// TestAllFaultsAtOnce: somebody who mends a file sees all of its faults.
func TestAllFaultsAtOnce(t *testing.T) {
	text := oneRule("0.5\n", "x\n") + oneRule("id: idle", "id: second") + oneRule("id: idle", "id: second") +
		oneRule("id: idle", "id: third\n  foo: 1")
	_, err := Compile(catalogue, nil, Source{"site.yaml", []byte(text)}, Source{"b.yaml", []byte("- id: q q\n")})
	for _, wanted := range []string{
		"site.yaml:1: rule idle: each: wrong expression: unknown name x",
		"site.yaml:15: rule second: wrong rule: site.yaml:8 has",
		"rule third: not a rule file: unknown key", "b.yaml:1: rule q q: wrong rule: id",
	} {
		if err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%v\n\nis without %q", err, wanted)
		}
	}
}

// TestSitesReplaceRules: a site leaves a shipped rule out, and may give its name to a rule of its own. Its files
// declare metrics that the catalogue lacks.
func TestSitesReplaceRules(t *testing.T) {
	text := "metrics: [{name: sim_node, unit: '1', scope: node}]\nrules:\n" +
		"- id: low-cpu\n  title: ours\n  needs: [sim_node]\n" +
		"  each: sim_node.mean > p.t\n  severity: {of: sim_node.mean, high: p.t}\n  parameters: {t: 2}\n"
	s, err := Compile(catalogue, []string{"low-cpu", "time-over"}, Source{"site.yaml", []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rules) != 18 || s.Rules[17].ID != "low-cpu" || s.Rules[17].Title != "ours" ||
		s.Rules[17].SourceName != "site.yaml" {
		t.Errorf("%d rules, the last is %+v", len(s.Rules), s.Rules[len(s.Rules)-1].ID)
	}
	if names, values := s.Rules[17].Parameters(); len(names) != 1 || names[0] != "t" || values[0] != 2 {
		t.Errorf("parameters %v %v", names, values)
	}
	for i := range s.Rules {
		if s.Rules[i].ID == "time-over" {
			t.Errorf("a rule that is off is on")
		}
	}
	if got := s.Rules[0].Reads(); !slices.Equal(got, []string{
		"cpu_system", "disk_bytes", "lustre_read_bw", "lustre_write_bw", "nfs_read_bw", "nfs_write_bw",
	}) {
		t.Errorf("kernel-no-io reads %v", got)
	}
}

// TestHashes: two rules have two hashes, and one that did not change has the hash of before.
func TestHashes(t *testing.T) {
	seen := map[string]string{}
	set := shippedSet(t)
	for i := range set.Rules {
		r := &set.Rules[i]
		if other, twice := seen[r.Hash]; twice || len(r.Hash) != 16 {
			t.Errorf("%s has the hash %s, as %s", r.ID, r.Hash, other)
		}
		seen[r.Hash] = r.ID
	}
	again := shippedSet(t)
	other := shippedSet(t, Source{"site.yaml", []byte("guards: {intervals: 29}")})
	for i := range set.Rules {
		if set.Rules[i].Hash != again.Rules[i].Hash || set.Rules[i].Hash == other.Rules[i].Hash {
			t.Errorf("%s: %s, %s again, %s with another guard", set.Rules[i].ID, set.Rules[i].Hash,
				again.Rules[i].Hash,
				other.Rules[i].Hash)
		}
	}
}

// TestScales: a severity is in 0 to 1, grows the right way, and is worst where DCDB's code has 0.
func TestScales(t *testing.T) {
	for _, c := range []struct {
		s       scale
		v, want float64
	}{
		{scale{from: 0, to: 0.5}, 0.25, 0.5},
		{scale{from: 0, to: 0.5}, -1, 0},
		{scale{from: 0, to: 0.5}, 9, 1},
		{scale{from: 1, to: 0}, 0.25, 0.75},
		{scale{from: 0.85, to: 1}, 0.925, 0.5},
		{scale{kind: scaleHigh, limit: 10, exponent: 1}, 15, 0.5},
		{scale{kind: scaleHigh, limit: 10, exponent: 1}, 10, 0},
		{scale{kind: scaleHigh, limit: 10, exponent: 1}, 0, 0},
		{scale{kind: scaleHigh, limit: 10, exponent: 1}, 99, 1},
		{scale{kind: scaleHigh, limit: 10, exponent: 0.5}, 12.5, 0.5},
		{scale{kind: scaleLow, limit: 0.4, exponent: 1}, 0, 1},
		{scale{kind: scaleLow, limit: 0.4, exponent: 1}, 0.1, 0.75},
		{scale{kind: scaleLow, limit: 0.4, exponent: 2}, 0.2, 0.75},
		{scale{kind: scaleLow, limit: 0.4, exponent: 1}, 2, 0},
		{scale{kind: scaleLow, limit: 0.4, exponent: 0.5}, -3, 1},
		{scale{from: 0, to: 1}, math.NaN(), math.NaN()},
	} {
		if got := c.s.of(c.v); math.Abs(got-c.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%+v of %v is %v, not %v", c.s, c.v, got, c.want)
		}
	}
}

// TestSeverityOfDeciles: a severity grows or falls with its number. So the severities of the deciles bound the mean
// severity of all values, as closely as deciles can.
func TestSeverityOfDeciles(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 20_000 {
		all := make([]float64, 1+r.IntN(300))
		for i := range all {
			if all[i] = 3 * r.Float64(); r.IntN(4) == 0 {
				all[i] = 1
			}
		}
		slices.Sort(all)
		s := scale{
			kind: r.IntN(3), from: r.Float64(), to: 1 + r.Float64(), limit: 0.1 + r.Float64(),
			exponent: 0.1 + 2*r.Float64(),
		}
		rank := func(k int) int { return (k*len(all) + 9) / 10 }
		d := []float64{all[0]}
		for k := 1; k <= 10; k++ {
			d = append(d, all[max(rank(k), 1)-1])
		}
		var mean, low, high float64
		for _, v := range all {
			mean += s.of(v) / float64(len(all))
		}
		for k := 1; k <= 10; k++ {
			a, b := s.of(d[k-1]), s.of(d[k])
			share := float64(rank(k)-rank(k-1)) / float64(len(all))
			low, high = low+share*min(a, b), high+share*max(a, b)
		}
		widest := (0.1 + 1/float64(len(all))) * math.Abs(s.of(d[10])-s.of(d[0]))
		if mean < low-1e-9 || mean > high+1e-9 || high-low > widest+1e-9 || low < -1e-9 || high > 1+1e-9 {
			t.Fatalf("seed %d, case %d: %v is not in %v to %v, of width %v at most", seed, n, mean, low, high, widest)
		}
	}
}

// TestMetricOf: a metric of a summary and of its row are the same. What has no values, or bounds of another length, is
// none.
func TestMetricOf(t *testing.T) {
	mean, low, high := 0.5, 0.25, 0.75
	d, lo, hi := make([]float64, decils), make([]float64, decils), make([]float64, decils)
	for k := range d {
		d[k], lo[k], hi[k] = float64(k), float64(k)-0.5, float64(k)+0.5
	}
	node := "n1"
	m := schemas.JobSummaryMetric{
		Name: "cpu_idle", Scope: "core", Count: 60, Invalid: 4, Nodes: 4, Mean: &mean, LowNode: &node,
		HighNode: &node,
		Deciles:  &d, Lo: &lo, Hi: &hi, LowNodeMean: &low, HighNodeMean: &high,
	}
	s := schemas.JobSummary{
		IntervalStart: 7, IntervalMs: 1000, NodesExpected: 4, NodesReported: 3, Metrics: []schemas.JobSummaryMetric{
			{Name: "without"}, {Name: "z"}, m,
		},
	}
	s.Metrics[1] = m
	s.Metrics[1].Name = "z"
	var a, b Interval
	for range 2 { // what an interval had before does not matter
		FromSummary(&s, false, &a)
		FromRows(s.Rows(), false, &b)
	}
	for _, iv := range []Interval{a, b} {
		if len(iv.Metrics) != 2 || iv.Metrics[0].Name != "cpu_idle" || iv.StartMs != 7 || iv.LengthMs != 1000 ||
			iv.Expected != 4 || iv.Reported != 3 || iv.cores() != 64 {
			t.Errorf("%+v", iv)
		}
	}
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
		t.Errorf("%+v\n%+v", a, b)
	}
	for _, possible := range []bool{false, true} {
		got, ok := MetricOf(&m, possible)
		ofRow, okRow := MetricOfRow(&s.Rows()[2], possible)
		if !ok || !okRow || got != ofRow || got.D5 != 5 || got.PerNode != 15 || got.LowNodeMean != 0.25 ||
			got.HighNodeMean != 0.75 {
			t.Errorf("%+v, %+v", got, ofRow)
		}
		if wantLo, wantHi := 4.5, 5.5; !possible && (got.Lo5 != wantLo || got.Hi5 != wantHi) || possible &&
			(got.Lo5 != 5 || got.Hi5 != 5) {
			t.Errorf("possible %v: %v to %v", possible, got.Lo5, got.Hi5)
		}
	}
	m.Lo, m.Hi = nil, nil
	if got, ok := MetricOf(&m, false); !ok || got.Lo5 != 5 || got.Hi5 != 5 {
		t.Errorf("exact: %+v", got)
	}
	short := d[:10]
	m.Lo, m.Hi = &short, &hi
	if _, ok := MetricOf(&m, false); ok {
		t.Error("ten bounds of eleven are taken")
	}
	m.Mean = nil
	if _, ok := MetricOf(&m, false); ok {
		t.Error("a metric without values is taken")
	}
}

// TestJobOf: what the scheduler does not tell is not known. A node type without GPUs tells that the job has none.
func TestJobOf(t *testing.T) {
	none, some := 0, 4
	types, err := NewTypes([]config.NodeType{
		{Name: "thin", Nodes: "n[1-4]", CPUs: 8, GPUs: &none}, {
			Name: "gpu", Nodes: "g[1-2]",
			GPUs: &some,
		}, {Name: "rest", CPUs: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	for nodes, want := range map[string]struct {
		name string
		gpus int
	}{"n1 n2": {"thin", 0}, "g1": {"gpu", -1}, "n1 g1": {"", -1}, "x1 x2": {"rest", -1}, "": {"", -1}, "n1 x1": {
		"",
		-1,
	}} {
		j := JobOf("alpha", &schemas.Job{JobID: "1", Nodes: strings.Fields(nodes)}, types)
		if j.Node.Name != want.name || j.Gpus != want.gpus || j.Cores != -1 || j.LimitS != -1 ||
			j.MemRequested != -1 ||
			j.StartMs != 0 || j.EndMs != 0 || j.Cluster != "alpha" {
			t.Errorf("%q: %+v", nodes, j)
		}
	}
	n, g := int64(64), int32(3)
	j := JobOf("alpha", &schemas.Job{
		JobID: "1", Restart: 2, User: "u", Account: "a", Queue: "q", State: "RUNNING", Nodes: []string{"n1"},
		Start: &n, End: &n,
		Cores: &n, Gpus: &g, TimeLimitS: &n, MemRequestedBytes: &n,
	}, nil)
	if j.StartMs != 64 || j.EndMs != 64 || j.Cores != 64 || j.Gpus != 3 || j.LimitS != 64 || j.MemRequested != 64 ||
		j.Key != (schemas.JobKey{JobID: "1", Restart: 2}) || j.User != "u" || j.Account != "a" || j.Queue != "q" ||
		j.State != "RUNNING" {
		t.Errorf("%+v", j)
	}
}

// TestExamplesOfOthers: an example that is none is an error with its line.
func TestExamplesOfOthers(t *testing.T) {
	for text, wanted := range map[string]string{
		"": "it is empty", "\n\n": "it is empty", "{": "line 1 is no job", `{"job_id": "a b"}`: "is not a name",
		`{"job_id": "a"}` + "\n[]": "line 2 is no row", "{\"job_id\": \"" + strings.Repeat("x",
			maxLineBytes) + "\"}": "too long",
	} {
		if _, err := ReadExample([]byte(text), nil); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%.40q: %v, without %q", text, err, wanted)
		}
	}
	e, err := ReadExample([]byte(`{"job_id": "a"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if found, why := shippedSet(t).Try("serial", e); found != nil || why != "not evaluated: job.gpus is not known" {
		t.Errorf("%v, %q", found, why)
	}
}

// FuzzRules: no file makes the compiler panic, and no rule that compiles makes a Watch panic or write a wrong finding.
func FuzzRules(f *testing.F) {
	f.Add(string(Shipped()))
	f.Add(idleRule + "  by: low_node\n" +
		"  hint: \"{{.job.user}} {{hostlist .hosts}}\"\n  guards: {intervals: 1, after: 0s}\n")
	f.Add("guards: {intervals: 1, duration: 0s, last: false}\nrules:" + strings.ReplaceAll(wholeRule, "\n", "\n  "))
	f.Add(oneRule("cpu_idle.mean > 0.5",
		"1 / (cpu_idle.d0 - cpu_idle.d0) > 0 ? job.cores > 1 : above(cpu_idle, 0.2) > 0.1"))
	r := rand.New(rand.NewPCG(5, 6))
	all := randomLife(r, 60)
	var off []string
	for i := range shippedSet(f).Rules {
		off = append(off, shippedSet(f).Rules[i].ID)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Compile(catalogue, off, Source{"site.yaml", []byte(text)})
		if err != nil {
			return
		}
		w := set.NewWatch(life4711(), true)
		for _, finding := range records(w, all) {
			if err := finding.Validate(); err != nil {
				t.Errorf("%v: %+v", err, finding)
			}
		}
		if _, err := w.AppendBinary(nil); err != nil {
			t.Error(err)
		}
	})
}
