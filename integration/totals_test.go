package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"
)

// recomputation compares the totals with DuckDB's own totals of the rows: it counts the differences by column.
const recomputation = `
with r as (
  select s.*, epoch_ms(s.interval_start) as from_ms, epoch_ms(s.interval_start) + s.interval_ms as to_ms
  from read_parquet('archive/summaries/*/*.parquet', union_by_name = true) s
  join read_parquet('archive/jobs/*/*.parquet') j using (job_id, restart)
), m as (
  select job_id, restart, metric, sum(count * mean) / sum(count) as mean from r group by all
), want as (
  select r.job_id, r.restart, r.metric, count(*) as intervals,
    count(*) filter (r.count > 0) as measured,
    coalesce(sum(r.interval_ms) filter (r.count > 0), 0) / 1000 as measured_s,
    min(from_ms) as from_ms, max(to_ms) as to_ms,
    sum(nodes_reported) / sum(nodes_expected) as completeness, coalesce(sum(r.count), 0) as n,
    coalesce(sum(invalid), 0) as invalid, any_value(m.mean) as mean, min(d0) as least, max(d10) as most,
    sqrt(sum(r.count * (stddev * stddev + (r.mean - m.mean) * (r.mean - m.mean))) / sum(r.count)) as stddev,
    sqrt(sum(node_stddev * node_stddev) / count(*) filter (r.count > 0)) as rms
  from r join m on r.job_id = m.job_id and r.restart = m.restart and r.metric is not distinct from m.metric
  group by all
), nodes as (
  select job_id, restart, metric, low_node, count(*) as times from r where count > 0
  group by job_id, restart, metric, low_node
  qualify row_number() over (partition by job_id, restart, metric order by times desc, low_node) = 1
), pairs as (
  select want.*, t.* exclude (job_id, restart, metric, intervals, measured_s, completeness, invalid, mean, stddev),
    t.intervals as t_intervals, t.measured_s as t_measured_s, t.completeness as t_completeness,
    t.invalid as t_invalid, t.mean as t_mean, t.stddev as t_stddev, nodes.low_node as node, nodes.times,
    1e-12 * (abs(want.mean) + want.stddev) as near
  from want full join read_parquet('archive/job_totals/*/*.parquet') t
    on want.job_id = t.job_id and want.restart = t.restart and want.metric is not distinct from t.metric
  left join nodes
    on want.job_id = nodes.job_id and want.restart = nodes.restart and want.metric is not distinct from nodes.metric
)
select count(*), count(*) filter (t_intervals is distinct from intervals),
  count(*) filter (intervals_measured is distinct from measured or t_measured_s is distinct from measured_s),
  count(*) filter (epoch_ms(start) is distinct from from_ms or epoch_ms("end") is distinct from to_ms),
  count(*) filter (t_completeness is distinct from completeness),
  count(*) filter (count is distinct from n or t_invalid is distinct from invalid),
  count(*) filter (abs(t_mean - mean) > near or (t_mean is null) <> (mean is null)),
  count(*) filter (min is distinct from least or max is distinct from most),
  count(*) filter (abs(t_stddev - stddev) > 1e5 * near or (t_stddev is null) <> (stddev is null)),
  count(*) filter (abs(node_stddev_rms - rms) > 1e-12 * rms or (node_stddev_rms is null) <> (rms is null)),
  count(*) filter (low_node is distinct from node or low_node_share is distinct from times / measured),
  count(*) filter (not final), count(*) filter (d5 < lo[6] or d5 > hi[6]), count(lo)
from pairs`

// TestTotalsEqualDuckDB makes totals of jobs on compacted and uncompacted dates. DuckDB recomputes all totals that
// follow from the rows, and reads the brackets.
func TestTotalsEqualDuckDB(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := outsidePython(ctx, t, "-c", "import duckdb").CombinedOutput(); err != nil {
		withoutModules(t, "TOTALS WERE NOT RECOMPUTED", strings.TrimSpace(string(out))+" "+err.Error())
	}
	dir := filepath.Join(t.TempDir(), "archive")
	topic := "weir." + schemas.TopicJobSummary
	archiveOfLives(t, dir, topic)
	err := totals.Run(ctx, totals.Options{
		Dir: dir, Topic: topic,
		Frontier: func(context.Context, totals.Archived) (totals.Frontier, error) {
			return totals.Frontier{ThroughMs: time.Now().UnixMilli()}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := outsidePython(ctx, t, "-c",
		"import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall()[0]))", recomputation)
	cmd.Dir = filepath.Dir(dir)
	out, err := cmd.CombinedOutput()
	var got []int64
	if err != nil || json.Unmarshal(out, &got) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const lives, metrics = 12, 3
	if got[0] != lives*metrics || got[len(got)-1] == 0 {
		t.Errorf("%d totals, want %d; %d have brackets", got[0], lives*metrics, got[len(got)-1])
	}
	for i, differ := range got[1 : len(got)-1] {
		if differ > 0 {
			t.Errorf("condition %d of the query: %d totals differ", i+1, differ)
		}
	}
}

// archiveOfLives writes jobs that live over three dates. The first date is compacted, and has late rows.
func archiveOfLives(t *testing.T, dir, topic string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(8, 8))
	first := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	next, previous := int64(0), ""
	add := func(date time.Time, rows []schemas.Row) {
		t.Helper()
		f := sink.Footer{Topic: topic, Start: next, Next: next + 1, Rows: int64(len(rows)), PreviousDate: previous}
		if err := sink.Append(dir, topic, date.Format(time.DateOnly), rows, f); err != nil {
			t.Fatal(err)
		}
		next, previous = next+1, date.Format(time.DateOnly)
	}
	day := func(date time.Time, from, to int) {
		t.Helper()
		for hour := from; hour < to; hour++ {
			var rows []schemas.Row
			for job := range 12 {
				for _, metric := range []string{"", "a", "b"} {
					rows = append(rows, lifeRow(rnd, date.Add(time.Duration(hour)*time.Hour), job, metric))
				}
			}
			slices.SortStableFunc(rows, func(a, b schemas.Row) int { return strings.Compare(a.JobID, b.JobID) })
			add(date, rows)
		}
	}
	day(first, 0, 20)
	add(first.AddDate(0, 0, 1), nil)
	if err := compact.Run(t.Context(), compact.Options{Dir: dir, Topic: topic}); err != nil {
		t.Fatal(err)
	}
	day(first, 19, 22)
	day(first.AddDate(0, 0, 1), 0, 20)
	start, end := first.UnixMilli(), first.Add(47*time.Hour).UnixMilli()
	var lives []jobs.Row
	for i := range 12 {
		lives = append(lives, jobs.Row{Cluster: "c", JobID: fmt.Sprintf("%02d", i), Start: &start, End: end})
	}
	if err := jobs.Put(t.Context(), dir, "weir.jobs", "", lives); err != nil {
		t.Fatal(err)
	}
}

// lifeRow returns a row of a metric, or of a summary without any.
func lifeRow(rnd *rand.Rand, start time.Time, job int, metric string) schemas.Row {
	r := schemas.Row{
		Cluster: "c", JobID: fmt.Sprintf("%02d", job), IntervalStart: start.UnixMilli(), IntervalMs: 10_000,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 4, NodesReported: rnd.Int32N(5),
	}
	if metric == "" {
		return r
	}
	unit, scope, invalid, nodes := "%", schemas.ScopeCore, rnd.Int64N(3), r.NodesReported
	r.Metric, r.Unit, r.Scope, r.Invalid, r.Nodes, r.Count = &metric, &unit, &scope, &invalid, &nodes, new(int64)
	if rnd.IntN(5) == 0 {
		return r // all values are invalid
	}
	values := make([]float64, 1+rnd.IntN(300))
	for i := range values {
		values[i] = rnd.NormFloat64() * float64(job)
	}
	d, s := quantile.Certify(values, quantile.Large)
	stddev, between, low, high := d.Stddev(), rnd.Float64(), fmt.Sprint("n", rnd.IntN(4)), fmt.Sprint("n", rnd.IntN(4))
	r.Count, r.Mean, r.Stddev, r.NodeStddev, r.LowNode, r.HighNode = &d.Count, &d.Mean, &stddev, &between, &low, &high
	r.D0, r.D10, r.Eps, r.OrderStatistics = &d.Deciles[0], &d.Deciles[10], &s.Eps, s.Order
	for _, k := range s.Knots {
		r.KnotValues, r.KnotRanks = append(r.KnotValues, k.Value), append(r.KnotRanks, k.Rank)
	}
	for _, a := range s.Atoms {
		r.AtomValues, r.AtomCounts = append(r.AtomValues, a.Value), append(r.AtomCounts, a.Count)
	}
	return r
}
