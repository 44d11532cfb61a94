package archive

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/table"
)

const testTopic = "weir." + schemas.TopicJobSummary

// jobRow has the columns of table jobs that are read here.
type jobRow struct {
	Cluster string `parquet:"cluster,dict"`
	JobID   string `parquet:"job_id,dict"`
	Restart int32  `parquet:"restart"`
	Start   *int64 `parquet:"start,optional,timestamp(millisecond)"`
	End     int64  `parquet:"end,timestamp(millisecond)"`
}

func writeJobs(t testing.TB, dir, date string, rows []jobRow) {
	t.Helper()
	at := filepath.Join(dir, "jobs", "date="+date)
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(rows, func(a, b jobRow) int {
		return cmp.Or(strings.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
	})
	if err := parquet.WriteFile(filepath.Join(at, "jobs.parquet"), rows); err != nil {
		t.Fatal(err)
	}
}

// appendDates writes dates of rows into an archive, and an empty one behind them, so that they can be compacted.
func appendDates(t testing.TB, dir string, dates map[string][]schemas.Row) {
	t.Helper()
	names, previous := slices.Sorted(mapKeys(dates)), ""
	for i, date := range names {
		f := sink.Footer{
			Topic: testTopic, Start: int64(i), Next: int64(i + 1), Rows: int64(len(dates[date])),
			PreviousDate: previous,
		}
		if err := sink.Append(dir, testTopic, date, dates[date], f); err != nil {
			t.Fatal(err)
		}
		previous = date
	}
}

func mapKeys(m map[string][]schemas.Row) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// metricOf returns a name that is longer than the bounds in a page index.
func metricOf(m int) string {
	return fmt.Sprintf("a metric with a long name, of which many begin alike %d", m)
}

// TestSeriesEqualsRows: a series has the values of exactly those rows that are of the job and the metric.
func TestSeriesEqualsRows(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 6))
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	dir, dates := t.TempDir(), map[string][]schemas.Row{"2026-01-07": nil}
	want := map[string][]point{}
	for day := range 2 {
		date := start.AddDate(0, 0, day)
		var rows []schemas.Row
		for job := range 40 {
			for i := range r.IntN(60) {
				for m := range 4 {
					row := schemas.Row{
						Cluster: "c", JobID: fmt.Sprint(4700 + job), Restart: int32(job % 2), IntervalMs: 1000,
						IntervalStart: date.UnixMilli() + int64(i)*1000,
					}
					p := point{Cluster: "c", Restart: row.Restart, Interval: time.UnixMilli(row.IntervalStart).UTC()}
					if m > 0 {
						metric, count := metricOf(m), int64(i)
						row.Metric, row.Count = &metric, &count
						n := float64(count)
						p.Values = []*float64{nil, &n, nil}
						if mean := r.Float64(); mean > 0.2 {
							row.Mean, p.Values[0] = &mean, &mean
						}
						want[row.JobID+metric] = append(want[row.JobID+metric], p)
					}
					rows = append(rows, row)
				}
			}
		}
		dates[date.Format(time.DateOnly)] = rows
	}
	appendDates(t, dir, dates)
	check := func(state string) {
		t.Helper()
		for job := range 41 {
			for m := range 5 {
				id, metric := fmt.Sprint(4700+job), metricOf(m)
				got, err := series(t.Context(), dir, id, metric, "mean", "count", "no such column")
				if diff := gocmp.Diff(want[id+metric], got); err != nil || diff != "" {
					t.Fatalf("%s: job %s, metric %d: %v\n%s", state, id, m, err, diff)
				}
			}
		}
	}
	check("small files")
	if err := compact.Run(t.Context(), compact.Options{Dir: dir, Topic: testTopic}); err != nil {
		t.Fatal(err)
	}
	check("compacted files")
}

// TestSeriesReadsItsDates: only files of dates at which a job ran are opened, and a damaged one of these is named.
func TestSeriesReadsItsDates(t *testing.T) {
	dir, dates := t.TempDir(), map[string][]schemas.Row{}
	day := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for i := range 4 {
		date, mean := day.AddDate(0, 0, i), float64(i)
		metric := "cpu_user"
		dates[date.Format(time.DateOnly)] = []schemas.Row{
			{Cluster: "c", JobID: "7", IntervalStart: date.UnixMilli(), Metric: &metric, Mean: &mean},
		}
	}
	appendDates(t, dir, dates)
	start := day.AddDate(0, 0, 1).Add(2 * time.Hour).UnixMilli()
	writeJobs(t, dir, "2026-01-07", []jobRow{
		{Cluster: "c", JobID: "6", End: start}, {Cluster: "c", JobID: "7", Start: &start, End: start + 86_400_000},
	})
	writeJobs(t, dir, "2026-01-08", []jobRow{{Cluster: "c", JobID: "8", End: start}})
	damage := func(date string) {
		files, err := filepath.Glob(filepath.Join(dir, "summaries", "date="+date, "*"))
		if err != nil || len(files) == 0 {
			t.Fatal("no file", err)
		}
		if err := os.WriteFile(files[0], []byte("PAR1 damaged PAR1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage("2026-01-05")
	damage("2026-01-08")
	got, err := series(t.Context(), dir, "7", "cpu_user", "mean")
	if err != nil || len(got) != 2 || *got[0].Values[0] != 1 || *got[1].Values[0] != 2 {
		t.Errorf("%v, %v", got, err)
	}
	damage("2026-01-06")
	if _, err := series(t.Context(), dir, "7", "cpu_user", "mean"); !errors.Is(err, sink.ErrBadFile) ||
		!strings.Contains(err.Error(), "date=2026-01-06") {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestDates(t *testing.T) {
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	pointer := func(text string) *time.Time { v := at(text); return &v }
	now := at("2026-06-10T12:00:00Z")
	for name, c := range map[string]struct {
		lives       []Life
		first, last string
	}{
		"not there": {nil, "", ""},
		"an old life": {
			[]Life{{Start: pointer("2026-01-05T03:00:00Z"), End: at("2026-01-06T02:00:00Z")}},
			"2026-01-05", "2026-01-06",
		},
		"an interval before it and a clock behind it": {
			[]Life{{Start: pointer("2026-01-05T00:10:00Z"), End: at("2026-01-06T23:10:00Z")}},
			"2026-01-04", "2026-01-07",
		},
		"two lives": {[]Life{
			{Start: pointer("2026-01-05T03:00:00Z"), End: at("2026-01-05T04:00:00Z")},
			{Start: pointer("2026-01-08T03:00:00Z"), End: at("2026-01-08T04:00:00Z"), Restart: 1},
		}, "2026-01-05", "2026-01-08"},
		"it may run again": {
			[]Life{{Start: pointer("2026-06-09T03:00:00Z"), End: at("2026-06-10T03:00:00Z")}},
			"2026-06-09", "",
		},
		"no start": {[]Life{{End: at("2026-01-06T02:00:00Z")}}, "", "2026-01-06"},
	} {
		var lives []table.Life
		for _, l := range c.lives {
			lives = append(lives, l.time())
		}
		if first, last := Dates(lives, now); first != c.first || last != c.last {
			t.Errorf("%s: from %q to %q, want %q to %q", name, first, last, c.first, c.last)
		}
	}
}

// TestArchiveOfNothing: where there is no table there is no life, and no series.
func TestArchiveOfNothing(t *testing.T) {
	if got, err := series(t.Context(), t.TempDir(), "7", "cpu_user", "mean"); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
