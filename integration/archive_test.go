package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
)

// TestArchivePage runs the examples of docs/archive.md on an archive with known values, beside a file that an older
// weir wrote.
func TestArchivePage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := outsidePython(ctx, t, "-c", "import duckdb, pyarrow.dataset").CombinedOutput(); err != nil {
		withoutModules(t, "THE ARCHIVE'S PAGE WAS NOT TRIED", strings.TrimSpace(string(out))+" "+err.Error())
	}
	t.Setenv("KAFKA_SEEDS", "")
	s := newSystem(t)
	end := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC).UnixMilli()
	values := s.knownJob(t, "4711", end-60_000)
	s.produceJob(&schemas.Job{
		JobID: "4711", Name: "cfd", User: "ada", Account: "p1", Queue: "batch", Nodes: []string{"n1", "n2"},
		Cpus: []int32{0, 1}, State: schemas.StateTimeout, Start: new(end - 3600_000), End: &end, Cores: new(int64(4)),
		Gpus: new(int32(0)), TimeLimitS: new(int64(3600)), Exclusive: new(false),
	})
	sinks := s.startSink()
	s.awaitJobs()
	sinks.stop()
	older, err := os.ReadFile("../sink/testdata/format-1.parquet")
	if err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(s.cfg.Sink.Dir, "summaries", "date=2023-11-14")
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(there, "older.parquet"), older, 0o644); err != nil {
		t.Fatal(err)
	}
	archive := s.cfg.Sink.Dir
	run := func(program, text string) []byte {
		t.Helper()
		cmd := outsidePython(ctx, t, "-c", program, text)
		cmd.Dir = t.TempDir()
		if err := os.Symlink(archive, filepath.Join(cmd.Dir, "archive")); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return out
	}
	page, err := os.ReadFile("../docs/archive.md")
	if err != nil {
		t.Fatal(err)
	}
	sql := func(query string) (rows [][]float64) {
		t.Helper()
		const program = "import duckdb, json, sys; rows = duckdb.sql(sys.argv[1]).fetchall(); " +
			"print(json.dumps([[float(v) for v in r] for r in rows]))"
		if out := run(program, query); json.Unmarshal(out, &rows) != nil {
			t.Fatalf("%s", out)
		}
		return rows
	}
	queries := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(queries) != 6 { // TestSamples runs the queries of raw samples
		t.Fatalf("%d queries", len(queries))
	}
	s.checkJobs(run, queries[3][1], values)
	atoms, named := sql(queries[0][1]), 0
	for _, a := range atoms {
		n := 0
		for _, v := range values.named {
			if v == a[0] {
				n++
			}
		}
		if named += n; float64(n) != a[1] {
			t.Errorf("%v occurs %d times, the query says %v", a[0], n, a[1])
		}
	}
	if named != len(values.named) || named == 0 {
		t.Errorf("the query has %d of %d values", named, len(values.named))
	}
	below, _ := slices.BinarySearch(slices.Sorted(slices.Values(values.all)), 0.5000001)
	truth := float64(below) / float64(len(values.all))
	got := sql(queries[1][1])[0]
	if got[0] > truth || truth > got[1] || got[1]-got[0] > 0.05 || got[2] != float64(len(values.all)) {
		t.Errorf("%v of %d values are at most 0.5; the query says %v", truth, len(values.all), got)
	}
	python := regexp.MustCompile("(?s)```python\n(.*?)```").FindStringSubmatch(string(page))[1]
	out := run("import sys; exec(sys.argv[1]); print(table.num_rows, table['eps'].null_count)", python)
	if rows, null := 0, 0; true {
		if _, err := fmt.Sscan(string(out), &rows, &null); err != nil || null != 3 || rows <= null {
			t.Errorf("%v: %s", err, out)
		}
	}
	archive = t.TempDir()
	start := time.Date(2026, 1, 5, 9, 59, 45, 0, time.UTC) // half of the intervals are in the next hour
	all := compactedJob(t, archive, "4711", start)
	hours := sql(queries[2][1])
	if len(hours) != 2 {
		t.Fatalf("%d hours: %v", len(hours), hours)
	}
	for i, h := range hours {
		truth := quantile.Reduce(all[i])
		d5 := truth.Deciles[5]
		if h[0] != float64(start.Truncate(time.Hour).Unix()+int64(i)*3600) || h[1] != float64(truth.Count) ||
			math.Abs(h[2]-truth.Mean) > 1e-12 || h[4] > d5 || d5 > h[5] || h[3] < h[4] || h[3] > h[5] ||
			h[5]-h[4] > 0.05 || h[6] != 1 {
			t.Errorf("hour %d: %v, truth: %d values with mean %v, median %v", i, h, truth.Count, truth.Mean, d5)
		}
	}
}

// produceJob writes the record of a job into the topic.
func (s *system) produceJob(j *schemas.Job) {
	s.t.Helper()
	value, err := schemas.MarshalChecked(j)
	if err != nil {
		s.t.Fatal(err)
	}
	s.produce(&kgo.Record{Topic: s.cfg.Prefix + schemas.TopicJobs, Key: j.Identity().Key(), Value: value})
}

// checkJobs lets DuckDB and pyarrow read the jobs, and join them with the summaries.
func (s *system) checkJobs(run func(program, text string) []byte, query string, values known) {
	s.t.Helper()
	const program = "import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=str))"
	var rows [][]any
	if out := run(program, query); json.Unmarshal(out, &rows) != nil {
		s.t.Fatalf("%s", out)
	}
	sum := 0.0
	for _, v := range values.all {
		sum += v
	}
	mean := sum / float64(len(values.all))
	if len(rows) != 1 || rows[0][0] != "ada" || rows[0][1] != 1.0 || math.Abs(rows[0][2].(float64)-mean) > 1e-9 {
		s.t.Errorf("CPU use by user is %v, want ada with 1 job and %v", rows, mean)
	}
	const columns = `select cluster, job_id, restart, name, j.user, account, queue, nodes, node_count, cpus, cores,
		gpus, time_limit_s, mem_requested_bytes, exclusive, epoch_ms(submit), epoch_ms(start), epoch_ms("end"),
		state, reason, position, date
		from read_parquet('archive/jobs/*/*.parquet', union_by_name = true) j`
	want := `[["` + s.cfg.Cluster + `", "4711", 0, "cfd", "ada", "p1", "batch", ["n1", "n2"], 2, [0, 1], 4, 0, 3600, ` +
		`null, false, null, 1767603600000, 1767607200000, "TIMEOUT", "", 0, "2026-01-05"]]`
	if out := strings.TrimSpace(string(run(program, columns))); out != want {
		s.t.Errorf("DuckDB reads\n%s, want\n%s", out, want)
	}
	const arrow = "import pyarrow.dataset as ds, sys; " +
		"r = ds.dataset('archive/jobs', partitioning='hive').to_table().to_pylist(); " +
		"print(len(r), r[0]['user'], r[0]['nodes'], r[0]['cores'], r[0]['end'].isoformat(), r[0]['exclusive'])"
	const read = "1 ada ['n1', 'n2'] 4 2026-01-05T10:00:00+00:00 False"
	if out := strings.TrimSpace(string(run(arrow, ""))); out != read {
		s.t.Errorf("pyarrow reads %s, want %s", out, read)
	}
}

// compactedJob makes an archive with a job whose intervals are compacted, and returns its values by hour.
func compactedJob(t *testing.T, dir, job string, start time.Time) (byHour [2][]float64) {
	t.Helper()
	summaries, values := knownSummaries(t, "c", job, start.UnixMilli())
	var rows []schemas.Row
	for i, s := range summaries {
		hour := int(time.UnixMilli(s.IntervalStart).Sub(start.Truncate(time.Hour)).Hours())
		byHour[hour] = append(byHour[hour], values.rows[i]...)
		rows = append(rows, s.Rows()...)
	}
	const topic = "weir." + schemas.TopicJobSummary
	previous := ""
	for i, date := range []time.Time{start, start.AddDate(0, 0, 1)} {
		name := date.Format(time.DateOnly)
		f := sink.Footer{
			Topic: topic, Start: int64(i), Next: int64(i + 1), Rows: int64(len(rows)), PreviousDate: previous,
		}
		if err := sink.Append(dir, topic, name, rows, f); err != nil {
			t.Fatal(err)
		}
		rows, previous = nil, name
	}
	if err := compact.Run(t.Context(), compact.Options{Dir: dir, Topic: topic}); err != nil {
		t.Fatal(err)
	}
	return byHour
}

// known holds the values of a job: all of them, and the values of rows that name their low and high nodes.
type known struct {
	all, named []float64
	rows       [][]float64
}

// knownJob writes summaries of a job into the topic, from a start on.
func (s *system) knownJob(t *testing.T, job string, start int64) known {
	t.Helper()
	summaries, values := knownSummaries(t, s.cfg.Cluster, job, start)
	for _, sum := range summaries {
		value, err := schemas.MarshalChecked(sum)
		if err != nil {
			t.Fatal(err)
		}
		s.produce(&kgo.Record{Topic: s.cfg.Prefix + schemas.TopicJobSummary, Value: value})
	}
	return values
}

// knownSummaries returns summaries of a job with certified summaries of all three forms.
func knownSummaries(t *testing.T, cluster, job string, start int64) (all []*schemas.JobSummary, values known) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 5))
	for i := range int64(30) {
		column := make([]float64, 40+r.IntN(2000))
		for k := range column {
			if column[k] = r.Float64(); i%3 == 0 {
				column[k] = float64(r.IntN(5)) / 4
			}
		}
		values.all, values.rows = append(values.all, column...), append(values.rows, slices.Clone(column))
		if i%3 == 0 || len(column) <= 45 {
			values.named = append(values.named, column...)
		}
		parts := []quantile.Summary{}
		for half := range slices.Chunk(slices.Clone(column), len(column)/2+1) {
			_, c := quantile.Certify(half, quantile.Large)
			parts = append(parts, c)
		}
		d, c := quantile.Certify(column, quantile.Large)
		if i%3 == 1 {
			c, _ = quantile.Recompress(parts, quantile.Large)
		}
		deciles, certified := d.Deciles[:], schemas.NewCertified(c.Eps, c.Order, c.Knots, c.Atoms)
		stddev := quantile.Stddev(d.M2, d.Count)
		all = append(all, &schemas.JobSummary{
			Cluster: cluster, JobID: job, IntervalStart: start + i*1000, IntervalMs: 1000,
			Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 1, NodesReported: 1,
			Metrics: []schemas.JobSummaryMetric{{
				Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore, Count: d.Count, Nodes: 1, Mean: &d.Mean,
				Stddev: &stddev, Deciles: &deciles, Certified: &certified,
			}},
		})
	}
	return all, values
}
