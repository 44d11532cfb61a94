package audit

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/weirhpc/weir/schemas"
)

// expect compares a summary with its expectation, or waits for it.
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

// found is a summary of the topic.
type found struct {
	*schemas.JobSummary
	partition int32
	offset    int64
}
