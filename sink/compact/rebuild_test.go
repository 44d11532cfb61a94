package compact

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestRollupsAreRebuilt: while the old files of a first compaction are there, lost rollups are made again, bit for bit.
func TestRollupsAreRebuilt(t *testing.T) {
	w := newWorld(t)
	for name, now := range map[string]time.Time{"within the hour": testNow, "before the old files go": hoursLater(2)} {
		p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
		if err := p.run(never, testNow); err != nil {
			t.Fatal(err)
		}
		want := bytesOf(t, p.dir)
		if err := os.Remove(rollupsPath(p.dir, testDate)); err != nil {
			t.Fatal(err)
		}
		if err := p.runPlainly(now); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(bytesOf(t, p.dir), want) {
			t.Errorf("%s: other bytes", name)
		}
		if err := p.run(never, hoursLater(2)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p.read(); p.err != nil {
			t.Errorf("%s: %v", name, p.err)
		}
		if err := p.end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOldFilesStayWithoutRollups: nothing else has their certified summaries.
func TestOldFilesStayWithoutRollups(t *testing.T) {
	w := newWorld(t).again(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
	if err := p.run(never, testNow); err != nil {
		t.Fatal(err)
	}
	path := rollupsPath(p.dir, testDate)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	err := p.runPlainly(hoursLater(2))
	if err == nil || !strings.Contains(err.Error(), "those of generation 2 are missing, so ") {
		t.Errorf("without rollups: %v", err)
	}
	if entries, err := leftovers(p.dir); err != nil || len(entries) != 1 {
		t.Errorf("the stage has %v, %v", entries, err)
	}
	if err := errors.Join(os.Rename(path+".away", path), p.runPlainly(hoursLater(2))); err != nil {
		t.Error(err)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}
