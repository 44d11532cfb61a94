package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"
)

// rejects compares the records that the folds reject with topic rejects.
type rejects struct {
	fronts   map[int32]*summaryFront // by append time
	expected map[rejectKey]rejection
	actual   map[rejectKey]foundReject
	// forgotten holds, for each partition, the offset up to which Rejects may have been deleted.
	forgotten map[rejectKey]int64
}

// rejectKey names a rejected record.
type rejectKey struct {
	topic     string // with its prefix
	partition int32
	offset    int64
}

func byReject(a, b rejectKey) int {
	return cmp.Or(
		strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
}

// rejection is the expected content of a Reject.
type rejection struct {
	hash string
	head []byte
}

// log returns the key of the partition.
func (k rejectKey) log() rejectKey { return rejectKey{k.topic, k.partition, 0} }

// maxHead is the number of bytes of a record that a Reject keeps.
const maxHead = 1024

// foundReject is a record of topic rejects.
type foundReject struct {
	rejection
	partition int32
	offset    int64
}

func newRejects(partitions int32) rejects {
	r := rejects{
		map[int32]*summaryFront{}, map[rejectKey]rejection{}, map[rejectKey]foundReject{}, map[rejectKey]int64{},
	}
	for p := range partitions {
		r.fronts[p] = &summaryFront{start: never}
	}
	return r
}

// rejected takes a record that the fold of a partition rejects. The Reject of an old record may be deleted already.
func (b *Books) rejected(topic string, a *Account, e Entry) {
	if b.opened[a] == nil || len(b.rejects.fronts) == 0 {
		return
	}
	key := rejectKey{b.terms.Prefix + topic, a.Partition, e.Offset}
	if e.AppendedMs < b.terms.RejectsSince {
		b.rejects.forgotten[key.log()] = max(b.rejects.forgotten[key.log()], e.Offset+1)
		return
	}
	hash := sha256.Sum256(e.Value)
	want := rejection{hex.EncodeToString(hash[:]), bytes.Clone(e.Value[:min(len(e.Value), maxHead)])}
	if f, ok := b.rejects.actual[key]; ok {
		delete(b.rejects.actual, key)
		b.compareReject(key, want, f)
		return
	}
	b.rejects.expected[key] = want
}

// foundReject takes a record of topic rejects.
func (b *Books) foundReject(partition int32, e Entry) {
	front := b.rejects.fronts[partition]
	front.start = max(front.start, e.AppendedMs)
	value, err := schemas.Unmarshal(e.Value)
	r, ok := value.(*schemas.Reject)
	if err != nil || !ok {
		b.report.differ(Difference{
			Kind: KindReject, Topic: b.terms.Prefix + schemas.TopicRejects, Partition: partition, Offset: &e.Offset,
			Text: fmt.Sprintf("it cannot be read: %v", cmp.Or(err, errForeign)),
		})
		return
	}
	key := rejectKey{r.Topic, r.Partition, r.Offset}
	f := foundReject{rejection{r.Hash, r.Head}, partition, e.Offset}
	if want, ok := b.rejects.expected[key]; ok {
		delete(b.rejects.expected, key)
		b.compareReject(key, want, f)
		return
	}
	if _, twice := b.rejects.actual[key]; twice {
		b.differReject(key, f, "a second Reject of this record")
		return
	}
	b.rejects.actual[key] = f
}

func (b *Books) compareReject(key rejectKey, want rejection, f foundReject) {
	b.report.Rejects++
	if f.hash != want.hash || !bytes.Equal(f.head, want.head) {
		b.differReject(key, f, "hash or head is not that of the record")
	}
}

func (b *Books) differReject(key rejectKey, f foundReject, text string) {
	b.report.differ(Difference{
		Kind: KindReject, Topic: b.terms.Prefix + schemas.TopicRejects, Partition: f.partition, Offset: &f.offset,
		Text: fmt.Sprintf("of %s-%d at %d: %s", key.topic, key.partition, key.offset, text),
	})
}

// closeRejects reports the rejected records that the topic lacks, and the Rejects of records that no rule rejects.
func (b *Books) closeRejects() {
	for _, key := range slices.SortedFunc(maps.Keys(b.rejects.expected), byReject) {
		b.report.differ(Difference{
			Kind: KindReject, Topic: key.topic, Partition: key.partition, Offset: &key.offset,
			Text: "it was rejected, and topic rejects lacks it",
		})
	}
	if len(b.rejects.actual) == 0 {
		return
	}
	open := b.openRejects()
	for _, key := range slices.SortedFunc(maps.Keys(b.rejects.actual), byReject) {
		from, position, known := b.rejectSpan(key)
		if b.terms.Only >= 0 && !known {
			continue // of another partition
		}
		if known && (key.offset < from || key.offset >= position || open[key]) {
			continue // before the audited records, or in flight
		}
		if key.offset < b.rejects.forgotten[key.log()] {
			continue // older Rejects of this partition are deleted
		}
		b.differReject(key, b.rejects.actual[key], "no rule rejects this record, or it is a second Reject of it")
	}
}

// rejectSpan returns the span of a partition's offsets for which Rejects are compared. It is empty if the partition's
// accounts are not opened.
func (b *Books) rejectSpan(key rejectKey) (from, position int64, known bool) {
	var a *Account
	var s Span
	switch key.topic {
	case b.terms.Prefix + schemas.TopicCounters:
		if c := b.collectors[key.partition]; c != nil {
			a, s = c.account, b.terms.Counters[key.partition]
		}
	case b.terms.Prefix + schemas.TopicPartials:
		if m := b.mergers[key.partition]; m != nil {
			a, s = m.account, b.terms.Merges[key.partition]
		}
	}
	if a == nil || b.opened[a] == nil {
		return 0, 0, a != nil
	}
	return s.OpenedAt, s.Position, true
}

// openRejects returns the records that a Tick behind the positions may have rejected.
func (b *Books) openRejects() map[rejectKey]bool {
	open := map[rejectKey]bool{}
	for p, c := range b.collectors {
		for r := range c.Open() {
			if r.Summary != nil {
				open[rejectKey{b.terms.Prefix + schemas.TopicCounters, p, r.Entry.Offset}] = true
			}
		}
	}
	return open
}
