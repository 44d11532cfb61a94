package audit

import (
	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/schemas"
)

// collector is the account of one partition of counters.
type collector struct {
	*recount.Partition
	b         *Books
	account   *Account
	partition int32
	position  int64                // offset up to which collect has folded; records behind it may be read too
	ahead     map[jobInterval]bool // that Ticks behind position list: their summaries and shares may be in flight
	machine   *share               // the partition's share of _system, until its interval ends
}

// look notes the intervals of jobs in a Tick behind the position.
func (c *collector) look(e Entry) {
	v, err := schemas.Unmarshal(e.Value)
	tick, ok := v.(*schemas.Tick)
	if err != nil || !ok {
		return
	}
	c.ahead[jobInterval{schemas.JobKey{JobID: schemas.JobSystem}, tick.IntervalStart}] = true
	for i := range tick.Jobs {
		j := &tick.Jobs[i]
		c.ahead[jobInterval{schemas.JobKey{JobID: j.JobID, Restart: j.Restart}, tick.IntervalStart}] = true
	}
}

// apply folds the next entry of the partition.
func (c *collector) apply(e Entry) {
	if e.Offset >= c.position {
		c.look(e)
		return
	}
	fx := c.Apply(e)
	fates := &c.account.Fates
	if fx.Gap != nil {
		fates.Gaps++
		if fx.Gap.LastIntervalStart >= c.b.terms.From {
			c.b.run(fx.Gap.Node, fx.Gap.RunID).Gaps += fx.Gap.Records
		}
	}
	if fx.Ticked {
		fates.Ticks++
	}
	if r := fx.Came; r != nil {
		c.account.Records++
		if run := c.runOf(r); run != nil {
			run.Records++
			run.add(c.partition, r.NodeHeader)
		}
	}
	for _, m := range fx.Met {
		if *fates.of(m.Fate)++; m.Fate == recount.Rejected {
			c.b.rejected(schemas.TopicCounters, c.account, m.Entry)
		}
		if m.Record == nil {
			c.account.Records++
		} else if run := c.runOf(m.Record); run != nil {
			*run.Fates.of(m.Fate)++
		}
	}
	for _, s := range fx.Shares {
		c.due(s)
	}
}

// runOf returns the account of the run that a record is of, or nil for a record of an interval before the audited ones.
func (c *collector) runOf(r *recount.Record) *AgentRun {
	if r.IntervalStart < c.b.terms.From || r.Cluster != c.b.terms.Cluster {
		return nil
	}
	return c.b.run(r.Node, r.RunID)
}

// due takes a job's share that a Tick closes.
func (c *collector) due(of *recount.Share) {
	s := &share{Share: of}
	if of.Job.JobID == schemas.JobSystem {
		if s = c.machine; s == nil {
			s = &share{}
		}
		s.Share, c.machine = of, nil
		recount.Cut(s.columns, (*column).nodes)
		c.account.closed = of.Start
	} else {
		s.reduce()
		if c.machine == nil {
			c.machine = &share{}
		}
		c.machine.join(s)
		recount.Cut(s.columns, func(c *column) int { return c.sent })
		recount.Settle(s.columns, (*column).nodes, (*column).takes)
		if len(s.Records) != 1 || s.Records[0].Summary == nil {
			s.Records = nil // their values are in the columns
		}
	}
	if s.Parts > 0 {
		c.account.Fates.Outputs++
		c.b.due(jobInterval{of.Job, of.Start}, of.LengthMs, s)
	}
}

// open returns the number of records without a fate yet, and counts them in their runs.
func (c *collector) open() (n int64) {
	for r := range c.Open() {
		if n++; c.runOf(r) != nil {
			c.runOf(r).Open++
		}
	}
	return n
}

// of returns the count of a fate.
func (f *Fates) of(fate recount.Fate) *int64 {
	return map[recount.Fate]*int64{
		recount.Rejected: &f.Rejected, recount.Late: &f.Late, recount.Dropped: &f.Dropped,
		recount.Duplicate: &f.Duplicate, recount.Misrouted: &f.Misrouted, recount.EndedJob: &f.Ended,
		recount.Summarized: &f.Summarized,
	}[fate]
}
