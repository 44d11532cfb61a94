package source

import (
	"errors"
	"fmt"

	"github.com/weirhpc/weir/analysis/derive"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// errName is returned when a site declares a metric or a source under a name that the agent uses itself.
var errName = errors.New("the agent has one of this name: choose another name")

// Check returns nil if the metrics that a site declares do not clash with the catalogue, and the expressions of the
// computed ones use metrics that there are.
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

// add computes the metrics of an interval from its columns, and appends them. The caller keeps the values. Those of
// jobs are left to addJob.
func (d *derived) add(columns []Column, cpus []int32) []Column {
	return d.compute(columns, nil, cpus, func(scope string) bool { return scope != schemas.ScopeJob })
}

// addJob is add for the metrics of one job, which may be computed from those of its node too.
func (d *derived) addJob(columns, node []Column) []Column {
	return d.compute(columns, node, nil, func(scope string) bool { return scope == schemas.ScopeJob })
}

func (d *derived) compute(columns, beside []Column, cpus []int32, wanted func(scope string) bool) []Column {
	if d == nil {
		return columns
	}
	d.batch.Cpus, d.batch.Metrics = cpus, d.batch.Metrics[:0]
	for _, list := range [][]Column{columns, beside} {
		for _, c := range list {
			d.batch.Metrics = append(d.batch.Metrics, schemas.CounterBatchMetric(c))
		}
	}
	given := len(d.batch.Metrics)
	d.set.Apply(&d.batch)
	for _, m := range d.batch.Metrics[min(given, len(d.batch.Metrics)):] {
		if wanted(m.Scope) {
			columns = append(columns, Column(m))
		}
	}
	clear(d.batch.Metrics) // the values are the caller's
	return columns
}
