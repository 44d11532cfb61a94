package assign

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology"
)

// podTree is a machine of islands with pods of leaf switches. With flat, nothing below the islands is known.
func podTree(t *testing.T, islands, pods, leaves, nodes int, flat bool) *topology.Tree {
	t.Helper()
	var b strings.Builder
	b.WriteString("root: m\nislands:\n")
	n := 0
	for i := range islands {
		fmt.Fprintf(&b, "  - name: i%d\n", i)
		var racks, all []string
		for p := range pods {
			racks = append(racks, fmt.Sprintf("rack-%d-%d", i, p))
		}
		var inner strings.Builder
		for p := range pods {
			fmt.Fprintf(&inner, "      - name: p%d-%d\n        racks: [%s]\n        islands:\n", i, p, racks[p])
			for l := range leaves {
				var names []string
				for range nodes {
					names = append(names, fmt.Sprintf("n%04d", n))
					n++
				}
				all = append(all, names...)
				fmt.Fprintf(&inner, "          - {name: l%d-%d-%d, nodes: [%s]}\n", i, p, l, strings.Join(names, ", "))
			}
		}
		if flat {
			fmt.Fprintf(&b, "    racks: [%s]\n    nodes: [%s]\n", strings.Join(racks, ", "), strings.Join(all, ", "))
		} else {
			fmt.Fprintf(&b, "    islands:\n%s", &inner)
		}
	}
	tree, err := topology.ReadYAML(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestDeeperTreeIsNearer: brokers stand in pods of islands. A plan that knows the pods sends fewer values out of them
// than one that knows the islands alone. Jobs fill the machine, neighbours mostly.
func TestDeeperTreeIsNearer(t *testing.T) {
	const islands, pods, leaves, nodes = 4, 4, 4, 16
	const collectors, perPod = islands * pods, leaves * nodes
	deep, flat := podTree(t, islands, pods, leaves, nodes, false), podTree(t, islands, pods, leaves, nodes, true)
	crossed, values := map[bool][2]int{}, 0 // of a tree that is flat: values that leave their pod, their island
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 21))
		pod := r.Perm(collectors) // of each collector: Kafka gives leaders to brokers in any order
		tasks := jobsInOrder(r, islands*pods*perPod)
		for _, tree := range []*topology.Tree{deep, flat} {
			places := make([]int, collectors)
			for c, p := range pod {
				v, ok := tree.Rack(fmt.Sprintf("rack-%d-%d", p/pods, p%pods))
				if !ok {
					t.Fatal("the tree does not know a rack")
				}
				places[c] = v
			}
			b := Place(NewLayout(tree, collectors, places), tasks, Limits{LMax: perPod * 5 / 4})
			count := crossed[tree == flat]
			for j, p := range b.Placed {
				if p.Local {
					continue
				}
				for i, n := range tasks[j].Nodes {
					from, to := int(n)/perPod, pod[p.At[i]]
					if from != to {
						count[0]++
					}
					if from/pods != to/pods {
						count[1]++
					}
					values++
				}
			}
			crossed[tree == flat] = count
		}
	}
	percent := func(n int) float64 { return 200 * float64(n) / float64(values) } // each tree has half of the values
	t.Logf("values that leave their pod: %.1f %% with islands alone, %.1f %% with pods; their island: %.1f %%, %.1f %%",
		percent(crossed[true][0]), percent(crossed[false][0]), percent(crossed[true][1]), percent(crossed[false][1]))
	if 2*crossed[false][0] > crossed[true][0] || crossed[false][1] > crossed[true][1] {
		t.Error("the deeper tree saves less than half of the ways out of a pod, or adds ways out of an island")
	}
}

// jobsInOrder fills nodes with jobs of 2 to 40 neighbours.
func jobsInOrder(r *rand.Rand, nodes int) (tasks []Task) {
	for at := 0; at < nodes; {
		size := min(2+r.IntN(39), nodes-at)
		task := Task{PerNode: 1}
		for n := at; n < at+size; n++ {
			task.Nodes = append(task.Nodes, int32(n))
		}
		tasks = append(tasks, task)
		at += size
	}
	return tasks
}

// TestHopsAreTheTrees: below known places, a node's distance from a collector is how far up the tree their lowest
// common vertex is. Levels that distinguish no collectors do not count.
func TestHopsAreTheTrees(t *testing.T) {
	tree := podTree(t, 3, 3, 2, 2, false)
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 22))
		pod := make([]int, 18) // two in a pod on average
		places := make([]int, len(pod))
		for c := range pod {
			pod[c] = r.IntN(9)
			places[c], _ = tree.Rack(fmt.Sprintf("rack-%d-%d", pod[c]/3, pod[c]%3))
		}
		l := NewLayout(tree, len(pod), places)
		if len(l.Deeper) != 1 {
			t.Fatalf("seed %d: %d levels below the islands, want that of the pods", seed, len(l.Deeper))
		}
		for n := range l.Nodes {
			for c := range pod {
				home := pod[l.Home[n]]
				want := 4
				switch {
				case int(l.Home[n]) == c:
					want = 1
				case home == pod[c]:
					want = 2
				case home/3 == pod[c]/3:
					want = 3
				}
				if got := l.hops(int32(n), int32(c)); got != want {
					t.Fatalf("seed %d: node %d is %d from collector %d, want %d", seed, n, got, c, want)
				}
			}
		}
	}
}
