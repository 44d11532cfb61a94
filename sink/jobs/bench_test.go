package jobs

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/sinktest"
	"github.com/weirhpc/weir/sink/table"
)

// day returns a store with the jobs of a date.
func day(t testing.TB, n int) store {
	t.Helper()
	s := newStore(t)
	rows := map[table.Key]Row{}
	for i := range n {
		r := Row{
			Cluster: "c", JobID: fmt.Sprint(1_000_000 + i), Name: fmt.Sprint("case-", i%1000),
			User: fmt.Sprint("user", i%700), Nodes: []string{fmt.Sprint("node", i%9000)}, NodeCount: 1,
			Start: new(epoch + int64(i)),
			End:   epoch + int64(i) + 60_000, State: "COMPLETED", Position: int64(i),
		}
		rows[files.Key(&r)] = r
	}
	if bad, err := s.Write(t.Context(), sinktest.LockFor, "", rows); err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
	return s
}

// add adds a job to a day of jobs. It fails if this takes the archive's lock.
func add(t testing.TB, s store, n int) {
	t.Helper()
	s.Before = func(action, path string) error {
		if action == sink.ActLock && path == sink.LockPath(s.Dir) {
			return errors.New("readers wait for it")
		}
		return sinktest.NoSync(action, path)
	}
	r := Row{Cluster: "c", JobID: fmt.Sprint("more", n), Start: new(epoch), End: epoch + 1}
	r.Position = int64(1_000_000 + n)
	if bad, err := s.Write(t.Context(), sinktest.LockFor, "", map[table.Key]Row{files.Key(&r): r}); err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
}

// TestOneMoreJob: one more job on a date of many takes little memory, and no reader waits for it.
func TestOneMoreJob(t *testing.T) {
	s := day(t, 120_000)
	if grown := sinktest.Peak(func() { add(t, s, 1) }); grown > 64<<20 {
		t.Errorf("it took %d MiB", grown>>20)
	}
}

// BenchmarkOneMore adds a job to the 300,000 of a date.
func BenchmarkOneMore(b *testing.B) {
	s := day(b, 300_000)
	most, n := int64(0), 0
	for b.Loop() {
		n++
		most = max(most, sinktest.Peak(func() { add(b, s, n) }))
	}
	b.ReportMetric(float64(most)/1e6, "MB-peak")
}
