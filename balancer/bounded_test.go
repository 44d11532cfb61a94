package balancer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomLayout is any layout that newLayout may make, and some that it does not.
func randomLayout(r *rand.Rand, nodes, collectors int) *layout {
	l := &layout{home: make([]int32, nodes), sync: make([]int32, collectors)}
	groups := 1 + r.IntN(collectors)
	for c := range l.sync {
		l.sync[c] = int32(r.IntN(groups))
	}
	for i := range l.home {
		l.home[i] = int32(r.IntN(collectors))
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
		lim := limits{lMax: lMax, lDist: 1 + r.IntN(lMax), localMax: r.IntN(6)}
		if diff := cmp.Diff(assign(l, jobs, lim), assignQuick(l, jobs, lim), cmp.AllowUnexported(placement{})); diff != "" {
			t.Fatalf("seed %d (-literal +quick): %s", seed, diff)
		}
	}
}

// machine is a case for the properties: exclusive or shared nodes, jobs of any size.
type machine struct {
	layout *layout
	tasks  []task
	lim    limits
}

func (m *machine) total() (load, heaviest int64) {
	for _, t := range m.tasks {
		if len(t.nodes) > 1 {
			load += t.load()
			heaviest = max(heaviest, t.perNode)
		}
	}
	return load, heaviest
}

// exclusive returns jobs that share no node, neighbours mostly.
func exclusive(r *rand.Rand, nodes int) (tasks []task) {
	for at := 0; at < nodes; {
		size := 1 + r.IntN(1+r.IntN(1+min(nodes-at, 40)))
		size = min(size, nodes-at)
		t := task{perNode: 1}
		for n := at; n < at+size; n++ {
			t.nodes = append(t.nodes, int32(n))
		}
		tasks = append(tasks, t)
		at += size + r.IntN(2)
	}
	for range r.IntN(4) { // a node of one job for a node of another
		a, b := &tasks[r.IntN(len(tasks))], &tasks[r.IntN(len(tasks))]
		i, k := r.IntN(len(a.nodes)), r.IntN(len(b.nodes))
		a.nodes[i], b.nodes[k] = b.nodes[k], a.nodes[i]
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
			m.tasks = append(m.tasks, task{nodes: j, perNode: 1})
		}
	}
	total, _ := m.total()
	m.lim = limits{lMax: max(2, int(total)/collectors+r.IntN(1+nodes/2)), lDist: 1}
	return m
}

// check returns what is wrong with a plan by itself.
func (m *machine) check(b bounded) string {
	load := make([]int64, len(m.layout.sync))
	for j, t := range m.tasks {
		p := b.placed[j]
		if len(p.at) != len(t.nodes) {
			return fmt.Sprintf("job %d: %d places for %d nodes", j, len(p.at), len(t.nodes))
		}
		if p.local {
			if len(t.nodes) != 1 || p.at[0] != m.layout.home[t.nodes[0]] {
				return fmt.Sprintf("job %d of %d nodes is local at %v", j, len(t.nodes), p.at)
			}
			continue
		}
		for _, c := range p.at {
			if c < 0 || int(c) >= len(load) || m.lim.lost != nil && m.lim.lost[c] {
				return fmt.Sprintf("job %d is at collector %d", j, c)
			}
			load[c] += t.perNode
		}
	}
	if diff := cmp.Diff(load, b.load); diff != "" {
		return "loads: " + diff
	}
	return ""
}

// bound returns what no collector may exceed.
func (m *machine) bound() (bound int64, overloaded bool) {
	total, heaviest := m.total()
	collectors := int64(len(m.layout.sync))
	for _, lost := range m.lim.lost {
		if lost {
			collectors--
		}
	}
	if total > collectors*int64(m.lim.lMax) {
		mean := (total + collectors - 1) / collectors
		if slices.ContainsFunc(m.tasks, func(t task) bool { return t.last != nil }) {
			mean += mean / 8
		}
		return mean + max(0, 2*(heaviest-1)), true
	}
	if total+collectors*(heaviest-1) > collectors*int64(m.lim.lMax) {
		return int64(m.lim.lMax) + heaviest - 1, false // a node may be heavier than what is left
	}
	return int64(m.lim.lMax), false
}

// firstWrong is check, the bound, and the verdict.
func (m *machine) firstWrong(b bounded) string {
	if wrong := m.check(b); wrong != "" {
		return wrong
	}
	total, _ := m.total()
	bound, overloaded := m.bound()
	if most := slices.Max(b.load); most > bound {
		return fmt.Sprintf("%d at one collector, the bound is %d, l_max %d, loads %v", most, bound, m.lim.lMax, b.load)
	}
	if needed := int((total + int64(m.lim.lMax) - 1) / int64(m.lim.lMax)); b.overloaded != overloaded || b.needed != needed {
		return fmt.Sprintf("overloaded %v, needed %d; want %v, %d", b.overloaded, b.needed, overloaded, needed)
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
			m.lim.lMax *= 10
			for j := range m.tasks {
				m.tasks[j].perNode = 1 + r.Int64N(20)
			}
		case 2: // too much
			if r.IntN(2) == 0 {
				m.lim.lMax = max(2, m.lim.lMax/3)
			}
		}
		b := assignBounded(m.layout, m.tasks, m.lim)
		if wrong := m.firstWrong(b); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		bound := int64(m.lim.lMax)
		if b.overloaded {
			over++
			total, _ := m.total()
			bound = (total + int64(len(b.load)) - 1) / int64(len(b.load))
		}
		heaviest, load := 0, int64(0)
		for j, task := range m.tasks {
			if l := task.load(); l > load {
				heaviest, load = j, l
			}
			if b.placed[j].local || distinct(b.placed[j].at) == 1 {
				continue
			}
			split++
			room := make([]int64, len(b.load)) // at the end, and then there is not more than when the job's turn came
			for c := range room {
				room[c] = bound - b.load[c]
			}
			for _, c := range b.placed[j].at {
				room[c] += task.perNode
			}
			if most := slices.Max(room); most >= task.load() {
				t.Fatalf("seed %d: job %d of load %d is split, though a collector has room for %d", seed, j, task.load(), most)
			}
		}
		if p, w := distinct(b.placed[heaviest].at), m.tasks[heaviest].perNode; len(m.tasks[heaviest].nodes) > 1 && bound >= w {
			perCollector := bound / w
			if want := (int64(len(m.tasks[heaviest].nodes)) + perCollector - 1) / perCollector; int64(p) != min(want, int64(len(b.load))) {
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
		m.lim.lMax = int(max(2, total))
		b := assignBounded(m.layout, m.tasks, m.lim)
		got, least := 0, 0
		for j, task := range m.tasks {
			if b.placed[j].local {
				continue
			}
			best := 3 * len(task.nodes)
			for c := range m.layout.sync {
				d := 0
				for _, n := range task.nodes {
					d += hops(m.layout, n, int32(c))
				}
				best = min(best, d)
			}
			least += best
			for i, n := range task.nodes {
				got += hops(m.layout, n, b.placed[j].at[i])
			}
		}
		if got != least {
			t.Fatalf("seed %d: total distance %d, the least is %d", seed, got, least)
		}
	}
}

// remember makes a plan the last one.
func (m *machine) remember(b bounded) {
	for j := range m.tasks {
		m.tasks[j].last, m.tasks[j].local = b.placed[j].at, b.placed[j].local
		if b.placed[j].local {
			m.tasks[j].last = nil
		}
	}
}

// churn ends a share of the jobs and starts others on their nodes, in new shapes.
func (m *machine) churn(r *rand.Rand, share float64) {
	var freed []int32
	m.tasks = slices.DeleteFunc(m.tasks, func(t task) bool {
		if r.Float64() < share {
			freed = append(freed, t.nodes...)
			return true
		}
		return false
	})
	slices.Sort(freed)
	freed = slices.Compact(freed)
	for len(freed) > 0 {
		size := min(len(freed), 1+r.IntN(12))
		m.tasks = append(m.tasks, task{nodes: slices.Clone(freed[:size]), perNode: 1})
		freed = freed[size:]
	}
	r.Shuffle(len(m.tasks), func(a, b int) { m.tasks[a], m.tasks[b] = m.tasks[b], m.tasks[a] })
}

func TestBoundedMovesNothingUnderChurn(t *testing.T) {
	kept, intervals := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 14))
		m := randomMachine(r)
		b := assignBounded(m.layout, m.tasks, m.lim)
		for range 12 {
			m.remember(b)
			before := b.overloaded
			m.churn(r, 0.1)
			b = assignBounded(m.layout, m.tasks, m.lim)
			if wrong := m.firstWrong(b); wrong != "" {
				t.Fatalf("seed %d: %s", seed, wrong)
			}
			if b.overloaded || before {
				continue // the mean is the bound then, and it moves
			}
			intervals++
			for j, task := range m.tasks {
				if task.last != nil && !slices.Equal(task.last, b.placed[j].at) {
					t.Fatalf("seed %d: job %d moved from %v to %v", seed, j, task.last, b.placed[j].at)
				}
				if task.last != nil {
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
		if len(m.layout.sync) < 2 {
			continue
		}
		m.lim.lMax *= 2 // so that the others hold what one had
		m.remember(assignBounded(m.layout, m.tasks, m.lim))
		m.lim.lost = make([]bool, len(m.layout.sync))
		gone := int32(r.IntN(len(m.lim.lost)))
		m.lim.lost[gone] = true
		b := assignBounded(m.layout, m.tasks, m.lim)
		if wrong := m.firstWrong(b); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		for j, task := range m.tasks {
			for i, c := range task.last {
				switch {
				case c == gone:
					moved++
				case !slices.Contains(task.last, gone) && b.placed[j].at[i] != c:
					t.Fatalf("seed %d: job %d moved from %d, which is there, to %d", seed, j, c, b.placed[j].at[i])
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
		m.lim.lMax *= 20
		for j := range m.tasks {
			m.tasks[j].perNode = 10
		}
		b := assignBounded(m.layout, m.tasks, m.lim)
		for range 5 {
			m.remember(b)
			for j := range m.tasks {
				task := &m.tasks[j]
				task.perNode = max(1, task.perNode+r.Int64N(9)-3)
				if n := int32(r.IntN(len(m.layout.home))); task.last != nil && r.IntN(10) == 0 && !slices.Contains(task.nodes, n) {
					task.nodes, task.last = append(slices.Clone(task.nodes), n), append(slices.Clone(task.last), elsewhere)
				}
			}
			last := make([][]int32, len(m.tasks))
			for j := range last {
				last[j] = slices.Clone(m.tasks[j].last)
			}
			b = assignBounded(m.layout, m.tasks, m.lim)
			if wrong := m.firstWrong(b); wrong != "" {
				t.Fatalf("seed %d: %s", seed, wrong)
			}
			for j := range last {
				if !slices.Equal(last[j], m.tasks[j].last) {
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
		tasks []task
		lim   limits
		want  string // of each task
	}{
		"at home":               {[]task{{nodes: nodes("0-3"), perNode: 1}, {nodes: nodes("4-7"), perNode: 1}}, limits{lMax: 10}, "collector 0; collector 1"},
		"where most is at home": {[]task{{nodes: nodes("3-6"), perNode: 1}}, limits{lMax: 10}, "collector 1"},
		"no room at home":       {[]task{{nodes: nodes("0-3"), perNode: 1}, {nodes: nodes("0-2"), perNode: 1}}, limits{lMax: 6}, "collector 0; collector 1"},
		"as few as hold it":     {[]task{{nodes: nodes("0-15"), perNode: 1}}, limits{lMax: 8}, "distributed 0:8,1:8"},
		"as few as have the room": {
			[]task{
				{nodes: nodes("0-11"), perNode: 1},
				{nodes: nodes("12-18"), perNode: 1, last: at("0 0 0 0 0 0 0")},
				{nodes: nodes("12-18"), perNode: 1, last: at("1 1 1 1 1 1 1")},
				{nodes: nodes("12-18"), perNode: 1, last: at("2 2 2 2 2 2 2")},
			}, limits{lMax: 8}, "distributed 3:8,4:4; collector 0; collector 1; collector 2",
		},
		"local":                       {[]task{{nodes: nodes("5"), perNode: 1}}, limits{lMax: 8}, "local"},
		"local, a limit":              {[]task{{nodes: nodes("5"), perNode: 1}, {nodes: nodes("9"), perNode: 1, local: true}, {nodes: nodes("6"), perNode: 1}}, limits{lMax: 8, localMax: 2}, "local; local; collector 1"},
		"local before, no more":       {[]task{{nodes: nodes("5"), perNode: 1}, {nodes: nodes("9"), perNode: 1, local: true}}, limits{lMax: 8, localMax: 1}, "collector 1; local"},
		"it stays where it is":        {[]task{{nodes: nodes("0-3"), perNode: 1, last: at("5 5 5 5")}}, limits{lMax: 8}, "collector 5"},
		"gains a node":                {[]task{{nodes: nodes("0-4"), perNode: 1, last: append(at("5 5 5 5"), elsewhere)}}, limits{lMax: 8}, "collector 5"},
		"gains a node, no room":       {[]task{{nodes: nodes("0-4"), perNode: 1, last: append(at("5 5 5 5"), elsewhere)}, {nodes: nodes("8-11"), perNode: 1, last: at("5 5 5 5")}}, limits{lMax: 8}, "collector 0; collector 5"},
		"split, gains a node":         {[]task{{nodes: nodes("0-4"), perNode: 1, last: append(at("4 4 5 5"), elsewhere)}}, limits{lMax: 4}, "distributed 4:3,5:2"},
		"heavier: the least moves":    {[]task{{nodes: nodes("0-2"), perNode: 2, last: at("0 0 0")}, {nodes: nodes("1-2"), perNode: 2, last: at("0 0")}}, limits{lMax: 8}, "collector 0; collector 1"},
		"one heavier than any room":   {[]task{{nodes: nodes("0-1"), perNode: 5}}, limits{lMax: 4}, "distributed 0:1,1:1"},
		"a collector that is no more": {[]task{{nodes: nodes("0-1"), perNode: 1, last: at("9 9")}}, limits{lMax: 4}, "collector 0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range assignBounded(l, tt.tasks, tt.lim).placed {
				got = append(got, describe(p))
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("%s; want %s", s, tt.want)
			}
		})
	}
}
