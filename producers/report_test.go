package producers

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// TestReportsFollowTheRoute: two jobs share a node, and one of them runs for the second time. From the files to the
// records, each job has what it reported in the interval itself, and _rest has none of it.
func TestReportsFollowTheRoute(t *testing.T) {
	dir := t.TempDir()
	reports := filepath.Join(dir, "report")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "proc/stat"), "cpu  9 9 9 9\ncpu0 1 2 3 4\ncpu1 1 2 3 4\ncpu2 1 2 3 4\n")
	write(filepath.Join(reports, "71.0"), "old 1\n")
	h := source.Open(config.Agent{
		ProcPath: filepath.Join(dir, "proc"), SysPath: dir, ReportDir: reports,
	}, slog.New(slog.DiscardHandler))
	defer h.Close()
	l := newLab(t)
	f := l.newFleet(t, []member{{"n1", h}}, slog.New(slog.DiscardHandler))
	n := f.nodes[0]
	ms := l.Interval.Milliseconds()
	start := time.Now().UnixMilli()/ms*ms - ms
	first, second := entry("71", 1, schemas.ModeCollect, 0), entry("72", 2, schemas.ModeLocal, 1)
	first.Restart, second.Restart = 0, 1
	at := func(boundary int64) moment {
		m := moment{boundary: boundary, start: time.UnixMilli(boundary), end: time.UnixMilli(boundary)}
		h.Read(f.vitals(n, m))
		return m
	}
	from := at(start)
	// The plan of an interval comes shortly before its end. Jobs write before.
	write(filepath.Join(reports, "71.0"), "old 1\nrate 5 1/s\n")
	write(filepath.Join(reports, "72.0"), "rate 6\n") // of its first life
	write(filepath.Join(reports, "72.1"), "rate 7\nrate 8\nloss 0.5\n")
	write(filepath.Join(reports, "73.0"), "rate 9\n") // a job that does not run here
	n.routes.known = []*schemas.Route{{
		Node: n.name, Epoch: 1, Home: 3, IntervalStart: start, Entries: []schemas.RouteEntry{first, second},
	}}
	f.sampled(t, from, at(start+ms))

	type report struct {
		Job      string
		Reported []string
		Values   map[string]float64
	}
	var got []report
	for _, it := range n.ring.batches[0].items {
		record := it.record(start + ms)
		if _, err := schemas.MarshalChecked(record); err != nil {
			t.Error(err)
		}
		of := report{Values: map[string]float64{}}
		wanted := []string{"rate", "loss", "old"}
		switch r := record.(type) {
		case *schemas.CounterBatch:
			of.Job, of.Reported = source.ReportFile(r.JobID, r.Restart), r.Reported
			for _, m := range r.Metrics {
				if slices.Contains(wanted, m.Name) {
					of.Values[m.Name] = m.Values[0]
				}
			}
		case *schemas.NodeSummary:
			of.Job, of.Reported = source.ReportFile(r.JobID, r.Restart), r.Reported
			for _, m := range r.Metrics {
				if slices.Contains(wanted, m.Name) {
					of.Values[m.Name] = *m.Mean
				}
			}
		}
		got = append(got, of)
	}
	want := []report{
		{"71.0", []string{"rate"}, map[string]float64{"rate": 5}},
		{"72.1", []string{"loss", "rate"}, map[string]float64{"loss": 0.5, "rate": 8}},
		{"_rest.0", nil, map[string]float64{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
