package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// due takes the share of a job when a Tick closes it.
func (b *Books) due(w jobInterval, lengthMs int64, s *share) {
	b.lengthMs = lengthMs
	if w.start < b.terms.From {
		return
	}
	if s.Parts == 1 && w.job.JobID != schemas.JobSystem {
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
	at.jobs[w.job][s.Partition] = s
	key := shareKey{w, s.Partition}
	if f, ok := b.shares[key]; ok {
		b.compareShare(key, s, f)
		delete(b.shares, key)
		return
	}
	header := *s.Share
	header.Records = nil
	b.promised[key] = &share{Share: &header}
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
	if _, twice := b.shares[key]; twice || p.IntervalStart <= b.collectors[p.Collector].Closed() {
		b.report.differ(b.shareDifference(key, f, "a second share, or one that no Tick lists"))
		return
	}
	b.shares[key] = f
}

func (b *Books) shareDifference(key shareKey, f foundShare, text string) Difference {
	return key.mark(Difference{
		Kind: kindShare, Topic: b.terms.Prefix + schemas.TopicPartials, Partition: f.partition, Offset: &f.offset,
		Text: fmt.Sprintf("of collector %d: %s", key.collector, text),
	})
}

// compareShare compares the header of a share with the log of counters. Its numbers are compared in the summary.
func (b *Books) compareShare(key shareKey, s *share, f foundShare) {
	b.report.Summaries.Shares++
	h := f.header
	if h.Parts != s.Parts || key.job.JobID != schemas.JobSystem &&
		(h.JobNodes != s.JobNodes || int(h.NodesExpected) != len(s.Nodes) || h.NodesReported != s.Reported()) {
		b.report.differ(b.shareDifference(key, f, fmt.Sprintf(
			"parts %d, nodes %d of %d: recomputed %d, %d of %d",
			h.Parts, h.NodesReported, h.NodesExpected, s.Parts, s.Reported(), len(s.Nodes))))
	}
}

// merged notes which collectors' shares a summary must have.
func (b *Books) merged(w jobInterval, collectors []int32) {
	if w.start >= b.terms.From && w.start > b.joined {
		b.decided[w] = collectors
	}
}

// join makes the expectations of the split jobs of all intervals that every partition has closed, once all their shares
// were read.
func (b *Books) join() {
	least := b.least()
	if _, front, ok := recount.Behind(b.mergers, (*merger).front); ok {
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

// joinShares makes the expectation of a split job if merge has emitted its summary.
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
			Kind: kindShare, Topic: b.terms.Prefix + schemas.TopicCounters, Partition: c,
			Text: "merge has a share of it, and no Tick of this partition lists it",
		}))
	}
	if len(has) == len(collectors) {
		b.expect(expectMerged(w, lengthMs, has))
	}
}

// split holds the shares of an interval's split jobs, and of the machine.
type split struct {
	lengthMs int64
	jobs     map[schemas.JobKey]map[int32]*share
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
