package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/schemas"
)

// truths are the values of each node, by job, interval and metric. NaN is a missing value.
type truths map[string]map[string][]float64

func (w truths) add(job string, start int64, metric, node string, values []float64) {
	key := fmt.Sprint(job, start, metric)
	if w[key] == nil {
		w[key] = map[string][]float64{}
	}
	w[key][node] = values
}

// randomLog is a random log of counters, and the truth of it with and without late records.
type randomLog struct {
	t                *testing.T
	r                *rand.Rand
	partitions       [][]recount.Entry
	whole, collected truths
	late, duplicates int64
}

func (l *randomLog) put(p int, r schemas.Record, at int64) {
	l.t.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		l.t.Fatal(err)
	}
	log := l.partitions[p]
	l.partitions[p] = append(log, recount.Entry{Offset: int64(len(log)), AppendedMs: at, Value: value})
}

// send puts a record with random values into the log.
func (l *randomLog) send(p int, job, node string, start, at int64, into ...truths) {
	b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: "c", Node: node, IntervalStart: start, IntervalMs: 10_000, JobID: job,
	}}
	cpus := 1 + l.r.IntN(30)
	for i := range cpus {
		b.Cpus = append(b.Cpus, int32(i))
	}
	for _, name := range []string{"few", "many"} {
		values := make([]float64, cpus)
		for i := range values {
			switch {
			case l.r.IntN(10) == 0:
				values[i] = math.NaN()
			case name == "few":
				values[i] = float64(l.r.IntN(4))
			default:
				values[i] = l.r.NormFloat64()
			}
		}
		m := schemas.CounterBatchMetric{Name: name, Unit: "1", Scope: schemas.ScopeCore, Values: values}
		b.Metrics = append(b.Metrics, m)
		for _, w := range into {
			w.add(job, start, name, node, values)
			w.add(schemas.JobSystem, start, name, node, values)
		}
	}
	l.put(p, b, at)
}

// newRandomLog makes a log of some partitions. Job jP lies in partition P, and job "split" in all of them.
func newRandomLog(t *testing.T, seed uint64) *randomLog {
	l := &randomLog{t: t, r: rand.New(rand.NewPCG(31, seed)), whole: truths{}, collected: truths{}}
	l.partitions = make([][]recount.Entry, 1+l.r.IntN(4))
	parts := int32(len(l.partitions))
	for start := int64(100_000); start < 150_000; start += 10_000 {
		for p := range l.partitions {
			tick := &schemas.Tick{IntervalStart: start, IntervalMs: 10_000}
			var late []func()
			for _, job := range []schemas.TickJob{
				{JobID: fmt.Sprint("j", p), Parts: 1, JobNodes: 3}, {JobID: "split", Parts: parts, JobNodes: 3 * parts},
			} {
				for n := range 3 {
					node := fmt.Sprintf("%s-%d-%d", job.JobID, p, n)
					job.Nodes = append(job.Nodes, node)
					switch l.r.IntN(8) {
					case 0: // it sends nothing
					case 1:
						l.late++
						late = append(late, func() { l.send(p, job.JobID, node, start, start+12_000, l.whole) })
					case 2: // the first of two records counts
						l.send(p, job.JobID, node, start, start+10_100, l.whole, l.collected)
						l.send(p, job.JobID, node, start, start+10_200)
						l.duplicates++
					default:
						l.send(p, job.JobID, node, start, start+10_100, l.whole, l.collected)
					}
				}
				tick.Jobs = append(tick.Jobs, job)
			}
			l.send(p, fmt.Sprint("j", p), "stray", start, start+10_300) // no Tick lists it
			l.put(p, tick, start+11_000)
			for _, send := range late {
				send()
			}
		}
	}
	return l
}

// replay folds the log.
func (l *randomLog) replay(t Terms) (all []*schemas.JobSummary, tally Tally) {
	t.Cluster, t.Collectors, t.From, t.To = "c", int32(len(l.partitions)), recount.Never, math.MaxInt64
	f := New(t)
	at := map[Source]int{}
	for s, ok := f.Next(); ok; s, ok = f.Next() {
		if log := l.partitions[s.Partition]; at[s] < len(log) {
			f.Add(s, log[at[s]])
			at[s]++
		} else {
			f.End(s)
		}
		all = append(all, f.Ready()...)
	}
	return append(all, f.Ready()...), f.Tally
}

// rank returns the value at decile k of sorted values by its definition: rank nk/10 of n, and between two ranks the
// value between theirs.
func rank(sorted []float64, k int) float64 {
	at := max(1, float64(len(sorted)*k)/10)
	low, part := math.Modf(at)
	if part == 0 {
		return sorted[int(low)-1]
	}
	a, b := sorted[int(low)-1], sorted[int(low)]
	return a + part*(b-a)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// check compares a metric with the values of its nodes, without the arithmetic of package quantile.
func check(m *schemas.JobSummaryMetric, nodes map[string][]float64) error {
	var all []float64
	var means []float64
	missing, sum := int64(0), 0.0
	low, high := math.Inf(1), math.Inf(-1)
	for _, values := range nodes {
		of, n := 0.0, 0
		for _, v := range values {
			if math.IsNaN(v) {
				missing++
				continue
			}
			all, of, n = append(all, v), of+v, n+1
		}
		if sum += of; n > 0 {
			mean := of / float64(n)
			means, low, high = append(means, mean), min(low, mean), max(high, mean)
		}
	}
	if m.Count != int64(len(all)) || m.Invalid != missing || int(m.Nodes) != len(means) {
		return fmt.Errorf("%d values, %d missing, %d nodes: want %d, %d, %d",
			m.Count, m.Invalid, m.Nodes, len(all), missing, len(means))
	}
	if len(all) == 0 {
		return nil
	}
	mean, squares := sum/float64(len(all)), 0.0
	for _, v := range all {
		squares += (v - mean) * (v - mean)
	}
	if stddev := math.Sqrt(squares / float64(len(all))); !near(*m.Mean, mean) || !near(*m.Stddev, stddev) {
		return fmt.Errorf("mean %v, stddev %v: want %v, %v", *m.Mean, *m.Stddev, mean, stddev)
	}
	if !near(*m.LowNodeMean, low) || !near(*m.HighNodeMean, high) || nodes[*m.LowNode] == nil {
		return fmt.Errorf("means of nodes from %v to %v: want %v to %v", *m.LowNodeMean, *m.HighNodeMean, low, high)
	}
	slices.Sort(all)
	for k, d := range *m.Deciles {
		if !near(d, rank(all, k)) {
			return fmt.Errorf("d%d of %d values is %v, want %v", k, len(all), d, rank(all, k))
		}
	}
	return nil
}

// TestReplayIsTheSortedTruth: the summaries of random logs have the numbers that sorting all values yields. Late records
// count, unless the replay goes as collect did.
func TestReplayIsTheSortedTruth(t *testing.T) {
	t.Parallel()
	late := int64(0)
	for seed := range uint64(40) {
		l := newRandomLog(t, seed)
		late += l.late
		for _, asCollected := range []bool{false, true} {
			want := l.whole
			if asCollected {
				want = l.collected
			}
			all, tally := l.replay(Terms{AsCollected: asCollected, Sketch: []int{0, 512}[l.r.IntN(2)]})
			if jobs := len(l.partitions) + 2; len(all) != 5*jobs || tally.Summaries != int64(5*jobs) {
				t.Fatalf("seed %d: %d summaries of %d jobs in 5 intervals", seed, len(all), jobs)
			}
			if taken := tally.LateTaken; taken != l.late && !asCollected || taken+tally.Late != l.late {
				t.Errorf("seed %d: %d late records taken, %d not, of %d", seed, taken, tally.Late, l.late)
			}
			if strays := int64(5 * len(l.partitions)); tally.Duplicate != l.duplicates || tally.Misrouted != strays {
				t.Errorf("seed %d: %+v, want %d duplicates and %d misrouted", seed, tally, l.duplicates, strays)
			}
			for _, s := range all {
				sent := len(want[fmt.Sprint(s.JobID, s.IntervalStart, "few")])
				if int(s.NodesReported) != sent || len(s.Metrics) != 2*min(sent, 1) {
					t.Errorf("seed %d: %s in %d: %d nodes, %d metrics, want those of %d nodes", seed, s.JobID,
						s.IntervalStart, s.NodesReported, len(s.Metrics), sent)
				}
				for i := range s.Metrics {
					m := &s.Metrics[i]
					nodes := want[fmt.Sprint(s.JobID, s.IntervalStart, m.Name)]
					if err := check(m, nodes); err != nil {
						t.Errorf("seed %d, as collected %v: %s in %d: %s: %v", seed, asCollected, s.JobID,
							s.IntervalStart, m.Name, err)
					}
				}
			}
		}
	}
	if late < 100 {
		t.Errorf("%d late records", late)
	}
}
