package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/admin"

	"github.com/weirhpc/weir/analysis/status"
)

// TestVerdictIsFiveLines: whoever is paged reads on five lines whether something is wrong, on any size of machine.
func TestVerdictIsFiveLines(t *testing.T) {
	t.Parallel()
	ms, age := int64(1_795_000_000_000), int64(1234)
	s := &status.Status{
		Epoch: 12, PlannedMs: &ms, TickMs: &ms, TickAgeMs: &age,
		Intervals: []status.Interval{{Expected: 1}, {IntervalStart: ms, Expected: 9300, Summarized: 9288}},
		Silent:    []string{"n1", "n2"}, Late: []string{"n3"}, Routeless: []string{"n4", "n5", "n6"},
		Rejects: []status.Rejects{{Count: 3}, {Count: 4}},
		Sink:    []status.SinkPartition{{Position: 5, End: 10}, {Position: 1, End: 9, Behind: true}},
		Collect: map[string]int64{"surplus": 990}, Merge: map[string]int64{"surplus": 9},
	}
	for i := range 256 {
		s.Partitions = append(s.Partitions, status.Partition{
			Stage: "collect", Partition: int32(i), Lag: int64(i % 200), Owner: "collect-a",
			Stopped: i == 7, Behind: i == 8,
		})
	}
	s.Partitions[9].Owner = ""
	s.Partitions = append(s.Partitions, status.Partition{Stage: "merge", Owner: "merge-a"})
	for _, c := range []struct {
		wrong []string
		first string
	}{
		{nil, "OK       big: nothing is wrong"},
		{[]string{"a"}, "WRONG    big: one thing is wrong"},
		{[]string{"a", "b"}, "WRONG    big: 2 things are wrong"},
	} {
		var b strings.Builder
		s.Wrong = c.wrong
		if err := admin.PrintVerdict(&b, s, "big", ""); err != nil {
			t.Fatal(err)
		}
		want := []string{
			c.first,
			"plan     epoch 12 since ", "; last Tick ", ", ended 1.2s ago",
			"nodes    9288 of 9300 records in ", "; silent 2, late 1, misrouted 0, routeless 3; rejected 7 in 5 min",
			"folding  collect 253 of 256, merge 1 of 1 partitions keep up; largest lag 199 (collect 199); surplus 999",
			"archive  1 of 2 partitions keep up; largest lag 8",
		}
		rest := b.String()
		for _, part := range want {
			var found bool
			if _, rest, found = strings.Cut(rest, part); !found {
				t.Errorf("%q is not there, or not in its place:\n%s", part, &b)
			}
		}
		if n := strings.Count(b.String(), "\n"); n != 5 {
			t.Errorf("%d lines:\n%s", n, &b)
		}
		for line := range strings.Lines(b.String()) {
			if len(line) > 121 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
	var b strings.Builder
	err := admin.PrintVerdict(&b, &status.Status{Wrong: []string{"a"}}, "new", "2 lack facts")
	if err != nil || strings.Count(b.String(), "\n") != 6 || !strings.HasSuffix(b.String(), "rules    2 lack facts\n") {
		t.Errorf("before anything ran: %v\n%s", err, &b)
	}
}

// TestWrongThingsFitATerminal: ten of many, and how to see the others.
func TestWrongThingsFitATerminal(t *testing.T) {
	t.Parallel()
	var wrong []string
	for i := range 25 {
		wrong = append(wrong, fmt.Sprint("thing ", i))
	}
	got := admin.WrongLines(wrong, false)
	if len(got) != 11 || got[9] != "thing 9" || got[10] != "and 15 more: --all names them" {
		t.Errorf("%q", got)
	}
	if got := admin.WrongLines(wrong[:11], false); len(got) != 11 || got[10] != "thing 10" {
		t.Errorf("one more would take as much room: %q", got)
	}
	if got := admin.WrongLines(wrong, true); len(got) != 25 {
		t.Errorf("--all: %q", got)
	}
}
