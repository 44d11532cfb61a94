package replay

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Source is one reading of a partition of counters: the folded one, or the one ahead of it.
type Source struct {
	Partition int32
	Ahead     bool
}

// Fold folds the log of counters. The caller asks Next for a partition, and hands over its records one by one with Add,
// and its end with End. Ready returns the summaries of the intervals that all partitions have closed.
type Fold struct {
	Tally Tally
	// Reduced lists the jobs reduced on their node: metrics cannot be computed from their values.
	Reduced map[schemas.JobKey]bool
	// Without lists the jobs that had none of the chosen metrics in some interval. Such a summary is left out.
	Without map[schemas.JobKey]bool

	terms   Terms
	readers map[int32]*reader
	pending map[int64]map[schemas.JobKey]*gathering
	whole   bool // the machine is wanted
	ready   []*schemas.JobSummary
}

// gathering is a job in an interval: its summary, or its shares so far.
type gathering struct {
	summary *schemas.JobSummary
	shares  []*share
}

// reader folds one partition.
type reader struct {
	*recount.Partition
	machine *share // the partition's share of _system, until its interval ends

	ahead *recount.Partition
	next  []int64                     // intervals that ahead has closed, but not yet the fold
	late  map[int64][]*recount.Record // by interval
}

// New returns a fold.
func New(t Terms) *Fold {
	f := &Fold{
		Reduced: map[schemas.JobKey]bool{}, Without: map[schemas.JobKey]bool{}, terms: t, readers: map[int32]*reader{},
		pending: map[int64]map[schemas.JobKey]*gathering{}, whole: t.wants(machineKey, 0),
	}
	for p := range t.Collectors {
		r := &reader{
			Partition: recount.NewPartition(t.Cluster, p, t.Collectors),
			ahead:     recount.NewPartition(t.Cluster, p, t.Collectors), late: map[int64][]*recount.Record{},
		}
		r.Keeps, r.ahead.Keeps, r.Belated = f.keeps, f.keeps, r.belated
		if f.readers[p] = r; t.AsCollected {
			r.ahead.End()
		}
	}
	return f
}

var machineKey = schemas.JobKey{JobID: schemas.JobSystem}

func (f *Fold) keeps(h *schemas.NodeHeader) bool {
	return f.terms.within(h.IntervalStart) && (f.whole || f.terms.wants(h.Job(), h.IntervalStart))
}

// belated hands over the late records of an interval.
func (r *reader) belated(start int64) []*recount.Record {
	late := r.late[start]
	maps.DeleteFunc(r.late, func(s int64, _ []*recount.Record) bool { return s <= start })
	return late
}

// Next returns the next source to read. It is not ok once all partitions were read to their ends.
func (f *Fold) Next() (s Source, ok bool) {
	p, _, ok := recount.Behind(f.readers, func(r *reader) int64 { return r.Front() })
	if !ok {
		return Source{}, false
	}
	return Source{p, f.readers[p].looksAhead()}, true
}

// looksAhead reports whether the partition must be read further ahead, before its next interval is closed.
func (r *reader) looksAhead() bool {
	front := r.ahead.Front()
	if front == recount.Ended {
		return false
	}
	return len(r.next) == 0 || front < r.next[0]+config.Outage*r.ahead.LengthMs()
}

// Add takes the next record of a partition.
func (f *Fold) Add(s Source, e recount.Entry) {
	r := f.readers[s.Partition]
	if s.Ahead {
		f.addAhead(r, e)
		return
	}
	fx := r.Apply(e)
	for _, m := range fx.Met {
		f.count(m)
	}
	for _, of := range fx.Shares {
		f.take(r, of)
	}
	for len(r.next) > 0 && r.next[0] <= r.Closed() {
		r.next = r.next[1:]
	}
	if r.Closed() != recount.Never && r.Closed() >= f.terms.To-r.LengthMs() {
		r.End()
	}
	if len(fx.Shares) > 0 {
		f.emit()
	}
}

// addAhead keeps the late records of intervals that the fold itself has not closed yet.
func (f *Fold) addAhead(r *reader, e recount.Entry) {
	closed := r.ahead.Closed()
	for _, m := range r.ahead.Apply(e).Met {
		switch {
		case m.Fate != recount.Late || m.Record == nil:
		case m.Record.IntervalStart <= r.Closed():
			f.Tally.Late++ // by more than the outage
		default:
			r.late[m.Record.IntervalStart] = append(r.late[m.Record.IntervalStart], m.Record)
		}
	}
	if r.ahead.Closed() != closed {
		r.next = append(r.next, r.ahead.Closed())
	}
}

// count counts the fate of a record. Late records are counted by the reading ahead, if there is one.
func (f *Fold) count(m recount.Met) {
	t := &f.Tally
	switch m.Fate {
	case recount.Late:
		if f.terms.AsCollected {
			t.Late++
		}
	case recount.Summarized:
		if t.Summarized++; m.Record.Late {
			t.LateTaken++
		}
	case recount.Dropped:
		t.Dropped++
	case recount.Duplicate:
		t.Duplicate++
	case recount.Misrouted:
		t.Misrouted++
	case recount.EndedJob:
		t.Ended++
	case recount.Rejected:
		t.Rejected++
	}
}

// End takes the end of a partition.
func (f *Fold) End(s Source) {
	r := f.readers[s.Partition]
	if s.Ahead {
		r.ahead.End()
		return
	}
	r.End()
	if _, _, more := recount.Behind(f.readers, func(r *reader) int64 { return r.Front() }); !more {
		f.emit()
	}
}

// take takes a job's share that a Tick closes.
func (f *Fold) take(r *reader, of *recount.Share) {
	if !f.terms.within(of.Start) {
		return
	}
	s := &share{Share: of}
	if of.Job == machineKey {
		if s = r.machine; s == nil {
			s = &share{}
		}
		s.Share, r.machine = of, nil
		recount.Cut(s.columns, (*column).sent)
	} else {
		s.reduce(&f.terms)
		if f.whole {
			if r.machine == nil {
				r.machine = &share{}
			}
			r.machine.join(s, &f.terms)
		}
		recount.Cut(s.columns, func(c *column) int { return len(c.lists) })
		recount.Settle(s.columns, (*column).sent, (*column).takes)
	}
	if s.Parts == 0 || !f.terms.wants(of.Job, of.Start) {
		return
	}
	jobs := f.pending[of.Start]
	if jobs == nil {
		jobs = map[schemas.JobKey]*gathering{}
		f.pending[of.Start] = jobs
	}
	g := jobs[of.Job]
	if g == nil {
		g = &gathering{}
		jobs[of.Job] = g
	}
	if g.shares = append(g.shares, s); s.Parts == 1 && of.Job != machineKey {
		f.finish(g)
	}
}

// finish makes the summary of a job from its shares.
func (f *Fold) finish(g *gathering) {
	slices.SortFunc(g.shares, func(a, b *share) int { return cmp.Compare(a.Partition, b.Partition) })
	g.summary = summarize(&f.terms, g.shares)
	if f.terms.Set != nil && (g.summary.Method == schemas.MethodNode || reducedIn(g.shares)) {
		f.Reduced[g.shares[0].Job] = true
	}
	g.shares = nil
}

// emit moves the intervals that all partitions have closed to the ready summaries, in the order of intervals and jobs.
func (f *Fold) emit() {
	_, least, more := recount.Behind(f.readers, func(r *reader) int64 { return r.Front() })
	for _, start := range slices.Sorted(maps.Keys(f.pending)) {
		if more && start > least {
			return
		}
		f.emitInterval(start, start <= f.closed())
		delete(f.pending, start)
	}
}

// closed returns the last interval that all partitions have closed.
func (f *Fold) closed() int64 {
	least := int64(recount.Ended)
	for _, r := range f.readers {
		least = min(least, r.Closed())
	}
	return least
}

// emitInterval makes an interval's summaries ready: all of them, or, if the interval is not whole, only the summaries
// of jobs that lie in one partition.
func (f *Fold) emitInterval(start int64, whole bool) {
	jobs := f.pending[start]
	f.Tally.Intervals++
	for _, key := range slices.SortedFunc(maps.Keys(jobs), func(a, b schemas.JobKey) int {
		return cmp.Or(strings.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
	}) {
		g := jobs[key]
		if g.summary == nil {
			if !whole {
				f.Tally.Unfinished++
				continue
			}
			f.finish(g)
		}
		if len(f.terms.Metrics) > 0 && len(g.summary.Metrics) == 0 {
			f.Without[key] = true
			continue
		}
		f.Tally.Summaries++
		f.Tally.Rows += int64(max(1, len(g.summary.Metrics)))
		f.ready = append(f.ready, g.summary)
	}
}

// Ready returns further summaries, in the order of intervals and jobs.
func (f *Fold) Ready() []*schemas.JobSummary {
	ready := f.ready
	f.ready = nil
	return ready
}

// Held returns the number of records and shares in memory.
func (f *Fold) Held() (n int64) {
	for _, r := range f.readers {
		n += r.Held() + r.ahead.Held()
		for _, late := range r.late {
			n += int64(len(late))
		}
	}
	for _, jobs := range f.pending {
		for _, g := range jobs {
			n += int64(len(g.shares))
		}
	}
	return n
}
