package fold

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// A node that is 9 s ahead is named, once, and so is the end of its trouble. What its other records do not tell changes
// nothing. A node that falls silent is forgotten after some intervals.
func TestClocksAreNamedOnce(t *testing.T) {
	var c Clocks
	says := func(node string, known, off bool, ms int64) {
		c.Note(Effects{Clock: ClockSign{schemas.ClockSign{Known: known, Off: off, Ms: ms}, node}})
	}
	expect := func(when string, off int, fresh, over []string) {
		t.Helper()
		gotFresh, gotOver := c.News()
		if len(c.off) != off || !slices.Equal(gotFresh, fresh) || !slices.Equal(gotOver, over) {
			t.Errorf("%s: %v, new %v, over %v; want %d, %v, %v", when, c.off, gotFresh, gotOver, off, fresh, over)
		}
	}
	says("a", true, true, -3000)
	says("b", true, true, 9000)
	says("c", true, false, 2)
	says("d", false, false, 0)
	expect("two are off", 2, []string{"b", "a"}, nil)
	says("b", true, true, 9001)
	says("b", false, false, 0)
	expect("again", 2, nil, nil)
	says("b", true, false, 1)
	expect("b is right", 1, nil, []string{"b"})
	for range clockPatience {
		says("a", true, true, -3000)
		c.Note(Effects{Closes: true})
	}
	expect("a stays", 1, nil, nil)
	for range clockPatience - 1 {
		c.Note(Effects{Closes: true})
	}
	expect("a was silent for two intervals", 1, nil, nil)
	c.Note(Effects{Closes: true})
	expect("and for one more", 0, nil, []string{"a"})
	says("e", true, true, 9000)
	says("e", true, false, 1)
	expect("an end before it was told", 0, nil, []string{"e"})
}

// All nodes of a machine may have a wrong clock, more than there are. The memory is bounded.
func TestManyWrongClocks(t *testing.T) {
	var c Clocks
	for i := range 2 * maxClocks {
		c.Note(Effects{Clock: ClockSign{schemas.ClockSign{Known: true, Off: true, Ms: 9000}, fmt.Sprintf("n%d", i)}})
	}
	if fresh, _ := c.News(); len(fresh) != maxClocks || c.Count() != maxClocks {
		t.Errorf("%d nodes are remembered, %d are new, of at most %d", c.Count(), len(fresh), maxClocks)
	}
}

// The fold says what its records tell of clocks, and only of its own cluster. Its outputs are those of a fold that is
// told nothing.
func TestFoldTellsOfClocks(t *testing.T) {
	batch := func(cluster string, sentAt int64) []byte {
		b, err := schemas.Marshal(&schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: cluster, Node: "n1", IntervalStart: 10_000, IntervalMs: 10_000, SentAt: sentAt, JobID: "j",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	off := ClockSign{schemas.ClockSign{Known: true, Off: true, Ms: 9000}, "n1"}
	for name, c := range map[string]struct {
		value []byte
		want  ClockSign
	}{
		"9 s ahead":              {batch("c", 30_000), off},
		"in time":                {batch("c", 21_000), ClockSign{Node: "n1"}},
		"another cluster's node": {batch("other", 30_000), ClockSign{}},
		"what nobody can read":   {[]byte("x"), ClockSign{}},
	} {
		fx := NewCollector("c", 0, 1, nil).Apply(Entry{AppendedMs: 21_000, Value: c.value})
		if diff := cmp.Diff(c.want, fx.Clock, cmp.AllowUnexported(ClockSign{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
