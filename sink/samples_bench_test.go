package sink

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// sampleRecords are the records of nodes of 16 cores with 40 metrics: shares of jiffies, ratios, counts that are mostly
// zero, and rates. A core's values follow each other. Counts and rates are divided by the time between two readings.
func sampleRecords(tb testing.TB, nodes, intervals int) (records []*kgo.Record, values int) {
	tb.Helper()
	const cores, metrics = 16, 40
	rnd := rand.New(rand.NewPCG(1, 2))
	state := make([]float64, nodes*metrics*cores)
	cpus := make([]int32, cores)
	for i := range cpus {
		cpus[i] = int32(i)
	}
	for at := range intervals {
		for n := range nodes {
			start := midnight + int64(at)*10_000
			skewMicros := rnd.Int64N(200) - 100
			elapsed := 10 + float64(skewMicros)/1e6
			b := batchOf(fmt.Sprintf("i01r%02dc%02ds%02d", n/64, n/8%8, n%8), fmt.Sprint(1_000_000+n/16), start)
			b.SampledAt += skewMicros
			b.Cpus, b.Metrics = cpus, nil
			level := 5 + float64((n/16)*37%90)
			for m := range metrics {
				v := make([]float64, cores)
				for c := range v {
					x := &state[(n*metrics+m)*cores+c]
					*x = 0.9**x + 0.43*rnd.NormFloat64() // unit variance
					switch m % 4 {
					case 0:
						v[c] = math.Floor(level*10+*x*20) / float64(999+rnd.IntN(3))
					case 1:
						v[c] = 1 + level/100 + *x/10
					case 2:
						v[c] = math.Floor(max(0, *x-2)*1000) / elapsed
					case 3:
						v[c] = math.Floor(level*1e6+*x*1e5) / elapsed
					}
				}
				b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
					Name: fmt.Sprintf("metric_%02d", m), Unit: "1/s", Scope: schemas.ScopeCore, Values: v,
				})
			}
			records = append(records, &kgo.Record{
				Value: marshal(tb, b), Partition: 3, Offset: int64(len(records)),
				Timestamp: time.UnixMilli(start + 11_000),
			})
		}
	}
	return records, nodes * intervals * metrics * cores
}

// BenchmarkSamples takes the records of one file all the way, but for Kafka and the disk. A file of SuperMUC's shape
// has about three minutes of the 145 nodes of a partition.
func BenchmarkSamples(b *testing.B) {
	cfg := config.Default()
	cfg.Cluster = "c"
	of := samples(cfg)
	records, values := sampleRecords(b, 145, 18)
	var size, memory int64
	count := writerFunc(func(p []byte) (int, error) { size += int64(len(p)); return len(p), nil })
	began := cpuTime(b)
	for b.Loop() {
		p := newDraft[measured](3, tail{})
		for _, r := range records {
			p.add(of.decode(r), time.Time{})
		}
		if len(p.rows) != values/16 || p.badCount > 0 {
			b.Fatalf("%d rows, %v", len(p.rows), p.undecodable)
		}
		f := p.footer("t")
		size, memory = 0, p.bytes
		if err := of.encode(io.Writer(count), p.rows, &f); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N)/float64(values), "cpu-ns/value")
	b.ReportMetric(float64(size)/float64(values), "B/value")
	b.ReportMetric(float64(memory)/float64(values), "draft-B/value")
}

// cpuTime is what this process has used of the processor. Other processes may keep it waiting.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
