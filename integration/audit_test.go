package integration

import (
	"math/rand/v2"
	"testing"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/schemas"
)

// bookkept is an installation without brokers: the logs of the topics that an audit reads, and the last Progress of
// each partition.
type bookkept struct {
	t      *testing.T
	topics map[audit.Source][]audit.Entry
	terms  audit.Terms
}

// bookkeep lets both folds of the pipeline process the logs of counters, interval by interval.
func bookkeep(t *testing.T, l *foldLog) *bookkept {
	t.Helper()
	b := &bookkept{
		t: t, topics: map[audit.Source][]audit.Entry{},
		terms: audit.Terms{
			Cluster: foldCluster, Prefix: "weir.", Collectors: foldCollectors, Partials: 1, Summaries: 1,
			From: audit.Beginning, Only: -1, Counters: map[int32]audit.Span{}, Merges: map[int32]audit.Span{},
		},
	}
	put := func(topic string, appendedMs int64, r schemas.Record) processors.Entry {
		value, err := schemas.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		at := audit.Source{Topic: topic}
		e := processors.Entry{Offset: int64(len(b.topics[at])), AppendedMs: appendedMs, Value: value}
		b.topics[at] = append(b.topics[at], audit.Entry(e))
		return e
	}
	merger := processors.NewMerger(foldCluster, foldCollectors, nil)
	var merged schemas.ProgressCounts
	var folds [foldCollectors]*processors.Collector
	var counts [foldCollectors]schemas.ProgressCounts
	var read [foldCollectors]int
	for p := range folds {
		folds[p] = processors.NewCollector(foldCluster, int32(p), foldCollectors, nil)
	}
	for left := true; left; {
		left = false
		for p, log := range l.log {
			for closed := false; read[p] < len(log) && !closed; read[p]++ {
				r := log[read[p]]
				e := processors.Entry{Offset: r.Offset, AppendedMs: r.Timestamp.UnixMilli(), Value: r.Value}
				at := audit.Source{Topic: schemas.TopicCounters, Partition: int32(p)}
				b.topics[at] = append(b.topics[at], audit.Entry(e))
				fx := folds[p].Apply(e)
				addFates(&counts[p], fx.Counts)
				for _, out := range fx.Outputs {
					if s, whole := out.(*schemas.JobSummary); whole {
						put(schemas.TopicJobSummary, e.AppendedMs, s)
						continue
					}
					mx := merger.Apply(put(schemas.TopicPartials, e.AppendedMs, out))
					addFates(&merged, mx.Counts)
					for _, s := range mx.Outputs {
						put(schemas.TopicJobSummary, e.AppendedMs, s)
					}
				}
				left, closed = true, fx.Closes
			}
		}
	}
	for p := range folds {
		b.terms.Counters[int32(p)] = audit.Span{
			Position: int64(read[p]), Opening: &schemas.ProgressCounts{}, Closing: counts[p],
		}
	}
	b.terms.Merges[0] = audit.Span{
		Position: int64(len(b.topics[audit.Source{Topic: schemas.TopicPartials}])),
		Opening:  &schemas.ProgressCounts{}, Closing: merged,
	}
	return b
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

// auditedLog is a log that needs every rule. It is the same in every run.
func auditedLog(t *testing.T, intervals int64) *foldLog {
	l := &foldLog{t: t, r: rand.New(rand.NewPCG(7, 1))}
	for i := range intervals {
		l.interval(foldStart + i*foldT)
	}
	return l
}

// TestAuditAgreesWithTheFolds: an audit of what the pipeline's folds made of a log that needs every rule is clean.
func TestAuditAgreesWithTheFolds(t *testing.T) {
	report, _ := bookkeep(t, auditedLog(t, 30)).audited()
	for _, d := range report.Differences {
		t.Error(d)
	}
	s := report.Summaries
	t.Logf("%+v, notes %q", s, report.Notes)
	if s.Node == 0 || s.Exact == 0 || s.Estimated == 0 || s.Brackets == 0 || s.Shares == 0 || s.InFlight != 0 {
		t.Errorf("the log did not need every kind of summary: %+v", s)
	}
}
