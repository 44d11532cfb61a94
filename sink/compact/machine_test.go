package compact

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
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
