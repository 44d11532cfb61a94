package analysis

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

func ids(all []string, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmtIDs(all)
}

func fmtIDs(all []string) (text string) {
	for _, id := range all {
		text += id + " "
	}
	return text
}

// lines returns the ids of a list, in its order.
func lines(t *testing.T, cfg config.Config, a ListAsk) string {
	t.Helper()
	l, err := LoadLines(t.Context(), cfg, everybody, a)
	if err != nil {
		return ids(nil, err)
	}
	var all []string
	for i := range l.Rows {
		all = append(all, l.Rows[i].JobID)
	}
	return ids(all, nil)
}

// TestLinesOfAnArchive: each number of a line is what its definition says, and each order puts the worst job first.
func TestLinesOfAnArchive(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 10))
	threads := 2
	cfg := config.Default()
	cfg.Machine = []config.NodeType{{Name: "thin", ThreadsPerCore: threads, CPUs: 4}}
	d := &disk{dir: t.TempDir()}
	var all []measured
	var known []schemas.Job
	for i, id := range []string{"1", "2", "3"} {
		m := measure(r, id, 0, loadStart+int64(i)*7_200_000, 60_000, 60+30*i, "cpu_idle", "cpu_user", "mem_used", "ipc")
		for _, s := range m.summaries {
			for k := range s.Metrics { // shares, of which the later jobs have more
				*s.Metrics[k].Mean = (float64(i) + 5.5) / 10
			}
		}
		m.job.Account, m.job.Queue = "a"+id, "q"+id
		d.append(t, m.summaries, 50)
		all, known = append(all, m), append(known, m.job)
	}
	d.jobs(t, known...)
	d.totals(t)
	got, err := LoadLines(t.Context(), cfg, everybody, ListAsk{Dir: d.dir, Sort: "busy"})
	if err != nil || len(got.Rows) != 3 {
		t.Fatal(err, len(got.Rows))
	}
	for k, line := range got.Rows {
		m := all[2-k] // the last one idled most
		idle := (2 - float64(k) + 5.5) / 10
		busy := min(1, (1-idle)*float64(threads))
		j, err := Load(t.Context(), cfg, everybody, nil, line.JobID, Ask{Dir: d.dir, Restart: -1})
		if err != nil {
			t.Fatal(err)
		}
		user, memory := j.Find("cpu_user").Total, j.Find("mem_used").Total
		hours := float64(len(m.values["cpu_idle"])) / 60 // of logical CPUs that were measured
		near := func(name string, got *float64, want float64) {
			if got == nil || *got < want-1e-9 || *got > want+1e-9 {
				t.Errorf("job %s: %s is %v, want %g", line.JobID, name, got, want)
			}
		}
		near("busy", line.Busy, busy)
		near("spread", line.Spread, user.D[9]-user.D[1])
		near("memory", line.MemPerNode, memory.D[10])
		near("seen", line.Seen, float64(j.Reported)/float64(j.Expected))
		near("wasted", line.WastedH, (1-busy)*hours)
		near("time", &line.TimeS, float64(*m.job.End-*m.job.Start)/1000)
	}
	for sort, want := range map[string]string{
		"": "3 2 1 ", "time": "3 2 1 ", "busy": "3 2 1 ", "ipc.mean": "3 2 1 ",
		"bad": `no order of jobs: "bad" is none of wasted, gpu-wasted, busy, spread, memory, severity, time, ` +
			"METRIC.dK or METRIC.mean",
		"icp.d5":  "no job of the list has the metric icp: `weir job ID --metrics all` shows those of a job",
		"ipc.d11": `no order of jobs: "ipc.d11" ends in none of d0 to d10 and mean`,
	} {
		if got := lines(t, cfg, ListAsk{Dir: d.dir, Sort: sort}); got != want {
			t.Errorf("--sort %q: %q, want %q", sort, got, want)
		}
	}
	for want, a := range map[string]ListAsk{
		"2 ": {User: "u2"}, "1 ": {Account: "a1"}, "3 ": {Queue: "q3"}, "": {User: "u2", Account: "a1"},
		"3 2 ": {Limit: 2},
		"3 2":  {},
	} {
		if want == "3 2" {
			a, want = ListAsk{Since: time.UnixMilli(*all[0].job.End + 1)}, "3 2 "
		}
		a.Dir = d.dir
		if got := lines(t, cfg, a); got != want {
			t.Errorf("%+v: %q, want %q", a, got, want)
		}
	}
	if got := lines(t, cfg, ListAsk{Dir: t.TempDir()}); got != "" {
		t.Errorf("an archive of nothing: %q", got)
	}
}

// TestLinesOfTopics: jobs that run, wait or are skipped come from the topics, with the findings that hold.
func TestLinesOfTopics(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 11))
	b := topicstest.NewBrokers(t, t.TempDir())
	now := time.Now().UnixMilli()
	start := now - 60_000
	longAgo := now - 49*3_600_000
	for _, j := range []schemas.Job{
		{JobID: "run", State: schemas.StateRunning, Start: &start, User: "ada"},
		{JobID: "wait", State: schemas.StatePending},
		{JobID: "skip", State: schemas.StateSkipped, Reason: "unknown node"},
		{JobID: "done", State: schemas.StateFailed, Start: &start, End: &now},
		{JobID: "old", State: schemas.StateCompleted, Start: &longAgo, End: &longAgo},
	} {
		b.Put(t, schemas.TopicJobs, j.Identity().Key(), &j)
	}
	m := measure(r, "run", 0, now-now%10_000-20_000, 10_000, 2, "cpu_user", "cpu_idle")
	b.Summaries(t, m.summaries)
	for i, class := range []string{schemas.ClassLow, schemas.ClassHigh, schemas.ClassMed} {
		f := schemas.Finding{
			Cluster: "c", JobID: "run", Rule: "rule" + class, RuleHash: "0", State: schemas.FindingOpen, Class: class,
			Certainty: schemas.Certain, Severity: float64(i) / 10, Worst: 1, IntervalMs: 10_000, Title: "t",
			AsOf: start,
		}
		b.Put(t, schemas.TopicFindings, f.Key(), &f)
	}
	b.Raw(t, schemas.TopicFindings, []byte("run/0/rubbish"), []byte("rubbish"))
	got, err := LoadLines(t.Context(), b.Config, everybody, ListAsk{Topic: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Skipped) != 1 || got.Skipped[0].Reason != "unknown node" {
		t.Errorf("skipped: %+v", got.Skipped)
	}
	if text := lines(t, b.Config, ListAsk{Topic: true}); text != "done run wait " {
		t.Errorf("%q", text)
	}
	at := slices.IndexFunc(got.Rows, func(l view.JobLine) bool { return l.JobID == "run" })
	line := got.Rows[at]
	last := m.summaries[1]
	spread := (*last.Metrics[0].Deciles)[9] - (*last.Metrics[0].Deciles)[1]
	if line.Spread == nil || *line.Spread != spread || line.Busy == nil || line.WastedH != nil || line.Seen == nil ||
		line.TimeS < 60 || line.Finding == nil || line.Finding.Class != schemas.ClassHigh {
		t.Errorf("%+v", line)
	}
	for rule, want := range map[string]string{"ruleLOW": "run ", "none": ""} {
		if text := lines(t, b.Config, ListAsk{Topic: true, Finding: rule}); text != want {
			t.Errorf("%s: %q", rule, text)
		}
	}
	for rule, want := range map[string]bool{"ruleMED": true, "shipped": true, "typo": false} {
		_, err := LoadLines(t.Context(), b.Config, everybody, ListAsk{Topic: true, Finding: rule, Rules: []string{"shipped"}})
		if known := !errors.Is(err, ErrRule); known != want || !want && !strings.Contains(err.Error(), "are shipped") {
			t.Errorf("--finding %s: %v", rule, err)
		}
	}
	for limit, want := range map[int][2]int{1: {1, 0}, 3: {3, 0}, 4: {3, 1}, 9: {3, 1}} {
		l, err := LoadLines(t.Context(), b.Config, everybody, ListAsk{Topic: true, Limit: limit})
		if err != nil || [2]int{len(l.Rows), len(l.Skipped)} != want {
			t.Errorf("--limit %d: %v, %d jobs and %d skipped, want %v", limit, err, len(l.Rows), len(l.Skipped), want)
		}
	}
	if _, err := LoadLines(t.Context(), b.Config, everybody, ListAsk{Sort: "x"}); !errors.Is(err, ErrSort) {
		t.Error(err)
	}
}

// TestPeersOfAJob: a rank counts the jobs of the same user, or queue, and of the same size.
func TestPeersOfAJob(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 12))
	d := &disk{dir: t.TempDir()}
	var known []schemas.Job
	type of struct {
		user, queue string
		cores       int64
		days        int64
	}
	for i, c := range []of{
		{"ada", "long", 8, 0},
		{"ada", "long", 5, 0},
		{"ada", "short", 8, 1},
		{"bob", "long", 8, 2},
		{"bob", "short", 8, 2},
		{"ada", "long", 9, 0},
		{"ada", "long", 8, -20},
	} {
		m := measure(r, string(rune('1'+i)), 0, loadStart-c.days*24*3_600_000, 60_000, 5, "cpu_idle", "ipc")
		m.job.User, m.job.Queue, m.job.Cores = c.user, c.queue, &c.cores
		known = append(known, m.job)
		d.append(t, m.summaries, 50)
	}
	d.jobs(t, known...)
	d.totals(t)
	j, err := Load(t.Context(), config.Default(), everybody, nil, "1", Ask{Dir: d.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := LoadPeers(t.Context(), config.Default(), everybody, d.dir, j, 10)
	if err != nil || p.SizeClass != 8 || len(p.User) != 5 || len(p.Queue) != 5 {
		t.Fatal(err, p)
	}
	for i := range p.User {
		rank := &p.User[i]
		below := [2]int64{}
		for _, id := range []string{"2", "3", "4"} {
			other, err := Load(t.Context(), config.Default(), everybody, nil, id, Ask{Dir: d.dir, Restart: -1})
			if err != nil {
				t.Fatal(err)
			}
			total := other.Find(rank.Metric).Total
			value := map[string]float64{
				"d5": total.D[5], "spread": total.D[9] - total.D[1], "busy": view.Busy(total.Mean, other.Type),
			}[rank.Of]
			for k, is := range []bool{id != "4", id != "3"} {
				if is && value < rank.Value {
					below[k]++
				}
			}
		}
		if rank.All != 2 || p.Queue[i].All != 2 || rank.Below != below[0] || p.Queue[i].Below != below[1] {
			t.Errorf("%+v and %+v, want %v below", rank, p.Queue[i], below)
		}
	}
}

// TestLinesHaveOldFindings: a job whose last days no rule could look at has its findings days before its end.
func TestLinesHaveOldFindings(t *testing.T) {
	const day = 24 * 3_600_000
	start, end := loadStart, loadStart+5*day
	known := schemas.Job{JobID: "47", State: schemas.StateCompleted, Start: &start, End: &end}
	d := &disk{dir: t.TempDir()}
	d.jobs(t, known)
	f := schemas.Finding{
		Cluster: "c", JobID: "47", Rule: "idle-cores", RuleHash: "0", State: schemas.FindingOpen, Final: true,
		Class: schemas.ClassHigh, Certainty: schemas.Certain, Severity: 1, Worst: 1, FirstInterval: start,
		LastInterval: start, AsOf: start + day, IntervalMs: 1000, Title: "t", Hint: "h",
	}
	if err := findings.Write(t.Context(), d.dir, "weir.findings", []schemas.Finding{f}); err != nil {
		t.Fatal(err)
	}
	l, err := LoadLines(t.Context(), config.Default(), everybody, ListAsk{Dir: d.dir, Since: time.UnixMilli(end - 1000)})
	if err != nil || len(l.Rows) != 1 || l.Rows[0].Finding == nil || l.Rows[0].Finding.Rule != "idle-cores" {
		t.Errorf("%v: %+v", err, l)
	}
}
