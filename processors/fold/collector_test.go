package fold

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// TestProgressSaysWhatJobsSent: by job, of the values that were used, until the next interval is closed; a successor
// says it too.
func TestProgressSaysWhatJobsSent(t *testing.T) {
	const start = simEpochMs
	c := NewCollector(simCluster, 0, 1, nil)
	offset := int64(0)
	put := func(r schemas.Record) (bytes int64) {
		value := encode(t, r)
		c.Apply(Entry{Offset: offset, AppendedMs: start + 2*simT, Value: value})
		offset++
		return int64(len(value))
	}
	bytes := put(batch("n1", "big", start, simT, 1)) + put(batch("n22", "big", start, simT, 2))
	put(batch("n1", "big", start, simT, 3)) // a duplicate
	put(nodeSummary("n3", "one", start, simT))
	put(batch("n4", schemas.JobRest, start, simT, 4))
	if p := c.Progress(offset); p.Loads != nil {
		t.Errorf("no interval is closed: %v", p.Loads)
	}
	put(&schemas.Tick{IntervalStart: start, IntervalMs: simT, Jobs: []schemas.TickJob{
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
	if diff := cmp.Diff(want, NewCollector(simCluster, 0, 1, p).Progress(offset).Loads); diff != "" {
		t.Errorf("a successor:\n%s", diff)
	}
	put(&schemas.Tick{IntervalStart: start + simT, IntervalMs: simT})
	if c.Progress(offset).Loads != nil || p.Loads[0].Bytes != bytes {
		t.Errorf("the next interval had nothing: %v, and what was said before is %v", c.Progress(offset).Loads, p.Loads)
	}
}
