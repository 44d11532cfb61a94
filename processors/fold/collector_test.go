package fold

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// TestProgressSaysWhatJobsSent: by job, of the values that were used, until the next interval is closed; a successor
// says it too.
func TestProgressSaysWhatJobsSent(t *testing.T) {
	const start = foldtest.EpochMs
	c := NewCollector(foldtest.Cluster, 0, 1, nil)
	offset := int64(0)
	put := func(r schemas.Record) (bytes int64) {
		value := foldtest.Encode(t, r)
		c.Apply(Entry{Offset: offset, AppendedMs: start + 2*foldtest.IntervalMs, Value: value})
		offset++
		return int64(len(value))
	}
	bytes := put(foldtest.Batch("n1", "big", start, foldtest.IntervalMs, 1)) + put(foldtest.Batch("n22", "big", start, foldtest.IntervalMs, 2))
	put(foldtest.Batch("n1", "big", start, foldtest.IntervalMs, 3)) // a duplicate
	put(nodeSummary("n3", "one", start, foldtest.IntervalMs))
	put(foldtest.Batch("n4", schemas.JobRest, start, foldtest.IntervalMs, 4))
	if p := c.Progress(offset); p.Loads != nil {
		t.Errorf("no interval is closed: %v", p.Loads)
	}
	put(&schemas.Tick{IntervalStart: start, IntervalMs: foldtest.IntervalMs, Jobs: []schemas.TickJob{
		{JobID: schemas.JobRest, Parts: 1, JobNodes: 1, Nodes: []string{"n4"}},
		{JobID: "big", Parts: 1, JobNodes: 3, Nodes: []string{"n1", "n22", "silent"}},
		{JobID: "one", Parts: 1, JobNodes: 1, Nodes: []string{"n3"}},
		{JobID: "nothing", Parts: 1, JobNodes: 1, Nodes: []string{"n5"}},
	}})
	want := []schemas.JobLoad{{JobID: "big", Nodes: 2, Bytes: bytes}}
	p := c.Progress(offset)
	if diff := cmp.Diff(want, p.Loads); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, NewCollector(foldtest.Cluster, 0, 1, p).Progress(offset).Loads); diff != "" {
		t.Errorf("a successor:\n%s", diff)
	}
	put(&schemas.Tick{IntervalStart: start + foldtest.IntervalMs, IntervalMs: foldtest.IntervalMs})
	if c.Progress(offset).Loads != nil || p.Loads[0].Bytes != bytes {
		t.Errorf("the next interval had nothing: %v, and what was said before is %v", c.Progress(offset).Loads, p.Loads)
	}
}
