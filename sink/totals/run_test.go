package totals

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

// TestTotalsOfAnArchive: each job and metric has a total, which is that of its rows. A compaction changes no bit, and a
// second run writes nothing.
func TestTotalsOfAnArchive(t *testing.T) {
	for _, files := range []int{5, manyFiles} {
		w := newWorld(t, files)
		got := run(t, w.dir, nil)
		if len(got) != 1 || got[0].State != Written || got[0].Jobs != 8 || got[0].Rows != 16 || got[0].Waiting != 0 {
			t.Fatalf("%d files: %+v", files, got)
		}
		w.judge(t)
		first := bytesOf(t, w.dir)
		if got := run(t, w.dir, nil); len(got) > 0 {
			t.Errorf("%d files: a second run: %+v", files, got)
		}
		w.compact(t)
		if got := run(t, w.dir, nil); len(got) > 0 {
			t.Errorf("%d files: after a compaction: %+v", files, got)
		}
		if err := os.Remove(Path(w.dir, endDate)); err != nil {
			t.Fatal(err)
		}
		if got := run(t, w.dir, nil); len(got) != 1 || bytesOf(t, w.dir) != first {
			t.Errorf("%d files: made again after a compaction: %+v, the same: %v", files, got,
				bytesOf(t, w.dir) == first)
		}
		left, err := filepath.Glob(filepath.Join(sink.StagePath(w.dir), stagePrefix+"*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%d files: the stage has %v, %v", files, left, err)
		}
	}
}

// judge holds all totals against the rows.
func (w *world) judge(t *testing.T) {
	t.Helper()
	all := totalsOf(t, w.dir)
	if !slices.IsSortedFunc(all, compareTotals) {
		t.Error("not sorted")
	}
	got, ends := map[schemas.JobKey]int{}, map[schemas.JobKey]int64{}
	for _, j := range w.jobs() {
		ends[j.JobKey] = j.EndMs // at a full hour
	}
	for i := range all {
		k := schemas.JobKey{JobID: all[i].JobID, Restart: all[i].Restart}
		got[k]++
		var rows []schemas.Row
		for _, r := range w.rows[k] {
			if *r.Metric == *all[i].Metric && r.IntervalStart < ends[k]+hourMs { // later ones are not of this job
				rows = append(rows, r)
			}
		}
		want := fold(t, rows...)
		if diff := cmp.Diff(want, all[i]); diff != "" {
			t.Errorf("%v (-rows +total):\n%.2000s", k, diff)
		}
	}
	want := map[schemas.JobKey]int{}
	for _, j := range w.jobs() {
		if j.StartMs != nil {
			want[j.JobKey] = 2
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("totals of each job (-want +got):\n%s", diff)
	}
}

func (w *world) compact(t testing.TB) {
	t.Helper()
	if err := compact.Run(t.Context(), compact.Options{Dir: w.dir, Topic: testTopic}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(sink.StagePath(w.dir))); err != nil { // the inputs, which are kept for an hour
		t.Fatal(err)
	}
}

// TestLateRowsRewriteTotals: before and after the date is compacted, and again when they are compacted.
func TestLateRowsRewriteTotals(t *testing.T) {
	w := newWorld(t, 2)
	run(t, w.dir, nil)
	w.append(0, 0, time.Hour)
	if got := run(t, w.dir, nil); len(got) != 1 || got[0].State != Written {
		t.Errorf("late rows of a date that is not compacted: %+v", got)
	}
	w.append(2, 0, 0)
	w.compact(t)
	for i := range 32 {
		w.append(0, 0, time.Duration(i)*time.Minute)
	}
	w.append(2, 0, 0)
	before := bytesOf(t, w.dir)
	if got := run(t, w.dir, nil); len(got) != 1 || got[0].State != Written || bytesOf(t, w.dir) == before {
		t.Errorf("late rows of a compacted date: %+v", got)
	}
	before = bytesOf(t, w.dir)
	w.compact(t)
	if got := run(t, w.dir, nil); len(got) > 0 {
		t.Errorf("after they were compacted: %+v", got)
	}
	if err := os.Remove(Path(w.dir, endDate)); err != nil {
		t.Fatal(err)
	}
	if run(t, w.dir, nil); bytesOf(t, w.dir) != before {
		t.Error("late rows that were compacted gave other bytes")
	}
}

// TestChangedJobsRewriteTotals: a job that comes, goes, or has another end.
func TestChangedJobsRewriteTotals(t *testing.T) {
	w := newWorld(t, 2)
	run(t, w.dir, nil)
	lives := w.jobs()
	w.writeJobs(endDate, lives[1:])
	if got := run(t, w.dir, nil); len(got) != 1 || got[0].State != Written || got[0].Jobs != 7 {
		t.Errorf("a job that is gone: %+v", got)
	}
	lives[1].StartMs = &lives[1].EndMs // then its first day has none of its intervals
	w.writeJobs(endDate, lives)
	if got := run(t, w.dir, nil); len(got) != 1 || got[0].State != Written || got[0].Jobs != 8 {
		t.Errorf("a job that came, and one that began later: %+v", got)
	}
	for _, r := range totalsOf(t, w.dir) {
		if late := dateOf(r.Start) == endDate; late != (r.JobID == lives[1].JobID && r.Restart == lives[1].Restart) {
			t.Errorf("%s begins %v", r.JobID, time.UnixMilli(r.Start).UTC())
		}
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "jobs")); err != nil {
		t.Fatal(err)
	}
	before := bytesOf(t, w.dir)
	if got := run(t, w.dir, nil); len(got) > 0 || bytesOf(t, w.dir) != before {
		t.Errorf("without jobs: %+v", got)
	}
}

// TestTotalsAreCopied: of a date that goes on, totals of jobs without new rows are copied. The file has the same bytes
// as if all were made anew.
func TestTotalsAreCopied(t *testing.T) {
	w := newWorld(t, 2)
	run(t, w.dir, nil)
	lives := w.jobs()
	check := func(what string, copied int) {
		t.Helper()
		got := run(t, w.dir, nil)
		if len(got) != 1 || got[0].State != Written || got[0].Copied != copied {
			t.Errorf("%s: %+v, want %d jobs copied", what, got, copied)
		}
		dir := w.clone(t)
		if err := os.Remove(Path(dir, endDate)); err != nil {
			t.Fatal(err)
		}
		if run(t, dir, nil); bytesOf(t, dir) != bytesOf(t, w.dir) {
			t.Errorf("%s: made anew it has other bytes", what)
		}
	}
	other := schemas.JobKey{JobID: "other0"}
	w.appendOf(1, 0, 23*time.Hour, other)
	check("rows of a job that runs", 8)
	w.appendOf(1, 0, 23*time.Hour, other, keysOf(0)[2])
	w.appendOf(0, 0, time.Hour, keysOf(0)[1])
	check("rows of two of the jobs", 6)
	lives = append(lives, lifeOf(other, lives[0].StartMs, firstDay.Add(47*time.Hour).UnixMilli()))
	w.writeJobs(endDate, lives)
	check("a job more", 8)
	w.writeJobs(endDate, lives[1:])
	check("a job less", 8)
	later := firstDay.Add(25 * time.Hour).UnixMilli()
	lives[3].StartMs = &later
	w.writeJobs(endDate, lives[1:])
	check("a job that began later", 7)
	w.appendOf(1, 0, 23*time.Hour, keysOf(0)[2])
	w.append(2, 0, 0)
	w.compact(t)
	check("a compaction took rows that are new", 0)
	for range 3 {
		w.appendOf(0, 1, time.Hour, keysOf(1)[0])
		w.appendOf(1, 1, time.Hour, other)
	}
	check("late rows of a compacted date", 6)
	w.writeJobs(endDate, lives)
	frontier := frontierOf(Frontier{ThroughMs: nothing})
	got := run(t, w.dir, func(o *Options) { o.Frontier, o.Interim = frontier, true })
	if len(got) != 1 || got[0].Copied != 8 || got[0].Jobs != 9 {
		t.Errorf("a job that is not final: %+v", got)
	}
	check("it is final now", 8)
}

// TestTotalsOutliveTheirRows: users delete old dates. What was made of them stays.
func TestTotalsOutliveTheirRows(t *testing.T) {
	for name, tables := range map[string][]string{
		"rows": {"summaries"}, "rows and rollups": {"summaries", "rollups"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.compact(t)
			run(t, w.dir, nil)
			w.append(0, 0, time.Hour)
			w.append(2, 0, 0)
			run(t, w.dir, nil)
			before := bytesOf(t, w.dir)
			for _, table := range tables {
				date := "date=" + firstDay.Format(time.DateOnly)
				if err := os.RemoveAll(filepath.Join(w.dir, table, date)); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t, w.dir, nil)
			if len(got) != 1 || got[0].State != unchanged || !strings.Contains(got[0].Reason, "2026-01-05") ||
				bytesOf(t, w.dir) != before {
				t.Errorf("%+v, the same: %v", got, bytesOf(t, w.dir) == before)
			}
		})
	}
}

// TestFinal: totals wait for a job's end to be closed and archived. Once final they stay so.
func TestFinal(t *testing.T) {
	w := newWorld(t, 2)
	lives := w.jobs()
	last := slices.MaxFunc(lives, func(a, b jobs.Life) int { return int(a.EndMs - b.EndMs) })
	frontier := Frontier{ThroughMs: last.EndMs - 1, Waiting: map[schemas.JobKey]int64{lives[0].JobKey: 0}}
	until := func(o *Options) {
		o.Frontier = func(context.Context, Archived) (Frontier, error) { return frontier, nil }
	}
	got := run(t, w.dir, until)
	if len(got) != 1 || got[0].Jobs != 5 || got[0].Waiting != 3 {
		t.Fatalf("%+v, want 5 jobs with totals", got)
	}
	got = run(t, w.dir, func(o *Options) { until(o); o.Interim = true })
	if len(got) != 1 || got[0].State != Written || got[0].Jobs != 8 || got[0].Waiting != 3 {
		t.Errorf("with interim totals: %+v", got)
	}
	interim := map[schemas.JobKey]bool{}
	for _, r := range totalsOf(t, w.dir) {
		if !r.Final {
			interim[schemas.JobKey{JobID: r.JobID, Restart: r.Restart}] = true
		}
	}
	if len(interim) != 3 || !interim[last.JobKey] || !interim[lives[0].JobKey] {
		t.Errorf("not final: %v", interim)
	}
	frontier = Frontier{ThroughMs: nothing}
	if got = run(t, w.dir, until); len(got) != 1 || got[0].State != Written || got[0].Jobs != 5 || got[0].Waiting != 3 {
		t.Errorf("brokers that know nothing: %+v", got)
	}
	if got = run(t, w.dir, nil); len(got) != 1 || got[0].Jobs != 8 || got[0].Waiting != 0 {
		t.Errorf("in the end: %+v", got)
	}
	w.judge(t)
}
