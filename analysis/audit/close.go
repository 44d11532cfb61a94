package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"
)

// Close compares the rest after all partitions were read to their ends, and returns the report.
func (b *Books) Close() *Report {
	r := &b.report
	if b.terms.From != never {
		r.FromMs = &b.terms.From
	}
	closed := int64(ended)
	for _, c := range b.collectors {
		c.account.Open = c.open()
		closed = min(closed, c.Closed())
	}
	if closed != never && closed != ended {
		r.ToMs = &closed
	}
	for _, a := range r.Partitions {
		b.compareFates(a)
	}
	if n := r.Summaries.unheld; n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf(
			"%d certified summaries came long after others of their interval: not compared with the values", n))
	}
	b.missing()
	b.extra()
	b.closeRejects()
	for _, key := range slices.SortedFunc(maps.Keys(b.runs), func(x, y [2]string) int {
		return cmp.Or(strings.Compare(x[0], y[0]), strings.Compare(x[1], y[1]))
	}) {
		if b.terms.Only < 0 { // the numbers of a run are in several partitions
			b.runs[key].close(r, b.terms.Prefix+schemas.TopicCounters)
		}
		r.Runs = append(r.Runs, b.runs[key])
	}
	return r
}

// compareFates compares the fates between two Progress with the fates that the service counted.
func (b *Books) compareFates(a *Account) {
	topic, span := schemas.TopicCounters, b.terms.Counters[a.Partition]
	if a.Stage == "merge" {
		topic, span = schemas.TopicPartials, b.terms.Merges[a.Partition]
	}
	if b.opened[a] == nil {
		b.report.Notes = append(b.report.Notes, fmt.Sprintf(
			"%s %d: its fates are not compared, since topic %s has no Progress of the audited time to begin from",
			a.Stage, a.Partition, map[string]string{"collect": "progress", "merge": "merge-progress"}[a.Stage]))
		return
	}
	compared, counted := a.Fates.minus(*b.opened[a]), fatesOf(span.Closing).minus(fatesOf(*span.Opening))
	a.Compared, a.Counted = &compared, &counted
	offset := a.Position
	for i, n := range compared.named() {
		if got := *counted.named()[i].count; got != *n.count {
			b.report.differ(Difference{
				Kind: kindFates, Topic: b.terms.Prefix + topic, Partition: a.Partition, Offset: &offset,
				Text: fmt.Sprintf("%s: Progress counts %d from offset %d on, recomputed %d",
					n.name, got, span.OpenedAt, *n.count),
			})
		}
	}
}

// missing reports the summaries and shares that the positions promise and the topics lack.
func (b *Books) missing() {
	for _, w := range slices.SortedFunc(maps.Keys(b.expected), byInterval) {
		e := b.expected[w]
		b.report.differ(w.mark(Difference{
			Kind: KindSummary, Topic: b.terms.Prefix + schemas.TopicCounters, Partition: e.partition, Offset: &e.offset,
			Text: "it was folded, and topic job-summary lacks its summary",
		}))
	}
	for _, key := range slices.SortedFunc(maps.Keys(b.promised), byShare) {
		b.report.differ(key.mark(Difference{
			Kind: kindShare, Topic: b.terms.Prefix + schemas.TopicCounters, Partition: key.collector,
			Offset: &b.promised[key].Offset, Text: "it was folded, and topic partials lacks its share",
		}))
	}
}

// extra reports the summaries and shares that nothing explains.
func (b *Books) extra() {
	for _, w := range slices.SortedFunc(maps.Keys(b.actual), byInterval) {
		if b.inFlight(w, b.actual[w].JobSummary) {
			b.report.Summaries.InFlight++
			continue
		}
		b.differ(b.actual[w], "no Tick lists it, or it is a second summary of this interval")
	}
	for _, key := range slices.SortedFunc(maps.Keys(b.shares), byShare) {
		if !b.collectors[key.collector].ahead[key.jobInterval] {
			b.report.differ(b.shareDifference(key, b.shares[key], "no Tick lists it"))
		}
	}
}

// inFlight reports whether a summary may have been committed between the positions and the ends of the topics. An idle
// partition has committed nothing.
func (b *Books) inFlight(w jobInterval, s *schemas.JobSummary) bool {
	if s.Parts != 1 || w.job.JobID == schemas.JobSystem {
		for _, m := range b.mergers {
			if m.emitting(w) {
				return true
			}
		}
		return false
	}
	for _, c := range b.collectors {
		if c.ahead[w] {
			return true
		}
	}
	return false
}

func byInterval(a, b jobInterval) int {
	return cmp.Or(cmp.Compare(a.start, b.start), byJob(a.job, b.job))
}

func byShare(a, b shareKey) int {
	return cmp.Or(byInterval(a.jobInterval, b.jobInterval), cmp.Compare(a.collector, b.collector))
}
