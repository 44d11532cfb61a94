package recount

import (
	"iter"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Partition folds one partition of counters.
type Partition struct {
	// Keeps reports whether a record is wanted. Nil: all are. Others have no fate.
	Keeps func(*schemas.NodeHeader) bool
	// Belated returns further records of an interval that a Tick is about to close. They come after all others. Nil:
	// there are none.
	Belated func(start int64) []*Record

	cluster               string
	partition, collectors int32
	closed, closedMs      int64 // the last closed interval, and its interval_ms
	dropped               int64 // intervals up to here were given up, since no Tick came
	closing               *closing
	intervals             map[int64]*interval
	ended                 bool // it was read to its end
	fx                    effects
}

// closing is an interval that had a Tick, but not its last one.
type closing struct {
	start, lengthMs, bytes int64
	jobs                   map[schemas.JobKey]bool
	machine                *Share // the partition's share of _system
}

// maxTickBytes bounds the Ticks of an interval, in bytes. The Tick that reaches it is the last.
const maxTickBytes = 32 << 20

// interval holds the records of one interval_start that no Tick has taken.
type interval struct {
	jobs    map[schemas.JobKey]map[string]*Record // by node
	records int64
}

// NewPartition returns the fold of a partition of a cluster's counters. collectors is the number of partitions.
func NewPartition(cluster string, partition, collectors int32) *Partition {
	return &Partition{
		cluster: cluster, partition: partition, collectors: collectors, closed: Never, dropped: Never,
		intervals: map[int64]*interval{},
	}
}

// Closed returns the last closed interval.
func (p *Partition) Closed() int64 { return p.closed }

// LengthMs returns the interval_ms of the last closed interval.
func (p *Partition) LengthMs() int64 { return p.closedMs }

// Front returns the interval up to which the partition is folded.
func (p *Partition) Front() int64 {
	if p.ended {
		return Ended
	}
	return p.closed
}

// End notes that the partition was read to its end.
func (p *Partition) End() { p.ended = true }

// Held returns the number of records without a fate yet.
func (p *Partition) Held() (n int64) {
	for _, i := range p.intervals {
		n += i.records
	}
	return n
}

// Open returns the records that have no fate yet.
func (p *Partition) Open() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, i := range p.intervals {
			for _, nodes := range i.jobs {
				for _, r := range nodes {
					if !yield(r) {
						return
					}
				}
			}
		}
	}
}

func (p *Partition) meets(r *Record, f Fate) { p.fx.Met = append(p.fx.Met, Met{Record: r, Fate: f}) }

func (p *Partition) rejects(r *Record, e Entry) { p.fx.Met = append(p.fx.Met, Met{r, Rejected, e}) }

// Apply folds the next entry of the partition.
func (p *Partition) Apply(e Entry) effects {
	p.fx = effects{}
	value, err := schemas.Unmarshal(e.Value)
	r := &Record{Entry: Entry{Offset: e.Offset, AppendedMs: e.AppendedMs}}
	switch v := value.(type) {
	case *schemas.Gap:
		p.fx.Gap = v
		return p.fx
	case *schemas.Tick:
		if IsAhead(v.IntervalStart, v.IntervalMs, e.AppendedMs) {
			p.rejects(nil, e)
		} else {
			p.tick(e, v)
		}
		return p.fx
	case *schemas.CounterBatch:
		r.NodeHeader, r.Batch = &v.NodeHeader, v
	case *schemas.NodeSummary:
		r.NodeHeader, r.Summary = &v.NodeHeader, v
		r.Entry = e
		err = checkSummary(v)
	default:
		if err == nil {
			err = errForeign
		}
	}
	switch {
	case err != nil:
		p.rejects(nil, e)
	case p.Keeps == nil || p.Keeps(r.NodeHeader):
		p.fx.Came = r
		p.add(e, r)
	}
	return p.fx
}

// add gives a record its fate, or keeps it until a Tick comes.
func (p *Partition) add(e Entry, r *Record) {
	start := r.IntervalStart
	switch {
	case r.Cluster != p.cluster, IsAhead(start, r.IntervalMs, e.AppendedMs):
		p.rejects(r, e)
	case start <= p.closed, p.closing != nil && start == p.closing.start && p.closing.jobs[r.Job()]:
		p.meets(r, Late)
	case start <= p.dropped:
		p.meets(r, Dropped)
	case p.keep(r):
		p.drop(start - (config.Outage+1)*max(r.IntervalMs, p.closedMs))
	}
}

// keep holds a record until a Tick comes, unless it is a duplicate.
func (p *Partition) keep(r *Record) bool {
	i := p.intervals[r.IntervalStart]
	if i == nil {
		i = &interval{jobs: map[schemas.JobKey]map[string]*Record{}}
		p.intervals[r.IntervalStart] = i
	}
	nodes := i.jobs[r.Job()]
	if nodes == nil {
		nodes = map[string]*Record{}
		i.jobs[r.Job()] = nodes
	}
	if nodes[r.Node] != nil {
		p.meets(r, Duplicate)
		return false
	}
	nodes[r.Node] = r
	i.records++
	return true
}

// drop gives up the intervals up to bound, for which no Tick came.
func (p *Partition) drop(bound int64) {
	if bound <= max(p.dropped, p.closed) {
		return
	}
	if p.closing != nil && p.closing.start <= bound {
		p.finish() // the last Tick of its interval never came
	}
	p.dropped = bound
	p.forget(Dropped)
}

// forget removes the intervals that are closed or dropped. Their remaining records meet a fate.
func (p *Partition) forget(f Fate) {
	for start, i := range p.intervals {
		if start > max(p.closed, p.dropped) {
			continue
		}
		for _, nodes := range i.jobs {
			for _, r := range nodes {
				p.meets(r, f)
			}
		}
		delete(p.intervals, start)
	}
}

// tick closes the jobs that a Tick lists. The last Tick of an interval closes the interval.
func (p *Partition) tick(e Entry, t *schemas.Tick) {
	k := p.closing
	switch {
	case t.IntervalStart <= p.closed, k != nil && t.IntervalStart < k.start: // a second one, or behind a later one
		p.fx.Ticked = true
		return
	case k != nil && t.IntervalStart > k.start:
		p.finish()
	case k != nil && t.IntervalMs != k.lengthMs:
		p.rejects(nil, e)
		return
	}
	p.fx.Ticked = true
	if p.closing == nil {
		p.begin(t)
	}
	machine := p.closing.machine
	machine.Offset, machine.JobNodes = e.Offset, max(machine.JobNodes, t.MachineNodes)
	machine.Shared = append(machine.Shared, t.Shared...)
	for i := range t.Jobs {
		p.closeJob(e, t, &t.Jobs[i])
	}
	if p.closing.bytes += int64(len(e.Value)); !t.More || p.closing.bytes >= maxTickBytes {
		p.finish()
	}
}

// begin begins to close an interval.
func (p *Partition) begin(t *schemas.Tick) {
	p.closing = &closing{
		start: t.IntervalStart, lengthMs: t.IntervalMs, jobs: map[schemas.JobKey]bool{},
		machine: &Share{
			Job: schemas.JobKey{JobID: schemas.JobSystem}, Start: t.IntervalStart, LengthMs: t.IntervalMs,
			Partition: p.partition, Parts: p.collectors, Nodes: map[string]bool{},
		},
	}
	if p.Belated == nil {
		return
	}
	for _, r := range p.Belated(t.IntervalStart) {
		r.Late = true
		p.keep(r)
	}
}

// closeJob takes the records of a job out of the interval.
func (p *Partition) closeJob(e Entry, t *schemas.Tick, job *schemas.TickJob) {
	key := schemas.JobKey{JobID: job.JobID, Restart: job.Restart}
	if p.closing.jobs[key] {
		return
	}
	p.closing.jobs[key] = true
	s := &Share{
		Job: key, Start: t.IntervalStart, LengthMs: t.IntervalMs, Partition: p.partition, Offset: e.Offset,
		Parts: job.Parts, JobNodes: job.JobNodes, Nodes: make(map[string]bool, len(job.Nodes)),
	}
	machine := p.closing.machine.Nodes
	for _, node := range job.Nodes {
		s.Nodes[node] = false
		if _, listed := machine[node]; !listed {
			machine[node] = false
		}
		r := p.take(t, key, node)
		switch {
		case r == nil:
		case r.Summary != nil && job.JobNodes > 1:
			p.rejects(r, r.Entry)
		default:
			s.Records = append(s.Records, r)
			s.Nodes[node], machine[node] = true, true
			if job.Parts == 0 {
				p.meets(r, EndedJob)
			} else {
				p.meets(r, Summarized)
			}
		}
	}
	slices.SortFunc(s.Records, func(a, b *Record) int { return strings.Compare(a.Node, b.Node) })
	p.fx.Shares = append(p.fx.Shares, s)
}

// take removes and returns a node's record of a job.
func (p *Partition) take(t *schemas.Tick, key schemas.JobKey, node string) *Record {
	i := p.intervals[t.IntervalStart]
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

// finish closes the interval once all its Ticks came.
func (p *Partition) finish() {
	k := p.closing
	p.closing = nil
	p.fx.Shares = append(p.fx.Shares, k.machine)
	p.closed, p.closedMs = k.start, k.lengthMs
	p.forget(Misrouted)
}
