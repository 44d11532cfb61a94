package findings

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/sinktest"
	"github.com/weirhpc/weir/sink/table"
)

// day returns a store with the findings of a date.
func day(t testing.TB, n int) store {
	t.Helper()
	s := newStore(t)
	rows := map[table.Key]Row{}
	for i := range n {
		f := final(fmt.Sprint(1_000_000+i/3), fmt.Sprint("rule-", i%3), "Memory limits the job", epoch+int64(i))
		r, _ := rowOf(&f, int64(i))
		rows[files.Key(&r)] = r
	}
	if bad, err := s.Write(t.Context(), sinktest.LockFor, "", rows); err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
	return s
}

// add adds a finding to a day of findings, and returns how long the archive's lock was held.
func add(t testing.TB, s store, n int) (locked time.Duration) {
	t.Helper()
	f := final(fmt.Sprint("more", n), "serial", "One core works", epoch)
	r, _ := rowOf(&f, int64(1_000_000+n))
	var since time.Time
	s.Before = func(action, path string) error {
		if action == sink.ActLock && path == sink.LockPath(s.Dir) {
			since = time.Now()
		}
		return sinktest.NoSync(action, path)
	}
	if bad, err := s.Write(t.Context(), sinktest.LockFor, "", map[table.Key]Row{files.Key(&r): r}); err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
	if !since.IsZero() {
		locked = time.Since(since)
	}
	return locked
}

// TestOneMoreFinding: one more finding on a date of many takes little memory, and no reader waits for it.
func TestOneMoreFinding(t *testing.T) {
	s := day(t, 120_000)
	var locked time.Duration
	if grown := sinktest.Peak(func() { locked = add(t, s, 1) }); grown > 64<<20 || locked > 0 {
		t.Errorf("it took %d MiB, and the archive's lock for %v", grown>>20, locked)
	}
}

// BenchmarkOneMore adds a finding to the 300,000 of a date.
func BenchmarkOneMore(b *testing.B) {
	s := day(b, 300_000)
	most, locked, n := int64(0), time.Duration(0), 0
	for b.Loop() {
		n++
		most = max(most, sinktest.Peak(func() { locked = max(locked, add(b, s, n)) }))
	}
	b.ReportMetric(float64(most)/1e6, "MB-peak")
	b.ReportMetric(locked.Seconds(), "s-locked")
}
