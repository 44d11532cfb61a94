package simulate

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

var january = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestHabitsStay: docs/archive.md and docs/queries.md give answers of this mix, so its jobs and values are as they
// always were. Their last digits are not, since processors differ in how they round x*y+z.
func TestHabitsStay(t *testing.T) {
	t.Parallel()
	m := made(Habits, 1, january, 3, time.Minute)
	h := fnv.New64a()
	for i := range m.jobs {
		j := &m.jobs[i]
		fmt.Fprintln(h, j.JobID, j.User, j.Account, j.Queue, j.Name, j.Nodes, *j.Cores, *j.Gpus, *j.TimeLimitS,
			*j.MemRequestedBytes, *j.Exclusive, *j.Submit, *j.Start, *j.End, j.State)
	}
	held := make([]*job, len(m.slots))
	at := january.Add(30 * time.Hour).UnixMilli()
	for i := range m.jobs {
		if j := &m.jobs[i]; j.covers(at, m.intervalMs) {
			for _, s := range j.on {
				held[s] = j
			}
		}
	}
	for n := range m.names {
		for _, piece := range m.measure(n, m.pieces(n, held), at) {
			for _, x := range piece {
				fmt.Fprintf(h, "%s %s %s %.9g\n", x.Name, x.Unit, x.Scope, x.Values)
			}
		}
	}
	if got := h.Sum64(); got != 0x4a2b0c3e390423da {
		t.Errorf("the hash of the habits' jobs and values is %#x: restore them, or change the answers in docs", got)
	}
}

// TestMetricsAreTheCatalogues: a made-up node measures under the names, units and scopes of the agent's catalogue. So
// rules that hold for it hold for a real one.
func TestMetricsAreTheCatalogues(t *testing.T) {
	t.Parallel()
	known := map[string]source.Metric{}
	agent := config.Default().Agent
	agent.PeakFlops, agent.PeakMemBW = peakFlops, peakMemBW
	for _, m := range source.Catalogue(agent) {
		known[m.Name] = m
	}
	m := made(Problems, 1, january, 1, time.Minute)
	seen := map[string]int{}
	for i := range m.jobs {
		j := &m.jobs[i]
		for k, n := range j.nodes {
			p := piece{job: j, k: k, cpus: numbers(nil, 0, bigCPUs)}
			for _, x := range m.measureNode(n, []piece{p}, *j.Start+600_000)[0] {
				seen[x.Name]++
				if want := known[x.Name]; x.Unit != want.Unit || x.Scope != want.Scope {
					t.Fatalf("%s is in %q of scope %q, and the catalogue has %q of %q",
						x.Name, x.Unit, x.Scope, want.Unit, want.Scope)
				}
			}
		}
	}
	if len(seen) != 21 || seen["acc_utilization"] == 0 || seen["acc_utilization"] == seen["mem_used"] {
		t.Errorf("metrics, and how often: %v", seen)
	}
}

// TestValuesAreOfThisWorld: whatever a program does, its shares of time sum to one, and no value is beyond what the
// node has.
func TestValuesAreOfThisWorld(t *testing.T) {
	t.Parallel()
	m := made(Problems, 3, january, 10, time.Minute)
	for i := range m.jobs {
		j := &m.jobs[i]
		for start := *j.Start; start+m.intervalMs < *j.End; start += 7 * m.intervalMs {
			p := piece{job: j, k: len(j.nodes) - 1, cpus: numbers(nil, 0, bigCPUs)}
			metrics := m.measureNode(j.nodes[p.k], []piece{p}, start)
			if metrics == nil {
				continue
			}
			value := map[string][]float64{}
			for _, x := range metrics[0] {
				value[x.Name] = x.Values
			}
			for c := range p.cpus {
				sum := 0.0
				for _, name := range []string{"cpu_user", "cpu_system", "cpu_iowait", "cpu_idle"} {
					v := value[name][c]
					if sum += v; v < 0 || v > 1 {
						t.Fatalf("job %s (%s): %s is %v", j.JobID, j.Name, name, v)
					}
				}
				if math.Abs(sum-1) > 1e-3 {
					t.Fatalf("job %s (%s): the time of CPU %d sums to %v", j.JobID, j.Name, c, sum)
				}
			}
			for name, most := range map[string]float64{
				"flops_any": peakFlops / bigCPUs, "vectorization_ratio": 1, "mem_bw": peakMemBW / nodeSockets,
				"mem_used": nodeMemory, "job_mem_used": nodeMemory, "job_mem_peak": nodeMemory, "peak_share_flops": 1,
				"peak_share_mem_bw": 1, "acc_utilization": 1, "clock": 2 * fullClock, "ipc": 6,
			} {
				for _, v := range value[name] {
					if v < 0 || v > most {
						t.Fatalf("job %s (%s): %s is %v", j.JobID, j.Name, name, v)
					}
				}
			}
		}
	}
}

// TestSharedNodesAreShared: jobs on pieces of nodes have their own CPUs, and no values of the whole node. All jobs and
// what no job holds have the machine's CPUs together. An agent that is silent is missed.
func TestSharedNodesAreShared(t *testing.T) {
	t.Parallel()
	m := made(Problems, 1, january, 3, 30*time.Minute)
	m.sketch = 0
	there := summaries(t, m, january, january.AddDate(0, 0, 3))
	cpus, whole := map[int64]int64{}, map[int64]int64{}
	pieces, missed := 0, false
	for key, s := range there {
		missed = missed || s.NodesReported < s.NodesExpected
		for i := range s.Metrics {
			switch x := &s.Metrics[i]; {
			case x.Name == "cpu_idle" && key.id == schemas.JobSystem:
				if whole[key.start] = x.Count; x.Count != int64(s.NodesReported)*bigCPUs {
					t.Errorf("the machine has values of %d CPUs on %d nodes", x.Count, s.NodesReported)
				}
			case x.Name == "cpu_idle":
				cpus[key.start] += x.Count
				if key.job != nil && s.NodesReported == s.NodesExpected && x.Count != *key.job.Cores {
					t.Errorf("job %s has %d cores, and values of %d", key.id, *key.job.Cores, x.Count)
				}
			case x.Name == "mem_used" && key.job != nil && key.job.habit.class == packed:
				t.Errorf("job %s shares its node, and has the node's memory", key.id)
			case x.Name == "job_mem_peak" && key.job != nil && key.job.habit.class == packed:
				pieces++
			}
		}
	}
	if diff := cmp.Diff(whole, cpus); diff != "" {
		t.Errorf("CPUs of the machine, and of its pieces (-machine +pieces):\n%s", diff)
	}
	if pieces == 0 || !missed {
		t.Errorf("summaries of pieces of nodes: %d; a silent agent: %v", pieces, missed)
	}
}

// TestMachineIsConfigured: the configuration beside the archive names the machine's nodes with their types, and the
// archive by a path that holds anywhere. It names no broker.
func TestMachineIsConfigured(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	o := options(filepath.Join(t.TempDir(), "a"))
	o.Jobs, o.Days = Problems, 1
	if _, err := Write(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Source{File: filepath.Join(o.Dir, configFile), Defaults: config.Default()})
	if err != nil {
		t.Fatal(err)
	}
	if c.Sink.Dir != o.Dir || c.Cluster != "c" || len(c.Kafka.Brokers) > 0 {
		t.Errorf("%s, cluster %s, brokers %v", c.Sink.Dir, c.Cluster, c.Kafka.Brokers)
	}
	types, err := nodetypes.New(c.Machine)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range o.machine().names {
		x := types.Of([]string{name})
		if gpus := map[bool]int{true: nodeGPUs}[i >= 16]; x.GPUs == nil || *x.GPUs != gpus || x.CPUs != bigCPUs ||
			x.PeakFlops != peakFlops || x.PeakMemBW != peakMemBW || x.Memory != nodeMemory {
			t.Errorf("node %s: %+v", name, x)
		}
	}
	o = options(filepath.Join(t.TempDir(), "b"))
	if _, err := Write(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, configFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the habits' archive has a configuration: %v", err)
	}
}

// TestSameSeedSameJobs: a mix and its values are functions of the options. Another seed makes other jobs.
func TestSameSeedSameJobs(t *testing.T) {
	t.Parallel()
	list := func(seed uint64) (all []string) {
		m := made(Problems, seed, january, 30, time.Minute)
		for i := range m.jobs {
			j := &m.jobs[i]
			all = append(all, fmt.Sprint(j.JobID, j.User, j.Nodes, *j.Start, *j.End))
		}
		return all
	}
	a := list(1)
	if diff := cmp.Diff(a, list(1)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(a, list(2)) {
		t.Error("two seeds made the same jobs")
	}
	fold := func() []*schemas.JobSummary {
		at := january.Add(30 * time.Hour).UnixMilli()
		all, err := made(Problems, 1, january, 3, time.Minute).fold(at, at+300_000)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if diff := cmp.Diff(fold(), fold()); diff != "" {
		t.Errorf("the same options made two values (-first +second):\n%s", diff)
	}
}

// TestTourNamesThePlantedJobs: docs/tour.md sends its readers to jobs by their numbers. For each rule it says who is
// almost found.
func TestTourNamesThePlantedJobs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	o := Options{Cluster: "c", Nodes: 16, Interval: time.Minute, Seed: 1, From: january, Days: 30, Jobs: Problems}
	for _, p := range Planted(o) {
		if want[p.Rule] != "" {
			want[p.Rule] += ", "
		}
		want[p.Rule] += p.JobID
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([0-9]+, [0-9]+) \\|").FindAllSubmatch(page, -1) {
		got[string(row[1])] = string(row[2])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("planted jobs (-month +docs/tour.md):\n%s", diff)
	}
	_, almost, _ := strings.Cut(string(page), "| who is almost found |")
	for rule := range want {
		if !strings.Contains(almost, "`"+rule+"`") {
			t.Errorf("docs/tour.md does not say who is almost found by %s", rule)
		}
	}
}
