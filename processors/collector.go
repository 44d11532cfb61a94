package processors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Collector folds one partition of counters.
//
// Records gather by job and interval. A Tick closes its interval: each job that it lists yields one output from the
// records of the nodes that it lists, with or without records, and all of them together this partition's share of _system;
// then every interval up to the Tick's is closed. A Tick with More closes its jobs, and leaves the interval open for the
// Ticks that follow. Each record meets exactly one fate, the first of these that holds:
//
//	rejected    it cannot be decoded, contradicts itself, is of another cluster or from the future, or is a NodeSummary of a
//	            job of several nodes
//	late        its interval is closed, or a Tick with More has closed its job
//	dropped     its interval is more than the outage older than one that was seen since, and no Tick came
//	duplicate   a record with its natural key (node, interval, job, restart) came before
//	misrouted   no Tick lists it here, or the Tick's interval_ms is another
//	ended       its job ended before the interval did: _system alone takes its values
//	summarized  an output was made from it
type Collector struct {
	ledger
	cluster               string
	partition, collectors int32
	intervals             map[int64]*interval
	closing               *closing
	all                   system
	loads                 []schemas.JobLoad // of the last interval that was closed
	resumedIn             *int64            // interval_start of a Tick in parts that the Progress stood within
}

// closing is an interval of which a Tick came, and not yet the last one.
type closing struct {
	start, lengthMs int64
	tickBytes       int
	jobs            map[schemas.JobKey]bool // that are closed
	loads           []schemas.JobLoad
}

const (
	// maxTickBytes bounds what the collector remembers of the Ticks of one interval: one that reaches it is the last.
	maxTickBytes = 32 << 20
	// maxLoadsBytes bounds the loads of a Progress, a quarter of the largest message.
	maxLoadsBytes = 1 << 20
)

// interval is what has come for one interval_start.
type interval struct {
	jobs    map[schemas.JobKey]map[string]*nodeRecord // by node: first come, first served
	records int64
}

// nodeRecord is a CounterBatch or a NodeSummary.
type nodeRecord struct {
	entry    Entry // value only kept for a NodeSummary, which a Tick may yet reject
	bytes    int
	lengthMs int64
	number   int32 // of its node in the interval's _system
	batch    *schemas.CounterBatch
	summary  *schemas.NodeSummary
}

// NewCollector continues from p, nil at the beginning of a partition. collectors is the number of partitions of counters.
func NewCollector(cluster string, partition, collectors int32, p *schemas.Progress) *Collector {
	c := &Collector{ledger: newLedger(p), cluster: cluster, partition: partition, collectors: collectors, intervals: map[int64]*interval{}}
	if p != nil {
		c.loads, c.resumedIn = p.Loads, p.Closing
	}
	return c
}

// Progress implements Fold.
func (c *Collector) Progress(position int64) *schemas.Progress {
	p := c.ledger.Progress(position)
	p.Loads = c.loads
	if c.closing != nil {
		start := c.closing.start
		p.Closing = &start
	}
	for _, i := range c.intervals {
		p.Open += i.records
	}
	return p
}

// Apply folds the next entry of the log.
func (c *Collector) Apply(e Entry) Effects {
	r, err := c.decode(e)
	if err != nil {
		return c.reject(e, err.Error())
	}
	switch r := r.(type) {
	case *schemas.Gap:
		return Effects{Counts: schemas.ProgressCounts{Gaps: 1}}
	case *schemas.Tick:
		if isAhead(r.IntervalStart, r.IntervalMs, e.AppendedMs) {
			return c.refuse(e, "Tick from the future")
		}
		return c.tick(e, r).names(r.IntervalMs, "")
	case *schemas.CounterBatch:
		return c.witness(e, &r.NodeHeader, c.add(e, &r.NodeHeader, &nodeRecord{lengthMs: r.IntervalMs, batch: r}))
	case *schemas.NodeSummary:
		if err := checkNodeSummary(r); err != nil {
			return c.reject(e, err.Error())
		}
		return c.witness(e, &r.NodeHeader, c.add(e, &r.NodeHeader, &nodeRecord{lengthMs: r.IntervalMs, summary: r}))
	default:
		return c.reject(e, fmt.Sprintf("a %T does not belong here", r))
	}
}

// witness counts the records that were sent, by their node's clock, later than the broker received them, by more than a
// tenth of the interval: that clock is ahead. A late one is not told from a record that waited.
func (c *Collector) witness(e Entry, h *schemas.NodeHeader, fx Effects) Effects {
	if h.SentAt > e.AppendedMs+h.IntervalMs/10 {
		fx.Counts.ClockAhead++
	}
	return fx.names(h.IntervalMs, h.Node)
}

func (c *Collector) add(e Entry, h *schemas.NodeHeader, r *nodeRecord) Effects {
	start := h.IntervalStart
	switch {
	case h.Cluster != c.cluster:
		return c.refuse(e, "of cluster "+h.Cluster)
	case isAhead(start, h.IntervalMs, e.AppendedMs):
		return c.refuse(e, "from the future")
	case start <= c.closed, c.closing != nil && c.closing.start == start && c.closing.jobs[h.Job()]:
		return Effects{Counts: schemas.ProgressCounts{Late: 1}}
	case start <= c.dropped:
		return Effects{Counts: schemas.ProgressCounts{Dropped: 1}}
	}
	c.open(start, e.Offset)
	i := c.intervals[start]
	if i == nil {
		i = &interval{jobs: map[schemas.JobKey]map[string]*nodeRecord{}}
		c.intervals[start] = i
	}
	nodes := i.jobs[h.Job()]
	if nodes == nil {
		nodes = map[string]*nodeRecord{}
		i.jobs[h.Job()] = nodes
	}
	if nodes[h.Node] != nil {
		return Effects{Counts: schemas.ProgressCounts{Duplicate: 1}}
	}
	r.entry, r.bytes = Entry{Offset: e.Offset, AppendedMs: e.AppendedMs}, len(e.Value)
	if r.summary != nil {
		r.entry.Value = e.Value
	}
	nodes[h.Node] = r
	i.records++
	if e.Offset < c.resumed {
		return Effects{} // what this record dropped is in the Progress that the replay began with
	}
	return c.drop(start, h.IntervalMs)
}

// drop bounds memory while Ticks are missing: a record of interval start drops what is more than the outage older. The
// length of an interval is the record's or the last Tick's, whichever is more, so that a node with a wrong interval_ms
// cannot drop what is in time for everybody else.
func (c *Collector) drop(start, lengthMs int64) Effects {
	length := max(lengthMs, c.closedLengthMs)
	var fx Effects
	if bound := start - (config.Outage+1)*length; bound > max(c.dropped, c.closed) {
		if c.closing != nil && c.closing.start <= bound {
			c.finish(&fx) // its last Tick never came
		}
		c.dropped = bound
	}
	for _, gone := range c.forgetClosed() {
		fx.Counts.Dropped += c.intervals[gone].records
		delete(c.intervals, gone)
	}
	return fx
}

// tick closes the jobs of a Tick, and the interval with its last one. The Ticks of an interval follow each other in one
// transaction. Where the last one never comes, the interval ends all the same: with a Tick of a later interval, with more
// bytes of Ticks than maxTickBytes, or where it would be dropped.
func (c *Collector) tick(e Entry, t *schemas.Tick) Effects {
	fx := Effects{Counts: schemas.ProgressCounts{Ticks: 1}}
	switch k := c.closing; {
	case t.IntervalStart <= c.closed, k != nil && t.IntervalStart < k.start:
		return fx // a second Tick of this interval, or one that comes after a later one
	case k != nil && t.IntervalStart > k.start:
		c.finish(&fx)
	case k != nil && t.IntervalMs != k.lengthMs:
		return c.refuse(e, "Tick of another interval_ms than the one before it")
	}
	if c.closing == nil {
		c.closing = &closing{start: t.IntervalStart, lengthMs: t.IntervalMs, jobs: map[schemas.JobKey]bool{}}
		c.begun = e.Offset
		c.all.begin()
	}
	for n := range t.Jobs {
		c.closeJob(&fx, t, &t.Jobs[n])
	}
	c.all.shared = append(c.all.shared, t.Shared...)
	c.closing.tickBytes += len(e.Value)
	if !t.More || c.closing.tickBytes >= maxTickBytes {
		c.finish(&fx)
	}
	return fx
}

// finish closes the interval whose Ticks have come.
func (c *Collector) finish(fx *Effects) {
	k := c.closing
	c.closing, c.begun, c.loads = nil, none, heaviest(k.loads)
	fx.Closes = true
	share := c.all.partial(c.cluster, c.partition, c.collectors, k)
	fx.Counts.Outputs++
	fx.Counts.Surplus += c.all.columns.surplus()
	fx.Outputs = append(fx.Outputs, share)
	c.closed, c.closedLengthMs = k.start, k.lengthMs
	for _, gone := range c.forgetClosed() {
		fx.Counts.Misrouted += c.intervals[gone].records // what no Tick has taken
		delete(c.intervals, gone)
	}
	fx.Outputs = append(fx.Outputs, &schemas.Watermark{Collector: c.partition, IntervalStart: k.start, IntervalMs: k.lengthMs})
}

// closeJob makes the output of one job that a Tick lists, and takes the job's records out of the interval. A job that an
// earlier Tick of the interval lists has its output.
func (c *Collector) closeJob(fx *Effects, t *schemas.Tick, job *schemas.TickJob) {
	key := schemas.JobKey{JobID: job.JobID, Restart: job.Restart}
	if c.closing.jobs[key] {
		return
	}
	c.closing.jobs[key] = true
	i := c.intervals[t.IntervalStart]
	var records []*nodeRecord
	for _, node := range job.Nodes {
		number := c.all.expect(node)
		r := i.take(key, node, t.IntervalMs)
		switch {
		case r == nil:
		case r.summary != nil && job.JobNodes > 1:
			c.rejected[r.entry.Offset] = true
			fx.Rejects = append(fx.Rejects, Rejected{r.entry.Offset, "NodeSummary of a job of several nodes", r.entry.Value, true})
			fx.Counts.Rejected++
		default:
			r.number = number
			records = append(records, r)
		}
	}
	byNode(records)
	cols := newColumns(records)
	sorted := cols.sorted()
	c.all.join(records, sorted)
	if job.Parts == 0 {
		fx.Counts.Ended += int64(len(records))
		return
	}
	fx.Counts.Summarized += int64(len(records))
	fx.Counts.Outputs++
	fx.Counts.Surplus += cols.surplus()
	c.weigh(job, records)
	fx.Outputs = append(fx.Outputs, summarize(c.cluster, c.partition, t, job, records, sorted))
}

// abandon gives up an interval that stood within its Ticks, after retention took the beginning of a replay. The Ticks that
// are gone had closed some of its jobs: what is left of these looks open, and has met its fate.
func (c *Collector) abandon() {
	if c.resumedIn == nil {
		return
	}
	c.closing, c.begun = nil, none
	for _, gone := range c.giveUp(*c.resumedIn) {
		delete(c.intervals, gone)
	}
}

// weigh notes what the values of a job weighed: the balancer counts with it. What was reduced on its node, and _rest, are
// where they are whatever they weigh.
func (c *Collector) weigh(job *schemas.TickJob, records []*nodeRecord) {
	l := schemas.JobLoad{JobID: job.JobID, Restart: job.Restart}
	for _, r := range records {
		if r.batch != nil {
			l.Nodes++
			l.Bytes += int64(r.bytes)
		}
	}
	if l.Nodes > 0 && job.JobID != schemas.JobRest {
		c.closing.loads = append(c.closing.loads, l)
	}
}

// heaviest cuts loads to those with most bytes that fit into maxLoadsBytes, the least keys of equals, in the order that they have.
func heaviest(loads []schemas.JobLoad) []schemas.JobLoad {
	const numbers = 20 // bytes of a load beside its id, at most
	order := slices.Clone(loads)
	slices.SortFunc(order, func(a, b schemas.JobLoad) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
	})
	kept, room := map[schemas.JobKey]bool{}, maxLoadsBytes
	for _, l := range order {
		if room -= len(l.JobID) + numbers; room < 0 {
			break
		}
		kept[schemas.JobKey{JobID: l.JobID, Restart: l.Restart}] = true
	}
	return slices.DeleteFunc(loads, func(l schemas.JobLoad) bool { return !kept[schemas.JobKey{JobID: l.JobID, Restart: l.Restart}] })
}

// take removes and returns a node's record of a job, nil where there is none of this interval length.
func (i *interval) take(key schemas.JobKey, node string, lengthMs int64) *nodeRecord {
	if i == nil {
		return nil
	}
	r := i.jobs[key][node]
	if r == nil || r.lengthMs != lengthMs {
		return nil
	}
	delete(i.jobs[key], node)
	i.records--
	return r
}

// byNode orders records as summaries are computed: by node, whatever the order of arrival.
func byNode(records []*nodeRecord) {
	slices.SortFunc(records, func(a, b *nodeRecord) int {
		return strings.Compare(a.header().Node, b.header().Node)
	})
}

func (r *nodeRecord) header() *schemas.NodeHeader {
	if r.summary != nil {
		return &r.summary.NodeHeader
	}
	return &r.batch.NodeHeader
}
