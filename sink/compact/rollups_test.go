package compact

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBegin(t *testing.T) {
	of := func(generation int64, inputs ...string) *rollupsFooter {
		return &rollupsFooter{topic: testTopic, generation: generation, inputs: inputs}
	}
	for _, c := range []struct {
		name       string
		there      *rollupsFooter
		generation int64
		base       bool
		has        []string
		says       string
	}{
		{"the first", nil, 1, false, nil, ""},
		{"late rows", of(1, "a"), 2, true, nil, ""},
		{"a crash in the first", of(1, "a", "b"), 1, true, []string{"a", "b"}, ""},
		{"a crash with late rows", of(2, "c"), 2, true, []string{"c"}, ""},
		{"lost", nil, 2, false, nil, "missing: bring them back"},
		{"an old copy", of(1), 3, false, nil, "generation 1, and the date of 2"},
		{"an old copy of the date", of(3), 1, false, nil, "generation 3, and the date of 0"},
		{"another archive's", &rollupsFooter{topic: "u", generation: 1}, 2, false, nil, "of topic u"},
	} {
		base, has, err := begin(c.there, testTopic, c.generation)
		if base != c.base || len(has) != len(c.has) || (err == nil) != (c.says == "") {
			t.Errorf("%s: %v, %v, %v", c.name, base, has, err)
		}
		for _, name := range c.has {
			if !has[name] {
				t.Errorf("%s: it lacks %s", c.name, name)
			}
		}
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

func TestRollupsFooter(t *testing.T) {
	want := rollupsFooter{
		testTopic, 3, []string{"a", "b"}, "abc", 4, map[int32]int64{1: 7}, rollupTally{5, 6, 1<<63 + 7},
	}
	kv := map[string]string{}
	if err := want.put(func(key, value string) { kv[key] = value }); err != nil {
		t.Fatal(err)
	}
	lookup := func(key string) (string, bool) { v, ok := kv[key]; return v, ok }
	got, err := parseRollups(lookup)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(rollupsFooter{}, rollupTally{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for key := range kv {
		if key == "weir.topic" || key == "weir.before" {
			continue
		}
		kept := kv[key]
		kv[key] = "?"
		if _, err := parseRollups(lookup); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is wrong: %v", key, err)
		}
		kv[key] = kept
	}
}

func bytesOf(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(rollupsPath(dir, testDate))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRollupsAreDerived: a second run writes the same bytes, also after a crash between the rollups and the exchange.
func TestRollupsAreDerived(t *testing.T) {
	first := newWorld(t)
	for name, w := range map[string]*world{"first": first, "again": first.again(t)} {
		p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
		if err := p.run(never, testNow); err != nil {
			t.Fatal(err)
		}
		want := bytesOf(t, p.dir)
		crashed := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
		crashed.breaks = func(c *compactor) {
			c.rolled = func(c *compactor, made, date string) error {
				return errors.Join(c.publishRollups(made, date), errStop)
			}
		}
		if err := crashed.run(never, testNow); !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		if !bytes.Equal(bytesOf(t, crashed.dir), want) {
			t.Errorf("%s: another run wrote other bytes", name)
		}
		crashed.breaks = nil
		crashed.read()
		if err := crashed.run(never, testNow); err != nil || crashed.err != nil {
			t.Fatal(err, crashed.err)
		}
		if !bytes.Equal(bytesOf(t, crashed.dir), want) {
			t.Errorf("%s: the run after a crash wrote other bytes", name)
		}
	}
}

// TestFaultsOfRollups: a compaction leaves the date as it is, and verify names the file.
func TestFaultsOfRollups(t *testing.T) {
	w := newWorld(t).again(t)
	for name, c := range map[string]struct {
		harm func(path string) error
		says string
	}{
		"missing": {os.Remove, "missing: bring them back from a copy"},
		"damaged": {func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("no Parquet"), 0o600))
		}, "rollups.parquet: bring it back from a copy"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
			if faults := verify(t, p.dir); len(faults) > 0 {
				t.Fatal(faults)
			}
			if err := c.harm(rollupsPath(p.dir, testDate)); err != nil {
				t.Fatal(err)
			}
			if err := p.run(never, testNow); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("compact: %v, want %q", err, c.says)
			}
			if faults := verify(t, p.dir); len(faults) != 1 || !strings.Contains(faults[0], rollupsFile) {
				t.Errorf("verify: %q", faults)
			}
			if entries, err := leftovers(p.dir); err != nil || len(entries) > 0 {
				t.Errorf("the stage has %v, %v", entries, err)
			}
		})
	}
}

func verify(t *testing.T, dir string) (faults []string) {
	t.Helper()
	err := Verify(t.Context(), dir, testTopic, nil, func(v Verified) { faults = append(faults, v.Faults...) })
	if (err != nil) != (len(faults) > 0) {
		t.Error(err)
	}
	return faults
}

// TestRollupsOutliveTheirDate: users delete old dates, and keep their rollups.
func TestRollupsOutliveTheirDate(t *testing.T) {
	w := newWorld(t).again(t)
	dir := w.clone(t)
	if err := os.RemoveAll(filepath.Join(dir, "summaries", "date="+testDate)); err != nil {
		t.Fatal(err)
	}
	if faults := verify(t, dir); len(faults) > 0 {
		t.Error(faults)
	}
	all, err := Stats(t.Context(), dir, testTopic)
	if err != nil || len(all) != 2 || all[0].Date != testDate || all[0].Rollups == 0 || all[0].Rows != 0 {
		t.Errorf("stats: %+v, %v", all, err)
	}
}

// TestLateRowsJoinRollups: late rows change the rollups of their hours, and leave all others as they are, bit for bit.
func TestLateRowsJoinRollups(t *testing.T) {
	w := newWorld(t).again(t)
	dir := w.clone(t)
	before, err := rollupsOf(rollupsPath(dir, testDate))
	if err != nil {
		t.Fatal(err)
	}
	c := newCompactor(Options{Dir: dir, Topic: testTopic})
	c.now, c.again = func() time.Time { return testNow }, testAgain
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	after, err := rollupsOf(rollupsPath(dir, testDate))
	if err != nil {
		t.Fatal(err)
	}
	more, same := int64(0), 0
	for i := range after {
		at, _ := slices.BinarySearchFunc(before, &after[i], func(a Rollup, b *Rollup) int {
			return compareRollups(&a, b)
		})
		switch more += after[i].Intervals - before[at].Intervals; {
		case after[i].Intervals == before[at].Intervals && after[i].hash() == before[at].hash():
			same++
		case after[i].Intervals == before[at].Intervals:
			t.Errorf("a rollup without late rows changed: %+v", after[i])
		}
	}
	if len(after) != len(before) || more != testAgain || same == 0 {
		t.Errorf("%d rollups became %d, with %d more rows; %d are the same", len(before), len(after), more, same)
	}
}
