package audit

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// collector is the audit's fold of one partition of counters.
type collector struct {
	b         *Books
	account   *Account
	partition int32

	closed, closedMs int64 // the last closed interval, and its interval_ms
	dropped          int64 // intervals up to here were given up, since no Tick came
	closing          *closing
	intervals        map[int64]*interval
	ended            bool // it was read to its end
}

// closing is an interval that had a Tick, but not its last one.
type closing struct {
	start, lengthMs, bytes int64
	jobs                   map[schemas.JobKey]bool
	machine                share // the partition's share of _system
}

// maxTickBytes is how many bytes of Ticks an interval may have. The Tick that reaches it is the last.
const maxTickBytes = 32 << 20

// interval has the records of one interval_start that no Tick has taken.
type interval struct {
	jobs    map[schemas.JobKey]map[string]*record // by node
	records int64
}

// front returns the interval up to which the partition is folded.
func (c *collector) front() int64 {
	if c.ended {
		return ended
	}
	return c.closed
}

// meets counts the fate of a record.
func (c *collector) meets(r *record, fate func(f *Fates) *int64) {
	*fate(&c.account.Fates)++
	if r.run != nil {
		*fate(&r.run.Fates)++
	}
}

// apply folds the next entry of the partition.
func (c *collector) apply(e Entry) {
	value, err := schemas.Unmarshal(e.Value)
	r := &record{}
	switch v := value.(type) {
	case *schemas.Gap:
		c.account.Fates.Gaps++
		if v.LastIntervalStart >= c.b.terms.From {
			c.b.run(v.Node, v.RunID).Gaps += v.Records
		}
		return
	case *schemas.Tick:
		if isAhead(v.IntervalStart, v.IntervalMs, e.AppendedMs) {
			c.refuse()
			return
		}
		c.tick(e, v)
		return
	case *schemas.CounterBatch:
		r.NodeHeader, r.batch = &v.NodeHeader, v
	case *schemas.NodeSummary:
		r.NodeHeader, r.summary = &v.NodeHeader, v
		err = checkSummary(v)
	default:
		if err == nil {
			err = errForeign
		}
	}
	if err != nil {
		c.refuse()
		return
	}
	c.account.Records++
	if r.IntervalStart >= c.b.terms.From && r.Cluster == c.b.terms.Cluster {
		r.run = c.b.run(r.Node, r.RunID)
		r.run.Records++
		r.run.add(c.partition, r.NodeHeader)
	}
	c.add(e, r)
}

// refuse counts a rejected record that no run is known of.
func (c *collector) refuse() {
	c.account.Records++
	c.account.Fates.Rejected++
}

// add gives a record its fate, or keeps it until a Tick comes.
func (c *collector) add(e Entry, r *record) {
	start := r.IntervalStart
	switch {
	case r.Cluster != c.b.terms.Cluster, isAhead(start, r.IntervalMs, e.AppendedMs):
		c.meets(r, rejected)
		return
	case start <= c.closed, c.closing != nil && start == c.closing.start && c.closing.jobs[r.Job()]:
		c.meets(r, late)
		return
	case start <= c.dropped:
		c.meets(r, dropped)
		return
	}
	i := c.intervals[start]
	if i == nil {
		i = &interval{jobs: map[schemas.JobKey]map[string]*record{}}
		c.intervals[start] = i
	}
	nodes := i.jobs[r.Job()]
	if nodes == nil {
		nodes = map[string]*record{}
		i.jobs[r.Job()] = nodes
	}
	if nodes[r.Node] != nil {
		c.meets(r, duplicate)
		return
	}
	nodes[r.Node] = r
	i.records++
	c.drop(start - (config.Outage+1)*max(r.IntervalMs, c.closedMs))
}

// drop gives up the intervals up to bound, for which no Tick came.
func (c *collector) drop(bound int64) {
	if bound <= max(c.dropped, c.closed) {
		return
	}
	if c.closing != nil && c.closing.start <= bound {
		c.finish() // the last Tick of its interval never came
	}
	c.dropped = bound
	c.forget(dropped)
}

// forget removes the intervals that are closed or dropped. Their remaining records meet a fate.
func (c *collector) forget(fate func(f *Fates) *int64) {
	for start, i := range c.intervals {
		if start > max(c.closed, c.dropped) {
			continue
		}
		for _, nodes := range i.jobs {
			for _, r := range nodes {
				c.meets(r, fate)
			}
		}
		delete(c.intervals, start)
	}
}

// tick closes the jobs that a Tick lists. The last Tick of an interval closes the interval.
func (c *collector) tick(e Entry, t *schemas.Tick) {
	k := c.closing
	switch {
	case t.IntervalStart <= c.closed, k != nil && t.IntervalStart < k.start: // a second one, or behind a later one
		c.account.Fates.Ticks++
		return
	case k != nil && t.IntervalStart > k.start:
		c.finish()
	case k != nil && t.IntervalMs != k.lengthMs:
		c.refuse()
		return
	}
	c.account.Fates.Ticks++
	if c.closing == nil {
		c.closing = &closing{
			start: t.IntervalStart, lengthMs: t.IntervalMs, jobs: map[schemas.JobKey]bool{},
			machine: share{partition: c.partition, parts: c.b.terms.Collectors, nodes: map[string]bool{}},
		}
	}
	c.closing.machine.offset = e.Offset
	for i := range t.Jobs {
		c.closeJob(e, t, &t.Jobs[i])
	}
	if c.closing.bytes += int64(len(e.Value)); !t.More || c.closing.bytes >= maxTickBytes {
		c.finish()
	}
}

// closeJob takes the records of a job out of the interval, and hands over what they come to.
func (c *collector) closeJob(e Entry, t *schemas.Tick, job *schemas.TickJob) {
	key := schemas.JobKey{JobID: job.JobID, Restart: job.Restart}
	if c.closing.jobs[key] {
		return
	}
	c.closing.jobs[key] = true
	s := &share{
		partition: c.partition, offset: e.Offset, parts: job.Parts, jobNodes: job.JobNodes,
		nodes: make(map[string]bool, len(job.Nodes)),
	}
	for _, node := range job.Nodes {
		s.nodes[node] = false
		if _, listed := c.closing.machine.nodes[node]; !listed {
			c.closing.machine.nodes[node] = false
		}
		r := c.take(t, key, node)
		switch {
		case r == nil:
		case r.summary != nil && job.JobNodes > 1:
			c.meets(r, rejected)
		default:
			s.records = append(s.records, r)
			s.nodes[node], c.closing.machine.nodes[node] = true, true
			if job.Parts == 0 {
				c.meets(r, endedJob)
			} else {
				c.meets(r, summarized)
			}
		}
	}
	slices.SortFunc(s.records, func(a, b *record) int { return strings.Compare(a.Node, b.Node) })
	s.reduce()
	c.closing.machine.join(s)
	if len(s.records) != 1 || s.records[0].summary == nil {
		s.records = nil // their values are in the columns
	}
	if job.Parts == 0 {
		return
	}
	c.account.Fates.Outputs++
	c.b.due(jobInterval{key, t.IntervalStart}, t.IntervalMs, s)
}

// take removes and returns a node's record of a job.
func (c *collector) take(t *schemas.Tick, key schemas.JobKey, node string) *record {
	i := c.intervals[t.IntervalStart]
	if i == nil {
		return nil
	}
	r := i.jobs[key][node]
	if r == nil || r.IntervalMs != t.IntervalMs {
		return nil
	}
	delete(i.jobs[key], node)
	i.records--
	return r
}

// finish closes the interval whose Ticks have come.
func (c *collector) finish() {
	k := c.closing
	c.closing = nil
	c.account.Fates.Outputs++
	c.b.due(jobInterval{schemas.JobKey{JobID: schemas.JobSystem}, k.start}, k.lengthMs, &k.machine)
	c.closed, c.closedMs, c.account.closed = k.start, k.lengthMs, k.start
	c.forget(misrouted)
}

// open returns how many records have no fate yet, and counts them in their runs.
func (c *collector) open() (n int64) {
	for i := range maps.Values(c.intervals) {
		n += i.records
		for _, nodes := range i.jobs {
			for _, r := range nodes {
				if r.run != nil {
					r.run.Open++
				}
			}
		}
	}
	return n
}
