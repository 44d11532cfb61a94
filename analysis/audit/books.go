package audit

import (
	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/schemas/second"
)

// Terms are the scope of the audit.
type Terms struct {
	Cluster    string
	Prefix     string // of the topics, for messages
	Collectors int32  // partitions of counters
	Partials   int32  // partitions of partials
	Summaries  int32  // partitions of job-summary
	// Sketch is collect.sketch. Unless it is 0, each metric with values must have a certified summary.
	Sketch int
	// Rejects counts the partitions of topic rejects to compare; 0 compares none. The topic is complete since
	// RejectsSince.
	Rejects      int32
	RejectsSince int64
	// From is the first audited interval. The records of older ones may be gone.
	From int64
	// Only is the one partition of counters to audit, or -1: all. Split jobs need all.
	Only int32
	// DecodedOneIn is how many records there are to one that is decoded twice. 1: all are, 0: none.
	DecodedOneIn int64
	// Counters and Merges are the audited spans of the partitions of counters and partials.
	Counters, Merges map[int32]Span
}

// Span is the audited part of one partition of counters or partials.
type Span struct {
	From, Position int64
	// Opening and Closing are the fates that the service counted up to the offset OpenedAt and up to Position. Opening
	// is nil if no Progress recorded them.
	Opening  *schemas.ProgressCounts
	OpenedAt int64
	Closing  schemas.ProgressCounts
	// Later is the position behind the ends of all topics: no other commit is in flight.
	Later int64
}

// Source is one partition of a topic.
type Source struct {
	Topic     string // schemas.TopicCounters, TopicPartials, TopicJobSummary or TopicRejects
	Partition int32
}

// Books are the accounts of an installation while they are audited. The caller asks Next which partition to read, and
// hands over its records one by one with Add, and its end with End.
type Books struct {
	terms      Terms
	report     Report
	runs       map[[2]string]*AgentRun
	collectors map[int32]*collector
	mergers    map[int32]*merger
	topic      map[int32]*summaryFront
	opened     map[*Account]*Fates // fates at OpenedAt

	expected map[jobInterval]*expectation // without a summary yet
	actual   map[jobInterval]*found       // without an expectation yet
	recent   map[int64]map[schemas.JobKey]bool
	splits   map[int64]*split // intervals with shares, until all partitions have closed them
	decided  map[jobInterval][]int32
	joined   int64 // intervals up to here have no shares any more
	promised map[shareKey]*share
	shares   map[shareKey]foundShare
	lengthMs int64 // of the last Tick

	waiting, mostWaiting int64 // values of expected

	rejects rejects
	second  second.Reader
}

// summaryFront is the last interval read from one partition of summaries.
type summaryFront struct {
	start int64
	ended bool
}

func (f *summaryFront) front() int64 {
	if f.ended {
		return ended
	}
	return f.start
}

// NewBooks opens the accounts.
func NewBooks(t Terms) *Books {
	b := &Books{
		terms: t, runs: map[[2]string]*AgentRun{},
		collectors: map[int32]*collector{}, mergers: map[int32]*merger{}, topic: map[int32]*summaryFront{},
		opened: map[*Account]*Fates{}, expected: map[jobInterval]*expectation{}, actual: map[jobInterval]*found{},
		recent: map[int64]map[schemas.JobKey]bool{}, splits: map[int64]*split{}, decided: map[jobInterval][]int32{},
		mostWaiting: mostWaiting, joined: never, promised: map[shareKey]*share{}, shares: map[shareKey]foundShare{},
	}
	b.report.Decoded.OneIn = t.DecodedOneIn
	b.report.Runs, b.report.Archive = []*AgentRun{}, []*Chain{}
	b.report.Notes, b.report.Differences = []string{}, []Difference{}
	for p := range t.Collectors {
		if t.Only >= 0 && t.Only != p {
			continue
		}
		b.collectors[p] = &collector{
			Partition: recount.NewPartition(t.Cluster, p, t.Collectors),
			b:         b, partition: p, position: t.Counters[p].Position, ahead: map[jobInterval]bool{},
			account: b.account("collect", p, t.Counters[p]),
		}
	}
	for p := range t.Partials {
		if t.Only >= 0 {
			break
		}
		b.mergers[p] = &merger{
			b: b, partition: p, position: t.Merges[p].Position, later: t.Merges[p].Later,
			account: b.account("merge", p, t.Merges[p]),
			closed:  never, dropped: never, watermarks: map[int32]int64{},
			windows: map[int64]map[schemas.JobKey]*merging{}, ahead: map[jobInterval]bool{},
		}
	}
	for p := range t.Summaries {
		b.topic[p] = &summaryFront{start: never}
	}
	b.rejects = newRejects(t.Rejects)
	return b
}

func (b *Books) account(stage string, partition int32, s Span) *Account {
	a := &Account{Stage: stage, Partition: partition, From: s.From, Position: s.Position, closed: never}
	b.report.Partitions = append(b.report.Partitions, a)
	return a
}

// run returns the account of an agent's run.
func (b *Books) run(node, runID string) *AgentRun {
	key := [2]string{node, runID}
	r := b.runs[key]
	if r == nil {
		r = &AgentRun{Node: node, RunID: runID}
		b.runs[key] = r
	}
	return r
}

// aheadIntervals is the number of intervals by which summaries are read ahead of the log that they come from.
const aheadIntervals = 4

// Next returns the partition to read next. It is not ok once all were read to their ends. The topics that follow from
// counters are read ahead of them, so that the values of an interval are needed only once.
func (b *Books) Next() (s Source, ok bool) {
	counters := b.least()
	if p, front, ok := recount.Behind(b.mergers, (*merger).front); ok && front <= counters {
		return Source{schemas.TopicPartials, p}, true
	}
	ahead := counters
	if counters != ended {
		ahead += aheadIntervals * b.lengthMs
	}
	if p, front, ok := recount.Behind(b.topic, (*summaryFront).front); ok && front <= ahead {
		return Source{schemas.TopicJobSummary, p}, true
	}
	if p, front, ok := recount.Behind(b.rejects.fronts, (*summaryFront).front); ok && front <= ahead {
		return Source{schemas.TopicRejects, p}, true
	}
	p, _, ok := recount.Behind(b.collectors, (*collector).Front)
	return Source{schemas.TopicCounters, p}, ok
}

// least returns the interval up to which all partitions of counters are folded.
func (b *Books) least() int64 {
	if _, front, ok := recount.Behind(b.collectors, (*collector).Front); ok {
		return front
	}
	return ended
}

// Add takes the next record of a partition.
func (b *Books) Add(s Source, e Entry) {
	b.decodeTwice(s, e)
	switch s.Topic {
	case schemas.TopicCounters:
		c := b.collectors[s.Partition]
		b.open(c.account, b.terms.Counters[s.Partition], e.Offset)
		c.apply(e)
		b.join()
	case schemas.TopicPartials:
		m := b.mergers[s.Partition]
		b.open(m.account, b.terms.Merges[s.Partition], e.Offset)
		m.apply(e)
		b.join()
	case schemas.TopicRejects:
		b.foundReject(s.Partition, e)
	default:
		b.summary(s.Partition, e)
	}
}

// open remembers the fates of the records before the offset at which the accounts are opened.
func (b *Books) open(a *Account, s Span, offset int64) {
	if b.opened[a] == nil && s.Opening != nil && offset >= s.OpenedAt {
		at := a.Fates
		b.opened[a] = &at
	}
}

// End takes the end of a partition.
func (b *Books) End(s Source) {
	switch s.Topic {
	case schemas.TopicCounters:
		c := b.collectors[s.Partition]
		b.open(c.account, b.terms.Counters[s.Partition], b.terms.Counters[s.Partition].Position)
		c.End()
		b.join()
	case schemas.TopicPartials:
		m := b.mergers[s.Partition]
		b.open(m.account, b.terms.Merges[s.Partition], b.terms.Merges[s.Partition].Position)
		m.ended = true
		b.join()
	case schemas.TopicRejects:
		b.rejects.fronts[s.Partition].ended = true
	default:
		b.topic[s.Partition].ended = true
	}
}

// Held returns the number of records, shares and summaries in memory. They belong to open intervals, or still lack
// their counterpart in another topic.
func (b *Books) Held() int {
	n := len(b.expected) + len(b.actual) + len(b.decided) + len(b.promised) + len(b.shares)
	n += len(b.rejects.expected) + len(b.rejects.actual)
	for _, c := range b.collectors {
		n += int(c.Held())
	}
	for _, s := range b.splits {
		for _, shares := range s.jobs {
			n += len(shares)
		}
	}
	for _, m := range b.mergers {
		for _, jobs := range m.windows {
			n += len(jobs)
		}
	}
	for _, jobs := range b.recent {
		n += len(jobs)
	}
	for _, r := range b.runs {
		n += len(r.words)
	}
	return n
}
