package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"
)

// Rows are the rows of one file, until the topic's summaries have taken them.
type Rows struct {
	left map[rowKey][]*schemas.Row
}

// rowKey names a row. metric is nil in the row of a summary without metrics.
type rowKey struct {
	jobInterval
	metric string
	none   bool
}

// String returns which row of its job and interval it is.
func (k rowKey) String() string {
	if k.none {
		return "without metric"
	}
	return "metric " + k.metric
}

// newRows takes the rows of a file.
func newRows(rows []schemas.Row) *Rows {
	r := &Rows{map[rowKey][]*schemas.Row{}}
	for i := range rows {
		job := schemas.JobKey{JobID: rows[i].JobID, Restart: rows[i].Restart}
		key := rowKey{jobInterval: jobInterval{job, rows[i].IntervalStart}, none: rows[i].Metric == nil}
		if rows[i].Metric != nil {
			key.metric = *rows[i].Metric
		}
		r.left[key] = append(r.left[key], &rows[i])
	}
	return r
}

// Take removes the rows of a summary and returns their number. The error names the first row that is missing or
// differs.
func (r *Rows) Take(s *schemas.JobSummary) (n int64, err error) {
	w := intervalOf(s)
	if len(s.Metrics) == 0 {
		return r.take(rowKey{jobInterval: w, none: true}, s, &schemas.JobSummaryMetric{})
	}
	for i := range s.Metrics {
		one, fault := r.take(rowKey{jobInterval: w, metric: s.Metrics[i].Name}, s, &s.Metrics[i])
		n += one
		err = cmp.Or(err, fault)
	}
	return n, err
}

func (r *Rows) take(key rowKey, s *schemas.JobSummary, m *schemas.JobSummaryMetric) (int64, error) {
	rows := r.left[key]
	if len(rows) == 0 {
		return 0, fmt.Errorf("%s: the row is missing", key)
	}
	if r.left[key] = rows[1:]; len(rows) == 1 {
		delete(r.left, key)
	}
	if column := different(rows[0], s, m, key.none); column != "" {
		return 1, fmt.Errorf("%s: column %s is not as the topic has it", key, column)
	}
	return 1, nil
}

// different returns the first column in which a row differs from the summary, or "".
func different(r *schemas.Row, s *schemas.JobSummary, m *schemas.JobSummaryMetric, none bool) string {
	numbers := [11]*float64{}
	for k := range numbers {
		if m.Deciles != nil {
			numbers[k] = &(*m.Deciles)[k]
		}
	}
	name, unit, scope, nodes, count, invalid := &m.Name, &m.Unit, &m.Scope, &m.Nodes, &m.Count, &m.Invalid
	if none {
		name, unit, scope, nodes, count, invalid = nil, nil, nil, nil, nil, nil
	}
	for _, c := range []struct {
		column string
		same   bool
	}{
		{"cluster", r.Cluster == s.Cluster},
		{"interval_ms", r.IntervalMs == s.IntervalMs},
		{"metric", equal(r.Metric, name)},
		{"unit", equal(r.Unit, unit)},
		{"scope", equal(r.Scope, scope)},
		{"method", r.Method == s.Method},
		{"parts", r.Parts == s.Parts},
		{"parts_reported", r.PartsReported == s.PartsReported},
		{"nodes_expected", r.NodesExpected == s.NodesExpected},
		{"nodes_reported", r.NodesReported == s.NodesReported},
		{"nodes", equal(r.Nodes, nodes)},
		{"count", equal(r.Count, count)},
		{"invalid", equal(r.Invalid, invalid)},
		{"mean", equal(r.Mean, m.Mean)},
		{"stddev", equal(r.Stddev, m.Stddev)},
		{"node_stddev", equal(r.NodeStddev, m.NodeStddev)},
		{"low_node", equal(r.LowNode, m.LowNode)},
		{"high_node", equal(r.HighNode, m.HighNode)},
		{"rank_error", equal(r.RankError, m.RankError)},
		{"low_node_mean", equal(r.LowNodeMean, m.LowNodeMean)},
		{"high_node_mean", equal(r.HighNodeMean, m.HighNodeMean)},
		{"lo", equalList(r.Lo, m.Lo)},
		{"hi", equalList(r.Hi, m.Hi)},
	} {
		if !c.same {
			return c.column
		}
	}
	for k, d := range r.Deciles() {
		if !equal(d, numbers[k]) {
			return fmt.Sprintf("d%d", k)
		}
	}
	return differentCertified(r, m.Certified)
}

// differentCertified compares the columns of the certified summary. A list without items is null.
func differentCertified(r *schemas.Row, c *schemas.Certified) string {
	var eps *float64
	if c == nil {
		c = &schemas.Certified{}
	} else {
		eps = &c.Eps
	}
	for _, c := range []struct {
		column string
		same   bool
	}{
		{"eps", equal(r.Eps, eps)},
		{"order_statistics", equalItems(r.OrderStatistics, c.OrderStatistics, func(v *float64) float64 { return *v })},
		{"knot_values", equalItems(r.KnotValues, c.Knots, func(k *schemas.Knot) float64 { return k.Value })},
		{"knot_ranks", equalItems(r.KnotRanks, c.Knots, func(k *schemas.Knot) int64 { return k.Rank })},
		{"atom_values", equalItems(r.AtomValues, c.Atoms, func(a *schemas.Atom) float64 { return a.Value })},
		{"atom_counts", equalItems(r.AtomCounts, c.Atoms, func(a *schemas.Atom) int64 { return a.Count })},
	} {
		if !c.same {
			return c.column
		}
	}
	return ""
}

// equalItems reports whether a list holds one field of each item.
func equalItems[V comparable, I any](list []V, items []I, field func(*I) V) bool {
	if len(list) != len(items) || (list == nil) != (len(items) == 0) {
		return false
	}
	for i := range items {
		if list[i] != field(&items[i]) {
			return false
		}
	}
	return true
}

func equal[V comparable](a, b *V) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func equalList(a []float64, b *[]float64) bool {
	if b == nil {
		return a == nil
	}
	return slices.Equal(a, *b)
}

// Left reports the rows that match no summary of the topic.
func (r *Rows) Left(report *Report, f *File) {
	keys := slices.SortedFunc(maps.Keys(r.left), func(a, b rowKey) int {
		return cmp.Or(byInterval(a.jobInterval, b.jobInterval), strings.Compare(a.metric, b.metric))
	})
	for _, key := range keys {
		report.differ(key.mark(f.difference(nil, "%s: %d rows more than the topic has", key, len(r.left[key]))))
	}
}
