package replay

import (
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// TestScopesOfDifferentRecords: where records differ on the scope of a metric, their order does not decide between the
// node and anything else.
func TestScopesOfDifferentRecords(t *testing.T) {
	batch := func(scope string) schemas.Record {
		return &schemas.CounterBatch{Metrics: []schemas.CounterBatchMetric{{Name: "m", Scope: scope}}}
	}
	summary := func(scope string) schemas.Record {
		m := schemas.NodeSummaryMetric{}
		m.Name, m.Scope = "m", scope
		return &schemas.NodeSummary{Metrics: []schemas.NodeSummaryMetric{m}}
	}
	for _, c := range []struct{ a, b, want string }{
		{schemas.ScopeGPU, schemas.ScopeGPU, schemas.ScopeGPU},
		{schemas.ScopeGPU, schemas.ScopeNode, schemas.ScopeGPU},
		{schemas.ScopeSocket, schemas.ScopeNode, schemas.ScopeSocket},
		{schemas.ScopeJob, schemas.ScopeNode, schemas.ScopeJob},
		{schemas.ScopeCore, schemas.ScopeNode, schemas.ScopeCore},
		{schemas.ScopeCore, schemas.ScopeSocket, schemas.ScopeCore},
	} {
		for _, records := range [][]schemas.Record{{batch(c.a), summary(c.b)}, {summary(c.b), batch(c.a)}} {
			scopes := map[string]string{}
			for _, r := range records {
				see(scopes, r)
			}
			if scopes["m"] != c.want {
				t.Errorf("%s and %s: %s, want %s", c.a, c.b, scopes["m"], c.want)
			}
		}
	}
}
