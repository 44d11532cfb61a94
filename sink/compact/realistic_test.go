package compact

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

const coresOfNode = 48

// partitionNodes are the nodes of each job of one partition of eight: in all an eighth of 148,608 cores.
var partitionNodes = []int{
	1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 16, 16, 16, 24, 24, 32, 32, 40, 48, 46, 48,
}

// series makes the values of a metric of a job, core by core. The cores differ, and the level of all drifts.
type series struct {
	rnd    *rand.Rand
	kind   int
	level  float64
	cores  []float64 // offsets
	values []float64 // of the interval
}

func newSeries(rnd *rand.Rand, metric, nodes int) *series {
	s := &series{rnd: rnd, kind: metric % 4, level: rnd.Float64()}
	for range nodes * coresOfNode {
		s.cores = append(s.cores, rnd.NormFloat64()/20)
	}
	s.values = make([]float64, len(s.cores))
	return s
}

// next makes the values of the next interval of 60 s.
func (s *series) next() []float64 {
	s.level = min(max(s.level+s.rnd.NormFloat64()/100, 0), 1)
	for i, core := range s.cores {
		x := min(max(s.level+core+s.rnd.NormFloat64()/50, 0), 1)
		switch s.kind {
		case 0: // a share of the time, which the kernel counts in jiffies
			s.values[i] = math.Round(x*6000) / 60
		case 1: // a ratio of two counters
			s.values[i] = math.Floor(x*1.6e11) / math.Floor(1.6e11*(1+core/10))
		case 2: // events a second, mostly none
			s.values[i] = 0
			if x > 0.95 || s.rnd.IntN(30) == 0 {
				s.values[i] = math.Floor(s.rnd.ExpFloat64()*100) / 60
			}
		case 3: // bytes of memory, in pages
			s.values[i] = math.Floor(x*1.2e6) * 4096
		}
	}
	return s.values
}

// realisticRow reduces values as collectors do: all at once, or, if estimated, as two shares that are merged.
func realisticRow(job int, metric string, startMs int64, values []float64, estimated bool) schemas.Row {
	nodes := int32(len(values) / coresOfNode)
	var names [2]string
	var means []float64
	for i := range int(nodes) {
		mean, _ := quantile.Mean(values[i*coresOfNode : (i+1)*coresOfNode])
		means = append(means, mean)
	}
	for i, at := range []float64{slices.Min(means), slices.Max(means)} {
		n := slices.Index(means, at) + job*50
		names[i] = fmt.Sprintf("i%02dr%02dc%02ds%02d", n/1152%8+1, n/144%8+1, n/12%12+1, n%12+1)
	}
	var shares []quantile.Summary
	if half := len(values) / 2; estimated {
		for _, part := range [][]float64{values[:half], values[half:]} {
			_, s := quantile.Certify(slices.Clone(part), quantile.Large)
			shares = append(shares, s)
		}
	}
	d, spread := quantile.Reduce(values), quantile.Reduce(means)
	deviation, nodeDeviation, zero := d.Stddev(), spread.Stddev(), 0.0
	unit, scope := "%", schemas.ScopeCore
	r := schemas.Row{
		Cluster: "supermuc", JobID: fmt.Sprint(1_000_000 + job), IntervalStart: startMs, IntervalMs: 60_000,
		Metric: &metric, Unit: &unit, Scope: &scope, Method: schemas.MethodExact, Parts: 1, PartsReported: 1,
		NodesExpected: nodes, NodesReported: nodes, Nodes: &nodes, Count: &d.Count, Invalid: &d.Invalid,
		Mean: &d.Mean, Stddev: &deviation, NodeStddev: &nodeDeviation, LowNode: &names[0], HighNode: &names[1],
		RankError: &zero,
	}
	if e, ok := quantile.Merge(shares); ok && !e.Exact {
		r.Method, r.Parts, r.PartsReported = schemas.MethodEstimated, 2, 2
		d.Deciles, r.RankError = e.Deciles, &e.RankError
		r.Lo, r.Hi = e.Lo[:], e.Hi[:]
	}
	for i, to := range []**float64{&r.D0, &r.D1, &r.D2, &r.D3, &r.D4, &r.D5, &r.D6, &r.D7, &r.D8, &r.D9, &r.D10} {
		*to = &d.Deciles[i]
	}
	return r
}

// BenchmarkRealisticValues: the size of rows that are made of values as cores have them, in an hour of one partition.
func BenchmarkRealisticValues(b *testing.B) {
	for _, estimated := range []bool{false, true} {
		b.Run(fmt.Sprintf("estimated %v", estimated), func(b *testing.B) {
			dir, rnd := b.TempDir(), rand.New(rand.NewPCG(1, 3))
			var files [][]schemas.Row
			for range 12 {
				files = append(files, nil)
			}
			for job, nodes := range partitionNodes {
				for metric := range 40 {
					s := newSeries(rnd, metric, nodes)
					for i := range 60 {
						name := fmt.Sprintf("metric_%02d", metric)
						r := realisticRow(job, name, dayMs+int64(i)*60_000, s.next(), estimated && nodes > 1)
						files[i/5] = append(files[i/5], r)
					}
				}
			}
			for i, rows := range files {
				f := sink.Footer{
					Topic: testTopic, Start: int64(i), Next: int64(i + 1), Rows: int64(len(rows)),
					PreviousDate: testDate,
				}
				if err := sink.Append(dir, testTopic, testDate, rows, f); err != nil {
					b.Fatal(err)
				}
			}
			paths, err := filepath.Glob(filepath.Join(sink.DatePath(dir, testDate), "*.parquet"))
			if err != nil {
				b.Fatal(err)
			}
			small, rows := int64(0), 0
			for _, p := range paths {
				small += sizeOf(p)
			}
			for b.Loop() {
				rows = 0
				var inputs []input
				for _, p := range paths {
					r, err := openReader(p, newTexts())
					if err != nil {
						b.Fatal(err)
					}
					inputs = append(inputs, r)
				}
				file, err := os.Create(filepath.Join(dir, "compacted"))
				if err != nil {
					b.Fatal(err)
				}
				w := newWriter(file)
				err = merge(b.Context(), inputs, w.Write, func(*row) error { rows++; return nil })
				if err := errors.Join(err, w.Close(), closeAll(inputs), file.Close()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(sizeOf(filepath.Join(dir, "compacted")))/float64(rows), "B/row")
			b.ReportMetric(float64(small)/float64(rows), "B/small-row")
		})
	}
}
