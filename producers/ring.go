package producers

import (
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// item is a record that waits to be sent. Its partition was fixed when it was formed.
type item struct {
	start     int64 // interval_start
	partition int32
	record    schemas.Record
	head      *schemas.NodeHeader // of the record, to set sent_at; nil for a Gap
	tries     int                 // how often it failed for a reason of no known kind
}

// batch is the records of one interval.
type batch struct {
	start int64
	items []item
}

const (
	reasonFull   = "ring full"
	reasonFuture = "clock was ahead"
)

// ring holds what one node has formed and not yet handed to the Kafka client: the records of at most capacity
// intervals, oldest first. What does not fit is dropped, the oldest interval whole, and remembered in a Gap.
type ring struct {
	node, runID string
	capacity    int // intervals
	batches     []batch
	gaps        []*schemas.Gap // what was lost and not yet told, at most maxGaps
	drops       int64          // records lost since the start
}

// maxGaps bounds the different reasons that are told apart before a Gap can be sent.
const maxGaps = 8

func newRing(node, runID string, capacity int) ring {
	return ring{node: node, runID: runID, capacity: capacity}
}

// push adds the records of an interval. It reports whether the ring begins to drop with them: no Gap of that was pending.
func (r *ring) push(items []item) (first bool) {
	for _, it := range items {
		r.insert(it)
	}
	return r.trim()
}

// back returns an item that was taken and could not be sent, to its place. It may be dropped at once.
func (r *ring) back(it item) {
	r.insert(it)
	r.trim()
}

func (r *ring) insert(it item) {
	i, found := slices.BinarySearchFunc(r.batches, it.start, func(b batch, start int64) int {
		return int(min(max(b.start-start, -1), 1))
	})
	if !found {
		r.batches = slices.Insert(r.batches, i, batch{start: it.start})
	}
	r.batches[i].items = append(r.batches[i].items, it)
}

func (r *ring) trim() (first bool) {
	for len(r.batches) > r.capacity {
		for _, it := range r.batches[0].items {
			first = r.lose(it, reasonFull) || first
		}
		r.batches = slices.Delete(r.batches, 0, 1)
	}
	return first
}

// loseAfter drops the records of intervals that begin after start, and returns how many.
func (r *ring) loseAfter(start int64) (lost int) {
	for i := len(r.batches) - 1; i >= 0 && r.batches[i].start > start; i-- {
		for _, it := range r.batches[i].items {
			r.lose(it, reasonFuture)
			lost++
		}
		r.batches = slices.Delete(r.batches, i, i+1)
	}
	return lost
}

// take removes the oldest item.
func (r *ring) take() (item, bool) {
	if len(r.batches) == 0 {
		return item{}, false
	}
	b := &r.batches[0]
	it := b.items[0]
	b.items = b.items[1:]
	if len(b.items) == 0 {
		r.batches = slices.Delete(r.batches, 0, 1)
	}
	return it, true
}

// depth is the number of records held.
func (r *ring) depth() int {
	n := 0
	for i := range r.batches {
		n += len(r.batches[i].items)
	}
	return n
}

// lose notes that a record will never be sent. It reports whether no Gap of that reason was pending.
func (r *ring) lose(it item, reason string) (first bool) {
	r.drops++
	return r.owe(&schemas.Gap{
		Node: r.node, RunID: r.runID, FirstIntervalStart: it.start, LastIntervalStart: it.start, Records: 1, Reason: reason,
	})
}

// owe adds to what must be told: to the Gap of the same reason, where there is one. It reports whether there was none.
func (r *ring) owe(g *schemas.Gap) (first bool) {
	i := slices.IndexFunc(r.gaps, func(have *schemas.Gap) bool { return have.Reason == g.Reason })
	if i < 0 && len(r.gaps) < maxGaps {
		r.gaps = append(r.gaps, g)
		return true
	}
	if i < 0 {
		i = maxGaps - 1
		r.gaps[i].Reason = "several reasons"
	}
	have := r.gaps[i]
	have.FirstIntervalStart = min(have.FirstIntervalStart, g.FirstIntervalStart)
	have.LastIntervalStart = max(have.LastIntervalStart, g.LastIntervalStart)
	have.Records += g.Records
	return false
}

// takeGap removes the oldest Gap, as an item for the partition given.
func (r *ring) takeGap(home int32) (item, bool) {
	if len(r.gaps) == 0 {
		return item{}, false
	}
	g := r.gaps[0]
	r.gaps = slices.Delete(r.gaps, 0, 1)
	return item{start: g.LastIntervalStart, partition: home, record: g}, true
}
