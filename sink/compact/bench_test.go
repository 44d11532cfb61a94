package compact

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/sink"
)

const (
	testTopic = "t"
	testDate  = "2026-11-21"
	dayMs     = 1795219200000 // its midnight
)

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
