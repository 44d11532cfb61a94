package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// bigLayout is a machine of islands of 500 nodes and a collector for 43 nodes.
func bigLayout(nodes int) *layout {
	collectors := max(1, nodes/43)
	l := &layout{home: make([]int32, nodes), sync: make([]int32, collectors)}
	for n := range l.home {
		l.home[n] = int32(n * collectors / nodes)
	}
	for c := range l.sync {
		l.sync[c] = int32(c / 12)
	}
	return l
}

// bigMachine has so many exclusive jobs, of neighbours mostly, one in a hundred of them many times as big as others.
func bigMachine(r *rand.Rand, nodes, jobs int) []task {
	tasks := make([]task, 0, jobs)
	mean := float64(nodes) / float64(jobs)
	for at := 0; at < nodes && len(tasks) < jobs; {
		size := 1 + int(r.ExpFloat64()*(mean-1)*0.8)
		if r.IntN(100) == 0 {
			size *= 10
		}
		size = min(size, nodes-at)
		t := task{perNode: 1, nodes: make([]int32, size)}
		for i := range t.nodes {
			t.nodes[i] = int32(at + i)
		}
		tasks = append(tasks, t)
		at += size
	}
	for range nodes / 50 { // a node of one job for a node of another
		a, b := &tasks[r.IntN(len(tasks))], &tasks[r.IntN(len(tasks))]
		i, k := r.IntN(len(a.nodes)), r.IntN(len(b.nodes))
		a.nodes[i], b.nodes[k] = b.nodes[k], a.nodes[i]
	}
	return tasks
}

var bigSizes = []struct{ nodes, jobs int }{{1000, 160}, {10_000, 1600}, {100_000, 16_000}}

// eachBig runs a benchmark on machines of three sizes.
func eachBig(b *testing.B, bench func(b *testing.B, l *layout, tasks []task)) {
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
	lim := limits{lMax: 10_000, lDist: 9000}
	b.Run("full", func(b *testing.B) {
		eachBig(b, func(b *testing.B, l *layout, tasks []task) {
			var plan bounded
			for b.Loop() {
				plan = assignBounded(l, tasks, lim)
			}
			m := measure(l, tasks, plan.placed, lim.lMax)
			b.ReportMetric(float64(m.distance)/float64(m.lowerBound), "distance/bound")
		})
	})
	b.Run("pressed", func(b *testing.B) { // jobs of a third of what a collector takes, which leaves it room for one node more
		eachBig(b, func(b *testing.B, l *layout, _ []task) {
			var tasks []task
			for n := range l.home {
				if n%14 == 0 {
					tasks = append(tasks, task{perNode: 1})
				}
				last := &tasks[len(tasks)-1]
				last.nodes = append(last.nodes, int32(n))
			}
			for b.Loop() {
				assignBounded(l, tasks, limits{lMax: 44})
			}
		})
	})
	b.Run("one-job", func(b *testing.B) { // over all collectors
		eachBig(b, func(b *testing.B, l *layout, _ []task) {
			all := task{perNode: 1}
			for n := range l.home {
				all.nodes = append(all.nodes, int32(n))
			}
			for b.Loop() {
				assignBounded(l, []task{all}, limits{lMax: 45})
			}
		})
	})
	b.Run("churn", func(b *testing.B) {
		eachBig(b, func(b *testing.B, l *layout, tasks []task) {
			plan := assignBounded(l, tasks, lim)
			for j := range tasks {
				if tasks[j].local = plan.placed[j].local; !tasks[j].local && j%50 != 0 {
					tasks[j].last = plan.placed[j].at
				}
			}
			for b.Loop() {
				assignBounded(l, tasks, lim)
			}
		})
	})
	for name, algorithm := range map[string]func(*layout, [][]int32, limits) []placement{"near-linear": assignQuick, "literal": assign} {
		b.Run(name, func(b *testing.B) {
			eachBig(b, func(b *testing.B, l *layout, tasks []task) {
				nodes := make([][]int32, len(tasks))
				for j := range tasks {
					nodes[j] = tasks[j].nodes
				}
				var placed []placement
				for b.Loop() {
					placed = algorithm(l, nodes, limits{lMax: 129, lDist: 128})
				}
				m := measure(l, tasks, placed, 129)
				b.ReportMetric(float64(m.distance)/float64(m.lowerBound), "distance/bound")
			})
		})
	}
}

// BenchmarkSticky is everything that an interval costs the balancer but Kafka: jobs in, changed Routes out, at 2 % churn.
func BenchmarkSticky(b *testing.B) {
	for _, s := range bigSizes {
		b.Run(fmt.Sprintf("nodes=%d/jobs=%d", s.nodes, s.jobs), func(b *testing.B) {
			b.ReportAllocs()
			c := newChurning(s.nodes, s.jobs)
			for b.Loop() {
				c.step(b, 0.02)
			}
		})
	}
}

// churning is a balancer without Kafka: jobs that end and start, and the Routes as they stand.
type churning struct {
	r      *rand.Rand
	layout *layout
	jobs   []schemas.Job
	log    routeLog
	epoch  int64
	births int64 // how often jobs were replaced
}

func newChurning(nodes, jobs int) *churning {
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%06d.cluster", i)
	}
	c := &churning{r: rand.New(rand.NewPCG(1, 22)), layout: newLayout(topology.Flat(names), max(1, nodes/43), nil), log: routeLog{}}
	for _, t := range bigMachine(c.r, nodes, jobs) {
		j := schemas.Job{JobID: fmt.Sprint(1_000_000 + len(c.jobs))}
		for _, n := range t.nodes {
			j.Nodes = append(j.Nodes, names[n])
		}
		c.jobs = append(c.jobs, j)
	}
	return c
}

// churn replaces a share of the jobs by others on the same nodes.
func (c *churning) churn(share float64) {
	c.jobs = slices.Clone(c.jobs)
	c.births++
	for j := range c.jobs {
		if c.r.Float64() < share {
			c.jobs[j].JobID = fmt.Sprint(1_000_000*(c.births+1) + int64(j))
		}
	}
}

// step replaces a share of the jobs, plans, and returns the Routes that changed.
func (c *churning) step(tb testing.TB, share float64) []schemas.Route {
	tb.Helper()
	if c.epoch++; c.epoch > 1 {
		c.churn(share)
	}
	want, _ := plan(c.layout, c.jobs, nil, limits{lMax: 10_000, lDist: 9000}, c.log)
	changed, gone := c.log.changes(want, c.epoch*10_000, c.epoch)
	if len(gone) > 0 {
		tb.Fatal("a node is gone")
	}
	for _, r := range changed {
		c.log.add(r)
	}
	c.log.forget(c.epoch * 10_000)
	return changed
}

// TestRoutesAtScale measures what is published, and what an agent reads of it, on 10,000 nodes where 2 % of the jobs end in
// each interval and others start.
func TestRoutesAtScale(t *testing.T) {
	const nodes, intervals = 10_000, 20
	c := newChurning(nodes, nodes/6)
	c.step(t, 0)
	routes, bytes := 0, 0
	for range intervals {
		changed := c.step(t, 0.02)
		for i := range changed {
			value, err := schemas.Marshal(&changed[i])
			if err != nil {
				t.Fatal(err)
			}
			routes++
			bytes += len(value) + len(changed[i].Node) + 8 // with the key, and what a record has around them
		}
	}
	perAgent := float64(bytes) / intervals / nodes
	t.Logf("per interval: %d of %d routes change, %d bytes in all, %.1f bytes per agent", routes/intervals, nodes, bytes/intervals, perAgent)
	for _, partitions := range []int{16, 64, 256, 1024} {
		t.Logf("with %d partitions of routes an agent reads %.0f bytes per interval", partitions, float64(bytes)/intervals/float64(partitions))
	}
	if perAgent > 100 {
		t.Errorf("%.1f bytes per agent and interval, the goal is 100", perAgent)
	}
	if share := float64(routes) / intervals / nodes; share < 0.005 || share > 0.05 {
		t.Errorf("%.3f of the routes change in an interval", share)
	}
}

// TestPlanReachesAgents measures, on an in-process broker, how long it takes from the moment that a plan is due until the last
// changed Route is read from its partition: asking for jobs, planning, the transaction and the fetch.
func TestPlanReachesAgents(t *testing.T) {
	const nodes, intervals = 10_000, 10
	_, cfg := broker(t)
	c := newChurning(nodes, nodes/6)
	tree := topology.Flat(c.layout.nodes)
	opts, err := cfg.ClientOpts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(opts, kgo.TransactionalID("t."+schemas.TopicBalance), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	agents, err := kgo.NewClient(append(opts, kgo.ConsumeTopics("t."+schemas.TopicRoutes), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer agents.Close()
	b := newBalancer(cfg, tree, c, slog.New(slog.DiscardHandler), unseen())
	m, err := b.begin(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	var slowest time.Duration
	read := 0
	for i := range int64(intervals + 1) {
		if i > 0 {
			c.churn(0.02)
		}
		begun, epoch, want := time.Now(), m.epoch, 0
		if err := b.planInterval(t.Context(), cl, m, (i+1)*b.ms); err != nil {
			t.Fatal(err)
		}
		for _, routes := range m.routes {
			if routes[len(routes)-1].Epoch > epoch {
				want++
			}
		}
		for got := 0; got < want; {
			fetches := agents.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			got += fetches.NumRecords()
		}
		if i > 0 { // the first is of all nodes, and once in a balancer's life
			slowest = max(slowest, time.Since(begun))
			read += want
		} else {
			t.Logf("the first plan: %d Routes in %v", want, time.Since(begun))
		}
	}
	t.Logf("%d Routes an interval, the slowest plan of %d was read by all after %v", read/intervals, intervals, slowest)
	if read < intervals*nodes/200 {
		t.Errorf("only %d Routes changed", read)
	}
	if slowest > time.Second {
		t.Errorf("the slowest plan took %v, plan_margin is 1s", slowest)
	}
}

// Jobs implements scheduler.Source.
func (c *churning) Jobs(time.Time) ([]schemas.Job, []scheduler.Fault) { return c.jobs, nil }

// TestBigMachine: the distance goal where most jobs fit one collector, and memory that grows as the machine does.
func TestBigMachine(t *testing.T) {
	var perNode []float64
	for _, s := range bigSizes {
		l, tasks := bigLayout(s.nodes), bigMachine(rand.New(rand.NewPCG(1, 21)), s.nodes, s.jobs)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b := assignBounded(l, tasks, limits{lMax: 10_000})
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		m := measure(l, tasks, b.placed, 10_000)
		ratio := float64(m.distance) / float64(m.lowerBound)
		t.Logf("%d nodes, %d jobs: distance %.4f of the bound, fullest %d, %d KiB allocated", s.nodes, len(tasks), ratio, slices.Max(b.load), allocated/1024)
		if ratio > 1.05 {
			t.Errorf("%d nodes: distance is %.3f of the lower bound", s.nodes, ratio)
		}
		perNode = append(perNode, float64(allocated)/float64(s.nodes))
		tight := assignBounded(l, tasks, limits{lMax: 129})
		if m := measure(l, tasks, tight.placed, 129); float64(m.distance)/float64(m.lowerBound) > 1.05 {
			t.Errorf("%d nodes, l_max 129: distance is %.3f of the lower bound", s.nodes, float64(m.distance)/float64(m.lowerBound))
		}
	}
	if perNode[2] > 2*perNode[0] {
		t.Errorf("bytes per node grow from %.0f to %.0f", perNode[0], perNode[2])
	}
}
