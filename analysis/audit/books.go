package audit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Terms are what the audit is about.
type Terms struct {
	Cluster    string
	Prefix     string // of the topics, for messages
	Collectors int32  // partitions of counters
	Partials   int32  // partitions of partials
	Summaries  int32  // partitions of job-summary
	// Sketch is collect.sketch. Unless it is 0, each metric with values must have a certified summary.
	Sketch int
	// From is the first audited interval. The records of older ones may be gone.
	From int64
	// Only is the one partition of counters to audit, or -1: all. Split jobs need all.
	Only int32
	// Counters and Merges are where the accounts of the partitions of counters and partials begin and end.
	Counters, Merges map[int32]Span
}

// Span is what to audit of one partition of counters or partials.
type Span struct {
	From, Position int64
	// Opening and Closing are the fates that the service counted up to the offset OpenedAt and up to Position. Opening
	// is nil if no Progress has them.
	Opening  *schemas.ProgressCounts
	OpenedAt int64
	Closing  schemas.ProgressCounts
}

// Source is one partition of a topic.
type Source struct {
	Topic     string // schemas.TopicCounters, TopicPartials or TopicJobSummary
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

	expected map[jobInterval]*expectation // of no summary yet
	actual   map[jobInterval]*found       // of no expectation yet
	recent   map[int64]map[schemas.JobKey]bool
	splits   map[int64]*split // intervals with shares, until all partitions have closed them
	decided  map[jobInterval][]int32
	joined   int64 // intervals up to here have no shares any more
	promised map[shareKey]*share
	shares   map[shareKey]foundShare
	lengthMs int64 // of the last Tick

	waiting, mostWaiting int64 // values of expected
}

// split has the shares of an interval's split jobs, and of the machine.
type split struct {
	lengthMs int64
	jobs     map[schemas.JobKey]map[int32]*share
}

// found is a summary of the topic.
type found struct {
	*schemas.JobSummary
	partition int32
	offset    int64
}

// shareKey names one share of a split job.
type shareKey struct {
	jobInterval
	collector int32
}

// foundShare is a share of the topic.
type foundShare struct {
	header    schemas.JobPartial // without metrics
	partition int32
	offset    int64
}

// summaryFront is how far one partition of summaries was read.
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
	b.report.Runs, b.report.Archive = []*AgentRun{}, []*Chain{}
	b.report.Notes, b.report.Differences = []string{}, []Difference{}
	for p := range t.Collectors {
		if t.Only >= 0 && t.Only != p {
			continue
		}
		c := &collector{
			b: b, partition: p, account: b.account("collect", p, t.Counters[p]),
			closed: never, dropped: never, intervals: map[int64]*interval{},
		}
		b.collectors[p] = c
	}
	for p := range t.Partials {
		if t.Only >= 0 {
			break
		}
		b.mergers[p] = &merger{
			b: b, partition: p, position: t.Merges[p].Position, account: b.account("merge", p, t.Merges[p]),
			closed: never, dropped: never, watermarks: map[int32]int64{},
			windows: map[int64]map[schemas.JobKey]*merging{},
		}
	}
	for p := range t.Summaries {
		b.topic[p] = &summaryFront{start: never}
	}
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

// aheadIntervals is how many intervals the summaries are read ahead of the log that they come from.
const aheadIntervals = 4

// Next returns the partition to read next. It is not ok once all were read to their ends. The topics that follow from
// counters are read ahead of them, so that the values of an interval are needed only once.
func (b *Books) Next() (s Source, ok bool) {
	counters := b.least()
	if p, front, ok := behind(b.mergers, (*merger).front); ok && front <= counters {
		return Source{schemas.TopicPartials, p}, true
	}
	ahead := counters
	if counters != ended {
		ahead += aheadIntervals * b.lengthMs
	}
	if p, front, ok := behind(b.topic, (*summaryFront).front); ok && front <= ahead {
		return Source{schemas.TopicJobSummary, p}, true
	}
	p, _, ok := behind(b.collectors, (*collector).front)
	return Source{schemas.TopicCounters, p}, ok
}

// least returns the interval up to which all partitions of counters are folded.
func (b *Books) least() int64 {
	if _, front, ok := behind(b.collectors, (*collector).front); ok {
		return front
	}
	return ended
}

// behind returns the partition that is furthest behind. It is not ok if all are at their ends.
func behind[V any](all map[int32]V, front func(V) int64) (partition int32, at int64, ok bool) {
	at = ended
	for p, v := range all {
		if f := front(v); f < at || f == at && ok && p < partition {
			partition, at, ok = p, f, true
		}
	}
	return partition, at, ok
}

// Add takes the next record of a partition.
func (b *Books) Add(s Source, e Entry) {
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
	default:
		b.summary(s.Partition, e)
	}
}

// open remembers the fates of the records before the offset where the accounts are opened.
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
		c.ended = true
		b.join()
	case schemas.TopicPartials:
		m := b.mergers[s.Partition]
		b.open(m.account, b.terms.Merges[s.Partition], b.terms.Merges[s.Partition].Position)
		m.ended = true
		b.join()
	default:
		b.topic[s.Partition].ended = true
	}
}

// due takes the share of a job that a Tick has closed.
func (b *Books) due(w jobInterval, lengthMs int64, s *share) {
	b.lengthMs = lengthMs
	if w.start < b.terms.From {
		return
	}
	if s.parts == 1 && w.job.JobID != schemas.JobSystem {
		b.expect(expectWhole(w, lengthMs, s))
		return
	}
	if b.terms.Only >= 0 {
		return
	}
	at := b.splits[w.start]
	if at == nil {
		at = &split{lengthMs, map[schemas.JobKey]map[int32]*share{}}
		b.splits[w.start] = at
	}
	if at.jobs[w.job] == nil {
		at.jobs[w.job] = map[int32]*share{}
	}
	at.jobs[w.job][s.partition] = s
	key := shareKey{w, s.partition}
	if f, ok := b.shares[key]; ok {
		b.compareShare(key, s, f)
		delete(b.shares, key)
		return
	}
	b.promised[key] = &share{offset: s.offset, parts: s.parts, jobNodes: s.jobNodes, nodes: s.nodes}
}

// found takes a share of the topic partials.
func (b *Books) found(partition int32, e Entry, p *schemas.JobPartial) {
	if p.IntervalStart < b.terms.From {
		return
	}
	key := shareKey{jobInterval{schemas.JobKey{JobID: p.JobID, Restart: p.Restart}, p.IntervalStart}, p.Collector}
	header := *p
	header.Metrics, header.Shared = nil, nil
	f := foundShare{header, partition, e.Offset}
	if s := b.promised[key]; s != nil {
		b.compareShare(key, s, f)
		delete(b.promised, key)
		return
	}
	if _, twice := b.shares[key]; twice || p.IntervalStart <= b.collectors[p.Collector].closed {
		b.report.differ(b.shareDifference(key, f, "a second share, or one that no Tick lists"))
		return
	}
	b.shares[key] = f
}

func (b *Books) shareDifference(key shareKey, f foundShare, text string) Difference {
	return key.mark(Difference{
		Kind: KindShare, Topic: b.terms.Prefix + schemas.TopicPartials, Partition: f.partition, Offset: &f.offset,
		Text: fmt.Sprintf("of collector %d: %s", key.collector, text),
	})
}

// compareShare compares the header of a share with the log of counters. Its numbers are compared in the summary.
func (b *Books) compareShare(key shareKey, s *share, f foundShare) {
	b.report.Summaries.Shares++
	h := f.header
	if h.Parts != s.parts || key.job.JobID != schemas.JobSystem &&
		(h.JobNodes != s.jobNodes || int(h.NodesExpected) != len(s.nodes) || h.NodesReported != s.reported()) {
		b.report.differ(b.shareDifference(key, f, fmt.Sprintf(
			"parts %d, nodes %d of %d: recomputed %d, %d of %d",
			h.Parts, h.NodesReported, h.NodesExpected, s.parts, s.reported(), len(s.nodes))))
	}
}

// merged notes which collectors' shares a summary must have.
func (b *Books) merged(w jobInterval, collectors []int32) {
	if w.start >= b.terms.From && w.start > b.joined {
		b.decided[w] = collectors
	}
}

// join makes the expectations of the split jobs of all intervals that every partition has closed, and whose shares
// were all read.
func (b *Books) join() {
	least := b.least()
	if _, front, ok := behind(b.mergers, (*merger).front); ok {
		least = min(least, front)
	}
	if least <= b.joined {
		return
	}
	for _, start := range slices.Sorted(maps.Keys(b.splits)) {
		if start > least {
			break
		}
		at := b.splits[start]
		for _, job := range slices.SortedFunc(maps.Keys(at.jobs), byJob) {
			b.joinShares(jobInterval{job, start}, at.lengthMs, at.jobs[job])
		}
		delete(b.splits, start)
	}
	b.joined = least
	if b.terms.Only >= 0 {
		maps.DeleteFunc(b.actual, func(w jobInterval, _ *found) bool { return w.start <= least })
	}
	for start := range b.recent {
		if least != ended && start < least-config.Outage*b.lengthMs {
			delete(b.recent, start)
		}
	}
}

func byJob(a, b schemas.JobKey) int {
	return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
}

// joinShares makes the expectation of a split job, if merge has emitted its summary.
func (b *Books) joinShares(w jobInterval, lengthMs int64, shares map[int32]*share) {
	collectors, decided := b.decided[w]
	delete(b.decided, w)
	if !decided {
		return
	}
	var has []*share
	for _, c := range collectors {
		if s := shares[c]; s != nil {
			has = append(has, s)
			continue
		}
		b.report.differ(w.mark(Difference{
			Kind: KindShare, Topic: b.terms.Prefix + schemas.TopicCounters, Partition: c,
			Text: "merge has a share of it, and no Tick of this partition lists it",
		}))
	}
	if len(has) == len(collectors) {
		b.expect(expectMerged(w, lengthMs, has))
	}
}

// expect compares a summary with what it must be, or waits for it.
func (b *Books) expect(e *expectation) {
	if s := b.actual[e.jobInterval]; s != nil {
		delete(b.actual, e.jobInterval)
		b.compare(e, s)
		return
	}
	for _, m := range e.metrics {
		if b.waiting+m.truth.size() > b.mostWaiting {
			m.truth = truth{}
		}
		b.waiting += m.truth.size()
	}
	b.expected[e.jobInterval] = e
}

// mostWaiting bounds how many values wait for their summaries: 64 MiB. Summaries that came late exceed it.
const mostWaiting = 8 << 20

var errNotSummary = errors.New("not a JobSummary")

// summary takes a record of the topic job-summary.
func (b *Books) summary(partition int32, e Entry) {
	value, err := schemas.Unmarshal(e.Value)
	s, ok := value.(*schemas.JobSummary)
	if err != nil || !ok {
		b.report.differ(Difference{
			Kind: KindSummary, Topic: b.terms.Prefix + schemas.TopicJobSummary, Partition: partition, Offset: &e.Offset,
			Text: fmt.Sprintf("it cannot be read: %v", cmp.Or(err, errNotSummary)),
		})
		return
	}
	w := intervalOf(s)
	b.topic[partition].start = max(b.topic[partition].start, w.start)
	if w.start < b.terms.From {
		return
	}
	f := &found{s, partition, e.Offset}
	if want := b.expected[w]; want != nil {
		delete(b.expected, w)
		for _, m := range want.metrics {
			b.waiting -= m.truth.size()
		}
		b.compare(want, f)
		return
	}
	if b.terms.Only >= 0 && w.start <= b.joined {
		return // of another partition
	}
	if b.actual[w] != nil || b.recent[w.start][w.job] {
		b.differ(f, "a second summary of this interval")
		return
	}
	b.actual[w] = f
}

func (b *Books) differ(f *found, text string) {
	b.report.differ(intervalOf(f.JobSummary).mark(Difference{
		Kind: KindSummary, Topic: b.terms.Prefix + schemas.TopicJobSummary, Partition: f.partition, Offset: &f.offset,
		Text: text,
	}))
}

func (b *Books) compare(e *expectation, f *found) {
	tally := &b.report.Summaries
	tally.Recomputed++
	*map[string]*int64{
		schemas.MethodNode: &tally.Node, schemas.MethodExact: &tally.Exact, schemas.MethodEstimated: &tally.Estimated,
	}[f.Method]++
	if err := e.compare(&b.terms, f.JobSummary, tally); err != nil {
		b.differ(f, err.Error())
	}
	if b.recent[e.start] == nil {
		b.recent[e.start] = map[schemas.JobKey]bool{}
	}
	b.recent[e.start][e.job] = true
}

// Held returns how many records, shares and summaries are in memory. They are of open intervals, or one topic has them
// and another one not yet.
func (b *Books) Held() int {
	n := len(b.expected) + len(b.actual) + len(b.decided) + len(b.promised) + len(b.shares)
	for _, c := range b.collectors {
		for _, i := range c.intervals {
			n += int(i.records)
		}
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
