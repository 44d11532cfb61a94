package processors

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// TestManyNamedNodes: the memory of the nodes that were named is bounded, and a node is named again after a while.
func TestManyNamedNodes(t *testing.T) {
	w := wrongClocks{told: map[string]time.Time{}}
	var nodes []string
	for i := range 2 * maxNamed {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	now := time.Now()
	w.untold(nodes[:maxNamed], now)
	if w.untold(nodes, now); len(w.told) != maxNamed {
		t.Errorf("%d nodes are remembered, of at most %d", len(w.told), maxNamed)
	}
	if again := w.untold([]string{"n1"}, now.Add(nameAgain)); len(again) != 1 {
		t.Error("a node is never named again")
	}
}

// The log has the end of a trouble that began, however long it lasted: an administrator waits for it. Its node may be
// named again then.
func TestTheEndOfALongTroubleIsLogged(t *testing.T) {
	w := wrongClocks{told: map[string]time.Time{}}
	now := time.Now()
	w.untold([]string{"a"}, now)
	w.untold(nil, now.Add(2*nameAgain)) // another partition has nothing to tell
	if over := w.ended([]string{"a", "never named"}); !slices.Equal(over, []string{"a"}) {
		t.Errorf("the end is logged of %v", over)
	}
	if again := w.untold([]string{"a"}, now.Add(2*nameAgain)); len(again) != 1 {
		t.Error("the node is never named again")
	}
}

// TestClockOfABroker: nodes that are off in the partitions of one broker alone are right, and the broker is named.
// Without another broker, or with nodes that are off there too, the nodes are.
func TestClockOfABroker(t *testing.T) {
	now := time.Now()
	with := func(ms int64) (c fold.Clocks) {
		for i := range 5 {
			sign := schemas.ClockSign{Known: true, Off: ms != 0, Ms: ms + int64(i)}
			c.Note(fold.Effects{Clock: fold.ClockSign{ClockSign: sign, Node: fmt.Sprintf("n%d", i)}})
		}
		return c
	}
	off, right, odd := with(7_200_000), with(0), with(7_200_000)
	for range 2 { // its trouble ends, and then it is right
		odd.Note(fold.Effects{Clock: fold.ClockSign{ClockSign: schemas.ClockSign{Known: true}, Node: "n0"}})
	}
	for name, c := range map[string]struct {
		other  *fold.Clocks
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
		"the other has no nodes":    {&fold.Clocks{}, 2, now, false},
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
