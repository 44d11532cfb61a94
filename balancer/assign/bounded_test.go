package assign

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomLayout is any layout that newLayout may make, and some that it does not.
func randomLayout(r *rand.Rand, nodes, collectors int) *Layout {
	l := &Layout{Home: make([]int32, nodes), Sync: make([]int32, collectors)}
	groups := 1 + r.IntN(collectors)
	for c := range l.Sync {
		l.Sync[c] = int32(r.IntN(groups))
	}
	above := l.Sync
	for range r.IntN(3) {
		level := make([]int32, collectors)
		for c := range level {
			level[c] = above[c]*3 + int32(r.IntN(3))
		}
		l.Deeper = append(l.Deeper, level)
		above = level
	}
	for i := range l.Home {
		l.Home[i] = int32(r.IntN(collectors))
	}
	return l
}

func TestQuickEqualsLiteral(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 11))
		nodes, collectors := 1+r.IntN(150), 1+r.IntN(24)
		l := regular(nodes, (nodes+collectors-1)/collectors, 1+r.IntN(5), collectors)
		if seed%2 == 1 {
			l = randomLayout(r, nodes, collectors)
		}
		jobs := randomJobs(r, nodes, r.IntN(40))
		lMax := 2 + r.IntN(nodes+1)
		lim := Limits{LMax: lMax, LDist: 1 + r.IntN(lMax), LocalMax: r.IntN(7) - 1}
		wantSame(t, seed, placeLiteral(l, jobs, lim), placeNearLinear(l, jobs, lim))
	}
}

// machine is a case for the properties: exclusive or shared nodes, jobs of any size.
type machine struct {
	layout *Layout
	tasks  []Task
	lim    Limits
}

func (m *machine) total() (load, heaviest int64) {
	for _, t := range m.tasks {
		if len(t.Nodes) > 1 {
			load += t.load()
			heaviest = max(heaviest, t.PerNode)
		}
	}
	return load, heaviest
}

// exclusive returns jobs that share no node, neighbours mostly.
func exclusive(r *rand.Rand, nodes int) (tasks []Task) {
	for at := 0; at < nodes; {
		size := 1 + r.IntN(1+r.IntN(1+min(nodes-at, 40)))
		size = min(size, nodes-at)
		t := Task{PerNode: 1}
		for n := at; n < at+size; n++ {
			t.Nodes = append(t.Nodes, int32(n))
		}
		tasks = append(tasks, t)
		at += size + r.IntN(2)
	}
	for range r.IntN(4) { // a node of one job for a node of another
		a, b := &tasks[r.IntN(len(tasks))], &tasks[r.IntN(len(tasks))]
		i, k := r.IntN(len(a.Nodes)), r.IntN(len(b.Nodes))
		a.Nodes[i], b.Nodes[k] = b.Nodes[k], a.Nodes[i]
	}
	return tasks
}

func randomMachine(r *rand.Rand) machine {
	nodes, collectors := 2+r.IntN(200), 1+r.IntN(20)
	m := machine{layout: regular(nodes, (nodes+collectors-1)/collectors, 1+r.IntN(5), collectors)}
	if r.IntN(2) == 0 {
		m.layout = randomLayout(r, nodes, collectors)
	}
	m.tasks = exclusive(r, nodes)
	if r.IntN(3) == 0 {
		for _, j := range randomJobs(r, nodes, r.IntN(20)) {
			m.tasks = append(m.tasks, Task{Nodes: j, PerNode: 1})
		}
	}
	total, _ := m.total()
	m.lim = Limits{LMax: max(2, int(total)/collectors+r.IntN(1+nodes/2)), LDist: 1}
	return m
}

// check returns what is wrong with a plan by itself.
func (m *machine) check(b Assignment) string {
	load := make([]int64, len(m.layout.Sync))
	for j, t := range m.tasks {
		p := b.Placed[j]
		if len(p.At) != len(t.Nodes) {
			return fmt.Sprintf("job %d: %d places for %d nodes", j, len(p.At), len(t.Nodes))
		}
		if p.Local {
			if len(t.Nodes) != 1 || p.At[0] != m.layout.Home[t.Nodes[0]] {
				return fmt.Sprintf("job %d of %d nodes is local at %v", j, len(t.Nodes), p.At)
			}
			continue
		}
		for _, c := range p.At {
			if c < 0 || int(c) >= len(load) || m.lim.lost != nil && m.lim.lost[c] {
				return fmt.Sprintf("job %d is at collector %d", j, c)
			}
			load[c] += t.PerNode
		}
	}
	if !slices.Equal(load, b.Load) {
		return fmt.Sprintf("loads %v, want %v", b.Load, load)
	}
	return ""
}

// bound returns what no collector may exceed.
func (m *machine) bound() (bound int64, overloaded bool) {
	total, heaviest := m.total()
	collectors := int64(len(m.layout.Sync))
	for _, lost := range m.lim.lost {
		if lost {
			collectors--
		}
	}
	if total > collectors*int64(m.lim.LMax) {
		mean := (total + collectors - 1) / collectors
		if slices.ContainsFunc(m.tasks, func(t Task) bool { return t.Last != nil }) {
			mean += mean / 8
		}
		return mean + max(0, 2*(heaviest-1)), true
	}
	if total+collectors*(heaviest-1) > collectors*int64(m.lim.LMax) {
		return int64(m.lim.LMax) + heaviest - 1, false // a node may be heavier than what is left
	}
	return int64(m.lim.LMax), false
}

// firstWrong is check, the bound, and the verdict.
func (m *machine) firstWrong(b Assignment) string {
	if wrong := m.check(b); wrong != "" {
		return wrong
	}
	total, _ := m.total()
	bound, overloaded := m.bound()
	if most := slices.Max(b.Load); most > bound {
		return fmt.Sprintf("%d at one collector, the bound is %d, l_max %d, loads %v", most, bound, m.lim.LMax, b.Load)
	}
	if needed := int((total + int64(m.lim.LMax) - 1) / int64(m.lim.LMax)); b.Overloaded != overloaded ||
		b.Needed != needed {
		return fmt.Sprintf("overloaded %v, needed %d; want %v, %d", b.Overloaded, b.Needed, overloaded, needed)
	}
	return ""
}

func TestBoundedFromScratch(t *testing.T) {
	split, over := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 12))
		m := randomMachine(r)
		switch seed % 3 {
		case 1: // nodes weigh differently
			m.lim.LMax *= 10
			for j := range m.tasks {
				m.tasks[j].PerNode = 1 + r.Int64N(20)
			}
		case 2: // too much
			if r.IntN(2) == 0 {
				m.lim.LMax = max(2, m.lim.LMax/3)
			}
		}
		b := placeBounded(m.layout, m.tasks, m.lim)
		if wrong := m.firstWrong(b); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		bound := int64(m.lim.LMax)
		if b.Overloaded {
			over++
			total, _ := m.total()
			bound = (total + int64(len(b.Load)) - 1) / int64(len(b.Load))
		}
		heaviest, load := 0, int64(0)
		for j, task := range m.tasks {
			if l := task.load(); l > load {
				heaviest, load = j, l
			}
			if b.Placed[j].Local || distinct(b.Placed[j].At) == 1 {
				continue
			}
			split++
			room := make([]int64, len(b.Load)) // at the end, and then there is not more than when the job's turn came
			for c := range room {
				room[c] = bound - b.Load[c]
			}
			for _, c := range b.Placed[j].At {
				room[c] += task.PerNode
			}
			if most := slices.Max(room); most >= task.load() {
				t.Fatalf("seed %d: job %d of load %d is split, though a collector has room for %d",
					seed, j, task.load(), most)
			}
		}
		if p, w := distinct(b.Placed[heaviest].At), m.tasks[heaviest].PerNode; len(m.tasks[heaviest].Nodes) > 1 &&
			bound >= w {
			perCollector := bound / w
			want := (int64(len(m.tasks[heaviest].Nodes)) + perCollector - 1) / perCollector
			if int64(p) != min(want, int64(len(b.Load))) {
				t.Fatalf("seed %d: the heaviest job is in %d parts, %d would do", seed, p, want)
			}
		}
	}
	if split < 500 || over < 100 {
		t.Fatalf("%d split jobs, %d overloaded machines: the cases miss what they are for", split, over)
	}
}

// Where loads do not press, no plan is nearer.
func TestBoundedIsNearest(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 13))
		m := randomMachine(r)
		total, _ := m.total()
		m.lim.LMax = int(max(2, total))
		b := placeBounded(m.layout, m.tasks, m.lim)
		got, least := 0, 0
		for j, task := range m.tasks {
			if b.Placed[j].Local {
				continue
			}
			best := math.MaxInt
			for c := range m.layout.Sync {
				d := 0
				for _, n := range task.Nodes {
					d += m.layout.hops(n, int32(c))
				}
				best = min(best, d)
			}
			least += best
			for i, n := range task.Nodes {
				got += m.layout.hops(n, b.Placed[j].At[i])
			}
		}
		if got != least {
			t.Fatalf("seed %d: total distance %d, the least is %d", seed, got, least)
		}
	}
}

// remember makes a plan the last one.
func (m *machine) remember(b Assignment) {
	for j := range m.tasks {
		m.tasks[j].Last, m.tasks[j].Local = b.Placed[j].At, b.Placed[j].Local
		if b.Placed[j].Local {
			m.tasks[j].Last = nil
		}
	}
}

// churn ends a fraction of the jobs and starts others on their nodes, in new shapes.
func (m *machine) churn(r *rand.Rand, fraction float64) {
	var freed []int32
	m.tasks = slices.DeleteFunc(m.tasks, func(t Task) bool {
		if r.Float64() < fraction {
			freed = append(freed, t.Nodes...)
			return true
		}
		return false
	})
	slices.Sort(freed)
	freed = slices.Compact(freed)
	for len(freed) > 0 {
		size := min(len(freed), 1+r.IntN(12))
		m.tasks = append(m.tasks, Task{Nodes: slices.Clone(freed[:size]), PerNode: 1})
		freed = freed[size:]
	}
	r.Shuffle(len(m.tasks), func(a, b int) { m.tasks[a], m.tasks[b] = m.tasks[b], m.tasks[a] })
}

func TestBoundedMovesNothingUnderChurn(t *testing.T) {
	kept, intervals := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 14))
		m := randomMachine(r)
		b := placeBounded(m.layout, m.tasks, m.lim)
		for range 12 {
			m.remember(b)
			before := b.Overloaded
			m.churn(r, 0.1)
			b = placeBounded(m.layout, m.tasks, m.lim)
			if wrong := m.firstWrong(b); wrong != "" {
				t.Fatalf("seed %d: %s", seed, wrong)
			}
			if b.Overloaded || before {
				continue // the mean is the bound then, and it moves
			}
			intervals++
			for j, task := range m.tasks {
				if task.Last != nil && !slices.Equal(task.Last, b.Placed[j].At) {
					t.Fatalf("seed %d: job %d moved from %v to %v", seed, j, task.Last, b.Placed[j].At)
				}
				if task.Last != nil {
					kept++
				}
			}
		}
	}
	if kept < 10_000 || intervals < 1000 {
		t.Fatalf("%d jobs kept in %d intervals: the cases miss what they are for", kept, intervals)
	}
}

func TestBoundedLostCollectorMovesItsOwn(t *testing.T) {
	moved := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 15))
		m := randomMachine(r)
		if len(m.layout.Sync) < 2 {
			continue
		}
		m.lim.LMax *= 2 // so that the others hold what one had
		m.remember(placeBounded(m.layout, m.tasks, m.lim))
		m.lim.lost = make([]bool, len(m.layout.Sync))
		gone := int32(r.IntN(len(m.lim.lost)))
		m.lim.lost[gone] = true
		b := placeBounded(m.layout, m.tasks, m.lim)
		if wrong := m.firstWrong(b); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		for j, task := range m.tasks {
			for i, c := range task.Last {
				switch {
				case c == gone:
					moved++
				case !slices.Contains(task.Last, gone) && b.Placed[j].At[i] != c:
					t.Fatalf("seed %d: job %d moved from %d, which is there, to %d", seed, j, c, b.Placed[j].At[i])
				}
			}
		}
	}
	if moved < 1000 {
		t.Fatalf("only %d nodes moved", moved)
	}
}

// TestBoundedGrowth: loads that grow beyond l_max, jobs that gain nodes.
func TestBoundedGrowth(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 16))
		m := randomMachine(r)
		m.lim.LMax *= 20
		for j := range m.tasks {
			m.tasks[j].PerNode = 10
		}
		b := placeBounded(m.layout, m.tasks, m.lim)
		for range 5 {
			m.remember(b)
			for j := range m.tasks {
				task := &m.tasks[j]
				task.PerNode = max(1, task.PerNode+r.Int64N(9)-3)
				if n := int32(r.IntN(len(m.layout.Home))); task.Last != nil && r.IntN(10) == 0 &&
					!slices.Contains(task.Nodes, n) {
					task.Nodes, task.Last = append(slices.Clone(task.Nodes), n), append(slices.Clone(task.Last), None)
				}
			}
			last := make([][]int32, len(m.tasks))
			for j := range last {
				last[j] = slices.Clone(m.tasks[j].Last)
			}
			b = placeBounded(m.layout, m.tasks, m.lim)
			if wrong := m.firstWrong(b); wrong != "" {
				t.Fatalf("seed %d: %s", seed, wrong)
			}
			for j := range last {
				if !slices.Equal(last[j], m.tasks[j].Last) {
					t.Fatalf("seed %d: the last plan was written to", seed)
				}
			}
		}
	}
}

func TestBoundedCases(t *testing.T) {
	l := regular(24, 4, 2, 6)
	nodes := func(text string) []int32 { return ranges(t, text) }
	at := func(text string) (all []int32) {
		for f := range strings.FieldsSeq(text) {
			all = append(all, ranges(t, f)...)
		}
		return all
	}
	tests := map[string]struct {
		tasks []Task
		lim   Limits
		want  string // of each task
	}{
		"at home": {
			[]Task{{Nodes: nodes("0-3"), PerNode: 1}, {Nodes: nodes("4-7"), PerNode: 1}},
			Limits{LMax: 10},
			"collector 0; collector 1",
		},
		"where most is at home": {[]Task{{Nodes: nodes("3-6"), PerNode: 1}}, Limits{LMax: 10}, "collector 1"},
		"no room at home": {
			[]Task{{Nodes: nodes("0-3"), PerNode: 1}, {Nodes: nodes("0-2"), PerNode: 1}},
			Limits{LMax: 6},
			"collector 0; collector 1",
		},
		"as few as hold it": {[]Task{{Nodes: nodes("0-15"), PerNode: 1}}, Limits{LMax: 8}, "distributed 0:8,1:8"},
		"as few as have the room": {
			[]Task{
				{Nodes: nodes("0-11"), PerNode: 1},
				{Nodes: nodes("12-18"), PerNode: 1, Last: at("0 0 0 0 0 0 0")},
				{Nodes: nodes("12-18"), PerNode: 1, Last: at("1 1 1 1 1 1 1")},
				{Nodes: nodes("12-18"), PerNode: 1, Last: at("2 2 2 2 2 2 2")},
			}, Limits{LMax: 8}, "distributed 3:8,4:4; collector 0; collector 1; collector 2",
		},
		"local": {[]Task{{Nodes: nodes("5"), PerNode: 1}}, Limits{LMax: 8}, "local"},
		"local, a limit": {[]Task{
			{Nodes: nodes("5"), PerNode: 1},
			{Nodes: nodes("9"), PerNode: 1, Local: true},
			{Nodes: nodes("6"), PerNode: 1},
		}, Limits{LMax: 8, LocalMax: 2}, "local; local; collector 1"},
		"none is local": {
			[]Task{{Nodes: nodes("5"), PerNode: 1, Local: true}}, Limits{LMax: 8, LocalMax: -1}, "collector 1",
		},
		"local before, no more": {[]Task{
			{Nodes: nodes("5"), PerNode: 1},
			{Nodes: nodes("9"), PerNode: 1, Local: true},
		}, Limits{LMax: 8, LocalMax: 1}, "collector 1; local"},
		"it stays where it is": {
			[]Task{{Nodes: nodes("0-3"), PerNode: 1, Last: at("5 5 5 5")}},
			Limits{LMax: 8},
			"collector 5",
		},
		"gains a node": {
			[]Task{{Nodes: nodes("0-4"), PerNode: 1, Last: append(at("5 5 5 5"), None)}},
			Limits{LMax: 8},
			"collector 5",
		},
		"gains a node, no room": {[]Task{
			{Nodes: nodes("0-4"), PerNode: 1, Last: append(at("5 5 5 5"), None)},
			{Nodes: nodes("8-11"), PerNode: 1, Last: at("5 5 5 5")},
		}, Limits{LMax: 8}, "collector 0; collector 5"},
		"split, gains a node": {
			[]Task{{Nodes: nodes("0-4"), PerNode: 1, Last: append(at("4 4 5 5"), None)}},
			Limits{LMax: 4},
			"distributed 4:3,5:2",
		},
		"heavier: the least moves": {[]Task{
			{Nodes: nodes("0-2"), PerNode: 2, Last: at("0 0 0")},
			{Nodes: nodes("1-2"), PerNode: 2, Last: at("0 0")},
		}, Limits{LMax: 8}, "collector 0; collector 1"},
		"one heavier than any room": {
			[]Task{{Nodes: nodes("0-1"), PerNode: 5}},
			Limits{LMax: 4},
			"distributed 0:1,1:1",
		},
		"a collector that is no more": {
			[]Task{{Nodes: nodes("0-1"), PerNode: 1, Last: at("9 9")}},
			Limits{LMax: 4},
			"collector 0",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range placeBounded(l, tt.tasks, tt.lim).Placed {
				got = append(got, describe(p))
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("%s; want %s", s, tt.want)
			}
		})
	}
}

// TestOverloadTearsFewJobsApart: jobs send more than collectors may take, and waver. They stay whole but for those that
// are split to spread them evenly at first. The seed is fixed: how many are split or move is a matter of chance.
func TestOverloadTearsFewJobsApart(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 0))
	l := regular(1600, 100, 4, 16)
	var tasks []Task
	total := int64(0)
	for n := int32(0); n < 1600; n += 4 {
		tasks = append(tasks, Task{Nodes: []int32{n, n + 1, n + 2, n + 3}, PerNode: 4000 + rnd.Int64N(2000)})
		total += tasks[len(tasks)-1].load()
	}
	for interval := range 100 {
		b := placeBounded(l, tasks, Limits{LMax: int(total / 16 * 9 / 10)})
		if !b.Overloaded {
			t.Fatal("it fits")
		}
		split, moved := 0, 0
		for j := range tasks {
			if distinct(b.Placed[j].At) > 1 {
				split++
			}
			if interval > 0 && !slices.Equal(tasks[j].Last, b.Placed[j].At) {
				moved++
			}
			tasks[j].Last = b.Placed[j].At
			tasks[j].PerNode += rnd.Int64N(101) - 50 // a hundredth up or down
		}
		if split > 16 || moved > 4 {
			t.Fatalf("interval %d: %d of %d jobs are split, %d moved", interval, split, len(tasks), moved)
		}
	}
}
