package analysis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/view"
)

const loadTopic = "weir." + schemas.TopicJobSummary

// measured are the summaries of a life, and all values that they are made of.
type measured struct {
	job       schemas.Job
	summaries []*schemas.JobSummary
	values    map[string][]float64
}

// measure makes up a life. Some intervals lack nodes, some are missing, and some have bounds.
func measure(
	r *rand.Rand, id string, restart int32, startMs, intervalMs int64, intervals int, metrics ...string,
) measured {
	endMs := startMs + int64(intervals)*intervalMs
	cores := int64(8)
	m := measured{values: map[string][]float64{}, job: schemas.Job{
		JobID: id, Restart: restart, Name: "n", User: "u" + id, Nodes: []string{"a1", "a2"}, Cores: &cores,
		Start: &startMs, End: &endMs, State: schemas.StateCompleted,
	}}
	for i := range intervals {
		if r.IntN(20) == 0 && i > 0 && i < intervals-1 {
			continue
		}
		s := &schemas.JobSummary{
			Cluster: "c", JobID: id, Restart: restart, IntervalStart: startMs + int64(i)*intervalMs,
			IntervalMs: intervalMs, Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 2,
			NodesReported: 2 - int32(r.IntN(10)/9),
		}
		for _, name := range metrics {
			values := make([]float64, 4*s.NodesReported)
			for k := range values {
				values[k] = math.Round(100*r.ExpFloat64()) / 100
			}
			m.values[name] = append(m.values[name], values...)
			s.Metrics = append(s.Metrics, metricOf(r, name, values))
		}
		m.summaries = append(m.summaries, s)
	}
	return m
}

func metricOf(r *rand.Rand, name string, values []float64) schemas.JobSummaryMetric {
	d, summary := quantile.Certify(slices.Clone(values), quantile.Large)
	certified := schemas.NewCertified(summary.Eps, summary.Order, summary.Knots, summary.Atoms)
	deciles, stddev, zero := d.Deciles[:], d.Stddev(), 0.0
	low, high := fmt.Sprintf("a%d", 1+r.IntN(2)), fmt.Sprintf("a%d", 1+r.IntN(2))
	m := schemas.JobSummaryMetric{
		Name: name, Unit: "1", Scope: schemas.ScopeCore, Count: d.Count, Nodes: int32(len(values) / 4), Mean: &d.Mean,
		Stddev: &stddev, NodeStddev: &stddev, LowNode: &low, HighNode: &high, Deciles: &deciles, RankError: &zero,
		Certified: &certified,
	}
	if r.IntN(3) == 0 {
		rankError := 0.1
		lo, hi := slices.Clone(deciles), slices.Clone(deciles)
		for k := 1; k < 10; k++ {
			lo[k], hi[k] = deciles[k-1], deciles[k+1]
		}
		m.RankError, m.Lo, m.Hi = &rankError, &lo, &hi
	}
	return m
}

// disk is an archive that grows as a sink's does: one partition, a file every few intervals.
type disk struct {
	dir, date string
	next      int64
	id        string // of the topic
}

func (d *disk) append(t testing.TB, summaries []*schemas.JobSummary, each int) {
	t.Helper()
	for len(summaries) > 0 {
		date := time.UnixMilli(summaries[0].IntervalStart).UTC().Format(time.DateOnly)
		var rows []schemas.Row
		n := int64(0)
		for len(summaries) > 0 && n < int64(each) &&
			time.UnixMilli(summaries[0].IntervalStart).UTC().Format(time.DateOnly) == date {
			rows = append(rows, summaries[0].Rows()...)
			summaries = summaries[1:]
			n++
		}
		f := sink.Footer{
			Topic: loadTopic, Start: d.next, Next: d.next + n, Rows: int64(len(rows)), PreviousDate: d.date,
			TopicID: d.id,
		}
		for i := range rows {
			if i == 0 {
				f.FirstInterval = rows[0].IntervalStart
			}
			f.LastInterval = max(f.LastInterval, rows[i].IntervalStart)
		}
		if err := sink.Append(d.dir, loadTopic, date, rows, f); err != nil {
			t.Fatal(err)
		}
		d.next, d.date = f.Next, date
	}
}

func (d *disk) jobs(t testing.TB, all ...schemas.Job) {
	t.Helper()
	if err := jobs.Write(t.Context(), d.dir, "weir.jobs", "c", all); err != nil {
		t.Fatal(err)
	}
}

func (d *disk) compact(t testing.TB) {
	t.Helper()
	if err := compact.Run(t.Context(), compact.Options{Dir: d.dir, Topic: loadTopic}); err != nil {
		t.Fatal(err)
	}
}

func compactDates(t testing.TB, d *disk, dates ...string) error {
	t.Helper()
	return compact.Run(t.Context(), compact.Options{Dir: d.dir, Topic: loadTopic, Dates: dates})
}

func (d *disk) totals(t testing.TB) {
	t.Helper()
	err := totals.Run(t.Context(), totals.Options{
		Dir: d.dir, Topic: loadTopic, Frontier: func(context.Context, totals.Archived) (totals.Frontier, error) {
			return totals.Frontier{ThroughMs: math.MaxInt64}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// others are summaries of another job, which lie between.
func interleave(a, b []*schemas.JobSummary) []*schemas.JobSummary {
	all := append(slices.Clone(a), b...)
	slices.SortStableFunc(all, func(x, y *schemas.JobSummary) int { return int(x.IntervalStart - y.IntervalStart) })
	return all
}

// same compares what is shown of a job with what its values are, by the definition of each number.
func (m *measured) same(t *testing.T, j *view.Job, metrics ...string) {
	t.Helper()
	expected, reported, complete := int64(0), int64(0), int64(0)
	for _, s := range m.summaries {
		expected, reported = expected+int64(s.NodesExpected), reported+int64(s.NodesReported)
		if s.NodesExpected == s.NodesReported {
			complete++
		}
	}
	first, last := m.summaries[0], m.summaries[len(m.summaries)-1]
	if j.Intervals != int64(len(m.summaries)) || j.Expected != expected || j.Reported != reported ||
		j.Complete != complete || j.FirstMs != first.IntervalStart || j.UntilMs != last.IntervalStart+last.IntervalMs ||
		j.IntervalMs != first.IntervalMs {
		t.Fatalf("%d intervals, %d complete, %d of %d nodes, %d to %d: %+v", len(m.summaries), complete, reported,
			expected,
			first.IntervalStart, last.IntervalStart+last.IntervalMs, j)
	}
	var names []string
	for i := range j.Metrics {
		names = append(names, j.Metrics[i].Name)
		m.sameMetric(t, &j.Metrics[i])
	}
	if diff := gocmp.Diff(metrics, names); diff != "" {
		t.Fatal(diff)
	}
}

func (m *measured) sameMetric(t *testing.T, got *view.Metric) {
	t.Helper()
	all := slices.Sorted(slices.Values(m.values[got.Name]))
	truth := quantile.Reduce(slices.Clone(all))
	total := &got.Total
	if total.Count != truth.Count || !total.Known || math.Abs(total.Mean-truth.Mean) > 1e-9 {
		t.Fatalf("%s: %+v, want %+v", got.Name, total, truth)
	}
	for k, d := range truth.Deciles {
		if total.Lo[k] > d || total.Hi[k] < d || total.D[k] < total.Lo[k] || total.D[k] > total.Hi[k] {
			t.Fatalf("%s: decile %d is %g, not in %g to %g", got.Name, k, d, total.Lo[k], total.Hi[k])
		}
	}
	if len(got.Bins) == 0 || len(got.Bins) > view.MaxBins {
		t.Fatalf("%d bins", len(got.Bins))
	}
	intervals := 0
	for i := range got.Bins {
		b := &got.Bins[i]
		intervals += int(b.Intervals)
		if i > 0 && b.StartMs != got.Bins[i-1].EndMs {
			t.Fatalf("bin %d begins at %d, and the one before ends at %d", i, b.StartMs, got.Bins[i-1].EndMs)
		}
		want := view.Bin{StartMs: b.StartMs, EndMs: b.EndMs, Mean: math.NaN(), D5Min: math.NaN(), D5Max: math.NaN(), D5Mean: math.NaN()}
		for k := range want.Low {
			want.Low[k], want.High[k] = math.Inf(1), math.Inf(-1)
		}
		sum, low, high := 0.0, map[string]int64{}, map[string]int64{}
		d5 := []float64{}
		for _, s := range m.summaries {
			if s.IntervalStart < b.StartMs || s.IntervalStart >= b.EndMs {
				continue
			}
			want.Intervals++
			want.Measured++
			want.Expected, want.Reported = want.Expected+int64(s.NodesExpected), want.Reported+int64(s.NodesReported)
			if s.NodesExpected == s.NodesReported {
				want.Complete++
			}
			at := slices.IndexFunc(s.Metrics, func(m schemas.JobSummaryMetric) bool { return m.Name == got.Name })
			of := &s.Metrics[at]
			lo, hi := *of.Deciles, *of.Deciles
			if of.Lo != nil {
				lo, hi = *of.Lo, *of.Hi
			}
			for k := range want.Low {
				want.Low[k], want.High[k] = min(want.Low[k], lo[k]), max(want.High[k], hi[k])
			}
			want.Count += of.Count
			sum += *of.Mean * float64(of.Count)
			d5 = append(d5, (*of.Deciles)[5])
			low[*of.LowNode]++
			high[*of.HighNode]++
		}
		if want.Measured == 0 {
			for k := range want.Low {
				want.Low[k], want.High[k] = math.NaN(), math.NaN()
			}
		} else {
			want.Mean, want.D5Min, want.D5Max = sum/float64(want.Count), slices.Min(d5), slices.Max(d5)
			want.D5Mean = meanOf(d5)
		}
		for _, n := range b.Lows {
			if low[n.Node] != n.Count {
				t.Fatalf("%s is lowest in %d intervals, not %d", n.Node, low[n.Node], n.Count)
			}
		}
		if len(b.Lows) != len(low) || len(b.Highs) != len(high) {
			t.Fatalf("%v and %v, want %v and %v", b.Lows, b.Highs, low, high)
		}
		got := *b
		got.Lows, got.Highs = nil, nil
		if diff := gocmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Fatalf("bin %d: %s", i, diff)
		}
	}
	if intervals != len(m.summaries) {
		t.Fatalf("%d intervals in bins, of %d", intervals, len(m.summaries))
	}
}

func meanOf(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}

var loadStart = time.Date(2026, 1, 5, 20, 0, 0, 0, time.UTC).UnixMilli()

// TestLoadOfAnArchive: whatever state the archive is in, a report shows what was measured.
func TestLoadOfAnArchive(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 1))
	metrics := []string{"cpu_user", "ipc", "mem_used"}
	mine := measure(r, "47", 0, loadStart, 60_000, 700, metrics...) // over midnight
	other := measure(r, "46", 0, loadStart, 60_000, 500, metrics...)
	d := &disk{dir: t.TempDir()}
	d.append(t, interleave(mine.summaries, other.summaries), 90)
	check := func(state string, a Ask) *view.Job {
		t.Helper()
		a.Dir, a.Restart = d.dir, -1
		j, err := Load(t.Context(), config.Default(), everybody, nil, "47", a)
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		mine.same(t, j, metrics...)
		if j.From != "archive" {
			t.Errorf("%s: from %q", state, j.From)
		}
		return j
	}
	if j := check("no scheduler", Ask{}); !j.Running {
		t.Error("a job without a record has ended")
	}
	d.jobs(t, mine.job, other.job)
	if j := check("small files", Ask{}); j.User != "u47" || j.Running || *j.Cores != 8 {
		t.Errorf("%+v", j.Job)
	}
	far := measure(r, "99", 0, loadStart+48*3_600_000, 60_000, 2, metrics...)
	d.append(t, far.summaries[:1], 1)
	d.compact(t)
	small := check("compacted", Ask{})
	d.totals(t)
	final := check("totals", Ask{})
	if final.Metrics[0].Total.Certified == nil || small.Metrics[0].Total.Certified == nil {
		t.Error("there is nothing to merge")
	}
	if j := check("bins", Ask{MaxBins: 10}); len(j.Metrics[0].Bins) > 10 || len(j.Metrics[0].Bins) < 6 {
		t.Errorf("%d bins", len(j.Metrics[0].Bins))
	}
	metrics = []string{"ipc"}
	check("one metric", Ask{Metrics: metrics})
}

// TestLoadBesideACrash: a compaction that is killed ahead of its last step leaves rollups beside the small files that
// they are made of. No value counts twice.
func TestLoadBesideACrash(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 8))
	mine := measure(r, "47", 0, loadStart, 60_000, 200, "cpu_user")
	far := measure(r, "99", 0, loadStart+48*3_600_000, 60_000, 1)
	small, compacted := &disk{dir: t.TempDir()}, &disk{dir: t.TempDir()}
	for _, d := range []*disk{small, compacted} {
		d.jobs(t, mine.job)
		d.append(t, mine.summaries, 30)
		d.append(t, far.summaries, 1)
	}
	compacted.compact(t)
	rollups := filepath.Join(compacted.dir, "rollups")
	if err := os.CopyFS(filepath.Join(small.dir, "rollups"), os.DirFS(rollups)); err != nil {
		t.Fatal(err)
	}
	j, err := Load(t.Context(), config.Default(), everybody, nil, "47", Ask{Dir: small.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	mine.same(t, j, "cpu_user")
}
