package assign

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"
)

// The machine of PerSyst's tables 1 and 2, as far as the paper says: 9,288 agents, 216 collectors of 43 each, 12
// SyncAgents; 18 islands of 516 nodes; 185.3 exclusive jobs, 6 % of them of one node. The rest is chosen so that
// the literal algorithms come out as the tables say.
const (
	mucNodes      = 9288
	mucCollectors = 216
	mucSyncs      = 12
	mucIslands    = 18
	mucJobs       = 185
	mucLMax       = 129 // nodes: three collectors' agents
	mucLDist      = 128
	mucMean       = 50     // nodes of a job, before sets that do not fit are drawn anew
	mucSpread     = 1.5    // of the logarithm of a job's size
	mucSingle     = 0.06   // fraction of the jobs that have one node
	mucScattered  = 0.035  // fraction of the jobs that lie anywhere
	mucKafka      = 10_000 // nodes of 5,000 bytes that half a partition of 10 MB/s takes in 10 s
)

// Comparison runs the algorithms on random jobs of the machine that PerSyst's paper describes.
type Comparison struct {
	Seed      uint64
	Snapshots int
	Churn     float64 // fraction of the jobs that end between two intervals
}

// mucLayout is the paper's tree: equal homes in tree order.
func mucLayout() *Layout {
	l := &Layout{Home: make([]int32, mucNodes), Sync: make([]int32, mucCollectors)}
	for n := range l.Home {
		l.Home[n] = int32(n * mucCollectors / mucNodes)
	}
	for c := range l.Sync {
		l.Sync[c] = int32(c * mucSyncs / mucCollectors)
	}
	return l
}

// muc is the machine with the jobs that run on it.
type muc struct {
	r    *rand.Rand
	free []bool
	jobs []Task
}

func newMUC(seed uint64) *muc {
	m := &muc{r: rand.New(rand.NewPCG(seed, 1)), free: make([]bool, mucNodes)}
	for n := range m.free {
		m.free[n] = true
	}
	m.fill()
	return m
}

// fill starts jobs until there are as many as the paper has. Those that start at once are drawn anew until they
// fit, so that big jobs are not passed over for others; where none of many draws fits, there are fewer jobs for
// now.
func (m *muc) fill() {
	free := 0
	for _, is := range m.free {
		if is {
			free++
		}
	}
	for range 1000 {
		sizes, sum := make([]int, mucJobs-len(m.jobs)), 0
		for i := range sizes {
			sizes[i] = m.size()
			sum += sizes[i]
		}
		if sum > free {
			continue
		}
		for _, size := range sizes {
			m.jobs = append(m.jobs, Task{Nodes: m.allocate(size), PerNode: 1})
		}
		return
	}
}

// size draws the nodes of a job: of one node, else of a lognormal distribution.
func (m *muc) size() int {
	if m.r.Float64() < mucSingle {
		return 1
	}
	return max(2, int(math.Round(mucMean*math.Exp(mucSpread*(m.r.NormFloat64()-mucSpread/2)))))
}

// allocate takes the least free room in one island that holds the job, or else whole islands with the most room;
// a few jobs take any nodes. So many are free.
func (m *muc) allocate(size int) (nodes []int32) {
	var free [mucIslands][]int32
	var all []int32
	for n, is := range m.free {
		if is {
			free[n*mucIslands/mucNodes] = append(free[n*mucIslands/mucNodes], int32(n))
			all = append(all, int32(n))
		}
	}
	if m.r.Float64() < mucScattered {
		m.r.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		nodes = slices.Clone(all[:size])
	} else {
		slices.SortStableFunc(free[:], func(a, b []int32) int { return cmp.Compare(len(b), len(a)) })
		best := 0
		for i := range free {
			if len(free[i]) >= size {
				best = i
			}
		}
		for _, island := range free[best:] {
			nodes = append(nodes, island[:min(len(island), size-len(nodes))]...)
		}
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		m.free[n] = false
	}
	return nodes
}

// churn ends a fraction of the jobs and starts others.
func (m *muc) churn(fraction float64) {
	m.jobs = slices.DeleteFunc(m.jobs, func(t Task) bool {
		if m.r.Float64() >= fraction {
			return false
		}
		for _, n := range t.Nodes {
			m.free[n] = true
		}
		return true
	})
	m.fill()
}

// contender is one row of the comparison: an algorithm and what it came to.
type contender struct {
	name  string
	lMax  int
	place func(l *Layout, tasks []Task) []Placement

	jobs, local, collector, sync, frontend float64
	used, distance, bound                  float64
	nodes, most                            float64 // sums of the mean and the greatest load
	took                                   time.Duration
	kept, moved                            float64 // jobs that continue, and those of them that move
}

func contenders() []*contender {
	literally := func(algorithm func(*Layout, [][]int32, Limits) []Placement) func(*Layout, []Task) []Placement {
		return func(l *Layout, tasks []Task) []Placement {
			nodes := make([][]int32, len(tasks))
			for j := range tasks {
				nodes[j] = tasks[j].Nodes
			}
			return algorithm(l, nodes, Limits{LMax: mucLMax, LDist: mucLDist})
		}
	}
	own := func(lMax int) func(*Layout, []Task) []Placement {
		return func(l *Layout, tasks []Task) []Placement {
			return placeBounded(l, tasks, Limits{LMax: lMax}).Placed
		}
	}
	return []*contender{
		{name: "literal", lMax: mucLMax, place: literally(placeLiteral)},
		{name: "near-linear", lMax: mucLMax, place: literally(placeNearLinear)},
		{name: "weir", lMax: mucLMax, place: own(mucLMax)},
		{name: "weir, Kafka", lMax: mucKafka, place: own(mucKafka)},
	}
}

// Run writes the comparison: of the snapshots that are done, should ctx end before all are.
func (s *Comparison) Run(ctx context.Context, out io.Writer) error {
	rows, toFrontend, done := s.compare(ctx)
	if done == 0 {
		return ctx.Err()
	}
	n := float64(done)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "algorithm\tl_max\tagent %\tcollector %\tSyncAgent %\tfrontend %\texact %\ttree nodes\tratio\tdistance / bound\tmax / mean load\ttime us\tmoved %\t")
	_, _ = fmt.Fprintf(w, "PerSyst paper\t\t6.04\t85.00\t6.37\t2.59\t91.04\t217.59\t4.16\t\t\t\t\t\n")
	for _, c := range rows {
		percent := func(v float64) float64 { return 100 * v / c.jobs }
		_, _ = fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.3f\t%.2f\t%.0f\t%.2f\t\n", c.name, c.lMax,
			percent(c.local), percent(c.collector), percent(c.sync), percent(c.frontend), percent(c.local+c.collector),
			c.used/n, toFrontend/c.used, c.distance/c.bound, c.most/c.nodes, float64(c.took.Microseconds())/n, 100*c.moved/max(1, c.kept))
	}
	_, _ = fmt.Fprintf(w, "all to the frontend\t\t\t\t\t\t\t%.2f\t1.00\t\t\t\t\t\n", toFrontend/n)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d snapshots of %.1f jobs, seed %d; moved: jobs that continue but change collectors, of an interval after which %.0f %% of the jobs end\n",
		done, rows[0].jobs/n, s.Seed, 100*s.Churn)
	return err
}

// compare plans all snapshots by all algorithms, or those that are done when ctx ends. toFrontend sums the tree
// nodes that jobs pass on the way to the frontend, where none is reduced before.
func (s *Comparison) compare(ctx context.Context) (rows []*contender, toFrontend float64, done int) {
	l := mucLayout()
	rows = contenders()
	for ; done < s.Snapshots && ctx.Err() == nil; done++ {
		m := newMUC(s.Seed + uint64(done)<<32)
		for i := range m.jobs {
			toFrontend += float64(upward(l, m.jobs[i].Nodes))
		}
		first := slices.Clone(m.jobs)
		placed := make([][]Placement, len(rows))
		for i, c := range rows {
			begun := time.Now()
			placed[i] = c.place(l, first)
			c.took += time.Since(begun)
			c.count(l, first, placed[i])
		}
		for k := range m.jobs {
			m.jobs[k].Last = []int32{int32(k)} // its number, until each algorithm has its own
		}
		m.churn(s.Churn)
		for i, c := range rows {
			c.move(l, m.jobs, placed[i])
		}
	}
	return rows, toFrontend, done
}

// upward counts homes, SyncAgents and the frontend.
func upward(l *Layout, nodes []int32) int {
	homes, syncs := map[int32]bool{}, map[int32]bool{}
	for _, n := range nodes {
		homes[l.Home[n]], syncs[l.Sync[l.Home[n]]] = true, true
	}
	return len(homes) + len(syncs) + 1
}

func (c *contender) count(l *Layout, tasks []Task, placed []Placement) {
	load := make([]float64, len(l.Sync))
	for _, p := range placed {
		c.jobs++
		passed := treeNodes(l, p.At)
		if p.Local {
			c.local++
			continue
		}
		for _, at := range p.At {
			load[at]++
		}
		switch parts := distinct(p.At); {
		case parts == 1:
			c.collector++
		case passed == parts+1:
			c.sync++
		default:
			c.frontend++
		}
	}
	m := Measure(l, tasks, placed, c.lMax)
	c.used += float64(m.TreeNodes)
	c.distance += float64(m.Distance)
	c.bound += float64(m.LowerBound)
	for _, v := range load {
		c.nodes += v / float64(len(load))
	}
	c.most += slices.Max(load)
}

func distinct(at []int32) int {
	sorted := slices.Clone(at)
	slices.Sort(sorted)
	return len(slices.Compact(sorted))
}

// move plans the interval after the one of placed, and counts jobs that moved. A job that continues has its
// number in last.
func (c *contender) move(l *Layout, jobs []Task, placed []Placement) {
	tasks := slices.Clone(jobs)
	for j := range tasks {
		if tasks[j].Last == nil {
			continue
		}
		p := placed[tasks[j].Last[0]]
		tasks[j].Last, tasks[j].Local = p.At, p.Local
		if p.Local {
			tasks[j].Last = nil
		}
	}
	after := c.place(l, tasks)
	for j := range tasks {
		if tasks[j].Last != nil {
			c.kept++
			if !slices.Equal(tasks[j].Last, after[j].At) {
				c.moved++
			}
		}
	}
}
