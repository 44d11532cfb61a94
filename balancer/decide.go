package balancer

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// decide returns the Routes that change from the interval on, and the nodes that lose theirs. Jobs that only the Routes
// know stay while a list of jobs was never read. That is so after a start beside a scheduler that does not answer.
func (b *balancer) decide(
	m *memory, jobs []scheduler.Job, faults []scheduler.Fault, start int64,
) (changed []schemas.Route, gone []string) {
	has := scheduler.Planned(jobs, start, b.ms)
	unnamed := 0
	if slices.ContainsFunc(faults, func(f scheduler.Fault) bool { return f.Unread }) {
		carried := m.routes.carried(b.layout, jobs, faults, has)
		unnamed, has = len(carried), append(has, carried...)
	}
	if (unnamed > 0) != b.saidUnnamed {
		b.saidUnnamed = unnamed > 0
		b.log.Info("jobs of before that no list names go on while one cannot be read",
			"count", unnamed, "interval_start", start)
	}
	m.loads.update(b.follower.latest(), has)
	weights, lim := m.loads, b.limits()
	if b.weighs() {
		lim.Still = !m.loads.measured
	} else {
		weights = nil
	}
	want, verdict := b.plan(m, has, weights, lim, start)
	b.metrics.showLoad(m.loads, verdict, lim.LMax)
	b.judge(start, verdict)
	return m.routes.changes(want, start, nextEpoch(m.epoch))
}

// plan plans without the jobs that fit no record, and remembers why they are refused.
func (b *balancer) plan(
	m *memory, has []scheduler.Job, weights *loads, lim assign.Limits, start int64,
) ([]schemas.Route, assign.Assignment) {
	b.refused = map[schemas.JobKey]string{}
	for {
		want, verdict := plan(b.layout, has, weights, lim, m.routes)
		wrong := unfitting(want, start, b.ms)
		if len(wrong) == 0 {
			return want, verdict
		}
		maps.Copy(b.refused, wrong)
		has = slices.DeleteFunc(slices.Clone(has), func(j scheduler.Job) bool {
			return wrong[j.Identity()] != ""
		})
	}
}

// without makes the jobs that the last plan refused faults.
func (b *balancer) without(jobs []scheduler.Job, faults []scheduler.Fault) ([]scheduler.Job, []scheduler.Fault) {
	if len(b.refused) == 0 {
		return jobs, faults
	}
	var good []scheduler.Job
	faults = slices.Clone(faults)
	for i := range jobs {
		if reason := b.refused[jobs[i].Identity()]; reason != "" {
			refused := scheduler.Fault{JobID: jobs[i].JobID, Restart: jobs[i].Restart, Reason: reason}
			faults = append(faults, refused)
		} else {
			good = append(good, jobs[i])
		}
	}
	return good, faults
}

// routeRecords returns the records of Routes that change, and the Routes that are in them. If no agent could read a
// node's new Route, the node keeps its old one, and so do its Ticks.
func (b *balancer) routeRecords(
	m *memory, changed []schemas.Route,
) (records []*kgo.Record, written []schemas.Route, faults []scheduler.Fault) {
	for _, r := range changed {
		value, err := schemas.MarshalChecked(&r)
		if err != nil {
			reason := fmt.Sprintf("node %s keeps the route that it has: %v", r.Node, err)
			faults = append(faults, scheduler.Fault{Followed: true, Reason: reason})
			continue
		}
		if m.routes.isUntimed(r.Node) {
			// At a tombstone an agent forgets all Routes, even one that begins later than this one.
			records = append(records, b.routeRecord(r.Node, nil))
		}
		records, written = append(records, b.routeRecord(r.Node, value)), append(written, r)
	}
	return records, written, faults
}

// weighs reports whether loads are bytes. They are nodes if the configuration sets l_max, and for PerSyst's algorithms.
func (b *balancer) weighs() bool {
	return b.cfg.Balance.LMax == 0 && b.cfg.Balance.Algorithm != "literal"
}

func (b *balancer) limits() assign.Limits {
	l := nodeLimits(b.cfg)
	if b.weighs() {
		l.LMax = int(b.cfg.CollectorBytes())
	}
	return l
}

// nodeLimits are the limits if every node weighs one.
func nodeLimits(cfg config.Config) assign.Limits {
	l := assign.Limits{LocalMax: cfg.Balance.LocalMax, Literal: cfg.Balance.Algorithm == "literal"}
	l.LMax, l.LDist = cfg.CollectorNodes()
	return l
}

// judge logs when the collectors become overloaded, and when they are no longer.
func (b *balancer) judge(start int64, verdict assign.Assignment) {
	if verdict.Overloaded == b.saidOverloaded {
		return
	}
	b.saidOverloaded = verdict.Overloaded
	if b.saidOverloaded {
		b.log.Warn("jobs exceed what the collectors may take, and are spread evenly", "interval_start", start,
			"collectors", b.cfg.Collectors, "collectors_needed", verdict.Needed,
			"l_max", b.limits().LMax, "l_max_is_bytes", b.weighs())
	} else {
		b.log.Info("the collectors may take all jobs again",
			"interval_start", start, "collectors_needed", verdict.Needed)
	}
}
