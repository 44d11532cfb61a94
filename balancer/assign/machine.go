package assign

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// The machine of PerSyst's tables 1 and 2. The paper gives 9,288 agents, 216 collectors of 43 agents each, and 12
// SyncAgents. Its 18 islands have 516 nodes each. On it run 185.3 exclusive jobs, 6 % of them of one node. The other
// values are chosen so that the literal algorithms come out as in the tables.
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
	r     *rand.Rand
	free  []bool
	jobs  []Task
	count int // of jobs that it runs
	least int // nodes with a job; the paper does not state it
}

// newMUC is the machine of the paper.
func newMUC(seed uint64) *muc {
	return fullMUC(muc{r: rand.New(rand.NewPCG(seed, 1)), count: mucJobs}, mucNodes)
}

func fullMUC(m muc, nodes int) *muc {
	m.free = make([]bool, nodes)
	for n := range m.free {
		m.free[n] = true
	}
	m.fill()
	return &m
}

// fewestJobs is the least number of jobs, however small the machine is.
const fewestJobs = 4

// MUCJobs returns the nodes of the jobs on a machine like the paper's, but of another size, at least 16 nodes. It is a
// function of the size alone. A machine of the paper's size runs 185 jobs, and another in proportion. The jobs hold at
// least three quarters of the nodes.
func MUCJobs(nodes int) [][]int32 {
	m := fullMUC(muc{
		r:     rand.New(rand.NewPCG(uint64(nodes), 2)),
		count: max(fewestJobs, (nodes*mucJobs+mucNodes/2)/mucNodes), least: nodes * 3 / 4,
	}, nodes)
	jobs := make([][]int32, len(m.jobs))
	for j := range m.jobs {
		jobs[j] = m.jobs[j].Nodes
	}
	return jobs
}

// fill starts jobs until there are as many as there should be. It draws their sizes together, and draws all of them
// again until they fit, so that big jobs are not passed over. If none of many draws fits, no job starts.
func (m *muc) fill() {
	free := 0
	for _, is := range m.free {
		if is {
			free++
		}
	}
	for range 1000 {
		sizes, sum := make([]int, m.count-len(m.jobs)), 0
		for i := range sizes {
			sizes[i] = m.size()
			sum += sizes[i]
		}
		if sum > free || len(m.free)-free+sum < m.least {
			continue
		}
		for _, size := range sizes {
			m.jobs = append(m.jobs, Task{Nodes: m.allocate(size), PerNode: 1})
		}
		return
	}
}

// size draws the number of nodes of a job: one, or a number of a lognormal distribution.
func (m *muc) size() int {
	if m.r.Float64() < mucSingle {
		return 1
	}
	return max(2, int(math.Round(mucMean*math.Exp(mucSpread*(m.r.NormFloat64()-mucSpread/2)))))
}

// allocate takes nodes for a job: in the fullest island that still holds it, or in the emptiest islands together.
// A few jobs take any nodes. The caller ensures that enough nodes are free.
func (m *muc) allocate(size int) (nodes []int32) {
	var free [mucIslands][]int32
	var all []int32
	for n, is := range m.free {
		if is {
			island := n * mucIslands / len(m.free)
			free[island] = append(free[island], int32(n))
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
