package term

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/compare"
	"github.com/weirhpc/weir/report/usage"
	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

var update = flag.Bool("update", false, "write the texts of testdata anew")

// golden compares a text with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// shows are the texts of this package, of jobs that are made up.
var shows = map[string]func(w io.Writer, s Style) error{
	"job":       func(w io.Writer, s Style) error { return Job(w, made(), s) },
	"job-empty": func(w io.Writer, s Style) error { return Job(w, without(), s) },
	"job-part":  func(w io.Writer, s Style) error { return Job(w, part(), s) },
	"job-over":  func(w io.Writer, s Style) error { return Job(w, ended(), s) },
	"totals":    func(w io.Writer, s Style) error { return Totals(w, made(), s) },
	"findings":  func(w io.Writer, s Style) error { return Findings(w, ended(), s) },
	"nodes":     func(w io.Writer, s Style) error { return Nodes(w, ended(), s) },
	"rules":     func(w io.Writer, s Style) error { return Rules(w, ended(), someRules, s) },
	"jobs":      func(w io.Writer, s Style) error { return Jobs(w, lists(), s) },
	"jobs-none": func(w io.Writer, s Style) error { return Jobs(w, &view.Lists{}, s) },
	"array":     func(w io.Writer, s Style) error { return Several(w, tasks(), merged(), s) },
	"compare":   func(w io.Writer, s Style) error { return Compared(w, compare.Jobs(finished(), fewer(), nil), s) },
	"usage":     func(w io.Writer, s Style) error { return Usage(w, month("alice"), s) },
	"compare-not": func(w io.Writer, s Style) error {
		return Compared(w, compare.Jobs(made(), ended(), nil), s)
	},
}

// TestTextsLookAsTheyShould: a person has read the texts of testdata, as those who help users would.
func TestTextsLookAsTheyShould(t *testing.T) {
	for name, show := range shows {
		for _, width := range []int{40, 80, 120} {
			var b bytes.Buffer
			if err := show(&b, Style{Width: width}); err != nil {
				t.Fatal(err)
			}
			golden(t, fmt.Sprintf("%s-%d", name, width), b.Bytes())
		}
	}
	for kind, s := range map[string]Style{"ascii": {Width: 80, ASCII: true}, "color": {Width: 80, Color: true}} {
		for _, name := range []string{"job", "jobs"} {
			var b bytes.Buffer
			if err := shows[name](&b, s); err != nil {
				t.Fatal(err)
			}
			golden(t, name+"-80-"+kind, b.Bytes())
		}
	}
}

// ended is a job that has failed, on GPUs, with nothing known of its nodes.
func ended() *view.Job {
	j := made()
	end := j.UntilMs
	j.Running, j.State, j.End, j.From = false, "OUT_OF_MEMORY", &end, "archive, and evaluated now"
	j.Earlier = []view.Life{{State: "FAILED", Start: new(begin.Add(-time.Hour).UnixMilli()), End: j.Start}}
	j.Restart, j.Gpus, j.Nodes = 1, new(int32(8)), nodes(2)
	j.Type.PeakFlops, j.Type.PeakMemBW, j.Type.Memory = 0, 0, 0
	j.Gaps, j.Reported, j.ExactShare = nil, j.Expected, 1
	j.ByNode = byNode(j.Nodes)
	for i := range j.ByNode.Lines {
		j.ByNode.Lines[i].GPU, j.ByNode.Lines[i].GPUMemory = 0.4+float64(i)/10, 31e9
	}
	j.Metrics = append(j.Metrics,
		dist(j, "acc_utilization", "1", 4, late(0.5, 0.1), 0, 0, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
		dist(j, "a_metric_of_the_site_with_a_long_name", "widgets/s", 1, late(3, 3), 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3))
	j.Findings[1].State = schemas.FindingClosed
	j.Findings[1].LastInterval = j.FirstMs + 3600_000
	j.Findings[2].Certainty = schemas.Possible
	j.Findings = append(j.Findings, found(j, "imbalance-grows", schemas.ClassHigh, "", ""))
	j.Findings[3].FirstInterval = j.UntilMs - 4*3600_000
	j.NotEvaluated = nil
	for i := range 9 {
		j.NotEvaluated = append(j.NotEvaluated, rules.Reason{Rule: fmt.Sprint("rule-", i), Why: "no metric m"})
	}
	return j
}

// part is an hour of a job, of one metric.
func part() *view.Job {
	j := made()
	j.Metrics = j.Metrics[:1]
	j.Metrics[0].Bins = j.Metrics[0].Bins[20:25]
	j.ByNode = &view.NodeTable{Why: "rows have them for jobs of up to three nodes alone"}
	return j
}

var someRules = []rules.Rule{
	{ID: "idle-cores", Silences: []string{"low-cpu"}},
	{ID: "low-cpu"},
	{ID: "memory-bound"},
	{ID: "rule-1"},
	{ID: "io-wait"},
}

// lists are jobs as the mock-up has them, and others that know less.
func lists() *view.Lists {
	worst := made().Findings
	line := func(
		id, user string, n int, cores int64, seconds, busy, spread, wasted float64, f *schemas.Finding,
	) view.JobLine {
		return view.JobLine{
			Job: schemas.Job{
				JobID: id, State: "RUNNING", User: user, Account: "phys-a", Queue: "normal", Nodes: nodes(n),
				Cores: &cores,
			},
			TimeS: seconds, Busy: &busy, Spread: &spread, WastedH: &wasted, MemPerNode: new(92e9), Seen: new(0.996),
			Finding: f, Judged: true,
		}
	}
	serial := found(made(), "serial", schemas.ClassHigh, "", "")
	return &view.Lists{
		Rows: []view.JobLine{
			line("184223", "alice", 64, 4096, 85270, 0.78, 0.97, 21340, &worst[0]),
			line("184310", "bob", 1, 96, 7800, 0.01, 0.01, 206, &serial),
			line("184400", "carol", 8, 512, 2460, 0.97, 0.02, 10, nil),
			{Job: schemas.Job{JobID: "184500", State: "PENDING", User: "dana", Queue: "normal"}},
		},
		Skipped: []view.JobLine{{Job: schemas.Job{
			JobID: "184600", State: "SKIPPED", User: "erin", Reason: "node n9999 is not in balance.nodes",
		}}},
	}
}

// tasks are three tasks of an array.
func tasks() (all []*view.Job) {
	for i := range 3 {
		j := made()
		j.JobID, j.Nodes, j.Cores = fmt.Sprint(184300+i), nodes(1), new(int64(64))
		j.Expected, j.Reported = j.Expected/64, j.Reported/64 // made has 64 nodes
		for k := range j.Metrics {
			j.Metrics[k].Total.Count /= 64
		}
		j.Map = []view.Property{{Rule: "idle-cores"}}
		if j.Running = i == 1; !j.Running {
			j.State = "COMPLETED"
		}
		if i > 0 {
			j.Findings = nil
		}
		all = append(all, j)
	}
	return all
}

// merged is what three tasks are together. The last was judged by fewer rules than the others.
func merged() *view.Job {
	of := tasks()
	of[2].NotEvaluated = append(of[2].NotEvaluated, rules.Reason{Rule: "memory-full", Why: "no metric m"},
		rules.Reason{Rule: "memory-over", Why: "no metric m"})
	j, err := view.Merge(of)
	if err != nil {
		panic(err)
	}
	return j
}

// month is a month of a user with GPUs and power meters, and of the months before.
func month(name string) *usage.Report {
	in := &usage.Input{
		Kind: usage.Account, Name: name, Judged: true, Month: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		Until: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC),
	}
	for i := range 8 {
		from := finished()
		line := from.Line()
		j := usage.Job{JobLine: line, CoresMeasuredH: 97000, Findings: from.Findings[:i%4]}
		end := in.Month.AddDate(0, -i/3, i).UnixMilli()
		j.JobID, j.User, j.End, j.Start = fmt.Sprint(184223+i), name, &end, nil
		if i%2 == 0 {
			j.Gpus, j.GPUsMeasuredH, j.GPUWastedH = new(int32(4)), 90, new(30.0)
			j.Energy.Add("node_power", 500, 8526*64, 10)
		}
		for k := range j.Findings {
			j.Findings[k].Title = name
		}
		in.Jobs = append(in.Jobs, j)
	}
	return usage.Compute(in)
}

// finished is the made-up job after its end.
func finished() *view.Job {
	j := made()
	j.Running, j.State, j.End = false, "COMPLETED", new(j.UntilMs)
	return j
}

// fewer is its next run: on fewer nodes, with busy cores, and without a metric.
func fewer() *view.Job {
	j := finished()
	j.JobID, j.Nodes, j.Cores, j.MemRequestedBytes = "184301", j.Nodes[:58], new(int64(58*64)), new(int64(128e9))
	user, idle := &j.Metrics[0].Total, &j.Metrics[1].Total
	user.D = [11]float64{0.9, 0.94, 0.95, 0.95, 0.96, 0.97, 0.97, 0.98, 0.98, 0.99, 1}
	user.Lo, user.Hi, user.Exact, user.Mean = user.D, user.D, true, 0.96
	idle.D = [11]float64{0, 0, 0.01, 0.01, 0.02, 0.02, 0.03, 0.04, 0.05, 0.06, 0.1}
	idle.Lo, idle.Hi, idle.Mean = idle.D, idle.D, 0.03
	j.Metrics = j.Metrics[:len(j.Metrics)-1]
	j.Findings = j.Findings[1:]
	j.Findings[1].Class = schemas.ClassHigh
	j.Findings = append(j.Findings, found(j, "memory-over", schemas.ClassLow, "It asks for too much.", "#SBATCH --mem=100G"))
	j.Reported -= j.Expected / 20
	return j
}

// TestNamesDriveNothing: whatever a job, a node or a rule is called, no terminal is driven, and a line stays a line.
func TestNamesDriveNothing(t *testing.T) {
	for _, name := range []string{
		hostile, strings.Repeat("漢", 64), "e\u0301" + strings.Repeat("\u0301", 60), "\u05d0\u05d1\u05d2\u202d", "",
		"<b>&amp;",
	} {
		j, l := named(name)
		for what, show := range map[string]func(w io.Writer, s Style) error{
			"job":      func(w io.Writer, s Style) error { return Job(w, j, s) },
			"nodes":    func(w io.Writer, s Style) error { return Nodes(w, j, s) },
			"totals":   func(w io.Writer, s Style) error { return Totals(w, j, s) },
			"findings": func(w io.Writer, s Style) error { return Findings(w, j, s) },
			"rules":    func(w io.Writer, s Style) error { return Rules(w, j, []rules.Rule{{ID: name}}, s) },
			"jobs":     func(w io.Writer, s Style) error { return Jobs(w, l, s) },
			"array":    func(w io.Writer, s Style) error { return Several(w, []*view.Job{j, j}, j, s) },
			"usage":    func(w io.Writer, s Style) error { return Usage(w, month(name), s) },
			"compare":  func(w io.Writer, s Style) error { return Compared(w, compare.Jobs(j, fewer(), nil), s) },
		} {
			for _, s := range []Style{{Width: 80}, {Width: 120}, {Width: 1}, {Width: 80, ASCII: true}} {
				var b bytes.Buffer
				if err := show(&b, s); err != nil {
					t.Fatal(err)
				}
				if strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
					t.Errorf("%s of %q, %+v: %.400q", what, name, s, b.String())
				}
				if s.ASCII && strings.ContainsFunc(b.String(), func(r rune) bool { return r >= 0x80 }) {
					t.Errorf("%s of %q is not ASCII: %.400q", what, name, b.String())
				}
				for line := range strings.Lines(b.String()) {
					tooLong := width(strings.TrimSuffix(line, "\n")) > s.Width
					if s.Width == 120 && what == "job" && tooLong && !strings.Contains(line, clean(name, 1000)) {
						t.Errorf("%s of %q: %d cells in %.200q", what, name, width(line), line)
					}
				}
			}
		}
	}
}

// named is a job, and a list of jobs, with one name for all that has one.
func named(name string) (*view.Job, *view.Lists) {
	j := made()
	j.Name, j.User, j.Account, j.Queue, j.State, j.From = name, name, name, name, name, name
	j.Gaps[0].Nodes = []string{name, name}
	j.ByNode = byNode([]string{name, name, name})
	j.ByNode.Source = name
	for i := range j.Metrics {
		t := &j.Metrics[i].Total
		t.LowNode, t.HighNode = name, name
	}
	j.Metrics[0].Name, j.Metrics[0].Unit = name, name
	for i := range j.Findings {
		f := &j.Findings[i]
		f.Rule, f.Title, f.Hint, f.Slurm, f.Class = name, name, name, name, name
		f.Evidence = []schemas.FindingEvidence{{Name: name}}
	}
	j.NotEvaluated = []rules.Reason{{Rule: name, Why: name}}
	l := lists()
	for i := range l.Rows {
		l.Rows[i].Job = j.Job
		l.Rows[i].Finding = &j.Findings[0]
		l.Rows[i].Of = map[string]*float64{name: new(1.0)}
	}
	l.Skipped[0].JobID, l.Skipped[0].Reason = name, name
	return j, l
}

// TestNothingIsInvented: what is not known is a dash or left out, and never 0.
func TestNothingIsInvented(t *testing.T) {
	var b bytes.Buffer
	unknown := []view.JobLine{{Job: schemas.Job{JobID: "9"}}}
	if err := Jobs(&b, &view.Lists{Rows: unknown}, Style{Width: 200}); err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(b.String(), "\n")
	if got := strings.Fields(row); len(got) != 14 || strings.Join(got[1:], "") != strings.Repeat("-", 13) {
		t.Errorf("a job of which nothing is known: %q", row)
	}
	b.Reset()
	j := without()
	m := dist(j, "ipc", "1", 1, late(1, 1), nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan)
	m.Total.Count, m.Bins = 0, nil
	j.Metrics = []view.Metric{m}
	if err := Job(&b, j, Style{Width: 120}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == "ipc" && strings.Join(f[1:7], "") != "------" {
			t.Errorf("a metric without values: %q", line)
		}
	}
}
