package rules

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// TestNotEvaluated: each reason is told in words.
func TestNotEvaluated(t *testing.T) {
	set := shippedSet(t)
	reason := func(w *Watch, rule string) string {
		for _, r := range w.NotEvaluated() {
			if r.Rule == rule {
				return r.Why
			}
		}
		return ""
	}
	run := func(j Job, n int, metrics map[string]float64) *Watch {
		w := set.NewWatch(j, false)
		for i := range n {
			w.Add(at(i, metrics))
		}
		return w
	}
	unknown := life4711()
	unknown.Gpus, unknown.Node = -1, config.NodeType{}
	old := func(n int) *Watch {
		w := set.NewWatch(life4711(), false)
		for i := range n {
			iv := at(i, map[string]float64{"clock": 2e9, "cpu_idle": 0.1})
			iv.Metrics[0].LowNodeMean = math.NaN()
			w.Add(iv)
		}
		return w
	}
	swapping := slices.IndexFunc(set.Rules, func(r Rule) bool { return r.ID == "swapping" })
	partly := func(n int) *Watch {
		w := set.NewWatch(life4711(), false)
		for i := range n {
			iv := at(i, map[string]float64{"swap_pages": 4000})
			iv.Metrics[0].PerNode = iv.Metrics[0].Count
			if s := w.Severities(iv, nil)[swapping]; s.Why != "metric swap_pages is known on 1 of 4 nodes" {
				t.Errorf("%+v", s)
			}
			w.Add(iv)
		}
		return w
	}
	iv := at(5, map[string]float64{"cpu_system": 0.9, "disk_bytes": 1, "lustre_read_bw": 1})
	if s := set.NewWatch(life4711(), false).Severities(iv, nil)[0]; set.Rules[0].ID != "kernel-no-io" || !s.Evaluated {
		t.Errorf("%s, with Lustre on all nodes: %+v", set.Rules[0].ID, s)
	}
	lustre := &iv.Metrics[slices.IndexFunc(iv.Metrics, func(n Named) bool { return n.Name == "lustre_read_bw" })]
	lustre.PerNode = lustre.Count // a canary alone measures it
	if s := set.NewWatch(life4711(), false).Severities(iv, nil)[0]; s.Evaluated || s.Why != whyCondition {
		t.Errorf("kernel-no-io, with Lustre on a canary: %+v", s)
	}
	all := map[string]float64{"cpu_idle": 0.1, "cpu_user": 0.9, "mem_bw": 1e9, "flops_any": 1e9, "job_mem_peak": 1e9}
	for _, c := range []struct {
		w          *Watch
		rule, want string
	}{
		{run(life4711(), 50, all), "swapping", "no metric swap_pages"},
		{run(life4711(), 50, all), "unused-gpu", "it requires job.gpus > 0"},
		{run(life4711(), 50, all), "time-over", "it waits for the end of the job"},
		{run(life4711(), 50, all), "memory-over", "it requires job.cores < p.cores * node.cpus * job.nodes"},
		{run(life4711(), 50, all), "idle-cores", ""},
		{run(life4711(), 50, all), "low-cpu", ""},
		{run(life4711(), 14, all), "idle-cores", "guard: 12 of 30 intervals"},
		{run(life4711(), 0, all), "idle-cores", "no metric cpu_idle"},
		{run(unknown, 50, all), "idle-cores", "job.gpus is not known"},
		{run(unknown, 50, all), "imbalance", "machine.threads_per_core is not set"},
		{run(unknown, 50, all), "memory-bound", "machine.peak_mem_bw is not set"},
		{old(50), "slow-node", "clock.low_node_mean is not known: an older version wrote the summaries"},
		{partly(50), "swapping", "metric swap_pages is known on 1 of 4 nodes"},
	} {
		if got := reason(c.w, c.rule); got != c.want {
			t.Errorf("%s: %q, not %q", c.rule, got, c.want)
		}
	}
	bad := siteSet(t, strings.Replace(idleRule, "of: cpu_idle.mean,", "of: 1 / (cpu_idle.d0 - cpu_idle.d10),", 1))
	w := bad.NewWatch(life4711(), false)
	if got := history(w, minutes(0, 50, always(0.9))...); len(got) > 0 || reason(w,
		"idle") != "its severity is not a number" {
		t.Errorf("%v, %q", got, reason(w, "idle"))
	}
	w = siteSet(t, idleRule+"  guards: {intervals: 3}\n").NewWatch(life4711(), false)
	for i := range 100 {
		iv := idle(i, 0.9)
		if i%2 == 0 {
			iv.Reported = 3
		}
		w.Add(iv)
	}
	if got := reason(w, "idle"); got != "guard: 49 of 98 intervals are known, 90 % must be" {
		t.Errorf("%q", got)
	}
	if w = siteSet(t, idleRule+"  guards: {intervals: 1}\n").NewWatch(life4711(), false); true {
		history(w, minutes(0, 4, always(0.9))...)
	}
	if got := reason(w, "idle"); got != "guard: 180 of 600 s" {
		t.Errorf("%q", got)
	}
}

// TestSeverityMap: what the map shows of an interval is what the finding counts.
func TestSeverityMap(t *testing.T) {
	set := siteSet(t, idleRule+wholeRule)
	w, shown := set.NewWatch(life4711(), false), set.NewWatch(life4711(), false)
	sum, evaluated := 0.0, int64(0)
	for i := range 60 {
		iv := idle(i, 0.3+0.01*float64(i))
		if i%20 == 7 {
			iv.Reported = 1
		}
		if i%20 == 9 {
			iv.Metrics = nil
		}
		w.Add(iv)
		all := shown.Severities(iv, nil)
		if len(all) != 2 || all[1].Evaluated || all[1].Why != whyWhole {
			t.Fatalf("%+v", all)
		}
		s := all[0]
		if s.Evaluated {
			sum += s.Value
			evaluated++
		}
		want := ""
		switch {
		case i%20 == 7:
			want = whyIncomplete
		case i%20 == 9:
			want = "no metric cpu_idle"
		case i == 0:
			want = whyEarly
		}
		if s.Why != want || s.Evaluated != (want == "") {
			t.Errorf("minute %d: %+v", i, s)
		}
	}
	j := life4711()
	j.EndMs = j.StartMs + 60*minute
	w.Know(j)
	f := w.End(nil)
	if len(f) != 1 || f[0].Evaluated != evaluated || math.Abs(f[0].Severity-sum/float64(evaluated)) > 1e-9 {
		t.Errorf("%+v, the map has %v in %d", f, sum, evaluated)
	}
}

// TestLateKnowledge: the scheduler may tell of a job later than the first summaries come. What needs it is evaluated
// from then on, and cores are taken from the metrics until then.
func TestLateKnowledge(t *testing.T) {
	rule := strings.Replace(idleRule, "each: cpu_idle.mean > 0.5", "each: cpu_idle.mean > 0.5 && job.cores == 64", 1)
	bare := Job{
		Key: schemas.JobKey{JobID: "4711"}, Cluster: "alpha", Cores: -1, Gpus: -1, LimitS: -1,
		MemRequested: -1,
	}
	w := siteSet(t, rule).NewWatch(bare, false)
	for i := range 50 {
		w.Add(idle(i, 0.9))
	}
	if f := w.End(nil); len(f) != 1 || f[0].Evaluated != 48 {
		t.Errorf("with the cores of the metrics: %+v, %v", f, w.NotEvaluated())
	}
	w = siteSet(t, strings.Replace(rule, "job.cores == 64", "node.memory > 1", 1)).NewWatch(bare, false)
	for i := range 100 {
		if i == 5 {
			w.Know(life4711())
		}
		w.Add(idle(i, 0.9))
	}
	if f := w.End(nil); len(f) != 1 || f[0].Evaluated != 94 {
		t.Errorf("after the job is known: %+v, %v", f, w.NotEvaluated())
	}
}
