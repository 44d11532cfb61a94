package source

import (
	"errors"
	"math"
	"slices"

	"github.com/weirhpc/weir/config"
)

// errNotListed is the reason of a metric that the list of agent.metrics_file leaves out.
var errNotListed = errors.New("the list of agent.metrics_file does not keep it, and this node is no canary")

// measuredFrom reports whether a source is opened, because one of its metrics is measured. The CPU states are always
// read, because they show which CPUs are online.
func measuredFrom(cfg config.Agent, s *source) bool {
	return s.name == stat().name || slices.ContainsFunc(s.metrics, func(m metric) bool {
		return cfg.Measures(m.name)
	})
}

// NotOpened returns the sources that are not opened, since the list of agent.metrics_file keeps no metric of them.
func NotOpened(cfg config.Agent) (names []string) {
	for _, s := range append(sources(), siteSources(cfg)...) {
		if !measuredFrom(cfg, &s) {
			names = append(names, s.name)
		}
	}
	return names
}

// restrict leaves out the metrics of the groups that are not needed, then the events that no other metric needs, then
// groups without events. It runs after choose has found the events that the kernel can count together: a subset of
// these can be counted as well.
func (f *perfForm) restrict(cfg config.Agent, needed func(metric string) bool) {
	if cfg.List != nil {
		f.keep(needed)
	}
}

// keep is restrict for any list.
func (f *perfForm) keep(needed func(metric string) bool) {
	summed := f.sum >= 0 && needed("flops_any")
	if !summed {
		f.sum = -1
	}
	groups, places := f.groups, f.places
	f.groups, f.places = nil, nil
	for i := range groups {
		g := groups[i]
		var kept []gives
		var at []int
		for j, give := range g.gives {
			isPart := summed && (give.metric == "flops_dp" || give.metric == "flops_sp")
			if places[i][j] >= 0 && (isPart || needed(give.metric)) {
				kept, at = append(kept, give), append(at, places[i][j])
			}
		}
		all := g.events
		g.gives, g.events = kept, nil
		for k := range all {
			if f.need(kept, all, k) {
				g.events = append(g.events, all[k])
			}
		}
		if len(g.events) > 0 {
			f.groups, f.places = append(f.groups, g), append(f.places, at)
		}
	}
}

// need reports whether one of the metrics has no value when an event of its group has no count.
func (f *perfForm) need(of []gives, events []event, without int) bool {
	f.begin(1)
	defer f.end(&eventGroup{events: events})
	for k, e := range events {
		if k != without {
			f.counts[e.what] = 1
		}
	}
	return slices.ContainsFunc(of, func(give gives) bool { return math.IsNaN(give.of(&f.counts)) })
}

// noEvents is why nothing of a source can be counted.
func noEvents(cfg config.Agent, metrics []metric, absent map[string]error) error {
	for _, m := range metrics {
		if cfg.Measures(m.name) && absent[m.name] != nil {
			return absent[m.name]
		}
	}
	return errNoEvents
}

// neededOfCores returns which metrics of the CPUs must be formed. The metrics of sockets and of the node are computed
// from some that may not be measured themselves.
func neededOfCores(cfg config.Agent) func(metric string) bool {
	return func(metric string) bool {
		switch {
		case cfg.Measures(metric):
			return true
		case metric == "flops_any":
			return cfg.Measures("operational_intensity") || cfg.Measures("peak_share_flops")
		case metric == "cycles":
			return cfg.Measures("bytes_per_cycle")
		}
		return false
	}
}

// needsControllers reports whether a metric is measured that the memory controllers give.
func needsControllers(cfg config.Agent) bool {
	return cfg.Measures("peak_share_mem_bw") ||
		slices.ContainsFunc(memoryMetrics(), func(m metric) bool { return cfg.Measures(m.name) })
}
