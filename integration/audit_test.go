package integration

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// auditedSketch makes certified summaries of all three forms from auditedLog.
const auditedSketch = 210

// bookkept is an installation without brokers: the logs of the topics that an audit reads, and the last Progress of
// each partition.
type bookkept struct {
	t       *testing.T
	topics  map[audit.Source][]audit.Entry
	terms   audit.Terms
	history []moment // after each record of counters
	now     moment
}

// moment is how far the folds were at some time.
type moment struct {
	read, closed        [foldCollectors]int64
	counts              [foldCollectors]schemas.ProgressCounts
	merged              schemas.ProgressCounts
	mergeClosed         int64
	partials, summaries int64
	rejects             int64
}

// bookkeep lets both folds of the pipeline process the logs of counters, interval by interval. see replaces the records
// that the folds get; it may be nil. Partitions in lags are folded after all others.
func bookkeep(t *testing.T, l *foldLog, see func(partition int, value []byte) []byte, lags ...int) *bookkept {
	t.Helper()
	return bookkeepSketches(t, l, auditedSketch, see, lags...)
}

// bookkeepSketches is bookkeep with another collect.sketch.
func bookkeepSketches(
	t *testing.T, l *foldLog, sketch int, see func(partition int, value []byte) []byte, lags ...int,
) *bookkept {
	t.Helper()
	b := &bookkept{
		t: t, topics: map[audit.Source][]audit.Entry{},
		terms: audit.Terms{
			Cluster: foldCluster, Prefix: "weir.", Collectors: foldCollectors, Partials: 1, Summaries: 1,
			Sketch: sketch, From: audit.Beginning, Only: -1, Rejects: 1, RejectsSince: audit.Beginning,
			DecodedOneIn: 1,
			Counters:     map[int32]audit.Span{}, Merges: map[int32]audit.Span{},
		},
	}
	put := func(topic string, appendedMs int64, r schemas.Record) fold.Entry {
		value, err := schemas.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		at := audit.Source{Topic: topic}
		e := fold.Entry{Offset: int64(len(b.topics[at])), AppendedMs: appendedMs, Value: value}
		b.topics[at] = append(b.topics[at], audit.Entry(e))
		return e
	}
	merger := fold.NewMerger(foldCluster, foldCollectors, nil)
	merger.Sketch = sketch
	var merged schemas.ProgressCounts
	var folds [foldCollectors]*fold.Collector
	var counts [foldCollectors]schemas.ProgressCounts
	var read [foldCollectors]int
	for p := range folds {
		folds[p] = fold.NewCollector(foldCluster, int32(p), foldCollectors, nil)
		folds[p].Sketch = sketch
	}
	for left, late := true, false; left || !late; {
		late = !left
		left = false
		for p, log := range l.log {
			if !late && slices.Contains(lags, p) {
				continue
			}
			for closed := false; read[p] < len(log) && !closed; {
				r := log[read[p]]
				read[p]++
				e := fold.Entry{Offset: r.Offset, AppendedMs: r.Timestamp.UnixMilli(), Value: r.Value}
				at := audit.Source{Topic: schemas.TopicCounters, Partition: int32(p)}
				b.topics[at] = append(b.topics[at], audit.Entry(e))
				if see != nil {
					e.Value = see(p, e.Value)
				}
				if e.Value == nil {
					continue
				}
				fx := folds[p].Apply(e)
				addFates(&counts[p], fx.Counts)
				for _, x := range fx.Rejects {
					put(schemas.TopicRejects, e.AppendedMs, rejectOf(schemas.TopicCounters, p, x.Offset, x.Value))
				}
				for _, out := range fx.Outputs {
					if s, whole := out.(*schemas.JobSummary); whole {
						put(schemas.TopicJobSummary, e.AppendedMs, s)
						continue
					}
					mx := merger.Apply(put(schemas.TopicPartials, e.AppendedMs, out))
					addFates(&merged, mx.Counts)
					for _, x := range mx.Rejects {
						put(schemas.TopicRejects, e.AppendedMs, rejectOf(schemas.TopicPartials, 0, x.Offset, x.Value))
					}
					for _, s := range mx.Outputs {
						put(schemas.TopicJobSummary, e.AppendedMs, s)
					}
				}
				left, closed = true, fx.Closes
				if b.now.read[p], b.now.counts[p], b.now.merged = int64(read[p]), counts[p], merged; fx.Closes {
					b.now.closed[p] = *folds[p].Progress(0).Closed
				}
				if c := merger.Progress(0).Closed; c != nil {
					b.now.mergeClosed = *c
				}
				b.now.partials = int64(len(b.topics[audit.Source{Topic: schemas.TopicPartials}]))
				b.now.summaries = int64(len(b.topics[audit.Source{Topic: schemas.TopicJobSummary}]))
				b.now.rejects = int64(len(b.topics[audit.Source{Topic: schemas.TopicRejects}]))
				b.history = append(b.history, b.now)
			}
		}
	}
	b.end(b.now, b.now, b.now)
	return b
}

// clone returns a copy that end, begin and errors may change.
func (b *bookkept) clone() *bookkept {
	c := *b
	c.topics = map[audit.Source][]audit.Entry{}
	for s, log := range b.topics {
		c.topics[s] = slices.Clone(log)
	}
	c.terms.Counters, c.terms.Merges = maps.Clone(b.terms.Counters), maps.Clone(b.terms.Merges)
	return &c
}

// end limits the installation to the view of an audit that read the positions of merge, then those of collect, then the
// ends of the topics.
func (b *bookkept) end(merge, collect, ends moment) {
	for p := range foldCollectors {
		at := audit.Source{Topic: schemas.TopicCounters, Partition: int32(p)}
		b.topics[at] = b.topics[at][:ends.read[p]]
		b.terms.Counters[int32(p)] = audit.Span{
			Position: collect.read[p], Opening: &schemas.ProgressCounts{}, Closing: collect.counts[p],
			Later: ends.read[p],
		}
	}
	b.terms.Merges[0] = audit.Span{
		Position: merge.partials, Opening: &schemas.ProgressCounts{}, Closing: merge.merged,
		Later: ends.partials,
	}
	partials, summaries := audit.Source{Topic: schemas.TopicPartials}, audit.Source{Topic: schemas.TopicJobSummary}
	b.topics[partials], b.topics[summaries] = b.topics[partials][:ends.partials], b.topics[summaries][:ends.summaries]
	rejects := audit.Source{Topic: schemas.TopicRejects}
	b.topics[rejects] = b.topics[rejects][:ends.rejects]
}

// begin limits the installation to topics that retention has shortened to the records since a moment.
func (b *bookkept) begin(since moment) {
	const slackMs = 10_000
	cutTo := func(topic string, partition, offset int64) {
		at := audit.Source{Topic: topic, Partition: int32(partition)}
		b.topics[at] = slices.DeleteFunc(b.topics[at], func(e audit.Entry) bool { return e.Offset < offset })
		b.terms.From = max(b.terms.From, b.topics[at][0].AppendedMs+2*slackMs)
	}
	cutTo(schemas.TopicPartials, 0, since.partials)
	cutTo(schemas.TopicJobSummary, 0, since.summaries)
	for p := range int64(foldCollectors) {
		cutTo(schemas.TopicCounters, p, since.read[p])
	}
	for p := range int32(foldCollectors) {
		s := b.terms.Counters[p]
		i := slices.IndexFunc(b.history, func(m moment) bool { return m.closed[p] >= b.terms.From })
		s.Opening, s.OpenedAt, s.From = &b.history[i].counts[p], b.history[i].read[p], since.read[p]
		b.terms.Counters[p] = s
	}
	s := b.terms.Merges[0]
	i := slices.IndexFunc(b.history, func(m moment) bool { return m.mergeClosed >= b.terms.From })
	s.Opening, s.OpenedAt, s.From = &b.history[i].merged, b.history[i].partials, since.partials
	b.terms.Merges[0] = s
}

func addFates(sum *schemas.ProgressCounts, c schemas.ProgressCounts) {
	sum.Summarized += c.Summarized
	sum.Rejected += c.Rejected
	sum.Late += c.Late
	sum.Dropped += c.Dropped
	sum.Duplicate += c.Duplicate
	sum.Misrouted += c.Misrouted
	sum.Ended += c.Ended
	sum.Gaps += c.Gaps
	sum.Ticks += c.Ticks
	sum.Outputs += c.Outputs
}

// audited hands all logs to an audit, in the order that it asks for. It returns the report, and the most that the audit
// held at a time.
func (b *bookkept) audited() (r *audit.Report, held int) {
	books := audit.NewBooks(b.terms)
	read := map[audit.Source]int{}
	for s, ok := books.Next(); ok; s, ok = books.Next() {
		if log := b.topics[s]; read[s] < len(log) {
			books.Add(s, log[read[s]])
			read[s]++
		} else {
			books.End(s)
		}
		held = max(held, books.Held())
	}
	return books.Close(), held
}

// auditedLog returns a log that exercises every rule. It is the same in every run.
func auditedLog(t *testing.T, intervals int64) *foldLog {
	l := &foldLog{t: t, r: rand.New(rand.NewPCG(7, 1))}
	for i := range intervals {
		l.interval(foldStart + i*foldT)
	}
	return l
}

// TestAuditAgreesWithTheFolds: the audit of a log that exercises every rule, folded by the pipeline's folds, is clean
// with each collect.sketch.
func TestAuditAgreesWithTheFolds(t *testing.T) {
	t.Parallel()
	log := auditedLog(t, 30)
	for _, sketch := range []int{512, 210, 0} {
		report, _ := bookkeepSketches(t, log, sketch, nil).audited()
		for _, d := range report.Differences {
			t.Error(sketch, d)
		}
		s := report.Summaries
		t.Logf("%d: %+v, notes %q", sketch, s, report.Notes)
		if d := report.Decoded; d.Twice < d.Read*9/10 || d.Twice+d.Malformed != d.Read {
			t.Errorf("%+v", d)
		}
		if s.Node == 0 || s.Exact == 0 || s.Estimated == 0 || s.Brackets == 0 || s.Shares == 0 || s.InFlight != 0 {
			t.Errorf("the log did not need every kind of summary: %+v", s)
		}
		if (s.Certified > 0) != (sketch > 0) {
			t.Errorf("collect.sketch is %d: %d certified summaries", sketch, s.Certified)
		}
	}
}

// TestAuditOfARunningSystem: positions and ends are read while the folds go on. Data in flight is no difference.
func TestAuditOfARunningSystem(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 1))
	inFlight, recomputed := int64(0), int64(0)
	all := bookkeep(t, auditedLog(t, 6), nil)
	for range 40 {
		b := all.clone()
		at := []int{r.IntN(len(b.history)), r.IntN(len(b.history)), r.IntN(len(b.history))}
		slices.Sort(at)
		if r.IntN(2) == 0 { // soon after each other, as they are read
			at[1], at[2] = min(at[0]+r.IntN(20), at[1]), min(at[0]+20+r.IntN(20), at[2])
		}
		b.end(b.history[at[0]], b.history[at[1]], b.history[at[2]])
		report, _ := b.audited()
		for _, d := range report.Differences {
			t.Error(at, d)
		}
		inFlight, recomputed = inFlight+report.Summaries.InFlight, recomputed+report.Summaries.Recomputed
	}
	if inFlight == 0 || recomputed == 0 {
		t.Errorf("%d summaries were in flight, %d recomputed: the runs prove nothing about them", inFlight, recomputed)
	}
}

// TestAuditBeginsAnywhere: retention has deleted the beginning of every topic. The audit covers the intervals that all
// topics hold completely, and compares the fates beginning at a Progress within them.
func TestAuditBeginsAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 1))
	all := bookkeep(t, auditedLog(t, 45), nil)
	for range 5 {
		b := all.clone()
		b.begin(b.history[r.IntN(len(b.history)/3)])
		report, _ := b.audited()
		for _, d := range report.Differences {
			t.Error(d)
		}
		if report.Summaries.Recomputed == 0 || report.Summaries.Estimated == 0 {
			t.Errorf("nothing was recomputed from %d on", b.terms.From)
		}
		for _, a := range report.Partitions {
			if a.Compared == nil || a.Compared.Summarized == 0 {
				t.Errorf("the fates of %s %d were not compared", a.Stage, a.Partition)
			}
		}
	}
}

// TestAuditHoldsOpenIntervals: the memory of an audit does not grow with the log.
func TestAuditHoldsOpenIntervals(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	_, short := bookkeep(t, auditedLog(t, 70), nil).audited()
	_, long := bookkeep(t, auditedLog(t, 120), nil).audited()
	t.Logf("%d things in 70 intervals, %d in 120", short, long)
	if long > short+short/10 {
		t.Errorf("an audit of 70 intervals held %d records, shares and summaries; one of 120 held %d", short, long)
	}
}

// TestAuditOfOnePartition: an audit of one partition compares its fates and its whole jobs, and nothing of others.
func TestAuditOfOnePartition(t *testing.T) {
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 20), nil)
	b.terms.Only = 1
	report, held := b.audited()
	for _, d := range report.Differences {
		t.Error(d)
	}
	if report.Summaries.Exact == 0 || report.Summaries.Shares != 0 || len(report.Partitions) != 1 || held > 700 {
		t.Errorf("%+v, %d held, %d partitions", report.Summaries, held, len(report.Partitions))
	}
}

// TestAuditOfALaggingCollector: a collector is 75 intervals behind. After 64, merge goes on without its shares, and the
// audit knows the shares in each summary.
func TestAuditOfALaggingCollector(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	report, _ := bookkeep(t, auditedLog(t, 75), nil, 1).audited()
	for _, d := range report.Differences {
		t.Error(d)
	}
	merge := report.Partitions[len(report.Partitions)-1].Fates
	if merge.Late == 0 || report.Summaries.Estimated == 0 || report.Summaries.InFlight != 0 {
		t.Errorf("no share came late: %+v, %+v", merge, report.Summaries)
	}
}

// TestAuditOfAnOutageOfTheBalancer: no Tick comes for 70 intervals. Records are dropped, and the audit counts them.
func TestAuditOfAnOutageOfTheBalancer(t *testing.T) {
	t.Parallel()
	l := auditedLog(t, 80)
	for p := range l.log {
		l.log[p] = slices.DeleteFunc(l.log[p], func(r *kgo.Record) bool {
			v, err := schemas.Unmarshal(r.Value)
			tick, ok := v.(*schemas.Tick)
			i := int64(0)
			if err == nil && ok {
				i = (tick.IntervalStart - foldStart) / foldT
			}
			return i >= 5 && i < 75
		})
		for o, r := range l.log[p] {
			r.Offset = int64(o)
		}
	}
	report, _ := bookkeep(t, l, nil).audited()
	for _, d := range report.Differences {
		t.Error(d)
	}
	for _, a := range report.Partitions[:foldCollectors] {
		if a.Fates.Dropped == 0 || a.Fates.Misrouted == 0 || a.Fates.Summarized == 0 {
			t.Errorf("partition %d: %+v", a.Partition, a.Fates)
		}
	}
}

// standing returns an installation in which a collector has read nothing, while all others closed some intervals. No
// topic contains output of this collector.
func standing(t *testing.T, collector int, intervals int64) *bookkept {
	b := bookkeep(t, auditedLog(t, intervals), nil, collector)
	first := slices.IndexFunc(b.history, func(m moment) bool { return m.read[collector] > 0 })
	b.history = b.history[:first]
	last := b.history[first-1]
	b.end(last, last, last)
	return b
}

// TestAuditOfAStandingCollector: one collector stands still. That excuses no missing summary or share of the others,
// and none of its own either, because it has committed nothing.
func TestAuditOfAStandingCollector(t *testing.T) {
	t.Parallel()
	const stands = 1
	all := standing(t, stands, 20)
	report, _ := all.audited()
	for _, d := range report.Differences {
		t.Error(d)
	}
	if s := report.Summaries; s.InFlight != 0 || s.Node == 0 || s.Exact == 0 {
		t.Errorf("nothing was in flight: %+v", s)
	}
	summaries, partials := audit.Source{Topic: schemas.TopicJobSummary}, audit.Source{Topic: schemas.TopicPartials}
	forge := func(at audit.Source, change func(r schemas.Record)) {
		t.Helper()
		b := all.clone()
		log := b.topics[at]
		for i := len(log) - 1; i >= 0; i-- {
			v, err := schemas.Unmarshal(log[i].Value)
			if _, is := v.(*schemas.Watermark); err != nil || is {
				continue
			}
			change(v)
			b.topics[at] = append(log, audit.Entry{
				Offset: int64(len(log)), AppendedMs: log[i].AppendedMs, Value: b.marshal(v),
			})
			break
		}
		report, _ := b.audited()
		if report.Found != 1 || report.Differences[0].JobID == nil || *report.Differences[0].JobID != "forged" {
			t.Errorf("a forged record on %s: %v, %d in flight", at.Topic, report.Differences, report.Summaries.InFlight)
		}
	}
	for _, parts := range []int32{1, 2} {
		forge(summaries, func(r schemas.Record) {
			s := r.(*schemas.JobSummary)
			s.JobID, s.Parts, s.PartsReported = "forged", parts, parts
		})
	}
	forge(partials, func(r schemas.Record) {
		p := r.(*schemas.JobPartial)
		p.JobID, p.Collector = "forged", stands
	})
}
