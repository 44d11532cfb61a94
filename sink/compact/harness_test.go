package compact

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/sink"
)

// schedules calls yield with the schedules of a world. A crash comes ahead of each action, with a late file before it.
// A second one comes in the recovery. With WEIR_ALL_CRASHES=1 the second comes ahead of each action of the recovery.
func schedules(t testing.TB, w *world, plain bool, yield func(schedule) bool) {
	t.Helper()
	const recovery = 12 // actions, at most
	steps, err := w.play(t, schedule{crash: never, second: never, plain: plain})
	if err != nil {
		t.Fatal(err)
	}
	all := os.Getenv("WEIR_ALL_CRASHES") != ""
	for crash := steps; crash >= 0; crash-- { // the last steps are those that errors show at
		before := max(0, crash-1)
		for _, s := range []schedule{
			{crash: crash, second: never},
			{crash: crash, second: never, late: locked, lateAt: before},
			{crash: crash, second: never, late: locked, lateAt: max(0, crash-5)}, // just ahead of the lock
			{crash: never, second: never, late: locked, lateAt: crash},
			{crash: never, second: never, late: strayed, lateAt: crash},
		} {
			if s.plain = plain; !yield(s) {
				return
			}
		}
		for second := range recovery {
			s := schedule{crash: crash, second: second, late: strayed, lateAt: before, plain: plain}
			if (all || second == crash%recovery) && !yield(s) {
				return
			}
		}
	}
}

// TestCompactionCrashes kills a compaction ahead of each action, and again in the recovery. Late files come meanwhile,
// and a reader reads whenever it gets the lock. No row may be lost or doubled at any time.
func TestCompactionCrashes(t *testing.T) {
	first := newWorld(t)
	for name, w := range map[string]*world{"first": first, "again": first.again(t)} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, two renames %v", name, plain), func(t *testing.T) {
				played, offered := 0, 0
				schedules(t, w, plain, func(s schedule) bool {
					if offered++; offered%crashEvery != 0 {
						return true
					}
					_, err := w.play(t, s)
					if err != nil {
						t.Error(err)
					}
					played++
					return err == nil
				})
				t.Logf("%d schedules", played)
			})
		}
	}
}

// TestGenerationsInARow compacts one date four times, with late rows before each. Each compaction is killed, and so is
// its recovery, and more late rows come meanwhile.
func TestGenerationsInARow(t *testing.T) {
	first := newWorld(t)
	for chain := range chains {
		p := newPlayer(t, first)
		for g := range 4 {
			crash := (chain*5 + g*11) % 45 // a compaction has some 40 actions
			s := schedule{
				crash: crash, second: (chain + g) % 12, late: lateKind((chain + g) % 3),
				lateAt: max(0, crash-1-chain%4), plain: chain%2 == 1,
			}
			if _, err := p.through(s); err != nil {
				t.Fatalf("chain %d, generation %d: %v", chain, g+1, err)
			}
			files, err := sink.FilesIn(sink.DatePath(p.dir, testDate), testTopic, testDate)
			if err != nil || generation(files) != int64(g+1) {
				t.Fatalf("chain %d: generation %d instead of %d, %v", chain, generation(files), g+1, err)
			}
			p.w = first.grown(t, p.dir, p.want)
			p.want = slices.Clone(p.w.rows)
		}
	}
}

// TestHarnessCatchesErrors: with each of these errors in the compaction, some schedule must go wrong.
func TestHarnessCatchesErrors(t *testing.T) {
	first := newWorld(t)
	second := first.again(t)
	errorsOf := map[string]struct {
		w      *world
		plain  bool
		breaks func(*compactor)
	}{
		"nothing is carried over": {first, false, func(c *compactor) {
			c.carried = func(_, _ []entry) []string { return nil }
		}},
		"what came late is not linked under the lock": {first, false, func(c *compactor) {
			calls, right := 0, c.late
			c.late = func(c *compactor, t task, stage string) error {
				if calls++; calls > 1 {
					return nil
				}
				return right(c, t, stage)
			}
		}},
		"users' files are left behind": {first, false, func(c *compactor) {
			c.late = func(*compactor, task, string) error { return nil }
		}},
		"there is no recovery": {first, false, func(c *compactor) {
			c.decide = func(int64, bool, []entry) verdict { return keep }
		}},
		"every stage counts as published": {first, false, func(c *compactor) {
			c.decide = func(int64, bool, []entry) verdict { return finish }
		}},
		"no stage counts as published": {first, false, func(c *compactor) {
			c.decide = func(int64, bool, []entry) verdict { return discard }
		}},
		"any compaction counts, instead of the generation": {second, false, func(c *compactor) {
			c.decide = func(_ int64, exists bool, date []entry) verdict { return decide(1, exists, date) }
		}},
		"inputs are carried over": {first, false, func(c *compactor) {
			c.carried = func(old, _ []entry) (names []string) {
				for _, e := range old {
					names = append(names, e.name)
				}
				return names
			}
		}},
		"all old files are deleted at once, before they are carried over": {first, true, func(c *compactor) {
			c.carried = func(_, _ []entry) []string { return nil }
			c.spent = func(old, _ []entry) (names, rest []string) {
				for _, e := range old {
					names = append(names, e.name)
				}
				return names, nil
			}
		}},
		"rollups of a crashed generation are added to again": {first, false, func(c *compactor) {
			c.begin = func(there *rollupsFooter, _ string, _ int64) (bool, map[string]bool, error) {
				return there != nil, map[string]bool{}, nil
			}
		}},
		"the same with late rows": {second, true, func(c *compactor) {
			c.begin = func(*rollupsFooter, string, int64) (bool, map[string]bool, error) {
				return true, map[string]bool{}, nil
			}
		}},
		"rollups are made of late rows alone": {second, false, func(c *compactor) {
			c.begin = func(*rollupsFooter, string, int64) (bool, map[string]bool, error) {
				return false, map[string]bool{}, nil
			}
		}},
		"rollups come after the exchange": {first, false, func(c *compactor) {
			c.rolled = func(c *compactor, made, date string) error {
				c.carried = func(old, now []entry) []string {
					if err := c.publishRollups(made, date); err != nil {
						return nil
					}
					return carried(old, now)
				}
				return nil
			}
		}},
		"a date is compacted from its small files alone": {second, false, func(c *compactor) {
			right := c.due
			c.due = func(files []sink.File, staged map[string]bool, now time.Time, again int) []task {
				tasks := right(files, staged, now, again)
				for _, t := range tasks {
					for p, in := range t.inputs {
						t.inputs[p] = slices.DeleteFunc(in, func(f sink.File) bool { return f.Compacted })
					}
				}
				return tasks
			}
		}},
	}
	for i, name := range slices.Sorted(maps.Keys(errorsOf)) {
		if i%errorEvery != 0 {
			continue
		}
		c := errorsOf[name]
		t.Run(name, func(t *testing.T) {
			var caught error
			schedules(t, c.w, c.plain, func(s schedule) bool {
				s.breaks = c.breaks
				_, caught = c.w.play(t, s)
				return caught == nil
			})
			if caught == nil {
				t.Error("no schedule went wrong")
			}
			t.Log(caught)
		})
	}
}
