package rules

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// TestPackingHoldsTheWork: cores that work at random shares, on nodes that each leave some cores idle. The advice is the
// layout with the fewest nodes that has a core for each of them, as the search through all layouts finds.
func TestPackingHoldsTheWork(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		nodes, perNode := 1+rnd.IntN(20), []int{4, 16, 48, 64, 128}[rnd.IntN(5)]
		threads := 1 + rnd.IntN(2) // hardware threads of a core
		busy := 1 + rnd.IntN(perNode)
		busyIdle := rnd.Float64() * 0.2 / float64(perNode) // of a core that works
		cores := float64(nodes * perNode * threads)
		smtIdle := 1 - 1/float64(threads)
		without := 1 - float64(busy)/float64(perNode*threads)
		idle := without + (1-without)*busyIdle
		share := math.Floor((without-smtIdle)*10+1e-9) / 10 // as deciles prove it
		got, ok := pack(float64(nodes), cores, share, idle, busyIdle, smtIdle)
		if !ok || got.busyPerNode != busy || got.coresPerNode != perNode {
			t.Fatalf("%d nodes with %d of %d cores, %d threads: %+v", nodes, busy, perNode, threads, got)
		}
		for n := 1; ; n++ {
			if n*perNode < busy*nodes {
				continue
			}
			if got.nodes != n {
				t.Fatalf("%d of %d cores work on %d nodes: %d nodes, want %d", busy, perNode, nodes, got.nodes, n)
			}
			break
		}
		if of := got.tasks(); of["tasks_per_node"] != 0 && of["tasks_per_node"].(int)*got.nodes != busy*nodes ||
			of["tasks"] != busy*nodes {
			t.Fatalf("%v for %d tasks", of, busy*nodes)
		}
	}
}

// TestIdleNodes: nodes that are named count if the proven share leaves room for all of them at a time.
func TestIdleNodes(t *testing.T) {
	for _, c := range []struct {
		nodes int
		share float64
		named int
		want  int
	}{
		{8, 0.4, 4, 4},   // four of eight: deciles prove four tenths
		{2, 0.5, 1, 1},   // one of two
		{8, 0.125, 4, 1}, // one after the other rests
		{64, 0.1, 9, 9},
		{64, 0.1, 40, 6}, // a lower bound
		{8, 0, 1, 1},     // a finding is about one node at least
		{2, 1, 2, 1},     // one node always remains
	} {
		if got := idleNodes(c.nodes, c.share, c.named); got != c.want {
			t.Errorf("%d nodes, %v of the cores, %d named: %d, want %d", c.nodes, c.share, c.named, got, c.want)
		}
	}
}

// TestAdviceOfPlantedJobs: what an expert would write for the jobs of docs/tour.md.
func TestAdviceOfPlantedJobs(t *testing.T) {
	r := shippedRules(t)
	evidence := func(values map[string]float64) (all []schemas.FindingEvidence) {
		for name, v := range values {
			all = append(all, schemas.FindingEvidence{Name: name, Low: v, Mean: v, High: v})
		}
		return all
	}
	for _, c := range []struct {
		rule         string
		nodes, cores float64
		gpus         float64
		state        string
		value        float64
		hosts        []string
		evidence     map[string]float64
		hint, slurm  string
	}{
		{
			"idle-cores", 8, 512, 0, "COMPLETED", 0.2, nil,
			map[string]float64{"cpu_idle.mean": 0.2575, "cpu_idle.d3": 0.01, "cpu_idle.hi1": 0.005},
			"About 48 of 64 cores of each node work, the others have nothing to do. 6 full nodes do the same work, if it " +
				"fits into their memory. Otherwise start a rank or thread for each core.",
			"#SBATCH --nodes=6 --ntasks-per-node=64",
		},
		{
			"idle-cores", 3, 192, 0, "RUNNING", 0.2, nil,
			map[string]float64{"cpu_idle.mean": 0.25, "cpu_idle.d3": 0, "cpu_idle.hi1": 0},
			"About 48 of 64 cores of each node work, the others have nothing to do. Start a rank or thread for each core, " +
				"or ask for 48 cores.", "",
		},
		{
			"unused-node", 8, 512, 0, "COMPLETED", 0.4,
			[]string{"n0007", "n0008", "n0009", "n0010"},
			map[string]float64{"cpu_idle.mean": 0.5, "cpu_idle.high_node_mean": 1},
			"4 of 8 nodes have no work: n[0007-0010]. Check that the ranks are spread over all nodes, or ask for 4.",
			"#SBATCH --nodes=4",
		},
		{
			"unused-node", 8, 512, 0, "COMPLETED", 0.125,
			[]string{"n1", "n2", "n3"},
			map[string]float64{"cpu_idle.mean": 0.125, "cpu_idle.high_node_mean": 1},
			"At any time at least 1 of 8 nodes has no work, n[1-3] in turn. Check that the ranks are spread over all nodes.",
			"",
		},
		{
			"unused-gpu", 2, 128, 8, "COMPLETED", 1, nil,
			map[string]float64{"acc_utilization.hi0": 0, "acc_utilization.hi10": 0},
			"None of 8 GPUs was used. Check that the program was built for GPUs and sees them, or ask for none.",
			"#SBATCH --gres=none",
		},
		{
			"stalled", 4, 256, 0, "COMPLETED", 1, nil, nil,
			"Half of the cores worked in the first quarter of the job, and none in the last. It may have been in a " +
				"deadlock, or waited for a file. Look where its output stops.", "",
		},
	} {
		rule := r[c.rule]
		f := &frame{words: [5]string{"1", "u", "a", "q", c.state}}
		for i := range f.job {
			f.job[i] = math.NaN()
		}
		f.job[0], f.job[1], f.job[2] = c.nodes, c.cores, c.gpus
		data := hintData(f, c.value, c.hosts, evidence(c.evidence))
		hint, err := filled(rule.hint, data)
		if err != nil || hint != c.hint {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.rule, err, hint, c.hint)
		}
		if slurm, err := filled(rule.slurm, data); err != nil || slurm != c.slurm {
			t.Errorf("%s: %v, %q, want %q", c.rule, err, slurm, c.slurm)
		}
	}
}

// shippedRules returns the rules that weir ships, by their names.
func shippedRules(t *testing.T) map[string]*Rule {
	t.Helper()
	set := shippedSet(t)
	all := map[string]*Rule{}
	for i := range set.Rules {
		all[set.Rules[i].ID] = &set.Rules[i]
	}
	return all
}
