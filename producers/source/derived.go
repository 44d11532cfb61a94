package source

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/derive"
)

// errName is returned when a site declares a metric or a source under a name that the agent uses itself.
var errName = errors.New("the agent has one of this name: choose another name")

// Check returns nil if the metrics that a site declares do not clash with the catalogue. The expressions of computed
// ones may use only metrics that there are.
func Check(cfg config.Agent) error {
	_, err := newDerived(cfg)
	return err
}

// derived is the metrics that a site computes from others.
type derived struct {
	set   *derive.Set
	batch schemas.CounterBatch // the columns while they are computed
}

// newDerived compiles the computed metrics of a site. It returns nil if there are none.
func newDerived(cfg config.Agent) (*derived, error) {
	recorded := map[string]string{}
	names := map[string]bool{}
	for _, s := range sources() {
		names[s.name] = true
		for _, m := range s.metrics {
			recorded[m.name] = s.scope
		}
	}
	for i, s := range cfg.Sources {
		if names[s.Name] {
			return nil, fmt.Errorf("agent.sources[%d].name = %q: %w", i, s.Name, errName)
		}
		for j, m := range s.Metrics {
			if recorded[m.Name] != "" {
				return nil, fmt.Errorf("agent.sources[%d].metrics[%d].name = %q: %w", i, j, m.Name, errName)
			}
			recorded[m.Name] = m.Scope
		}
	}
	if len(cfg.Metrics) == 0 {
		return nil, nil
	}
	definitions := make([]derive.Definition, len(cfg.Metrics))
	for i, m := range cfg.Metrics {
		definitions[i] = derive.Definition(m)
	}
	set, err := derive.Compile(definitions)
	if err == nil {
		err = set.Resolve(recorded)
	}
	if err != nil {
		return nil, fmt.Errorf("agent.metrics: %w", err)
	}
	return &derived{set: set}, nil
}

// computed returns the catalogue's lines for the computed metrics. Their scopes come from the site's configuration.
func computed(cfg config.Agent) (all []Metric) {
	for _, m := range cfg.Metrics {
		all = append(all, Metric{
			m.Name, cmp.Or(m.Unit, "1"), m.Scope, Kind(m.Kind), "computed", "agent.metrics",
			m.Expr,
		})
	}
	return all
}

// derive adds the computed metrics to the columns of an interval, which stay ascending by name.
func (h *Host) derive(columns []Column, cpus []int32) []Column {
	h.node = h.node[:0]
	if h.derived == nil {
		return columns
	}
	for _, c := range columns {
		if c.Scope == schemas.ScopeNode {
			h.node = append(h.node, c)
		}
	}
	columns = h.derived.add(columns, nil, cpus, func(scope string) bool { return scope != schemas.ScopeJob })
	slices.SortFunc(columns, func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	return columns
}

// addJob adds the computed metrics of one job to its columns. They may use the metrics of the node as well.
func (d *derived) addJob(columns, node []Column) []Column {
	return d.add(columns, node, nil, func(scope string) bool { return scope == schemas.ScopeJob })
}

// add appends the computed metrics of the wanted scopes to columns. Their inputs come from columns and beside.
func (d *derived) add(columns, beside []Column, cpus []int32, wanted func(scope string) bool) []Column {
	if d == nil {
		return columns
	}
	all := slices.Concat(columns, beside)
	rows := map[string][]int32{} // of sockets and GPUs, by scope
	for _, c := range all {
		switch before := rows[c.Scope]; {
		case before == nil:
			rows[c.Scope] = c.Rows
		case c.Rows != nil && !slices.Equal(before, c.Rows):
			rows[c.Scope] = union(before, c.Rows)
		}
	}
	d.batch.Cpus, d.batch.Metrics = cpus, d.batch.Metrics[:0]
	for _, c := range all {
		d.batch.Metrics = append(d.batch.Metrics, schemas.CounterBatchMetric{
			Name: c.Name, Unit: c.Unit, Scope: c.Scope, Values: spread(c, rows[c.Scope]),
		})
	}
	d.set.Apply(&d.batch)
	for _, m := range d.batch.Metrics[len(all):] {
		if wanted(m.Scope) {
			columns = append(columns, Column{m.Name, m.Unit, m.Scope, rows[m.Scope], m.Values})
		}
	}
	clear(d.batch.Metrics) // the values are the caller's
	return columns
}

// union returns the numbers of both lists, ascending.
func union(a, b []int32) []int32 {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

// spread returns the values of a column for all rows of its scope. Two sources may know different GPUs.
func spread(c Column, rows []int32) []float64 {
	if len(c.Rows) == len(rows) {
		return c.Values
	}
	values := make([]float64, len(rows))
	for i, r := range rows {
		values[i] = math.NaN()
		if at, ok := slices.BinarySearch(c.Rows, r); ok {
			values[i] = c.Values[at]
		}
	}
	return values
}
