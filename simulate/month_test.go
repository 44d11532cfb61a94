package simulate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"
)

func options(dir string) Options {
	return Options{
		Dir: dir, Topic: "weir.job-summary", JobsTopic: "weir.jobs", Cluster: "c",
		From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Days: 2, Nodes: 16, Interval: 30 * time.Minute, Period: time.Hour, Partitions: 2, Sketch: 512, Seed: 1,
	}
}

// made returns a machine of 16 nodes with the jobs of some days.
func made(jobs string, seed uint64, from time.Time, days int, interval time.Duration) *machine {
	o := Options{
		Cluster: "c", Nodes: 16, Interval: interval, Sketch: 512, Seed: seed, From: from, Days: days, Jobs: jobs,
	}
	return o.machine()
}

// TestMonthIsAnArchive: what is written verifies and can be compacted, and the same options make the same bytes.
func TestMonthIsAnArchive(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	made, err := Write(t.Context(), options(a))
	if err != nil {
		t.Fatal(err)
	}
	if made.Intervals != 96 || made.Jobs < 20 || made.Rows < 2000 {
		t.Errorf("little was made: %+v", made)
	}
	if _, err := Write(t.Context(), options(a)); !errors.Is(err, ErrThere) {
		t.Errorf("writing over an archive: %v", err)
	}
	if _, err := Write(t.Context(), options(b)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contents(t, a), contents(t, b)); diff != "" {
		t.Errorf("two runs differ (-first +second):\n%s", diff)
	}
	dates, rows := 0, int64(0)
	err = compact.Verify(t.Context(), a, "weir.job-summary", nil, func(v compact.Verified) {
		dates, rows = dates+1, rows+v.Rows
		for _, fault := range v.Faults {
			t.Errorf("%s: %s", v.Date, fault)
		}
	})
	if err != nil || dates != 2 || rows != made.Rows {
		t.Errorf("verify: %d dates with %d of %d rows: %v", dates, rows, made.Rows, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, options(filepath.Join(t.TempDir(), "c"))); !errors.Is(err, context.Canceled) {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

// contents returns the bytes of all files of an archive.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		bytes, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(bytes)
	}
	return all
}

// TestFoldHasEveryJob: each job has a summary of each interval that it covers, with all its nodes. The node that is
// slow is the one with the lowest ipc.
func TestFoldHasEveryJob(t *testing.T) {
	t.Parallel()
	m := made(Habits, 7, january, 1, 30*time.Minute)
	there := summaries(t, m, january, january.AddDate(0, 0, 1))
	slow, lowest := 0, 0
	methods := map[string]int{}
	for key, s := range there {
		methods[s.Method]++
		j := key.job
		if j == nil {
			continue
		}
		for k := range s.Metrics {
			if x := &s.Metrics[k]; x.Name == "ipc" && len(j.on) > 1 && slices.Contains(j.on, slowNode) {
				slow++
				if *x.LowNode == nodeName(slowNode) {
					lowest++
				}
			}
		}
	}
	if methods[schemas.MethodExact] == 0 || methods[schemas.MethodEstimated] == 0 {
		t.Errorf("methods: %v", methods)
	}
	if slow == 0 || lowest < slow*9/10 {
		t.Errorf("the slow node is the lowest in %d of %d intervals", lowest, slow)
	}
}

// summaryKey names a summary. The job is nil for the whole machine, and for what no job holds.
type summaryKey struct {
	job   *job
	id    string
	start int64
}

// summaries folds a span. It checks that each job has a summary of each interval that it covers. All of its nodes are
// in it, but for those whose agents were silent.
func summaries(t *testing.T, m *machine, from, to time.Time) map[summaryKey]*schemas.JobSummary {
	t.Helper()
	all, err := m.fold(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]*job{}
	for i := range m.jobs {
		byID[m.jobs[i].JobID] = &m.jobs[i]
	}
	there := map[summaryKey]*schemas.JobSummary{}
	for _, s := range all {
		key := summaryKey{byID[s.JobID], s.JobID, s.IntervalStart}
		if there[key] != nil {
			t.Fatalf("job %s has two summaries of one interval", s.JobID)
		}
		there[key] = s
	}
	heard := func(nodes []int, start int64) (n int32) {
		for _, node := range nodes {
			if m.gpus == 0 || !silent(node, start) {
				n++
			}
		}
		return n
	}
	machine := make([]int, len(m.names))
	for n := range machine {
		machine[n] = n
	}
	for start := from.UnixMilli(); start < to.UnixMilli(); start += m.intervalMs {
		s := there[summaryKey{nil, schemas.JobSystem, start}]
		if s == nil || int(s.NodesExpected) != len(m.names) || s.NodesReported != heard(machine, start) {
			t.Fatalf("the whole machine at %d: %+v", start, s)
		}
		for i := range m.jobs {
			j := &m.jobs[i]
			s := there[summaryKey{j, j.JobID, start}]
			if j.covers(start, m.intervalMs) != (s != nil) {
				t.Fatalf("job %s at %d: covered %v, summary %+v", j.JobID, start, s == nil, s)
			}
			if s != nil && (int(s.NodesExpected) != len(j.nodes) || s.NodesReported != heard(j.nodes, start)) {
				t.Fatalf("job %s at %d: %d nodes of %d, and it has %d",
					j.JobID, start, s.NodesReported, s.NodesExpected, len(j.nodes))
			}
		}
	}
	return there
}
