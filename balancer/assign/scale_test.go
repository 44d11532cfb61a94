package assign

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// bigLayout is a machine of islands of 500 nodes and a collector for 43 nodes.
func bigLayout(nodes int) *Layout {
	collectors := max(1, nodes/43)
	l := &Layout{Home: make([]int32, nodes), Sync: make([]int32, collectors)}
	for n := range l.Home {
		l.Home[n] = int32(n * collectors / nodes)
	}
	for c := range l.Sync {
		l.Sync[c] = int32(c / 12)
	}
	return l
}

// bigMachine has so many exclusive jobs, of neighbours mostly, one in a hundred of them many times as big as others.
func bigMachine(r *rand.Rand, nodes, jobs int) []Task {
	tasks := make([]Task, 0, jobs)
	mean := float64(nodes) / float64(jobs)
	for at := 0; at < nodes && len(tasks) < jobs; {
		size := 1 + int(r.ExpFloat64()*(mean-1)*0.8)
		if r.IntN(100) == 0 {
			size *= 10
		}
		size = min(size, nodes-at)
		t := Task{PerNode: 1, Nodes: make([]int32, size)}
		for i := range t.Nodes {
			t.Nodes[i] = int32(at + i)
		}
		tasks = append(tasks, t)
		at += size
	}
	for range nodes / 50 { // a node of one job for a node of another
		a, b := &tasks[r.IntN(len(tasks))], &tasks[r.IntN(len(tasks))]
		i, k := r.IntN(len(a.Nodes)), r.IntN(len(b.Nodes))
		a.Nodes[i], b.Nodes[k] = b.Nodes[k], a.Nodes[i]
	}
	return tasks
}

var bigSizes = []struct{ nodes, jobs int }{{1000, 160}, {10_000, 1600}, {100_000, 16_000}}

// eachBig runs a benchmark on machines of three sizes.
func eachBig(b *testing.B, bench func(b *testing.B, l *Layout, tasks []Task)) {
	b.Helper()
	for _, s := range bigSizes {
		b.Run(fmt.Sprintf("nodes=%d/jobs=%d", s.nodes, s.jobs), func(b *testing.B) {
			b.ReportAllocs()
			bench(b, bigLayout(s.nodes), bigMachine(rand.New(rand.NewPCG(1, 21)), s.nodes, s.jobs))
		})
	}
}

// BenchmarkAssignment is the pure assignment: weir's own from scratch and with 2 % of the jobs new, and PerSyst's.
func BenchmarkAssignment(b *testing.B) {
	lim := Limits{LMax: 10_000, LDist: 9000}
	b.Run("full", func(b *testing.B) {
		eachBig(b, func(b *testing.B, l *Layout, tasks []Task) {
			var plan Assignment
			for b.Loop() {
				plan = placeBounded(l, tasks, lim)
			}
			m := Measure(l, tasks, plan.Placed, lim.LMax)
			b.ReportMetric(float64(m.Distance)/float64(m.LowerBound), "distance/bound")
		})
	})
	// Each job is a third of what a collector takes, which leaves room for one node more.
	b.Run("pressed", func(b *testing.B) {
		eachBig(b, func(b *testing.B, l *Layout, _ []Task) {
			var tasks []Task
			for n := range l.Home {
				if n%14 == 0 {
					tasks = append(tasks, Task{PerNode: 1})
				}
				last := &tasks[len(tasks)-1]
				last.Nodes = append(last.Nodes, int32(n))
			}
			for b.Loop() {
				placeBounded(l, tasks, Limits{LMax: 44})
			}
		})
	})
	b.Run("one-job", func(b *testing.B) { // over all collectors
		eachBig(b, func(b *testing.B, l *Layout, _ []Task) {
			all := Task{PerNode: 1}
			for n := range l.Home {
				all.Nodes = append(all.Nodes, int32(n))
			}
			for b.Loop() {
				placeBounded(l, []Task{all}, Limits{LMax: 45})
			}
		})
	})
	b.Run("churn", func(b *testing.B) {
		eachBig(b, func(b *testing.B, l *Layout, tasks []Task) {
			plan := placeBounded(l, tasks, lim)
			for j := range tasks {
				if tasks[j].Local = plan.Placed[j].Local; !tasks[j].Local && j%50 != 0 {
					tasks[j].Last = plan.Placed[j].At
				}
			}
			for b.Loop() {
				placeBounded(l, tasks, lim)
			}
		})
	})
	for name, algorithm := range map[string]func(*Layout, [][]int32, Limits) []Placement{
		"near-linear": placeNearLinear, "literal": placeLiteral,
	} {
		b.Run(name, func(b *testing.B) {
			eachBig(b, func(b *testing.B, l *Layout, tasks []Task) {
				nodes := make([][]int32, len(tasks))
				for j := range tasks {
					nodes[j] = tasks[j].Nodes
				}
				var placed []Placement
				for b.Loop() {
					placed = algorithm(l, nodes, Limits{LMax: 129, LDist: 128})
				}
				m := Measure(l, tasks, placed, 129)
				b.ReportMetric(float64(m.Distance)/float64(m.LowerBound), "distance/bound")
			})
		})
	}
}

// TestBigMachine: the distance goal where most jobs fit one collector, and memory that grows as the machine does.
func TestBigMachine(t *testing.T) {
	var perNode []float64
	for _, s := range bigSizes {
		l, tasks := bigLayout(s.nodes), bigMachine(rand.New(rand.NewPCG(1, 21)), s.nodes, s.jobs)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b := placeBounded(l, tasks, Limits{LMax: 10_000})
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		m := Measure(l, tasks, b.Placed, 10_000)
		ratio := float64(m.Distance) / float64(m.LowerBound)
		t.Logf("%d nodes, %d jobs: distance %.4f of the bound, fullest %d, %d KiB allocated",
			s.nodes, len(tasks), ratio, slices.Max(b.Load), allocated/1024)
		if ratio > 1.05 {
			t.Errorf("%d nodes: distance is %.3f of the lower bound", s.nodes, ratio)
		}
		perNode = append(perNode, float64(allocated)/float64(s.nodes))
		tight := placeBounded(l, tasks, Limits{LMax: 129})
		if m := Measure(l, tasks, tight.Placed, 129); float64(m.Distance)/float64(m.LowerBound) > 1.05 {
			t.Errorf("%d nodes, l_max 129: distance is %.3f of the lower bound",
				s.nodes, float64(m.Distance)/float64(m.LowerBound))
		}
	}
	if perNode[2] > 2*perNode[0] {
		t.Errorf("bytes per node grow from %.0f to %.0f", perNode[0], perNode[2])
	}
}
