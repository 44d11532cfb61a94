package archive

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
)

// TestSpans: hours of compacted dates and of others are the same, and each core-hour counts once. So does one that came
// late. Without names it is all jobs.
func TestSpans(t *testing.T) {
	dir, dates := t.TempDir(), map[string][]schemas.Row{"2026-01-07": nil}
	row := func(date, job, metric string, minute int64, count int64, mean *float64) {
		day, err := time.Parse(time.DateOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		r := schemas.Row{
			Cluster: "c", JobID: job, IntervalStart: day.UnixMilli() + 60_000*minute, IntervalMs: 60_000,
			Metric: &metric, Mean: mean,
		}
		if mean != nil {
			r.Count, r.Stddev = &count, new(float64)
		}
		dates[date] = append(dates[date], r)
	}
	half, all := 0.5, 1.0
	for _, date := range []string{"2026-01-04", "2026-01-05", "2026-01-06"} {
		for minute := range int64(90) {
			row(date, "_system", "cpu_idle", minute, 10, &half)
			row(date, "_system", "cpu_user", minute, 10, &half)
			row(date, "_rest", "cpu_idle", minute, 4, &all)
			row(date, "7", "cpu_idle", minute, 6, &half)
		}
		row(date, "_system", "cpu_idle", 200, 0, nil) // an interval without a value
	}
	appendDates(t, dir, dates)
	sum := func(first, last string, jobs ...string) map[string][3]float64 {
		t.Helper()
		spans, err := Spans(t.Context(), dir, first, last, "cpu_idle", jobs...)
		if err != nil {
			t.Fatal(err)
		}
		of := map[string][3]float64{}
		for k, s := range spans {
			if k > 0 && s.Start.Before(spans[k-1].Start) {
				t.Errorf("%v comes after %v", s.Start, spans[k-1].Start)
			}
			v := of[s.Job]
			of[s.Job] = [3]float64{v[0] + 1, v[1] + s.Hours, v[2] + s.Hours*s.Mean}
		}
		for job, v := range of {
			of[job] = [3]float64{v[0], float64(int(1e6*v[1]+0.5)) / 1e6, float64(int(1e6*v[2]+0.5)) / 1e6}
		}
		return of
	}
	hours := map[string][3]float64{"_system": {2, 15, 7.5}, "_rest": {2, 6, 6}}
	if diff := gocmp.Diff(hours, sum("2026-01-05", "2026-01-05", "_system", "_rest")); diff != "" {
		t.Error("before a compaction", diff)
	}
	compacted := compact.Options{Dir: dir, Topic: testTopic, Dates: []string{"2026-01-04", "2026-01-05"}}
	if err := compact.Run(t.Context(), compacted); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(hours, sum("2026-01-05", "2026-01-05", "_system", "_rest")); diff != "" {
		t.Error("after it", diff)
	}
	every := map[string][3]float64{"_system": {4, 30, 15}, "_rest": {4, 12, 12}, "7": {4, 18, 9}}
	if diff := gocmp.Diff(every, sum("2026-01-05", "2026-01-06")); diff != "" {
		t.Error("all jobs", diff)
	}
	dates["2026-01-05"] = nil
	row("2026-01-05", "_rest", "cpu_idle", 300, 60, &half)
	late := sink.Footer{Topic: testTopic, Start: 4, Next: 5, Rows: 1, PreviousDate: "2026-01-07"}
	if err := sink.Append(dir, testTopic, "2026-01-05", dates["2026-01-05"], late); err != nil {
		t.Fatal(err)
	}
	hours["_rest"] = [3]float64{3, 7, 6.5}
	if diff := gocmp.Diff(hours, sum("2026-01-05", "2026-01-05", "_system", "_rest")); diff != "" {
		t.Error("a late file", diff)
	}
	both := map[string][3]float64{"_system": {6, 45, 22.5}, "_rest": {7, 19, 18.5}}
	if diff := gocmp.Diff(both, sum("2026-01-04", "2026-01-06", "_system", "_rest")); diff != "" {
		t.Error("compacted dates and others", diff)
	}
	if oldest, newest, err := Ends(dir, "rollups"); oldest != "2026-01-04" || newest != "2026-01-05" || err != nil {
		t.Error(oldest, newest, err)
	}
	if oldest, newest, err := Ends(dir, "jobs"); oldest+newest != "" || err != nil {
		t.Error(oldest, newest, err)
	}
}
