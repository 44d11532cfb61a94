package assign

import (
	"math"
	"strings"
	"testing"
)

// TestTables wants the literal algorithms to come out as the paper's tables 1 and 2 do, and weir's own to do better.
func TestTables(t *testing.T) {
	s := Comparison{Seed: 1, Snapshots: 30, Churn: 0.02}
	rows, up, _ := s.compare(t.Context())
	n := float64(s.Snapshots)
	literal, near, own, kafka := rows[0], rows[1], rows[2], rows[3]
	within := func(what string, got, want, by float64) {
		t.Helper()
		t.Logf("%s: %.2f, the paper has %.2f", what, got, want)
		if math.Abs(got-want) > by {
			t.Errorf("%s: %.2f is not within %.2f of %.2f", what, got, by, want)
		}
	}
	within("jobs", literal.jobs/n, 185.3, 1)
	within("% at agents", 100*literal.local/literal.jobs, 6.04, 2)
	within("% at collectors", 100*literal.collector/literal.jobs, 85, 2)
	within("% at SyncAgents", 100*literal.sync/literal.jobs, 6.37, 2)
	within("% at the frontend", 100*literal.frontend/literal.jobs, 2.59, 2)
	within("tree nodes", literal.used/n, 217.59, 0.05*217.59)
	within("tree nodes, all to the frontend", up/n, 905.81, 0.05*905.81)
	if near.used != literal.used || near.distance != literal.distance || near.moved != literal.moved ||
		near.most != literal.most {
		t.Errorf("the near-linear form differs: %+v, %+v", *near, *literal)
	}
	if own.moved+kafka.moved > 0 || own.kept < 1000 || literal.moved == 0 {
		t.Errorf("of %v jobs that continue, %v and %v move; literally %v",
			own.kept, own.moved, kafka.moved, literal.moved)
	}
	if exact := (kafka.local + kafka.collector) / kafka.jobs; exact < 0.99 {
		t.Errorf("%.4f of the jobs are exact with the l_max of a Kafka partition", exact)
	}
	if r := kafka.distance / kafka.bound; r > 1.05 {
		t.Errorf("distance is %.3f of the lower bound", r)
	}
	if own.distance >= literal.distance || own.local+own.collector < literal.local+literal.collector {
		t.Errorf("weir's own: distance %v, exact %v; literally %v, %v",
			own.distance, own.local+own.collector, literal.distance, literal.local+literal.collector)
	}
}

func TestSimulationIsOfItsSeed(t *testing.T) {
	text := func(seed uint64) string {
		var b strings.Builder
		s := Comparison{Seed: seed, Snapshots: 2, Churn: 0.1}
		if err := s.Run(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		var kept []string
		for line := range strings.Lines(b.String()) {
			if fields := strings.Fields(line); len(fields) > 3 && fields[0] == "literal" {
				kept = append(kept, strings.Join(fields[:10], " ")) // what follows are times
			}
		}
		return strings.Join(kept, "\n")
	}
	if a, b := text(3), text(3); a != b || a == "" {
		t.Errorf("two runs with one seed differ:\n%s\n%s", a, b)
	}
	if text(3) == text(4) {
		t.Error("another seed has the same jobs")
	}
}
