package term

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// TestMain has a reader far from UTC, in which all texts are.
func TestMain(m *testing.M) {
	time.Local = time.FixedZone("far away", 5*3600)
	os.Exit(m.Run())
}

// begin is when the jobs of the tests begin.
var begin = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// nodes are n names of nodes.
func nodes(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("n%04d", i)
	}
	return all
}

// made is a job of a day with one metric after the other, and a finding of each kind.
func made() *view.Job {
	seconds := int64(23*3600 + 41*60 + 10)
	j := &view.Job{
		Job: schemas.Job{
			JobID: "184223", Name: "relax_n256", User: "alice", Account: "phys-a", Queue: "normal", State: "RUNNING",
			Nodes: nodes(64), Start: new(begin.UnixMilli()), Cores: new(int64(4096)), TimeLimitS: new(int64(48 * 3600)),
		},
		Cluster: "alpha", Type: config.NodeType{
			Name: "thin", CPUs: 64, ThreadsPerCore: 1, Memory: 256e9, PeakFlops: 2.0e12, PeakMemBW: 2.5e11,
		},
		FirstMs: begin.UnixMilli(), UntilMs: begin.UnixMilli() + seconds*1000, IntervalMs: 10_000, Running: true,
		Intervals: 8526, Complete: 8478, Expected: 8526 * 64, Reported: 8526*64 - 2000, ExactShare: 0.9719,
		WorstRankError: 0.0038,
		Gaps: []view.Gap{{
			FromMs: begin.Add(14*time.Hour + 10*time.Minute).UnixMilli(), Missing: 48,
			UntilMs: begin.Add(14*time.Hour + 18*time.Minute).UnixMilli(), Nodes: []string{"n0412"},
		}},
		From: "archive and topic",
		NotEvaluated: []rules.Reason{
			{Rule: "unused-gpu", Why: "it requires job.gpus > 0"}, {Rule: "swapping", Why: "no metric swap_pages"},
		},
	}
	j.Metrics = []view.Metric{
		dist(j, "cpu_user", "1", 64, late(0.97, 0.70), 0, 0.02, 0.93, 0.95, 0.96, 0.97, 0.97, 0.98, 0.98, 0.99, 1),
		dist(j, "cpu_idle", "1", 64, late(0.02, 0.28), 0, 0, 0.01, 0.01, 0.02, 0.02, 0.03, 0.04, 0.06, 0.97, 0.99),
		dist(j, "ipc", "1", 64, late(0.62, 0.45), 0.1, 0.31, 0.4, 0.5, 0.6, 0.62, 0.64, 0.66, 0.68, 0.71, 0.85),
		dist(j, "flops_any", "FLOP/s", 64, late(2.4e9, 1.9e9), 0, 0, 2.1e9, 2.2e9, 2.3e9, 2.41e9, 2.5e9, 2.6e9, 2.7e9,
			2.9e9, 3.3e9),
		dist(j, "mem_bw", "B/s", 2, late(1.01e11, 9.5e10), 1e9, 8e10, 9e10, 9.5e10, 1e11, 1.01e11, 1.02e11, 1.03e11,
			1.1e11, 1.2e11, 1.24e11),
		dist(j, "mem_used", "B", 1, early(92e9, 30e9), 88e9, 90e9, 90e9, 91e9, 91e9, 92e9, 92e9, 93e9, 93e9, 94e9,
			97e9),
	}
	for _, name := range []string{"lustre_read_bw", "swap_pages"} {
		j.Metrics = append(j.Metrics, dist(j, name, "B/s", 1, late(0, 0), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	}
	j.Metrics[1].Total.Mean = 0.22
	j.Metrics[3].Total.Mean = 1.9e9
	j.Metrics[0].Total.Exact = false
	j.Metrics[0].Total.Lo = [11]float64{0, 0.01, 0.92, 0.95, 0.96, 0.97, 0.97, 0.98, 0.98, 0.99, 1}
	j.Metrics[0].Total.Hi = [11]float64{0, 0.03, 0.94, 0.95, 0.96, 0.97, 0.97, 0.98, 0.99, 0.99, 1}
	j.Metrics[0].Total.RankError = 0.0011
	j.Findings = []schemas.Finding{
		found(j, "idle-cores", schemas.ClassMed, "at least 10 % of cores idle in 99 % of intervals. Start more ranks, "+
			"or ask for fewer cores:", "#SBATCH --nodes=58          (now 64)"),
		found(j, "memory-bound", schemas.ClassMed, "81 % of peak bandwidth: fewer ranks a node cost little.", ""),
		found(j, "slow-node", schemas.ClassLow, "n0412 at 1.9 GHz, job 2.6, in 93 % of intervals. Report it;",
			"#SBATCH --exclude=n0412"),
	}
	j.ByNode = byNode(j.Nodes)
	j.Findings[0].Evidence = []schemas.FindingEvidence{{Name: "cpu_idle.d9", Low: 0.95, Mean: 0.97, High: 1}}
	return j
}

// byNode is a table by node, in which the first node idles, and nothing is known of the last.
func byNode(nodes []string) *view.NodeTable {
	t := &view.NodeTable{Source: "the archive's table nodes: 99.8 % of the intervals of its nodes"}
	for i, node := range nodes {
		l := view.NodeLine{
			Node: node, Busy: min(0.004+float64(i)/4, 0.97), Memory: 88e9 + 1e8*float64(i), GPU: nan, GPUMemory: nan,
			Network: 1.2e9, Intervals: 8526, Nodes: 1,
		}
		if i == len(nodes)-1 {
			l.Busy, l.Memory, l.Network, l.Intervals = nan, nan, nan, 0
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}

// found is a finding that holds from the second minute on.
func found(j *view.Job, rule, class, hint, slurm string) schemas.Finding {
	return schemas.Finding{
		JobID: j.JobID, Rule: rule, RuleHash: "0123456789abcdef", Title: "Title of " + rule, Hint: hint, Slurm: slurm,
		State: schemas.FindingOpen, Certainty: schemas.Certain, Class: class, Severity: 0.4, Worst: 0.7,
		FirstInterval: j.FirstMs + 60_000, LastInterval: j.UntilMs - 20_000, AsOf: j.UntilMs - 10_000,
		IntervalMs: j.IntervalMs, Intervals: j.Intervals, Evaluated: 8400, Matched: 8316,
	}
}

// late is a median that changes in the last tenth of a job; early is one that is different in the first tenth.
func late(usual, then float64) func(at float64) float64 {
	return func(at float64) float64 {
		if at > 0.9 {
			return then
		}
		return usual
	}
}

func early(usual, first float64) func(at float64) float64 {
	return func(at float64) float64 {
		if at < 0.1 {
			return first
		}
		return usual
	}
}

// dist is a metric with deciles of the whole life, and a median over time.
func dist(j *view.Job, name, unit string, perNode int64, median func(at float64) float64, d ...float64) view.Metric {
	m := view.Metric{Name: name, Unit: unit, Scope: schemas.ScopeCore, Total: view.Total{
		Count: j.Reported * perNode, PerNode: float64(perNode), Exact: true, Known: true,
		LowNode: "n0412", HighNode: "n0007",
	}}
	copy(m.Total.D[:], d)
	m.Total.Lo, m.Total.Hi = m.Total.D, m.Total.D
	for _, v := range m.Total.D {
		m.Total.Mean += v / 11
	}
	const bins = 120
	length := j.UntilMs - j.FirstMs
	step := (length/bins + j.IntervalMs) / j.IntervalMs * j.IntervalMs
	for from := j.FirstMs; from < j.UntilMs; from += step {
		b := view.Bin{StartMs: from, EndMs: min(from+step, j.UntilMs), Intervals: int32(step / j.IntervalMs)}
		b.Measured, b.Complete = b.Intervals, b.Intervals
		b.Expected, b.Reported = int64(b.Intervals)*int64(len(j.Nodes)), int64(b.Intervals)*int64(len(j.Nodes))
		b.Count, b.Mean = b.Reported*perNode, m.Total.Mean
		b.Low, b.High = m.Total.D, m.Total.D
		b.D5Min = median(float64(from-j.FirstMs) / float64(length))
		b.D5Max, b.D5Mean = b.D5Min, b.D5Min
		m.Bins = append(m.Bins, b)
	}
	return m
}

// without is a job of one interval in which nothing was measured.
func without() *view.Job {
	return &view.Job{
		Job: schemas.Job{JobID: "7"}, FirstMs: begin.UnixMilli(), UntilMs: begin.UnixMilli() + 10_000,
		IntervalMs: 10_000, Intervals: 1, Complete: 1, Expected: 1, Reported: 1, ExactShare: 1,
	}
}

var nan = math.NaN()
