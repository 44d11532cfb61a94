package producers

import (
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// item is a record that waits to be sent. Its partition was fixed when it was formed. The record itself is made when it
// leaves, because the sample's values take a small part of the memory of all its records.
type item struct {
	start     int64 // interval_start
	partition int32
	bytes     int64 // of memory, the sample divided evenly among the items of its interval
	tries     int   // failures for an unknown reason
	portion   *portion
	gap       *schemas.Gap // in place of a portion
}

// record makes the record of an item.
func (it item) record(sentAt int64) schemas.Record {
	if it.gap != nil {
		return it.gap
	}
	return it.portion.record(sentAt)
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

// ring holds the records of one node that are not yet with the Kafka client, oldest first. It holds at most capacity
// intervals and limit bytes. If it exceeds either, it drops the oldest interval whole, and remembers the loss in a Gap.
// The newest interval stays even if it alone exceeds limit: otherwise the node would never publish.
type ring struct {
	node, runID string
	capacity    int   // intervals
	limit       int64 // bytes
	batches     []batch
	bytes       int64          // of all batches
	gaps        []*schemas.Gap // losses not yet reported, at most maxGaps
	drops       int64          // records lost since the start
}

const (
	// nodeBytes is the limit of a ring. 256 jobs on 256 CPUs with 37 metrics take 5 MB in 32 intervals.
	nodeBytes = 16 << 20
	// fleetBytes is the limit of all rings of a process, which may run many simulated nodes.
	fleetBytes = 256 << 20
)

// ringBytes is the limit of each ring in a process with so many nodes.
func ringBytes(nodes int) int64 { return min(nodeBytes, fleetBytes/int64(nodes)) }

// maxGaps bounds the reasons that are kept apart until a Gap can be sent.
const maxGaps = 8

func newRing(node, runID string, capacity int, limit int64) ring {
	return ring{node: node, runID: runID, capacity: capacity, limit: limit}
}

// push adds the records of an interval. It reports whether the ring begins to drop: no Gap for a full ring was pending.
func (r *ring) push(items []item) (first bool) {
	for _, it := range items {
		r.insert(it)
	}
	return r.trim()
}

// back returns an item that was taken and could not be sent. A full ring may drop it at once.
func (r *ring) back(it item) {
	r.insert(it)
	r.trim()
}

// insert keeps the batches in the order of their intervals, since a record that comes back from the client is older
// than the waiting ones.
func (r *ring) insert(it item) {
	i, found := slices.BinarySearchFunc(r.batches, it.start, func(b batch, start int64) int {
		return int(min(max(b.start-start, -1), 1))
	})
	if !found {
		r.batches = slices.Insert(r.batches, i, batch{start: it.start})
	}
	r.batches[i].items = append(r.batches[i].items, it)
	r.bytes += it.bytes
}

// trim drops the oldest intervals while there is too much, and keeps the last one at any size. It reports whether the
// ring begins to drop.
func (r *ring) trim() (first bool) {
	for len(r.batches) > r.capacity || r.bytes > r.limit && len(r.batches) > 1 {
		for _, it := range r.batches[0].items {
			r.bytes -= it.bytes
			first = r.lose(it, reasonFull) || first
		}
		r.batches = slices.Delete(r.batches, 0, 1)
	}
	return first
}

// loseAfter drops the records of intervals that begin after start, and returns their number.
func (r *ring) loseAfter(start int64) (lost int) {
	for i := len(r.batches) - 1; i >= 0 && r.batches[i].start > start; i-- {
		for _, it := range r.batches[i].items {
			r.bytes -= it.bytes
			r.lose(it, reasonFuture)
			lost++
		}
		r.batches = slices.Delete(r.batches, i, i+1)
	}
	return lost
}

// oldest returns the interval of the oldest item.
func (r *ring) oldest() (start int64, ok bool) {
	if len(r.batches) == 0 {
		return 0, false
	}
	return r.batches[0].start, true
}

// take removes the oldest item.
func (r *ring) take() (item, bool) {
	if len(r.batches) == 0 {
		return item{}, false
	}
	b := &r.batches[0]
	it := b.items[0]
	b.items[0] = item{} // frees the item's memory, since the array stays
	b.items = b.items[1:]
	r.bytes -= it.bytes
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
		Node: r.node, RunID: r.runID,
		FirstIntervalStart: it.start, LastIntervalStart: it.start, Records: 1, Reason: reason,
	})
}

// owe adds a loss to the pending Gap of the same reason. It reports whether there was none.
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
	return item{start: g.LastIntervalStart, partition: home, gap: g}, true
}
