package compact

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/sink"
)

func TestAfterRollups(t *testing.T) {
	there := &rollupsFooter{generation: 3, inputs: []string{"c", "d"}, next: map[int32]int64{0: 10, 1: 20}}
	file := func(name string, partition int32, start int64) sink.File {
		return sink.File{Name: name, Partition: partition, Start: start}
	}
	for name, c := range map[string]struct {
		next       int64
		there      *rollupsFooter
		small      []sink.File
		generation int64
		deleted    bool
	}{
		"no rollups":                {1, nil, []sink.File{file("e", 0, 10)}, 1, false},
		"compacted files are there": {4, there, []sink.File{file("e", 0, 10)}, 4, false},
		"late rows alone":           {1, there, []sink.File{file("e", 0, 10), file("f", 1, 25)}, 4, true},
		"a crash":                   {1, there, []sink.File{file("d", 0, 9), file("e", 0, 10)}, 3, false},
		"an older copy":             {1, there, []sink.File{file("a", 1, 19), file("e", 0, 10)}, 1, false},
	} {
		if g, deleted := afterRollups(c.next, c.there, c.small); g != c.generation || deleted != c.deleted {
			t.Errorf("%s: generation %d, deleted %v", name, g, deleted)
		}
	}
}

// TestLateRowsOfADeletedDate: users delete a date and keep its rollups, and then late rows come. The rollups get them,
// also if the compaction is killed, and no fault is reported.
func TestLateRowsOfADeletedDate(t *testing.T) {
	first := newWorld(t)
	again := first.again(t)
	for name, w := range map[string]*world{"of generation 1": again, "of generation 2": again.again(t)} {
		t.Run(name, func(t *testing.T) {
			dir := w.clone(t)
			date := sink.DatePath(dir, testDate)
			paths, err := filepath.Glob(filepath.Join(date, testTopic+"-*-c*.parquet"))
			if err != nil || len(paths) == 0 {
				t.Fatal(paths, err)
			}
			for _, path := range paths {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			// The chain has a hole: a late row of before lies between files of a later date.
			verify := func(t *testing.T, dir string) []string {
				return slices.DeleteFunc(verify(t, dir), func(fault string) bool {
					return strings.Contains(fault, sink.ErrHole.Error())
				})
			}
			before, err := readRollups(t.Context(), rollupsPath(dir, testDate))
			if err != nil {
				t.Fatal(err)
			}
			if faults := verify(t, dir); len(faults) > 0 {
				t.Errorf("late rows beside rollups: %q", faults)
			}
			p := &player{w: w, t: t, dir: dir}
			p.breaks = func(c *compactor) {
				c.rolled = func(c *compactor, made, date string) error {
					return errors.Join(c.publishRollups(made, date), errStop)
				}
			}
			if err := p.run(never, testNow); !errors.Is(err, errStop) {
				t.Fatal(err)
			}
			if faults := verify(t, dir); len(faults) > 0 {
				t.Errorf("after a crash: %q", faults)
			}
			p.breaks = nil
			if err := errors.Join(p.run(never, testNow), p.run(never, hoursLater(2))); err != nil {
				t.Fatal(err)
			}
			after, err := readRollups(t.Context(), rollupsPath(dir, testDate))
			if err != nil || after.generation != before.generation+1 ||
				after.intervals != before.intervals+testAgain || after.deleted != before.intervals {
				t.Errorf("rollups %+v became %+v, %v", before, after, err)
			}
			if faults := verify(t, dir); len(faults) > 0 {
				t.Errorf("compacted: %q", faults)
			}
			grown := w.grown(t, dir, slices.Clone(w.rows))
			p = &player{w: grown, t: t, dir: dir}
			if err := p.run(never, testNow); err != nil {
				t.Fatal(err)
			}
			if faults := verify(t, dir); len(faults) > 0 {
				t.Errorf("compacted again: %q", faults)
			}
		})
	}
}

// TestAnOlderCopyOfADate: rows that the rollups have must not be added again.
func TestAnOlderCopyOfADate(t *testing.T) {
	first := newWorld(t)
	w := first.again(t).again(t)
	dir := w.clone(t)
	old := first.clone(t)
	if err := errors.Join(os.RemoveAll(sink.DatePath(dir, testDate)),
		os.Rename(sink.DatePath(old, testDate), sink.DatePath(dir, testDate))); err != nil {
		t.Fatal(err)
	}
	p := &player{w: w, t: t, dir: dir}
	err := p.runPlainly(testNow)
	if err == nil || !strings.Contains(err.Error(), "bring both back from the same copy") {
		t.Errorf("an older copy of the date: %v", err)
	}
}
