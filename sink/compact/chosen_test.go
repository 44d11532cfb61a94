package compact

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// archiveOfPages writes a date whose files have several pages and whose rollups have several row groups, and returns
// its jobs. Ids are longer than what the index of pages keeps of them.
func archiveOfPages(t *testing.T, dir string) (jobs []schemas.JobKey) {
	t.Helper()
	const files, jobsInAll, intervals = 3, 180, 96
	rnd := rand.New(rand.NewPCG(9, 9))
	for i := range jobsInAll {
		id := fmt.Sprintf("%s%03d", strings.Repeat("4", 20), i/2)
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
	for _, compacted := range []bool{false, true} {
		if compacted {
			compactTest(t, dir, 3)
		}
		for _, some := range [][]schemas.JobKey{
			jobs, jobs[:1], jobs[len(jobs)-1:],
			{jobs[0], jobs[77], jobs[78], jobs[178]},
			{{JobID: "1"}, {JobID: "5"}},
			nil,
		} {
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
	column, err := columnOf(p.Schema(), "job_id")
	if err != nil {
		t.Fatal(err)
	}
	rows, groups := int64(0), 0
	for _, g := range p.RowGroups() {
		spans, err := (&chosen{keys: jobs[77:78]}).spans(g, column)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spans {
			rows += s.rows
			groups++
		}
	}
	if rows == 0 || rows >= p.NumRows() || groups >= len(p.RowGroups()) {
		t.Errorf("%d of %d rows in %d of %d row groups are read for one job", rows, p.NumRows(), groups,
			len(p.RowGroups()))
	}
}
