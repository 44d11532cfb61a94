package processors

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// A node that is 9 s ahead is named, once, and so is the end of its trouble. What its other records do not tell changes
// nothing. A node that falls silent is forgotten after some intervals.
func TestClocksAreNamedOnce(t *testing.T) {
	var c clocks
	says := func(node string, known, off bool, ms int64) {
		c.note(Effects{Clock: clockSign{schemas.ClockSign{Known: known, Off: off, Ms: ms}, node}})
	}
	expect := func(when string, off int, fresh, over []string) {
		t.Helper()
		gotFresh, gotOver := c.news()
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
		c.note(Effects{Closes: true})
	}
	expect("a stays", 1, nil, nil)
	for range clockPatience - 1 {
		c.note(Effects{Closes: true})
	}
	expect("a was silent for two intervals", 1, nil, nil)
	c.note(Effects{Closes: true})
	expect("and for one more", 0, nil, []string{"a"})
	says("e", true, true, 9000)
	says("e", true, false, 1)
	expect("an end before it was told", 0, nil, []string{"e"})
}

// All nodes of a machine may have a wrong clock, more than there are. The memory is bounded.
func TestManyWrongClocks(t *testing.T) {
	var c clocks
	w := wrongClocks{told: map[string]time.Time{}}
	for i := range 2 * maxClocks {
		c.note(Effects{Clock: clockSign{schemas.ClockSign{Known: true, Off: true, Ms: 9000}, fmt.Sprintf("n%d", i)}})
	}
	fresh, _ := c.news()
	now := time.Now()
	if told := len(w.untold(fresh, now)); told != maxClocks || len(w.told) != maxClocks || len(c.off) != maxClocks {
		t.Errorf("%d nodes are remembered, %d were told, of at most %d", len(c.off), told, maxClocks)
	}
	if again := w.untold([]string{"n1"}, now.Add(tellAgain)); len(again) != 1 {
		t.Error("a node is never named again")
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
	off := clockSign{schemas.ClockSign{Known: true, Off: true, Ms: 9000}, "n1"}
	for name, c := range map[string]struct {
		value []byte
		want  clockSign
	}{
		"9 s ahead":              {batch("c", 30_000), off},
		"in time":                {batch("c", 21_000), clockSign{node: "n1"}},
		"another cluster's node": {batch("other", 30_000), clockSign{}},
		"what nobody can read":   {[]byte("x"), clockSign{}},
	} {
		fx := NewCollector("c", 0, 1, nil).Apply(Entry{AppendedMs: 21_000, Value: c.value})
		if diff := cmp.Diff(c.want, fx.Clock, cmp.AllowUnexported(clockSign{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The log has the end of a trouble that began, however long it lasted: an administrator waits for it. Its node may be
// named again then.
func TestTheEndOfALongTroubleIsLogged(t *testing.T) {
	w := wrongClocks{told: map[string]time.Time{}}
	now := time.Now()
	w.untold([]string{"a"}, now)
	w.untold(nil, now.Add(2*tellAgain)) // another partition has nothing to tell
	if over := w.ended([]string{"a", "never named"}); !slices.Equal(over, []string{"a"}) {
		t.Errorf("the end is logged of %v", over)
	}
	if again := w.untold([]string{"a"}, now.Add(2*tellAgain)); len(again) != 1 {
		t.Error("the node is never named again")
	}
}

// TestClockOfABroker: nodes that are off in the partitions of one broker alone are right, and the broker is named.
// Without another broker, or with nodes that are off there too, the nodes are.
func TestClockOfABroker(t *testing.T) {
	now := time.Now()
	with := func(ms int64) (c clocks) {
		for i := range 5 {
			sign := schemas.ClockSign{Known: true, Off: ms != 0, Ms: ms + int64(i)}
			c.note(Effects{Clock: clockSign{sign, fmt.Sprintf("n%d", i)}})
		}
		return c
	}
	off, right, odd := with(7_200_000), with(0), with(7_200_000)
	for range 2 { // its trouble ends, and then it is right
		odd.note(Effects{Clock: clockSign{schemas.ClockSign{Known: true}, "n0"}})
	}
	for name, c := range map[string]struct {
		other  *clocks
		leader int32
		at     time.Time
		blamed bool
	}{
		"no other":                  {nil, 2, now, false},
		"another broker's is right": {&right, 2, now, true},
		"it leads the other too":    {&right, 1, now, false},
		"all are off":               {&off, 2, now, false},
		"all but one are off":       {&odd, 2, now, false},
		"the other was given up":    {&right, 2, now.Add(-time.Hour), false},
		"the other has no nodes":    {&clocks{}, 2, now, false},
	} {
		w := wrongClocks{seen: map[int32]seenClocks{}}
		if c.other != nil {
			w.leads(7, c.leader, c.other, c.at)
		}
		ms, blamed, before := w.leads(3, 1, &off, now)
		if blamed != c.blamed || before || ms < 7_200_000 || ms > 7_200_004 {
			t.Errorf("%s: off by %d, the broker's: %t, before %t", name, ms, blamed, before)
		}
		if _, blamed, before = w.leads(3, 1, &right, now); blamed || before != c.blamed {
			t.Errorf("%s: mended, the broker's: %t, before %t", name, blamed, before)
		}
	}
	w := wrongClocks{seen: map[int32]seenClocks{}}
	if !w.early(3, true, now, time.Second) || w.early(3, true, now.Add(time.Second), time.Second) ||
		w.early(3, false, now, time.Second) || !w.early(3, true, now.Add(time.Minute), time.Second) {
		t.Error("nodes are named an interval after the first sign")
	}
}
