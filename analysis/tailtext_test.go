package analysis

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// TestTailInWords: what people follow is one line that they can read, whatever names are in it.
func TestTailInWords(t *testing.T) {
	t.Parallel()
	at, node := int64(1_795_000_000_000), "n\x1b[2J7"
	deciles := []float64{0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}
	metric := func(name, unit string) schemas.JobSummaryMetric {
		return schemas.JobSummaryMetric{Name: name, Unit: unit, Scope: schemas.ScopeCore, Count: 4, Deciles: &deciles}
	}
	for want, record := range map[string]any{
		"interval 2026-11-18 11:06:40Z, 1 of 2 nodes, EXACT, 4 metrics: cpu_user 0.5 (0.02 to 1), " +
			"mem_bw 0.5 (0.02 to 1) B/s, x, ...": &schemas.JobSummary{
			Cluster: "c", JobID: "7", IntervalStart: at, IntervalMs: 10000, Method: schemas.MethodExact,
			NodesExpected: 2, NodesReported: 1, Metrics: []schemas.JobSummaryMetric{
				metric("cpu_user", "1"), metric("mem_bw", "B/s"), {Name: "x"}, metric("y", "1"),
			},
		},
		"interval 2026-11-18 11:06:40Z, 2 of 2 nodes, ESTIMATED, 1 of 3 parts, 0 metrics": &schemas.JobSummary{
			Cluster: "c", JobID: "7", IntervalStart: at, Method: schemas.MethodEstimated, Parts: 3, PartsReported: 1,
			NodesExpected: 2, NodesReported: 2,
		},
		"RUNNING of ada, 2 nodes, queue long, started 2026-11-18 11:06:40Z": &schemas.Job{
			JobID: "7", User: "ada", Queue: "long", Nodes: []string{"a", "b"}, State: "RUNNING", Start: &at,
		},
		`open 0.83 idle-cores: Cores are idle, since 2026-11-18 11:06:40Z, node n?[2J7, final`: &schemas.Finding{
			JobID: "7", Rule: "idle-cores", Title: "Cores are idle", State: "open", Severity: 0.834, Final: true,
			FirstInterval: at, Node: &node,
		},
	} {
		text, ok := readable(record)
		if got := schemas.Printable(text); !ok || got != want {
			t.Errorf("%T: %q, want %q", record, got, want)
		}
	}
	if _, ok := readable(&schemas.Tick{}); ok {
		t.Error("a Tick is for programs")
	}
	job := &schemas.Job{JobID: "7", User: "ada", State: "RUNNING", Nodes: []string{}, Cpus: []int32{}}
	b, err := schemas.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	r := tailRecord(&kgo.Record{Topic: "jobs", Value: b})
	if r.Text() != "RUNNING of ada, 0 nodes" || !strings.Contains(string(r.Value), `"user":"ada"`) {
		t.Errorf("%q, %s", r.Text(), r.Value)
	}
}
