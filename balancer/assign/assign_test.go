package assign

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/topology"
)

// regular is the layout of the cases: equal homes, equal SyncAgents.
func regular(nodes, agentsPerCollector, collectorsPerSync, collectors int) *Layout {
	l := &Layout{Home: make([]int32, nodes), Sync: make([]int32, collectors)}
	for i := range l.Home {
		l.Home[i] = int32(i / agentsPerCollector)
	}
	for c := range l.Sync {
		l.Sync[c] = int32(c / collectorsPerSync)
	}
	return l
}

func ranges(t *testing.T, text string) (nodes []int32) {
	t.Helper()
	for part := range strings.SplitSeq(text, ",") {
		low, high, ok := strings.Cut(part, "-")
		if !ok {
			high = low
		}
		a, err1 := strconv.Atoi(low)
		b, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil {
			t.Fatalf("range %q", part)
		}
		for n := a; n <= b; n++ {
			nodes = append(nodes, int32(n))
		}
	}
	return nodes
}

// describe writes a placement as the cases do.
func describe(p Placement) string {
	if p.Local {
		return "local"
	}
	load := map[int32]int{}
	for _, c := range p.At {
		load[c]++
	}
	if len(load) == 1 {
		return fmt.Sprintf("collector %d", p.At[0])
	}
	var parts []string
	for c := range int32(1000) {
		if load[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d:%d", c, load[c]))
		}
	}
	return "distributed " + strings.Join(parts, ",")
}

func TestAssignCases(t *testing.T) {
	files, err := filepath.Glob("testdata/balancer_small_*.txt")
	if err != nil || len(files) != 3 {
		t.Fatalf("cases: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var nodes, agents, perSync, lMax, lDist, collectors, maxLoad, total int
			var jobs [][]int32
			var want, got []string
			for line := range strings.Lines(strings.TrimSpace(string(text))) {
				line = strings.TrimSpace(line)
				switch fields := strings.Split(line, ";"); {
				case strings.HasPrefix(line, "# nodes"):
					if _, err := fmt.Sscanf(line,
						"# nodes %d agents_per_collector %d collectors_per_syncagent %d lmax %d ldist %d collectors %d",
						&nodes, &agents, &perSync, &lMax, &lDist, &collectors); err != nil {
						t.Fatal(err)
					}
				case strings.HasPrefix(line, "# totals"):
					if _, err := fmt.Sscanf(line[strings.Index(line, "max_load"):], "max_load %d total_distance %d",
						&maxLoad, &total); err != nil {
						t.Fatal(err)
					}
				case len(fields) == 3 && line[0] != '#':
					jobs = append(jobs, ranges(t, fields[1]))
					want = append(want, fields[2])
				}
			}
			l := regular(nodes, agents, perSync, collectors)
			load, distance := make([]int, collectors), 0
			for j, p := range placeLiteral(l, jobs, Limits{LMax: lMax, LDist: lDist}) {
				got = append(got, describe(p))
				for i, c := range p.At {
					if p.Local {
						continue
					}
					load[c]++
					switch home := l.Home[jobs[j][i]]; {
					case home == c:
						distance++
					case l.Sync[home] == l.Sync[c]:
						distance += 2
					default:
						distance += 3
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if slices.Max(load) != maxLoad || distance != total {
				t.Errorf("max_load %d, total_distance %d; want %d, %d", slices.Max(load), distance, maxLoad, total)
			}
		})
	}
}

// literal is the paper's text word for word, without any of assign's short cuts.
func literal(l *Layout, jobs [][]int32, lim Limits) []Placement {
	distance := func(c, a int32) int {
		switch {
		case l.Home[a] == c:
			return 1
		case l.Sync[l.Home[a]] == l.Sync[c]:
			return 2
		}
		return 3
	}
	load := make([]int, len(l.Sync))
	var all []int32
	for c := range l.Sync {
		all = append(all, int32(c))
	}
	best := func(set, agents []int32) int32 {
		least, found, near := 1<<30, int32(-1), 0
		for _, c := range set {
			least = min(least, load[c])
		}
		for _, c := range set {
			d := 0
			for _, a := range agents {
				d += distance(c, a)
			}
			if load[c] == least && (found < 0 || d < near) {
				found, near = c, d
			}
		}
		return found
	}
	placed := make([]Placement, len(jobs))
	locals := 0
	for size := 1 << 12; size > 0; size-- {
		for j, nodes := range jobs {
			if len(nodes) != size {
				continue
			}
			at := map[int32]int32{}
			local := size == 1 && (lim.LocalMax == 0 || locals < lim.LocalMax)
			if local {
				locals++
				at[nodes[0]] = l.Home[nodes[0]]
			} else if c := best(all, nodes); load[c]+size <= lim.LMax {
				load[c] += size
				for _, a := range nodes {
					at[a] = c
				}
			} else {
				rest, chosen := slices.Clone(nodes), []int32(nil)
				for range (size + lim.LDist - 1) / lim.LDist {
					c := best(all, rest)
					chosen = append(chosen, c)
					for _, a := range rest {
						if l.Home[a] == c {
							at[a] = c
							load[c]++
						}
					}
					rest = slices.DeleteFunc(rest, func(a int32) bool { return l.Home[a] == c })
				}
				slices.Sort(chosen)
				chosen = slices.Compact(chosen)
				for _, a := range rest {
					c := best(chosen, nodes)
					at[a] = c
					load[c]++
				}
			}
			placed[j].Local = local
			for _, a := range nodes {
				placed[j].At = append(placed[j].At, at[a])
			}
		}
	}
	return placed
}

func randomJobs(r *rand.Rand, nodes, jobs int) [][]int32 {
	var list [][]int32
	for range jobs {
		size := 1 + r.IntN(1+r.IntN(nodes))
		perm := r.Perm(nodes)[:size]
		job := make([]int32, size)
		for i, n := range perm {
			job[i] = int32(n)
		}
		slices.Sort(job)
		list = append(list, job)
	}
	return list
}

// wantSame ends the test where two plans differ. cmp is only asked for the difference: it is slow.
func wantSame(t *testing.T, seed uint64, want, got []Placement) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("seed %d (-want +got): %s", seed, cmp.Diff(want, got, cmp.AllowUnexported(Placement{})))
	}
}

func TestAssignEqualsTheText(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes, collectors := 1+r.IntN(60), 1+r.IntN(12)
		l := regular(nodes, (nodes+collectors-1)/collectors, 1+r.IntN(4), collectors)
		jobs := randomJobs(r, nodes, r.IntN(15))
		lMax := 2 + r.IntN(nodes+1)
		lim := Limits{LMax: lMax, LDist: 1 + r.IntN(lMax), LocalMax: r.IntN(5) - 1}
		wantSame(t, seed, literal(l, jobs, lim), placeLiteral(l, jobs, lim))
	}
}

// TestLiteralHonoursLocalMax: as many jobs of one node are reduced there as the storage takes; those beyond go to
// the collector with the least load.
func TestLiteralHonoursLocalMax(t *testing.T) {
	l := regular(8, 4, 2, 2)
	jobs := [][]int32{{0}, {1}, {2, 3}, {4}, {5}}
	for most, want := range map[int]string{
		-1: "false false false false false",
		0:  "true true false true true", 1: "true false false false false",
		3: "true true false true false", 9: "true true false true true",
	} {
		lim := Limits{LMax: 4, LDist: 4, LocalMax: most, Literal: true}
		tasks := make([]Task, len(jobs))
		for j := range jobs {
			tasks[j] = Task{Nodes: jobs[j], PerNode: 1}
		}
		b := Place(l, tasks, lim)
		var local []string
		load := int64(0)
		for _, p := range b.Placed {
			local = append(local, strconv.FormatBool(p.Local))
		}
		for _, c := range b.Load {
			load += c
		}
		if got := strings.Join(local, " "); got != want || load != int64(6-strings.Count(want, "true")) {
			t.Errorf("local_max %d: local are %s, want %s; %v at collectors", most, got, want, b.Load)
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 3))
	nodes := make([]string, 10_000)
	for i := range nodes {
		nodes[i] = "n" + strconv.Itoa(i)
	}
	l := NewLayout(topology.Flat(nodes), 216, nil)
	jobs := make([][]int32, 1000)
	for i := range nodes {
		j := r.IntN(len(jobs))
		jobs[j] = append(jobs[j], int32(i))
	}
	for i := range nodes {
		jobs[0] = append(jobs[0], int32(i))
	}
	jobs = slices.DeleteFunc(jobs, func(j []int32) bool { return len(j) == 0 })
	for b.Loop() {
		placeLiteral(l, jobs, Limits{LMax: 129, LDist: 116})
	}
}
