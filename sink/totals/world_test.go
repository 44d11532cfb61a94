package totals

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
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
)

const testTopic = "weir.job-summary"

// A world is an archive of three dates: the jobs end on the second, and the third keeps the chain open.
type world struct {
	t        testing.TB
	dir      string
	rnd      *rand.Rand
	next     map[int32]int64
	previous map[int32]string
	rows     map[schemas.JobKey][]schemas.Row
	values   map[schemas.JobKey][]float64
	position int64 // in topic jobs
}

var (
	firstDay = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	endDate  = "2026-01-06"
)

const partitions = 2

// newWorld writes n small files for each partition and date. Jobs have intervals in each of them.
func newWorld(t testing.TB, n int) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), rnd: rand.New(rand.NewPCG(1, uint64(n))), next: map[int32]int64{},
		previous: map[int32]string{}, rows: map[schemas.JobKey][]schemas.Row{}, values: map[schemas.JobKey][]float64{},
	}
	for day := range 3 {
		for i := range n {
			for p := range int32(partitions) {
				w.append(day, p, time.Duration(i)*24*time.Hour/time.Duration(n))
			}
		}
	}
	w.writeJobs(endDate, w.jobs())
	return w
}

// jobsOfPartition are a job that is short, one with a long name, one with two lives, and a pseudo-job.
func keysOf(partition int32) []schemas.JobKey {
	p := fmt.Sprint(partition)
	return []schemas.JobKey{
		{JobID: "1" + p},
		{JobID: "4711_" + strings.Repeat("9", 40) + p},
		{JobID: "7" + p},
		{JobID: "7" + p, Restart: 1},
		{JobID: "other" + p},
		{JobID: schemas.JobRest},
	}
}

// append appends a small file with rows of all jobs of a partition, in which the intervals begin at a time of the day.
func (w *world) append(day int, partition int32, at time.Duration) string {
	w.t.Helper()
	return w.appendOf(day, partition, at, keysOf(partition)...)
}

// appendOf is append with rows of some jobs.
func (w *world) appendOf(day int, partition int32, at time.Duration, keys ...schemas.JobKey) string {
	w.t.Helper()
	var rows []schemas.Row
	start := firstDay.AddDate(0, 0, day).Add(at)
	for i, k := range keys {
		for _, metric := range []string{"b", "a"} {
			for interval := range 3 {
				v := valuesOf(w.rnd, (i+interval)%4, 1+w.rnd.IntN(60))
				r := rowOf(k.JobID, start.Add(time.Duration(interval)*10*time.Second).UnixMilli(), v,
					quantile.Large, fmt.Sprint("n", w.rnd.IntN(3)))
				name := metric
				r.Restart, r.Metric = k.Restart, &name
				rows = append(rows, r)
				w.values[k] = append(w.values[k], v...)
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b schemas.Row) int {
		return compareTotals(
			Total{JobID: a.JobID, Restart: a.Restart, Metric: a.Metric},
			Total{JobID: b.JobID, Restart: b.Restart, Metric: b.Metric})
	})
	date := firstDay.AddDate(0, 0, day).Format(time.DateOnly)
	from := w.next[partition]
	f := sink.Footer{
		Topic: testTopic, Partition: partition, Start: from, Next: from + int64(len(rows)), Rows: int64(len(rows)),
		FirstInterval: start.UnixMilli(), LastInterval: start.UnixMilli() + 20_000,
		PreviousDate: w.previous[partition], TopicID: "id",
	}
	if err := sink.Append(w.dir, testTopic, date, rows, f); err != nil {
		w.t.Fatal(err)
	}
	w.next[partition], w.previous[partition] = f.Next, date
	for _, r := range rows {
		k := schemas.JobKey{JobID: r.JobID, Restart: r.Restart}
		w.rows[k] = append(w.rows[k], r)
	}
	return filepath.Join(sink.DatePath(w.dir, date), fmt.Sprintf("%s-%d-%020d.parquet", testTopic, partition, from))
}

// jobs are those of all partitions that ended: all but the pseudo-job, and one that still runs.
func (w *world) jobs() (all []jobs.Life) {
	start := firstDay.UnixMilli()
	for p := range int32(partitions) {
		for i, k := range keysOf(p)[:4] {
			all = append(all, lifeOf(k, &start, firstDay.Add(time.Duration(44+i)*time.Hour).UnixMilli()))
		}
	}
	all = append(all, lifeOf(schemas.JobKey{JobID: "cancelled"}, nil, start+30*hourMs))
	slices.SortFunc(all, func(a, b jobs.Life) int { return compact.CompareJobs(a.JobKey, b.JobKey) })
	return all
}

func lifeOf(k schemas.JobKey, start *int64, end int64) jobs.Life {
	return jobs.Life{JobKey: k, StartMs: start, EndMs: end}
}

// writeJobs writes the jobs that ended on a date, in place of those that are there.
func (w *world) writeJobs(date string, lives []jobs.Life) {
	w.t.Helper()
	if err := os.Remove(jobs.Path(w.dir, date)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	w.position++ // a later record than those that were written
	var rows []jobs.Row
	for _, j := range lives {
		rows = append(rows, jobs.Row{
			Cluster: "c", JobID: j.JobID, Restart: j.Restart, User: "eva", Start: j.StartMs, End: j.EndMs,
			Position: w.position,
		})
	}
	if err := jobs.Put(w.t.Context(), w.dir, "weir.jobs", "", rows); err != nil {
		w.t.Fatal(err)
	}
}

// clone returns a copy of the archive by links. No file is ever written to again.
func (w *world) clone(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, strings.TrimPrefix(path, w.dir))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case strings.HasSuffix(d.Name(), "lock"):
			return nil
		}
		return os.Link(path, to)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// always asks for the frontier of an archive that is complete.
var always = frontierOf(Frontier{ThroughMs: firstDay.AddDate(1, 0, 0).UnixMilli()})

func frontierOf(f Frontier) func(context.Context, Archived) (Frontier, error) {
	return func(context.Context, Archived) (Frontier, error) { return f, nil }
}

// run makes totals, and returns what became of the dates.
func run(t testing.TB, dir string, change func(*Options)) []Date {
	t.Helper()
	var all []Date
	o := Options{Dir: dir, Topic: testTopic, Frontier: always, Report: func(d Date) { all = append(all, d) }}
	if change != nil {
		change(&o)
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err, all)
	}
	return all
}

func bytesOf(t testing.TB, dir string) string {
	t.Helper()
	b, err := os.ReadFile(Path(dir, endDate))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// totalsOf returns the totals of the jobs that ended on the date.
func totalsOf(t testing.TB, dir string) (all []Total) {
	t.Helper()
	err := read(Path(dir, endDate), nil, func(t *Total) error { all = append(all, *t); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return all
}
