package producers

import (
	"log/slog"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// sampler is the source of a node's values: the kernel of this host, or a simulation. One goroutine uses it.
type sampler interface {
	// Read takes a reading of everything, now.
	Read(v source.Vitals)
	// Interval returns the values between the last two readings, which are elapsed apart. The caller owns them.
	Interval(elapsed time.Duration) (cpus []int32, columns []source.Column)
	// Jobs returns the values from the cgroups of jobs for the same time. It follows Interval. The caller owns them.
	Jobs(elapsed time.Duration) []source.JobColumns
}

// reporter is a sampler with jobs that may report metrics of their own. Simulated jobs do not.
type reporter interface {
	// Reports returns the jobs' own metrics between the last two readings. The caller owns them.
	Reports() []source.Report
}

// sample contains the values of one node in one interval.
type sample struct {
	start     int64   // interval_start
	sampledAt int64   // microseconds, of the reading that ends the interval
	cpus      []int32 // logical CPUs, ascending
	columns   []source.Column
	jobs      []source.JobColumns
	reports   []source.Report
}

// node is the state of one node's agent: the routes that it knows, the newest record, and the records that wait to be
// sent.
type node struct {
	name string
	slot time.Duration // after a boundary: when records are formed
	from sampler

	head        schemas.NodeHeader // of the next record; Seq counts the formed records
	last        int64              // interval_start of the newest interval formed; a clock set back resets it
	unknown     map[int32]bool     // CPUs that routes named and the node does not have, each logged once
	unknownGPUs map[int32]bool     // the same of GPUs

	// Guarded by the fleet's mutex.
	routes    routes
	ring      ring
	publisher *publisher // of its records; nil before there is one
	queued    bool       // its publisher will ask it for records
}

func newNode(m member, head schemas.NodeHeader, cfg config.Config, limit int64) *node {
	head.Node = m.name
	return &node{
		name: m.name, slot: slotOf(m.name, cfg.Grace/2), from: m.from, head: head, last: -1,
		unknown: map[int32]bool{}, unknownGPUs: map[int32]bool{},
		ring: newRing(m.name, head.RunID, config.Outage/2, limit),
	}
}

// maxUnknown bounds the CPUs, and the GPUs, that a node remembers as logged.
const maxUnknown = 1024

// vitals returns the agent's measurements of itself for one node.
func (f *fleet) vitals(n *node, now moment) source.Vitals {
	f.mu.Lock()
	defer f.mu.Unlock()
	late := now.start.Sub(time.UnixMilli(now.boundary))
	v := source.Vitals{
		BoundaryMs: now.boundary, Interval: f.cfg.Interval, Skew: late.Abs(), Depth: n.ring.depth(),
		Drops: n.ring.drops,
	}
	if r := n.routes.at(now.boundary - f.cfg.Interval.Milliseconds()); r != nil {
		v.Jobs = r.Entries
	}
	v.Clock.Late = late
	v.Clock.Offset, v.Clock.Bound, v.Clock.Known = f.clock.offset(now.start, f.clockWindow())
	return v
}

// form makes records of a sample, by the newest route valid for its interval, and puts them into the node's ring. It
// reports whether there was a route. An interval that is not newer than the last one formed is left out: it was
// published before the clock was set back a little.
func (f *fleet) form(n *node, s *sample) bool {
	f.mu.Lock()
	route := n.routes.at(s.start)
	f.mu.Unlock()
	if route == nil {
		return false
	}
	if s.start <= n.last {
		f.log.Debug("interval is absent: it was published before the clock was set back",
			"node", n.name, "interval_start", s.start)
		return true
	}
	n.last = s.start

	items, unknown := form(route, s, n.head)
	n.head.Seq += int64(len(items))
	n.logUnknown(unknown, f.log)

	f.mu.Lock()
	first := n.ring.push(items)
	n.enqueue()
	publisher := n.publisher
	f.mu.Unlock()
	if first {
		f.log.Warn("ring is full: the oldest records are dropped", "node", n.name, "interval_start", s.start)
	}
	if publisher != nil {
		publisher.nudge()
	}
	return true
}

// logUnknown logs the CPUs and GPUs that routes name and the node does not have, each of them once.
func (n *node) logUnknown(of lacking, log *slog.Logger) {
	if fresh := fresh(n.unknown, of.cpus); len(fresh) > 0 {
		log.Warn("route names CPUs that the node does not have", "node", n.name, "cpus", fresh)
	}
	if fresh := fresh(n.unknownGPUs, of.gpus); len(fresh) > 0 {
		log.Warn("route names GPUs that the node does not have", "node", n.name, "gpus", fresh)
	}
}

// fresh returns the unknown numbers, and remembers them.
func fresh(known map[int32]bool, numbers []int32) (fresh []int32) {
	for _, c := range numbers {
		if !known[c] && len(known) < maxUnknown {
			known[c] = true
			fresh = append(fresh, c)
		}
	}
	return fresh
}
