package rules

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
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
	shipped := shippedSet(f) // once: every worker of the fuzzer compiles it
	for i := range shipped.Rules {
		off = append(off, shipped.Rules[i].ID)
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
