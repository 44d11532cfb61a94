package archive

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

const (
	benchMetrics    = 40
	benchJobs       = 23 // of one of eight partitions, at a time
	benchIntervalMs = 60_000
	benchDays       = 365
)

// yearArchive makes a year of jobs, and two dates of summaries at full size. There are 185 jobs at a time with 40
// metrics, each minute, in eight compacted files a date. Job 1000000 ran from noon to noon. The other
// seven files are one file, without that job.
func yearArchive(b *testing.B) (dir string) {
	b.Helper()
	dir = b.TempDir()
	r := rand.New(rand.NewPCG(14, 7))
	midnight := time.Date(2026, 6, 2, 0, 0, 0, 0, time.UTC)
	for day := range benchDays {
		date := time.Date(2026, 1, 1+day, 0, 0, 0, 0, time.UTC)
		var rows []jobRow
		for job := range 2 * 185 {
			start := date.UnixMilli() - int64(r.IntN(43_200_000))
			rows = append(rows, jobRow{"c", fmt.Sprint(2_000_000 + 400*day + job), 0, &start, start + 43_200_000})
		}
		if date.Equal(midnight) {
			start := midnight.Add(-12 * time.Hour).UnixMilli()
			rows = append(rows, jobRow{"c", "1000000", 0, &start, start + 86_400_000})
		}
		writeJobs(b, dir, date.Format(time.DateOnly), rows)
	}
	for half, from := range []time.Time{midnight.AddDate(0, 0, -1), midnight} {
		at := sink.DatePath(dir, from.Format(time.DateOnly))
		if err := os.MkdirAll(at, 0o755); err != nil {
			b.Fatal(err)
		}
		for partition, first := range []int{1_000_000, 2_000_000} {
			writeBench(b, filepath.Join(at, fmt.Sprintf("p%d.parquet", partition)), r, first, from, half)
		}
		for partition := 2; partition < 8; partition++ {
			other := filepath.Join(at, fmt.Sprintf("p%d.parquet", partition))
			if err := os.Link(filepath.Join(at, "p1.parquet"), other); err != nil {
				b.Fatal(err)
			}
		}
	}
	return dir
}

// writeBench writes a date of a partition as a compaction does. The first job has one half of the day alone.
func writeBench(b *testing.B, path string, r *rand.Rand, firstJob int, day time.Time, half int) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewGenericWriter[schemas.Row](f, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.MaxRowsPerRowGroup(256<<10), parquet.PageBufferSize(32<<10),
		parquet.DefaultEncodingFor(parquet.Double, &parquet.ByteStreamSplit))
	day0, unit, scope, zero, node := day.UnixMilli(), "1", "core", 0.0, "i01r01c01s01"
	rows := make([]schemas.Row, 0, 1024)
	flush := func() {
		if _, err := w.Write(rows); err != nil {
			b.Fatal(err)
		}
		rows = rows[:0]
	}
	for job := range benchJobs {
		id := fmt.Sprint(firstJob + job)
		for m := range benchMetrics {
			metric := fmt.Sprintf("metric_%02d", m)
			for i := range 24 * 60 {
				if job == 0 && (i < 12*60) == (half == 0) {
					continue // it ran from noon to noon
				}
				count, nodes, invalid := int64(768), int32(16), int64(0)
				var d [13]float64
				for k := range d {
					d[k] = float64(int(r.NormFloat64()*100)) / 10
				}
				rows = append(rows, schemas.Row{
					Cluster: "c", JobID: id, IntervalStart: day0 + int64(i)*benchIntervalMs,
					IntervalMs: benchIntervalMs,
					Metric:     &metric, Unit: &unit, Scope: &scope, Method: schemas.MethodExact,
					Parts: 1, PartsReported: 1,
					NodesExpected: 16, NodesReported: 16, Nodes: &nodes, Count: &count, Invalid: &invalid,
					Mean: &d[11], Stddev: &d[12], NodeStddev: &d[12], LowNode: &node, HighNode: &node,
					D0: &d[0], D1: &d[1], D2: &d[2], D3: &d[3], D4: &d[4], D5: &d[5], D6: &d[6], D7: &d[7], D8: &d[8],
					D9: &d[9], D10: &d[10], RankError: &zero,
				})
				if len(rows) == cap(rows) {
					flush()
				}
			}
		}
	}
	flush()
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSeries reads one metric of a job of a day from a year, with its dates from jobs. Lives is the part
// that finds the dates.
func BenchmarkSeries(b *testing.B) {
	dir := yearArchive(b)
	b.Run("lives", func(b *testing.B) {
		begin := processorTime(b)
		for b.Loop() {
			if lives, err := Lives(b.Context(), dir, "1000000"); err != nil || len(lives) != 1 {
				b.Fatal(lives, err)
			}
		}
		b.ReportMetric((processorTime(b)-begin).Seconds()*1000/float64(b.N), "cpu-ms/op")
	})
	for name, columns := range map[string][]string{
		"mean": {"mean"}, "fan": {"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10"},
	} {
		b.Run(name, func(b *testing.B) {
			begin := processorTime(b)
			for b.Loop() {
				points, err := series(b.Context(), dir, "1000000", "metric_17", columns...)
				if err != nil || len(points) != 1440 {
					b.Fatal(len(points), err)
				}
			}
			b.ReportMetric((processorTime(b)-begin).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime returns what the process has taken of all cores.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
