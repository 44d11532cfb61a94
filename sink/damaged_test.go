package sink

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// rot writes a compacted file of one partition that nobody can read.
func rot(t *testing.T, a *archive, date string, partition int32, start int64) (path string) {
	t.Helper()
	path = filepath.Join(a.dateDir(date), CompactedName(a.topic, partition, start))
	if err := errors.Join(os.MkdirAll(a.dateDir(date), 0o755),
		os.WriteFile(path, append([]byte("PAR1"), bytes.Repeat([]byte{0xA5}, 5000)...), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDamagedOldDate: a compacted file of an old date is damaged. Its rows are lost until a copy comes. The sink goes
// on in all partitions, also if the damage comes while it runs. It reports the file, and status names it.
func TestDamagedOldDate(t *testing.T) {
	t.Parallel()
	const old = "2020-02-29"
	b, rnd := newBench(t, 2), random(t)
	// grow archives two summaries in both partitions.
	grow := func(s *sink[schemas.Row]) {
		t.Helper()
		for p := range int32(2) {
			b.summaries(rnd, p, 2)
		}
		if err := errors.Join(s.drain(t.Context()), s.rollAll(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *sink[schemas.Row] {
		t.Helper()
		s := b.newSink(nil)
		if err := s.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	grow(open())
	b.want = nil
	s := open()
	path := rot(t, s.archive, old, 0, 0)
	for _, small := range b.summaryFiles() { // they are in the damaged file
		if p, _, ok := parseName(testTopic, filepath.Base(small)); ok && p == 0 {
			remove(t, small)
		} else if ok {
			b.want = append(b.want, readRowsOf(t, small)...)
		}
	}
	grow(s)
	if n := value(t, b.metrics.damaged); n != 1 {
		t.Errorf("%v damaged files are shown, want 1", n)
	}
	again := open()
	grow(again)
	grow(again)
	const line = "a file of the archive is damaged: its rows cannot be read, the sink goes on without it"
	if n := b.logged.Count(line); n != 2 {
		t.Errorf("the damaged file was logged %d times by two sinks", n)
	}
	look, err := Look(b.cfg)
	if err != nil || len(look.Damaged) != 1 || !strings.Contains(look.Damaged[0].Error(), path) {
		t.Errorf("the archive is seen with the damage %v, %v", look.Damaged, err)
	}
	remove(t, path)
	grow(again)
	b.check()
	if n := value(t, b.metrics.damaged); n != 0 {
		t.Errorf("%v damaged files are shown once there is none", n)
	}
}

func readRowsOf(t *testing.T, path string) []schemas.Row {
	t.Helper()
	rows, _, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestDamageThatHidesTheEnd: an unreadable compacted file stops the sink where it may have the end of its
// chain, or the start of a draft. The files around it leave that open, or do not.
func TestDamageThatHidesTheEnd(t *testing.T) {
	t.Parallel()
	const d1, d2, d3 = "1970-01-01", "1970-01-02", "1970-01-03"
	type file struct {
		date, previous string
		start, next    int64
	}
	for name, c := range map[string]struct {
		files []file
		lost  []file // in compacted files, of which the first is damaged
		end   tail
		ends  error
	}{
		"a small file lies behind it": {
			files: []file{{d2, d1, 9, 12}}, lost: []file{{d1, "", 0, 9}}, end: tail{next: 12, date: d2},
		},
		"it had two ranges": {
			files: []file{{d2, d1, 5, 7}, {d2, d1, 9, 12}}, lost: []file{{d1, "", 0, 5}}, end: tail{next: 12, date: d2},
		},
		"nothing lies behind it": {lost: []file{{d1, "", 0, 9}}, ends: ErrBadFile},
		"no small file lies behind it": {
			lost: []file{{d1, "", 0, 5}, {d2, d1, 5, 7}}, ends: ErrBadFile,
		},
		"a file is missing behind it": {
			files: []file{{d2, d1, 9, 12}, {d3, d2, 15, 16}}, lost: []file{{d1, "", 0, 9}}, ends: ErrHole,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := openTest(t, t.TempDir(), nil)
			for _, f := range c.files {
				footer := Footer{Topic: "t", Start: f.start, Next: f.next, PreviousDate: f.previous}
				if err := a.commit(f.date, nil, footer); err != nil {
					t.Fatal(err)
				}
			}
			for i, f := range c.lost {
				if err := os.MkdirAll(a.dateDir(f.date), 0o755); err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					putCompacted(t, a, f.date, nil, Range{Start: f.start, Next: f.next, PreviousDate: f.previous})
				}
			}
			path := rot(t, a, c.lost[0].date, 0, c.lost[0].start)
			a = openTest(t, filepath.Dir(a.root), nil)
			tails, err := a.tails()
			if !errors.Is(err, c.ends) || c.ends == nil && tails[0] != c.end {
				t.Fatalf("tails: %v, %v, want %v, %v", tails, err, c.end, c.ends)
			}
			if errors.Is(c.ends, ErrBadFile) && !strings.Contains(err.Error(), path+": no footer at its end: "+
				"bring it back from a copy; it may be the last of its partition") {
				t.Errorf("the error names another file or no remedy: %v", err)
			}
			if c.ends != nil {
				return
			}
			// A draft that another sink has written may be in the damaged file: it must not be written again.
			inHand := Footer{Topic: "t", Start: 3, Next: 4}
			if err := a.commit(d1, nil, inHand); !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), path) {
				t.Errorf("what may lie in the damaged file: %v, want ErrBadFile", err)
			}
			if err := a.commit(d2, nil, Footer{Topic: "t", Start: c.end.next, Next: 20, PreviousDate: d2}); err != nil {
				t.Errorf("behind the end: %v", err)
			}
		})
	}
}
