package totals

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

// benchArchive writes jobs with metrics that run for a day, a small file an hour with several intervals.
func benchArchive(b *testing.B, lives, metrics, intervals int) (dir string, hours, rows int) {
	b.Helper()
	dir = b.TempDir()
	rnd := rand.New(rand.NewPCG(3, 3))
	var of []schemas.Row // some rows, which all jobs share
	for kind := range 3 {
		for range 20 {
			of = append(of, rowOf("", 0, valuesOf(rnd, kind, 2048), quantile.Large, fmt.Sprint("n", rnd.IntN(64))))
		}
	}
	names := make([]string, metrics)
	for i := range names {
		names[i] = fmt.Sprintf("metric_%02d", i)
	}
	start, end := firstDay.UnixMilli(), firstDay.Add(24*time.Hour-1).UnixMilli()
	var ended []jobs.Row
	for job := range lives {
		ended = append(ended, jobs.Row{Cluster: "c", JobID: fmt.Sprintf("%05d", job), Start: &start, End: end})
	}
	previous := ""
	add := func(date string, start int64, rows []schemas.Row) {
		f := sink.Footer{
			Topic: testTopic, Start: start, Next: start + 1, Rows: int64(len(rows)), PreviousDate: previous,
		}
		if err := sink.Append(dir, testTopic, date, rows, f); err != nil {
			b.Fatal(err)
		}
		previous = date
	}
	for hour := range int64(24) {
		var all []schemas.Row
		for _, job := range ended {
			for _, name := range names {
				for i := range intervals {
					r := of[rnd.IntN(len(of))]
					r.JobID, r.Metric, r.IntervalStart = job.JobID, &name, start+hour*hourMs+int64(i)*60_000
					all = append(all, r)
				}
			}
		}
		add(dateOf(start), hour, all)
		rows += len(all)
	}
	add(endDate, 24, nil)
	if err := jobs.Put(b.Context(), dir, "weir.jobs", "", ended); err != nil {
		b.Fatal(err)
	}
	return dir, lives * metrics * 24, rows
}

// BenchmarkTotals makes the totals of a day: of small files, and of rollups.
func BenchmarkTotals(b *testing.B) {
	dir, hours, rows := benchArchive(b, 20, 40, 3)
	for _, compacted := range []bool{false, true} {
		name, n, unit := "small files", rows, "µs/row"
		if compacted {
			name, n, unit = "rollups", hours, "µs/hour"
			if err := compact.Run(b.Context(), compact.Options{Dir: dir, Topic: testTopic}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name, func(b *testing.B) {
			var last Date
			heap, began := uint64(0), cpuTime()
			for b.Loop() {
				_ = os.Remove(Path(dir, dateOf(firstDay.UnixMilli())))
				err := Run(b.Context(), Options{
					Dir: dir, Topic: testTopic, Frontier: always, Report: func(d Date) { last = d },
				})
				if err != nil || last.State != Written {
					b.Fatal(err, last)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap = max(heap, m.HeapInuse)
			}
			b.ReportMetric(float64((cpuTime()-began).Microseconds())/float64(b.N)/float64(n), "CPU-"+unit)
			b.ReportMetric(float64(last.Bytes)/float64(last.Rows), "B/total")
			b.ReportMetric(float64(heap)/1e6, "MB")
		})
	}
	b.Run("nothing changed", func(b *testing.B) {
		for b.Loop() {
			if err := Run(b.Context(), Options{Dir: dir, Topic: testTopic, Frontier: always}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// cpuTime returns what the process has used of all cores.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
