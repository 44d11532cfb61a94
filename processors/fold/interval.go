package fold

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"
)

// interval holds the records of one interval_start.
type interval struct {
	jobs    map[schemas.JobKey]map[string]*nodeRecord // by node: first come, first served
	records int64
}

// nodeRecord is a CounterBatch or a NodeSummary.
type nodeRecord struct {
	entry   Entry // with its value only for a NodeSummary, which a Tick may reject
	bytes   int
	number  int32                // of its node in the interval's _system
	form    int32                // of the batch, among those of its job
	summary *schemas.NodeSummary // nil: it is a batch
	batch   schemas.PackedBatch
}

// take removes and returns a node's record of a job, or nil if there is none of this interval length.
func (i *interval) take(key schemas.JobKey, node string, lengthMs int64) *nodeRecord {
	if i == nil {
		return nil
	}
	r := i.jobs[key][node]
	if r == nil || r.header().IntervalMs != lengthMs {
		return nil
	}
	delete(i.jobs[key], node)
	i.records--
	return r
}

// byNode sorts records by node, so that summaries do not depend on the order of arrival.
func byNode(records []*nodeRecord) {
	slices.SortFunc(records, func(a, b *nodeRecord) int {
		return strings.Compare(a.header().Node, b.header().Node)
	})
}

func (r *nodeRecord) header() *schemas.NodeHeader {
	if r.summary != nil {
		return &r.summary.NodeHeader
	}
	return &r.batch.NodeHeader
}

// maxLoadsBytes bounds the loads of a Progress, a quarter of the largest message.
const maxLoadsBytes = 1 << 20

// heaviest keeps the loads with most bytes that fit into maxLoadsBytes, in their order. Of equal loads the ones with
// the least keys stay.
func heaviest(loads []schemas.JobLoad) []schemas.JobLoad {
	const numbers = 20 // bytes of a load beside its id, at most
	order := slices.Clone(loads)
	slices.SortFunc(order, func(a, b schemas.JobLoad) int {
		return cmp.Or(
			cmp.Compare(b.Bytes, a.Bytes),
			strings.Compare(a.JobID, b.JobID),
			cmp.Compare(a.Restart, b.Restart))
	})
	kept, room := map[schemas.JobKey]bool{}, maxLoadsBytes
	for _, l := range order {
		if room -= len(l.JobID) + numbers; room < 0 {
			break
		}
		kept[schemas.JobKey{JobID: l.JobID, Restart: l.Restart}] = true
	}
	return slices.DeleteFunc(loads, func(l schemas.JobLoad) bool {
		return !kept[schemas.JobKey{JobID: l.JobID, Restart: l.Restart}]
	})
}
