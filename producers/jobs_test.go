package producers

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// TestSharedNodeFromItsFiles: Slurm has two jobs on this node. From the kernel's files to the records that are sent,
// each job has its own memory, and nothing of the other's. What the site computes of a job travels with it.
func TestSharedNodeFromItsFiles(t *testing.T) {
	dir := t.TempDir()
	scope := filepath.Join(dir, "fs/cgroup/system.slice/slurmstepd.scope")
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(dir, "fs/cgroup/cgroup.controllers"), "memory\n")
	put(filepath.Join(dir, "proc/stat"), "cpu  9 9 9 9\ncpu0 1 2 3 4\ncpu1 1 2 3 4\ncpu2 1 2 3 4\ncpu3 1 2 3 4\n")
	for job, anon := range map[string]int{"job_71": 1000, "s5K1KKYAYG5D00": 2000, "job_99": 3000} {
		put(filepath.Join(scope, job, "memory.stat"), fmt.Sprintf("anon %d\nfile 70\nshmem 20\n", anon))
		put(filepath.Join(scope, job, "memory.max"), "4000\n")
	}

	h := source.Open(config.Agent{
		ProcPath: filepath.Join(dir, "proc"), SysPath: dir,
		Metrics: []config.DerivedMetric{{Name: "job_mem_share", Expr: "job_mem_used / job_mem_limit"}},
	}, slog.New(slog.DiscardHandler))
	defer h.Close()
	l := newLab(t)
	f := l.newFleet(t, []member{{"n1", h}}, slog.New(slog.DiscardHandler))
	n := f.nodes[0]
	second := entry("72", 2, schemas.ModeLocal, 2, 3)
	second.Cgroup = "s5K1KKYAYG5D00"
	n.routes.known = []*schemas.Route{{
		Node: n.name, Epoch: 1, Home: 3, Entries: []schemas.RouteEntry{
			entry("71", 1, schemas.ModeCollect, 0, 1),
			second,
		},
	}}
	h.Read(source.Vitals{})
	h.Read(source.Vitals{})
	start := time.Now().UnixMilli() / l.Interval.Milliseconds() * l.Interval.Milliseconds()
	at := func(boundary int64) moment {
		return moment{boundary: boundary, start: time.UnixMilli(boundary), end: time.UnixMilli(boundary)}
	}
	f.sampled(t, at(start), at(start+l.Interval.Milliseconds()))
	if len(n.ring.batches) != 1 || len(n.ring.batches[0].items) != 3 {
		t.Fatalf("%+v", n.ring.batches)
	}
	got := map[string]float64{}
	for _, it := range n.ring.batches[0].items {
		record := it.record(start + 1000)
		if _, err := schemas.Marshal(record); err != nil {
			t.Error(err)
		}
		switch r := record.(type) {
		case *schemas.CounterBatch:
			for _, m := range r.Metrics {
				if m.Scope == schemas.ScopeJob {
					got[r.JobID+" "+m.Name] = m.Values[0]
				}
			}
		case *schemas.NodeSummary:
			for _, m := range r.Metrics {
				if m.Scope == schemas.ScopeJob {
					got[r.JobID+" "+m.Name] = *m.Mean
				}
			}
		}
	}
	for name, want := range map[string]float64{
		"71 job_mem_used": 1020, "72 job_mem_used": 2020, // 1000 + 20, 2000 + 20
		"71 job_mem_file": 50, "72 job_mem_file": 50, // 70 - 20
		"71 job_mem_share": 0.255, "72 job_mem_share": 0.505, // 1020 / 4000, 2020 / 4000
	} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s = %v (there: %v), want %v", name, v, there, want)
		}
	}
	for name := range got {
		if name[:3] != "71 " && name[:3] != "72 " {
			t.Errorf("%s has no job", name)
		}
	}
}
