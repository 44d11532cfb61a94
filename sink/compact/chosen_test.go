package compact

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// archiveOfPages writes a date whose files have several pages and whose rollups have several row groups, and returns
// its jobs. Some of the ids differ only behind what the index of pages keeps of them.
func archiveOfPages(t *testing.T, dir string) (jobs []schemas.JobKey) {
	t.Helper()
	const files, jobsInAll, intervals = 3, 180, 96
	rnd := rand.New(rand.NewPCG(9, 9))
	for i := range jobsInAll {
		id := fmt.Sprintf("%03d%s", i/2, strings.Repeat("4", 20))
		if i >= 60 && i < 120 {
			id = fmt.Sprintf("%s%03d", strings.Repeat("05", 10), i/2)
		}
		jobs = append(jobs, schemas.JobKey{JobID: id, Restart: int32(i % 2)})
	}
	var all [files][]schemas.Row
	for _, k := range jobs {
		for _, metric := range []string{"a", "b", "c"} {
			for i := range int64(intervals) {
				start := dayMs + i*24*hourMs/intervals
				r := schemasRow(rowOfValues(start, []float64{rnd.Float64(), 1}, quantile.Large))
				name := metric
				r.JobID, r.Restart, r.Metric = k.JobID, k.Restart, &name
				f := rnd.IntN(files)
				all[f] = append(all[f], r)
			}
		}
	}
	for i, rows := range all {
		f := sink.Footer{
			Topic: testTopic, Start: int64(i), Next: int64(i) + 1, Rows: int64(len(rows)), PreviousDate: testDate,
		}
		if err := sink.Append(dir, testTopic, testDate, rows, f); err != nil {
			t.Fatal(err)
		}
	}
	return jobs
}

func schemasRow(r *row) schemas.Row {
	return schemas.Row{
		Cluster: r.Cluster, IntervalStart: r.IntervalStart, IntervalMs: r.IntervalMs, Unit: r.Unit, Scope: r.Scope,
		Method: r.Method, Parts: 1, PartsReported: 1, NodesExpected: 2, NodesReported: 1, Count: r.Count,
		Invalid: r.Invalid, Mean: r.Mean, Stddev: r.Stddev, NodeStddev: r.NodeStddev, LowNode: r.LowNode,
		HighNode: r.HighNode, D0: r.D0, D10: r.D10, Eps: r.Eps, AtomValues: r.AtomValues, AtomCounts: r.AtomCounts,
	}
}

// hoursOf returns the hours of jobs, and where their lineage begins.
func hoursOf(t *testing.T, dir string, jobs []schemas.JobKey) (all []Rollup, lineage string) {
	t.Helper()
	files, err := sink.FilesIn(sink.DatePath(dir, testDate), testTopic, testDate)
	if err != nil {
		t.Fatal(err)
	}
	in, err := InputsOf(dir, testTopic, testDate, files)
	if err != nil {
		t.Fatal(err)
	}
	in.Jobs = jobs
	s := &Scratch{Prefix: filepath.Join(t.TempDir(), "s")}
	err = EachHour(t.Context(), []Inputs{in}, s, func(r *Rollup) error { all = append(all, *r); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(s.Prefix + "*"); err != nil || len(left) > 0 {
		t.Errorf("files in between stay: %v, %v", left, err)
	}
	return all, in.Lineage
}

// TestHoursOfChosenJobs: the hours of some jobs are those that all of them have, bit for bit, before and after the
// compaction. Pages without one of the jobs are not read.
func TestHoursOfChosenJobs(t *testing.T) {
	dir := t.TempDir()
	jobs := archiveOfPages(t, dir)
	all, lineage := hoursOf(t, dir, jobs)
	if want := len(jobs) * 3 * 24; len(all) != want || lineage == "" {
		t.Fatalf("%d hours, want %d, of %q", len(all), want, lineage)
	}
	path := filepath.Join(sink.DatePath(dir, testDate), "t-0-00000000000000000001.parquet")
	small, err := openReader(path, newTexts())
	if err != nil {
		t.Fatal(err)
	}
	if rows := spansOf(t, small.file.File, jobs[77:78]); rows == 0 || rows >= small.file.NumRows() {
		t.Errorf("%d of %d rows are read for one job", rows, small.file.NumRows())
	}
	if err := small.close(); err != nil {
		t.Fatal(err)
	}
	for _, compacted := range []bool{false, true} {
		if compacted {
			compactTest(t, dir, 3)
		}
		choices := [][]schemas.JobKey{
			{jobs[0], jobs[77], jobs[78], jobs[178]},
			nil,
			jobs[:1], jobs[len(jobs)-1:],
			{{JobID: "1"}, {JobID: "5"}},
		}
		for _, some := range choices[:min(choicesOfJobs, len(choices))] {
			var want []Rollup
			for _, r := range all {
				if slices.Contains(some, schemas.JobKey{JobID: r.JobID, Restart: r.Restart}) {
					want = append(want, r)
				}
			}
			got, now := hoursOf(t, dir, some)
			if diff := cmp.Diff(want, got); diff != "" || now != lineage {
				t.Fatalf("compacted %v: %v: lineage %s was %s, hours (-want +got):\n%.1000s", compacted, some, now,
					lineage, diff)
			}
		}
	}
	file, p, err := openRollups(rollupsPath(dir, testDate))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if rows := spansOf(t, p, jobs[77:78]); rows == 0 || rows >= p.NumRows() {
		t.Errorf("%d of %d rollups are read for one job", rows, p.NumRows())
	}
}

// spansOf returns how many rows of a file are read for jobs.
func spansOf(t *testing.T, p *parquet.File, jobs []schemas.JobKey) (rows int64) {
	t.Helper()
	column, err := columnOf(p.Schema(), "job_id")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.RowGroups() {
		spans, err := (&chosen{keys: jobs}).spans(g, column)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spans {
			rows += s.rows
		}
	}
	return rows
}
