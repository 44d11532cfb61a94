package fold

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Collector folds one partition of counters.
//
// Records gather by job and interval. A Tick closes its interval. Each job that it lists yields one output from the
// records of the nodes that it lists, even if there are none. All records together yield this partition's share of
// _system. Then every interval up to the Tick's is closed. A Tick with More closes its jobs, and leaves the interval
// open for the Ticks that follow. Each record meets exactly one fate, the first of these that holds:
//
//	rejected    it cannot be decoded, contradicts itself, is of another cluster or from the future, or is a
//	            NodeSummary of a job of several nodes
//	late        its interval is closed, or a Tick with More has closed its job
//	dropped     its interval is older by more than the outage than one that was seen since, and no Tick came
//	duplicate   a record with its natural key (node, interval, job, restart) came before
//	misrouted   no Tick lists it here, or the Tick's interval_ms is another
//	ended       its job ended before the interval did, so that only _system takes its values
//	summarized  an output was made from it
type Collector struct {
	// Sketch is the most bytes of a certified summary in a JobSummary; 0: without.
	Sketch int

	Ledger
	cluster               string
	partition, collectors int32
	intervals             map[int64]*interval
	closing               *closing
	all                   system
	loads                 []schemas.JobLoad // of the last interval that was closed
	resumedIn             *int64            // interval that had Ticks, but not its last one, at the Progress

	reader schemas.BatchReader
	slots  []nodeRecord         // for the records to come: they are allocated together
	rooms  [gatherAtOnce]column // memory for the values of columns
}

// closing is an interval that had a Tick, but not its last one.
type closing struct {
	start, lengthMs int64
	tickBytes       int
	machineNodes    int32                   // by the Ticks; 0: they do not name it
	jobs            map[schemas.JobKey]bool // that are closed
	loads           []schemas.JobLoad
}

// maxTickBytes bounds the memory for the Ticks of one interval. A Tick that reaches it is the last.
const maxTickBytes = 32 << 20

// NewCollector continues from p, nil at the beginning of a partition. collectors is the number of partitions of
// counters.
func NewCollector(cluster string, partition, collectors int32, p *schemas.Progress) *Collector {
	c := &Collector{
		Ledger: NewLedger(p), cluster: cluster, partition: partition, collectors: collectors,
		intervals: map[int64]*interval{},
	}
	if p != nil {
		c.loads, c.resumedIn = p.Loads, p.Closing
	}
	return c
}

// Progress implements Fold.
func (c *Collector) Progress(position int64) *schemas.Progress {
	p := c.Ledger.Progress(position)
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

// Apply folds the next entry of the log. It keeps the bytes of a CounterBatch until its interval closes.
func (c *Collector) Apply(e Entry) Effects {
	if c.rejected[e.Offset] {
		return c.reject(e, errReplayed.Error())
	}
	if len(c.slots) == 0 {
		c.slots = make([]nodeRecord, slotsAtOnce)
	}
	n := &c.slots[0]
	r, err := c.reader.Read(e.Value, &n.batch)
	if err != nil {
		return c.reject(e, err.Error())
	}
	n.summary = nil
	switch r := r.(type) {
	case nil:
		return c.witness(e, n, n.batch.Clock(e.AppendedMs))
	case *schemas.Gap:
		return Effects{Counts: schemas.ProgressCounts{Gaps: 1}}
	case *schemas.Tick:
		if isAhead(r.IntervalStart, r.IntervalMs, e.AppendedMs) {
			return c.Refuse(e, "Tick from the future")
		}
		return c.tick(e, r).names(r.IntervalMs, "")
	case *schemas.NodeSummary:
		if err := checkNodeSummary(r); err != nil {
			return c.reject(e, err.Error())
		}
		n.summary = r
		return c.witness(e, n, schemas.ClockOf(r, e.AppendedMs))
	default:
		return c.reject(e, fmt.Sprintf("a %T does not belong here", r))
	}
}

// slotsAtOnce is how many records are allocated together. None is freed before all can be.
const slotsAtOnce = 64

// witness adds a record, and counts it if its clock is ahead. Such a clock's time of sending is later than the
// broker's time of receipt, by more than a tenth of the interval. A clock that is behind looks like a record that
// waited. It also notes the sign that a record of this cluster gives of its node's clock.
func (c *Collector) witness(e Entry, r *nodeRecord, clock schemas.ClockSign) Effects {
	h := r.header()
	fx := c.add(e, h, r)
	if h.Cluster == c.cluster {
		fx.Clock = ClockSign{clock, h.Node}
	}
	if h.SentAt > e.AppendedMs+h.IntervalMs/10 {
		fx.Counts.ClockAhead++
	}
	return fx.names(h.IntervalMs, h.Node)
}

// add gives a record its fate, or keeps it until its interval closes. The order of the cases matters, since a replay
// must find the same fate.
func (c *Collector) add(e Entry, h *schemas.NodeHeader, r *nodeRecord) Effects {
	start := h.IntervalStart
	switch {
	case h.Cluster != c.cluster:
		return c.Refuse(e, "of cluster "+h.Cluster)
	case isAhead(start, h.IntervalMs, e.AppendedMs):
		return c.Refuse(e, "from the future")
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
	c.slots = c.slots[1:]
	i.records++
	if e.Offset < c.Resumed {
		return Effects{} // the Progress where the replay began counts the intervals that this record dropped
	}
	return c.drop(start, h.IntervalMs)
}

// drop bounds memory while Ticks are missing: a record of interval start drops the intervals that are older by more
// than the outage. The longer of the record's interval and the last Tick's counts. So a node with a wrong interval_ms
// cannot drop the records of others that are in time.
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

// tick closes the jobs of a Tick, and with the last Tick the interval. The Ticks of an interval follow each other in
// one transaction. The interval also ends without its last Tick: with a Tick of a later interval, with maxTickBytes of
// Ticks, or when it would be dropped.
func (c *Collector) tick(e Entry, t *schemas.Tick) Effects {
	fx := Effects{Counts: schemas.ProgressCounts{Ticks: 1}}
	switch k := c.closing; {
	case t.IntervalStart <= c.closed, k != nil && t.IntervalStart < k.start:
		return fx // a second Tick of this interval, or a Tick behind a later one
	case k != nil && t.IntervalStart > k.start:
		c.finish(&fx)
	case k != nil && t.IntervalMs != k.lengthMs:
		return c.Refuse(e, "Tick of another interval_ms than the one before it")
	}
	if c.closing == nil {
		c.closing = &closing{start: t.IntervalStart, lengthMs: t.IntervalMs, jobs: map[schemas.JobKey]bool{}}
		c.Begun = e.Offset
		c.all.begin()
	}
	for n := range t.Jobs {
		c.closeJob(&fx, t, &t.Jobs[n])
	}
	c.all.shared = append(c.all.shared, t.Shared...)
	c.closing.machineNodes = max(c.closing.machineNodes, t.MachineNodes)
	c.closing.tickBytes += len(e.Value)
	if !t.More || c.closing.tickBytes >= maxTickBytes {
		c.finish(&fx)
	}
	return fx
}

// finish closes an interval after its last Tick.
func (c *Collector) finish(fx *Effects) {
	k := c.closing
	c.closing, c.Begun, c.loads = nil, None, heaviest(k.loads)
	fx.Closes = true
	share, surplus := c.all.partial(c.cluster, c.partition, c.collectors, k)
	fx.Counts.Outputs++
	fx.Counts.Surplus += surplus
	fx.Outputs = append(fx.Outputs, share)
	c.closed, c.closedLengthMs = k.start, k.lengthMs
	for _, gone := range c.forgetClosed() {
		fx.Counts.Misrouted += c.intervals[gone].records // no Tick has taken these
		delete(c.intervals, gone)
	}
	mark := &schemas.Watermark{Collector: c.partition, IntervalStart: k.start, IntervalMs: k.lengthMs}
	fx.Outputs = append(fx.Outputs, mark)
}

// closeJob makes the output of one job that a Tick lists, and takes the job's records out of the interval. A job that
// an earlier Tick of the interval lists already has its output.
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
			why := "NodeSummary of a job of several nodes"
			fx.Rejects = append(fx.Rejects, Rejected{r.entry.Offset, why, r.entry.Value, true})
			fx.Counts.Rejected++
		default:
			r.number = number
			records = append(records, r)
		}
	}
	byNode(records)
	found := newColumns(records)
	cols, surplus := earned(maps.Values(found), len(found))
	var out output
	if job.Parts > 0 {
		out = newOutput(c.cluster, c.partition, t, job, records, c.Sketch)
	}
	c.reduce(cols, records, out.sketch, out.add)
	if surplus > 0 { // a metric without a place in the job's record may find one in _system: more nodes vote there
		for _, col := range cols {
			delete(found, col.metricID)
		}
		maps.DeleteFunc(found, func(id metricID, _ *column) bool { return id.reported })
		c.reduce(slices.Collect(maps.Values(found)), records, out.sketch, func(*column, *reduction) {})
	}
	c.all.joinNodes(records)
	if job.Parts == 0 {
		fx.Counts.Ended += int64(len(records))
		return
	}
	fx.Counts.Summarized += int64(len(records))
	fx.Counts.Outputs++
	fx.Counts.Surplus += surplus
	c.weigh(job, records)
	fx.Outputs = append(fx.Outputs, out.record())
}

// reduce gathers the values of columns, and calls add with the reduction of each. It adds them to _system unless the
// job reported them itself.
func (c *Collector) reduce(cols []*column, records []*nodeRecord, sketch int, add func(*column, *reduction)) {
	for some := range slices.Chunk(cols, gatherAtOnce) {
		gather(some, records, &c.rooms)
		for _, col := range some {
			r := col.reduce(sketch, &c.all.room)
			if !col.reported {
				c.all.join(col, &r)
			}
			add(col, &r)
		}
	}
}

// Abandon gives up an interval that stood between its Ticks, after retention deleted the beginning of a replay. The
// deleted Ticks had closed some of its jobs. Their remaining records look open, and have met their fate.
func (c *Collector) Abandon() {
	if c.resumedIn == nil {
		return
	}
	c.closing, c.Begun = nil, None
	for _, gone := range c.giveUp(*c.resumedIn) {
		delete(c.intervals, gone)
	}
}

// weigh notes the bytes of a job for the balancer. It leaves out data that the balancer cannot move: records that were
// reduced on their node, and _rest.
func (c *Collector) weigh(job *schemas.TickJob, records []*nodeRecord) {
	l := schemas.JobLoad{JobID: job.JobID, Restart: job.Restart}
	for _, r := range records {
		if r.summary == nil {
			l.Nodes++
			l.Bytes += int64(r.bytes)
		}
	}
	if l.Nodes > 0 && job.JobID != schemas.JobRest {
		c.closing.loads = append(c.closing.loads, l)
	}
}
