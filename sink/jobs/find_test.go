package jobs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/sinktest"
	"github.com/weirhpc/weir/sink/table"
)

// TestFind compares what Find returns with all rows, for ids of any length that lie in any order on any date.
func TestFind(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 5))
	ids := []string{"1", "10", "2", strings.Repeat("a", 64), strings.Repeat("a", 63) + "b", "z", "none"}
	s := newStore(t)
	var log []Row
	for i := range int64(300) {
		id := ids[rnd.IntN(len(ids)-1)]
		if i%2 == 0 {
			id = fmt.Sprint("job", rnd.IntN(1000))
		}
		log = append(log, Row{
			Cluster: "c", JobID: id, Restart: int32(i), End: epoch + rnd.Int64N(20)*dayMs, Position: i,
			Nodes: []string{id}, NodeCount: 1, State: schemas.StateCompleted,
		})
	}
	s.put(t, "id", log...)
	all := stored(t, s.Dir)
	for _, id := range ids {
		got, err := Find(t.Context(), s.Dir, id)
		if err != nil {
			t.Fatal(err)
		}
		var want []Row
		for _, r := range all {
			if r.JobID == id {
				want = append(want, r)
			}
		}
		slices.SortFunc(want, func(a, b Row) int {
			return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Restart, b.Restart))
		})
		if diff := gocmp.Diff(want, got); diff != "" || (id == "none") != (len(got) == 0) {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	if rows, err := Find(t.Context(), t.TempDir(), "1"); err != nil || rows != nil {
		t.Errorf("an archive without jobs: %v, %v", rows, err)
	}
}

func TestStat(t *testing.T) {
	s := newStore(t)
	s.put(t, "id", Row{JobID: "1", End: epoch}, Row{JobID: "2", End: epoch})
	if n, size, err := Stat(s.Dir, "2026-11-20"); n != 2 || size == 0 || err != nil {
		t.Error(n, size, err)
	}
	if n, size, err := Stat(s.Dir, "2026-11-21"); n != 0 || size != 0 || err != nil {
		t.Error(n, size, err)
	}
	if err := os.Rename(Path(s.Dir, "2026-11-20"), filepath.Join(s.Dir, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(s.Dir, "2026-11-20"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Dir(Path(s.Dir, "2026-11-22")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.Dir, "x"), Path(s.Dir, "2026-11-22")); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(s.Dir, "2026-11-22"); err == nil || !strings.Contains(err.Error(), "belongs to 2026-11-20") {
		t.Error(err)
	}
}

// TestOlderColumns: a file that a weir wrote before a column was added is read, and gets the column when it is written
// anew. A file of a newer weir stays as it is.
func TestOlderColumns(t *testing.T) {
	s := newStore(t)
	path := Path(s.Dir, "2026-11-20")
	older, err := os.ReadFile("testdata/older.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, older, 0o644); err != nil {
		t.Fatal(err)
	}
	has := Row{
		Cluster: "c", JobID: "4711", User: "ada", Nodes: []string{"n1"}, End: epoch, State: "COMPLETED", Position: 3,
	}
	equal(t, last([]Row{has}), stored(t, s.Dir), "an older file")
	added := Row{
		Cluster: "c", JobID: "4712", NodeCount: 1, Exclusive: new(true), End: epoch, Position: 4,
		ArrayJob: new("4700"), ArrayTask: new(int32(12)),
	}
	s.put(t, "id", added)
	has.Position = 3
	equal(t, last([]Row{has, added}), stored(t, s.Dir), "written anew")

	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	version := bytes.Index(now, []byte("weir.jobs"))
	at := version + len("weir.jobs") + bytes.IndexByte(now[version+len("weir.jobs"):], '3')
	now[at] = '9'
	if err := os.WriteFile(path, now, 0o644); err != nil {
		t.Fatal(err)
	}
	bad, err := s.Write(t.Context(), sinktest.LockFor, "id", last([]Row{{JobID: "1", End: epoch}}))
	if fault := bad["2026-11-20"]; err != nil || !strings.Contains(fmt.Sprint(fault), "a newer weir wrote it") || errors.Is(fault, table.ErrBadFile) {
		t.Errorf("a newer file: %v, %v", bad, err)
	}
}

// TestFlippedByte changes bytes of a file. No such file may make its reader panic, or ask for more memory than a
// process has: that would end the sink of summaries.
func TestFlippedByte(t *testing.T) {
	s := newStore(t)
	var rows []Row
	for i := range int64(200) {
		rows = append(rows, Row{
			Cluster: "c", JobID: fmt.Sprint(1000 + i), Nodes: []string{"n1", fmt.Sprint("n", i)}, Cpus: []int32{1, 2},
			End: epoch + i, Cores: &i, Exclusive: new(true),
		})
	}
	s.put(t, "id", rows...)
	path := Path(s.Dir, "2026-11-20")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	footer := len(whole) - 8 - int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	allocated := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	rnd := rand.New(rand.NewPCG(6, 6))
	for at := 0; at < len(whole); at += 1 + rnd.IntN(kafkatest.Cases(6, 200)) {
		spoilt := slices.Clone(whole)
		spoilt[at] = byte(rnd.Uint32())
		if at >= footer {
			spoilt[at] = whole[at] ^ 1<<rnd.IntN(8)
		}
		if err := os.WriteFile(path, spoilt, 0o644); err != nil {
			t.Fatal(err)
		}
		before := allocated()
		_, _ = Find(t.Context(), s.Dir, "1100") // whatever they return
		_ = Each(s.Dir, "2026-11-20", func(*Row) error { return nil })
		if got := allocated() - before; got > 64<<20 {
			t.Fatalf("byte %d of %d (footer from %d): %#x became %#x: %d bytes allocated",
				at, len(whole), footer, whole[at], spoilt[at], got)
		}
	}
}

// year makes an archive of 365 dates with 500 jobs each. Half of the jobs are in arrays, and have ids that lie between
// those of all dates.
func year(b *testing.B) (dir string) {
	b.Helper()
	dir = b.TempDir()
	for day := range int64(365) {
		rows := map[table.Key]Row{}
		for i := range int64(500) {
			r := Row{
				Cluster: "supermuc", JobID: fmt.Sprint(1_000_000 + day*500 + i), Name: "cfd",
				User:    fmt.Sprint("user", i%40),
				Account: fmt.Sprint("p", i%20), Queue: "batch", NodeCount: int32(1 + i%64), Cores: new(48 * (1 + i%64)),
				Gpus: new(int32), TimeLimitS: new(int64(86400)), Exclusive: new(true),
				Submit: new(epoch), Start: new(epoch), End: epoch + day*dayMs + i,
				State: "COMPLETED", Position: day*500 + i,
			}
			if i%2 == 1 {
				r.JobID = fmt.Sprintf("%d-%d", i*7919%100_000, day)
			}
			for n := range r.NodeCount {
				r.Nodes = append(r.Nodes, fmt.Sprintf("i01r%02dc%02ds%02d", i%11, n/8, n%8))
			}
			rows[files.Key(&r)] = r
		}
		bad, err := storeIn(dir).Write(b.Context(), sinktest.LockFor, "id", rows)
		if err != nil || len(bad) > 0 {
			b.Fatal(bad, err)
		}
	}
	return dir
}

// BenchmarkFindJob finds a job among those of a year, by an id that no statistics exclude.
func BenchmarkFindJob(b *testing.B) {
	dir := year(b)
	for name, id := range map[string]string{
		"array": fmt.Sprintf("%d-%d", 33*7919%100_000, 200), "number": fmt.Sprint(1_000_000 + 200*500 + 32),
		"absent": "50000",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if rows, err := Find(b.Context(), dir, id); err != nil || (len(rows) == 1) != (name != "absent") {
					b.Fatal(rows, err)
				}
			}
		})
	}
	b.Run("add", func(b *testing.B) { // what a sink does every five minutes
		s := storeIn(dir)
		s.Before = nil
		for i := int64(0); b.Loop(); i++ {
			r := Row{Cluster: "supermuc", JobID: fmt.Sprint(5_000_000 + i), End: epoch + 400*dayMs}
			r.Position = 1_000_000 + i
			if bad, err := s.Write(b.Context(), time.Minute, "id", last([]Row{r})); err != nil || len(bad) > 0 {
				b.Fatal(bad, err)
			}
		}
	})
	b.Run("bytes", func(b *testing.B) {
		for b.Loop() {
			_, size, err := Stat(dir, "2027-01-01")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(size)/500, "B/job")
		}
	})
}
