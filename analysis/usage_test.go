package analysis

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/report/usage"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"

	"github.com/weirhpc/weir/analysis/overview"
)

// TestUsageOfAMonth: a user's month needs no interval, has the waste that `weir jobs` lists, and holds no job of
// others: neither of an account's other users, nor one that the asking person may not see.
func TestUsageOfAMonth(t *testing.T) {
	const intervals = 30
	begin := time.UnixMilli(loadStart).UTC()
	month := time.Date(begin.Year(), begin.Month(), 1, 0, 0, 0, 0, time.UTC)
	d := &disk{dir: t.TempDir()}
	start, end, cores, gpus := loadStart, loadStart+intervals*60_000, int64(8), int32(2)
	var known []schemas.Job
	for _, c := range []struct{ id, user, account string }{
		{"1", "u", "a"}, {"2", "u", "b"}, {"3", "v", "a"},
	} {
		known = append(known, schemas.Job{
			JobID: c.id, User: c.user, Account: c.account, Nodes: []string{"n1", "n2"}, Cores: &cores, Gpus: &gpus,
			Start: &start, End: &end, State: schemas.StateCompleted,
		})
	}
	var summaries []*schemas.JobSummary
	for k := range intervals {
		for _, id := range []string{"1", "2", "3", schemas.JobSystem} { // the machine has the GPUs of job 1 alone
			s := idleSummary(id, k, 8, 0.5)
			if id == "1" || id == schemas.JobSystem {
				busy, power, zero := 0.25, 300.0, 0.0
				s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
					Name: "acc_utilization", Unit: "1", Scope: schemas.ScopeGPU, Count: 2, Nodes: 2, Mean: &busy, Stddev: &zero,
				}, schemas.JobSummaryMetric{
					Name: "node_power", Unit: "W", Scope: schemas.ScopeNode, Count: 2, Nodes: 2, Mean: &power, Stddev: &zero,
				})
			}
			summaries = append(summaries, s)
		}
	}
	d.append(t, summaries, 50)
	d.jobs(t, known...)
	d.totals(t)
	found := schemas.Finding{
		Cluster: "c", JobID: "1", Rule: "idle-cores", RuleHash: "0", State: schemas.FindingOpen,
		Certainty: schemas.Certain, Class: schemas.ClassHigh, Severity: 1, Worst: 1, AsOf: end - 60_000,
		IntervalMs: 60_000, Final: true, Title: "t", Slurm: "#SBATCH --nodes=1",
	}
	possible := found
	possible.Rule, possible.Certainty = "other", schemas.Possible
	err := findings.Write(t.Context(), d.dir, "weir."+schemas.TopicFindings, []schemas.Finding{found, possible})
	if err != nil {
		t.Fatal(err)
	}
	list, err := LoadLines(t.Context(), config.Default(), Viewer{All: true}, ListAsk{Dir: d.dir, User: "u"})
	if err != nil {
		t.Fatal(err)
	}
	wasted, gpuWasted := 0.0, 0.0
	for _, l := range list.Rows {
		wasted += *l.WastedH
		if l.GPUWastedH != nil {
			gpuWasted += *l.GPUWastedH
		}
	}
	machine, err := overview.Load(t.Context(), config.Default(), overview.Ask{Dir: d.dir})
	if err != nil {
		t.Fatal(err)
	}
	if g := machine.GPUs; math.Abs(g.Wasted-gpuWasted) > 1e-9 || math.Abs(g.Busy-0.25) > 1e-9 || machine.GPUHours != 3 ||
		machine.Energy.Of != "nodes" || math.Abs(machine.Energy.Joules-300*2*1800) > 1e-6 {
		t.Errorf("the machine: %+v, jobs held %v GPU-hours, %+v", g, machine.GPUHours, machine.Energy)
	}
	if err := os.RemoveAll(filepath.Join(d.dir, "summaries")); err != nil {
		t.Fatal(err)
	}
	ask := overview.UsageAsk{Dir: d.dir, Kind: usage.User, Name: "u", Month: month, Now: month.AddDate(0, 2, 0)}
	ask.May = Viewer{All: true}.May
	r, err := overview.Usage(t.Context(), config.Default(), ask)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("jobs", float64(r.Sum.Jobs), 2)
	near("core-hours", r.Sum.Cores.Held, 8)
	near("wasted core-hours", r.Sum.Cores.Wasted, wasted)
	near("measured core-hours", r.Sum.Cores.Measured, 8)
	near("GPU-hours", r.Sum.GPUs.Held, 2)
	near("wasted GPU-hours", r.Sum.GPUs.Wasted, gpuWasted)
	near("wasted GPU-hours", gpuWasted, 0.75)
	near("energy", r.Sum.Energy, 300*2*1800)
	if !r.Judged || len(r.Worst) != 1 || r.Worst[0].JobID != "1" || r.Worst[0].Change() != "#SBATCH --nodes=1" ||
		len(r.Rules) != 1 || !r.Until.IsZero() {
		t.Errorf("%+v", r)
	}
	ask.Kind, ask.Name, ask.Now = usage.Account, "a", month.AddDate(0, 0, 20)
	if r, err = overview.Usage(t.Context(), config.Default(), ask); err != nil || r.Sum.Jobs != 2 || r.Until.IsZero() {
		t.Errorf("an account: %v, %+v", err, r)
	}
	ask.May = Viewer{User: "v"}.May
	if r, err = overview.Usage(t.Context(), config.Default(), ask); err != nil || r.Sum.Jobs != 1 || r.Found != 0 {
		t.Errorf("an account, asked by its user v: %v, %+v", err, r)
	}
	ask.May, ask.Month = Viewer{All: true}.May, month.AddDate(0, 1, 0)
	if r, err = overview.Usage(t.Context(), config.Default(), ask); err != nil || r.Sum.Jobs != 0 || r.Before[2].Jobs != 2 {
		t.Errorf("the month after: %v, %+v", err, r)
	}
}
