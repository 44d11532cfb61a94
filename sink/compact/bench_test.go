package compact

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

const (
	testTopic = "t"
	testDate  = "2026-11-21"
	dayMs     = 1795219200000 // its midnight
)

// machine makes the rows of a large machine: jobs of several sizes, and metrics of four kinds.
type machine struct {
	rnd           *rand.Rand
	jobs, metrics int
	certified     bool // rows have summaries
	known         map[[2]int][]quantile.Summary
}

func newMachine(certified bool) machine {
	return machine{rand.New(rand.NewPCG(1, 2)), 185 / 8, 40, certified, map[[2]int][]quantile.Summary{}}
}

// certify gives a row a summary of 2,560 values. Of each job and metric it makes a few, and shifts them after that.
func (m machine) certify(r *schemas.Row, key [2]int, v []float64) {
	s := &quantile.Summary{}
	if m.known[key] = slices.Grow(m.known[key], 4); len(m.known[key]) < 4 {
		*s = certified(m.rnd, v)
		m.known[key] = append(m.known[key], *s)
	} else {
		*s = shifted(m.known[key][m.rnd.IntN(4)], 1+m.rnd.Float64()/100)
	}
	setSummary(r, s)
}

func shifted(s quantile.Summary, by float64) quantile.Summary {
	s.Order, s.Knots, s.Atoms = slices.Clone(s.Order), slices.Clone(s.Knots), slices.Clone(s.Atoms)
	for i := range s.Order {
		s.Order[i] *= by
	}
	for i := range s.Knots {
		s.Knots[i].Value *= by
	}
	for i := range s.Atoms {
		s.Atoms[i].Value *= by
	}
	return s
}

// rows returns the rows of one interval.
func (m machine) rows(startMs, lengthMs int64) []schemas.Row {
	var rows []schemas.Row
	for job := range m.jobs {
		nodes := int32(1 + job%7*8)
		count := int64(nodes) * 48
		level := 5 + float64(job*37%90)
		for metric := range m.metrics {
			v := make([]float64, 64)
			for i := range v {
				switch x := m.rnd.NormFloat64(); metric % 4 {
				case 0: // a share of jiffies, in steps
					v[i] = float64(int(level*10+x*20)) / 10
				case 1: // a ratio
					v[i] = 1 + level/100 + x/10
				case 2: // mostly zero
					if x > 2 {
						v[i] = x
					}
				case 3: // bytes a second
					v[i] = float64(int64(level*1e6 + x*1e5))
				}
			}
			name := fmt.Sprintf("metric_%02d", metric)
			r := rowOf(fmt.Sprint(1_000_000+job), name, startMs, lengthMs, nodes, count, v)
			if m.certified {
				m.certify(&r, [2]int{job, metric}, v)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// certified returns a summary of 40 times as many values as v has.
func certified(rnd *rand.Rand, v []float64) quantile.Summary {
	var many []float64
	for range 40 {
		for _, x := range v {
			many = append(many, x+float64(rnd.IntN(100))/100)
		}
	}
	_, s := quantile.Certify(many, quantile.Large)
	return s
}

func setSummary(r *schemas.Row, s *quantile.Summary) {
	r.Count, r.Eps, r.OrderStatistics = &s.Count, &s.Eps, s.Order
	for _, k := range s.Knots {
		r.KnotValues, r.KnotRanks = append(r.KnotValues, k.Value), append(r.KnotRanks, k.Rank)
	}
	for _, a := range s.Atoms {
		r.AtomValues, r.AtomCounts = append(r.AtomValues, a.Value), append(r.AtomCounts, a.Count)
	}
}

func rowOf(job, metric string, startMs, lengthMs int64, nodes int32, count int64, v []float64) schemas.Row {
	low, high := "i01r01c01s01", "i01r02c03s0"+fmt.Sprint(int(v[0])&7)
	slices.Sort(v)
	mean := 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	unit, scope, zero, spread, nodeSpread, invalid := "%", schemas.ScopeCore, 0.0, v[40]-v[20], v[35]-v[30], int64(0)
	r := schemas.Row{
		Cluster: "supermuc", JobID: job, IntervalStart: startMs, IntervalMs: lengthMs,
		Metric: &metric, Unit: &unit, Scope: &scope, Method: schemas.MethodExact, Parts: 1, PartsReported: 1,
		NodesExpected: nodes, NodesReported: nodes, Nodes: &nodes, Count: &count, Invalid: &invalid,
		Mean: &mean, Stddev: &spread, NodeStddev: &nodeSpread, LowNode: &low, HighNode: &high, RankError: &zero,
	}
	for i, d := range []**float64{&r.D0, &r.D1, &r.D2, &r.D3, &r.D4, &r.D5, &r.D6, &r.D7, &r.D8, &r.D9, &r.D10} {
		*d = &v[min(i*6, 63)]
	}
	return r
}

// smallFiles writes n files of a partition, of five intervals each, and returns how many rows they have.
func smallFiles(tb testing.TB, dir string, n int, m machine) (paths []string, rows int64) {
	tb.Helper()
	for i := range int64(n) {
		var all []schemas.Row
		for k := range int64(5) {
			all = append(all, m.rows(dayMs+(i*5+k)*60_000, 60_000)...)
		}
		f := sink.Footer{Topic: testTopic, Start: i, Next: i + 1, Rows: int64(len(all)), PreviousDate: testDate}
		if err := sink.Append(dir, testTopic, testDate, all, f); err != nil {
			tb.Fatal(err)
		}
		rows += int64(len(all))
	}
	paths, err := filepath.Glob(filepath.Join(sink.DatePath(dir, testDate), "*.parquet"))
	if err != nil || len(paths) != n {
		tb.Fatal(paths, err)
	}
	return paths, rows
}

// heapNow does not stop the process, as runtime.ReadMemStats does.
func heapNow() uint64 {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	return heap[0].Value.Uint64()
}

// BenchmarkWriteCompacted: bytes and time of a row, from rows in memory.
func BenchmarkWriteCompacted(b *testing.B) {
	dir := b.TempDir()
	paths, _ := smallFiles(b, dir, 12, newMachine(false))
	var inputs []input
	for _, p := range paths {
		r, err := openReader(p, newTexts())
		if err != nil {
			b.Fatal(err)
		}
		inputs = append(inputs, r)
	}
	run := filepath.Join(dir, "run")
	file, err := os.Create(run)
	if err != nil {
		b.Fatal(err)
	}
	var read tally
	w := newWriter(file)
	if err := merge(b.Context(), inputs, w.Write, func(r *row) error { read.add(r); return nil }); err != nil {
		b.Fatal(err)
	}
	f := sink.Footer{Topic: testTopic, Next: 12}
	f.Compacted = &sink.Compacted{Ranges: []sink.Range{{Next: 12}}, Generation: 1}
	read.put(&f)
	if err := errors.Join(f.Put(w.SetKeyValueMetadata), w.Close()); err != nil {
		b.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		b.Fatal(err)
	}
	var all []row
	r, err := openReader(run, newTexts())
	if err != nil {
		b.Fatal(err)
	}
	for r.fill() == nil {
		all = append(all, copyRows(r.rows)...)
	}
	if int64(len(all)) != read.rows {
		b.Fatal(len(all), read.rows)
	}
	began := cpuTime()
	b.ResetTimer()
	for b.Loop() {
		w := newWriter(io.Discard)
		for chunk := range slices.Chunk(all, batchRows) {
			if _, err := w.Write(chunk); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	n := float64(len(all)) * float64(b.N)
	b.ReportMetric(float64(info.Size())/float64(len(all)), "B/row")
	b.ReportMetric(n/(cpuTime()-began).Seconds(), "rows/cpu-s")
}

// copyRows copies rows, and their values column by column, as a reader has them.
func copyRows(rows []row) []row {
	out := slices.Clone(rows)
	for _, c := range columns {
		switch {
		case c.floatPtr != nil:
			copyColumn(out, c.floatPtr)
		case c.int32Ptr != nil:
			copyColumn(out, c.int32Ptr)
		case c.int64Ptr != nil:
			copyColumn(out, c.int64Ptr)
		}
	}
	return out
}

func copyColumn[T any](rows []row, cell func(*row) **T) {
	values := make([]T, 0, len(rows))
	for i := range rows {
		if v := *cell(&rows[i]); v != nil {
			values = append(values, *v)
			*cell(&rows[i]) = &values[len(values)-1]
		}
	}
}

// BenchmarkReadByColumn: the reader alone.
func BenchmarkReadByColumn(b *testing.B) {
	paths, rows := smallFiles(b, b.TempDir(), 4, newMachine(false))
	b.ResetTimer()
	for b.Loop() {
		for _, p := range paths {
			r, err := openReader(p, newTexts())
			if err != nil {
				b.Fatal(err)
			}
			for r.fill() == nil {
			}
			if err := r.close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

// BenchmarkCompact: a date of a partition from many small files. It reports the time of a row on one core, the
// largest heap, and how many files are left.
func BenchmarkCompact(b *testing.B) {
	for _, c := range []struct {
		files     int
		certified bool
	}{{30, false}, {288, false}, {30, true}, {60, true}} {
		n := c.files
		b.Run(fmt.Sprintf("%d files, summaries %v", n, c.certified), func(b *testing.B) {
			var cpu time.Duration
			var largest uint64
			var total, bytes int64
			var files int
			for range b.N {
				b.StopTimer()
				dir := b.TempDir()
				_, rows := smallFiles(b, dir, n, newMachine(c.certified))
				next := sink.Footer{Topic: testTopic, Start: int64(n), Next: int64(n + 1), PreviousDate: testDate}
				if err := sink.Append(dir, testTopic, "2026-11-23", nil, next); err != nil {
					b.Fatal(err)
				}
				c := newCompactor(Options{Dir: dir, Topic: testTopic, Report: func(d Date) {
					bytes, files = bytes+d.BytesAfter, files+d.FilesAfter
				}})
				c.now = func() time.Time { return time.UnixMilli(dayMs).Add(72 * time.Hour) }
				runtime.GC()
				b.StartTimer()
				began, stop := cpuTime(), watchHeap(&largest)
				if err := c.run(b.Context()); err != nil {
					b.Fatal(err)
				}
				stop()
				cpu += cpuTime() - began
				total += rows
			}
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(total), "cpu-ns/row")
			b.ReportMetric(float64(bytes)/float64(total), "B/row")
			b.ReportMetric(float64(largest)/1e6, "MB-heap")
			b.ReportMetric(float64(files)/float64(b.N), "files/partition")
		})
	}
}

// cpuTime returns the time that this process has spent on processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchHeap notes the largest heap until stop is called.
func watchHeap(largest *uint64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				*largest = max(*largest, heapNow())
			}
		}
	}()
	return func() { close(done); <-ended }
}
