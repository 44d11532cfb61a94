package recount

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// Metric identifies a metric. Own is set if the job itself reported it. Values with different units or scopes cannot be
// added, so they are different metrics.
type Metric struct {
	Name, Unit, Scope string
	Own               bool
}

func (m Metric) compare(other Metric) int {
	by := cmp.Or(cmp.Compare(m.Name, other.Name), cmp.Compare(m.Unit, other.Unit), cmp.Compare(m.Scope, other.Scope))
	if by != 0 || m.Own == other.Own {
		return by
	}
	if other.Own {
		return -1
	}
	return 1
}

// Own reports whether the record marks the metric as reported by the job itself. The machine lacks such a value.
func (r *Record) Own(metric string) bool {
	if r.Summary != nil {
		return slices.Contains(r.Summary.Reported, metric)
	}
	return slices.Contains(r.Batch.Reported, metric)
}

// Cut leaves the metrics that have a place in an output. Metrics of weir's catalogue come first, then the metrics of
// most nodes; votes counts these nodes. Few of the metrics that jobs reported by themselves have a place.
func Cut[C any](columns map[Metric]C, votes func(C) int) {
	own := 0
	for m := range columns {
		if m.Own {
			own++
		}
	}
	if len(columns) <= schemas.MaxMetrics && own <= schemas.MaxReported {
		return
	}
	catalogued := func(m Metric) int {
		if !m.Own && schemas.Catalogued(m.Name, m.Unit, m.Scope) {
			return 0
		}
		return 1
	}
	stay := 0
	own = 0
	for _, m := range slices.SortedFunc(maps.Keys(columns), func(a, b Metric) int {
		return cmp.Or(catalogued(a)-catalogued(b), votes(columns[b])-votes(columns[a]), a.compare(b))
	}) {
		if m.Own {
			own++
		}
		if stay == schemas.MaxMetrics || m.Own && own > schemas.MaxReported {
			delete(columns, m)
			continue
		}
		stay++
	}
}

// Elect leaves one metric of each group: the metric with the values of most nodes, or the first if they tie. The winner
// of a group takes the values of each loser as invalid ones.
func Elect[C any](columns map[Metric]C, group func(Metric) Metric, votes func(C) int, takes func(winner, loser C)) {
	first := map[Metric]Metric{}
	for _, m := range slices.SortedFunc(maps.Keys(columns), Metric.compare) {
		g := group(m)
		winner, contested := first[g]
		if !contested {
			first[g] = m
			continue
		}
		loser := m
		if votes(columns[m]) > votes(columns[winner]) {
			first[g], loser = m, winner
		}
		takes(columns[first[g]], columns[loser])
		delete(columns, loser)
	}
}

// OfName groups the units and scopes of a name.
func OfName(m Metric) Metric { return Metric{Name: m.Name} }

// Settle is the Elect of one share: a metric that some nodes measured and others mark as reported by the job is one
// metric.
func Settle[C any](columns map[Metric]C, votes func(C) int, takes func(winner, loser C)) {
	measured := func(m Metric) Metric {
		m.Own = false
		return m
	}
	Elect(columns, measured, votes, takes)
	for _, m := range slices.Collect(maps.Keys(columns)) {
		if m.Own {
			columns[measured(m)] = columns[m]
			delete(columns, m)
		}
	}
}

// Votes is a lower bound of the number of nodes with a metric, over all shares. Several shares of the machine may count
// the same node.
type Votes struct {
	unshared, most int
	named          map[string]bool
}

// Add adds the votes of a share. Other shares may count up to shared of its nodes too. low and high are its nodes with
// the lowest and the highest mean.
func (v *Votes) Add(nodes, shared int, low, high string) {
	v.unshared += max(0, nodes-shared)
	v.most = max(v.most, nodes)
	if v.named == nil {
		v.named = map[string]bool{}
	}
	v.named[low], v.named[high] = true, true
}

// Count returns the number of nodes.
func (v *Votes) Count() int { return max(v.unshared, v.most, len(v.named)) }
