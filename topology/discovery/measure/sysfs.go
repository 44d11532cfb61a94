package measure

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/topology/discovery/network"
)

// errNoCPUs is returned if the kernel's directory names no processors.
var errNoCPUs = errors.New("names no processors")

// group is a set of processors that share a resource, according to the kernel.
type group struct {
	name string // package0, numa1, die0, l3-0, cluster0, l2-0, core5
	cpus []int  // ascending
	rank int    // of two names for the same processors, the lower rank counts
}

// Sysfs returns Linux' description of this host's processors: cpu0, cpu1 and so on below their cores, caches, dies,
// NUMA nodes and packages. root is the mount point of sysfs, /sys. Offline processors are left out, as are groups of
// one processor or of all. It contains no latencies. In a virtual machine the hypervisor may have made the groups up.
//
// warnings name groups that cross others. A tree has no place for them.
func Sysfs(root string) (n *network.Network, warnings []string, err error) {
	cpuRoot := filepath.Join(root, "devices/system/cpu")
	online, err := readCPUs(filepath.Join(cpuRoot, "online"))
	if err != nil {
		return nil, nil, err
	}
	if len(online) == 0 {
		return nil, nil, fmt.Errorf("%s/online %w", cpuRoot, errNoCPUs)
	}
	groups := map[string]group{} // by their processors
	add := func(path, name string, id, rank int) error {
		cpus, err := readCPUs(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // older kernels have no dies and clusters, and some machines no caches
		}
		cpus = slices.DeleteFunc(cpus, func(c int) bool { return !slices.Contains(online, c) })
		if err != nil || len(cpus) < 2 || len(cpus) == len(online) {
			return err
		}
		g := group{fmt.Sprintf("%s%d", name, id), cpus, rank}
		if old, twice := groups[fmt.Sprint(cpus)]; !twice || rank < old.rank {
			groups[fmt.Sprint(cpus)] = g
		}
		return nil
	}
	for _, cpu := range online {
		dir := filepath.Join(cpuRoot, "cpu"+strconv.Itoa(cpu))
		topo := filepath.Join(dir, "topology")
		err := errors.Join(
			add(filepath.Join(topo, "package_cpus_list"), "package", readNumber(topo, "physical_package_id", cpu), 0),
			add(filepath.Join(topo, "die_cpus_list"), "die", readNumber(topo, "die_id", cpu), 2),
			add(filepath.Join(topo, "cluster_cpus_list"), "cluster", cpu, 4),
			add(filepath.Join(topo, "core_cpus_list"), "core", cpu, 6),
			add(filepath.Join(topo, "core_siblings_list"), "package", readNumber(topo, "physical_package_id", cpu), 1),
			add(filepath.Join(topo, "thread_siblings_list"), "core", cpu, 7),
		)
		caches, _ := filepath.Glob(filepath.Join(dir, "cache/index*")) // the pattern is right
		for _, cache := range caches {
			if level := readNumber(cache, "level", 0); level >= 2 {
				err = errors.Join(err, add(filepath.Join(cache, "shared_cpu_list"), fmt.Sprintf("l%d-", level),
					readNumber(cache, "id", cpu), max(1, 9-2*level)))
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	nodes, _ := filepath.Glob(filepath.Join(root, "devices/system/node/node*")) // the pattern is right
	for _, node := range nodes {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(node), "node"))
		if err != nil {
			continue // another file
		}
		if err := add(filepath.Join(node, "cpulist"), "numa", id, 1); err != nil {
			return nil, nil, err
		}
	}
	n, warnings = nest(online, groups)
	return n, warnings, nil
}

// nest makes a tree of groups: each one below the smallest that holds it. The largest come first, so of two groups that
// cross, the smaller is left out.
func nest(online []int, groups map[string]group) (*network.Network, []string) {
	var order []group
	for _, g := range groups {
		order = append(order, g)
	}
	slices.SortFunc(order, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.cpus), len(a.cpus)), cmp.Compare(a.cpus[0], b.cpus[0]),
			slices.Compare(a.cpus, b.cpus))
	})
	names := make([]string, len(online))
	above := make(map[int]int, len(online)) // of each processor, the smallest group's switch so far
	for i, cpu := range online {
		names[i] = "cpu" + strconv.Itoa(cpu)
	}
	n := network.New(names)
	root := n.AddSwitch("host")
	n.Root = root
	for _, cpu := range online {
		above[cpu] = root
	}
	taken := map[string]bool{}
	var warnings []string
	for _, g := range order {
		parent := above[g.cpus[0]]
		if slices.ContainsFunc(g.cpus, func(c int) bool { return above[c] != parent }) {
			warnings = append(warnings, fmt.Sprintf("%s crosses a larger group of processors and is left out", g.name))
			continue
		}
		name := g.name
		for k := 0; taken[name]; k++ { // ids of dies and caches count anew in each package
			name = fmt.Sprintf("%s-cpu%d", g.name, g.cpus[0])
		}
		taken[name] = true
		v := n.AddSwitch(name)
		n.AddLink(parent, v, math.NaN())
		for _, c := range g.cpus {
			above[c] = v
		}
	}
	for i, cpu := range online {
		n.AddLink(i, above[cpu], math.NaN())
	}
	return n, warnings
}

// readCPUs reads a file that holds a list as "0-3,8".
func readCPUs(path string) ([]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil // a NUMA node of memory alone
	}
	list, err := topology.ExpandRanges(string(bytes.TrimSpace(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	cpus := make([]int, len(list))
	for i, c := range list {
		cpus[i] = int(c)
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// readNumber reads a file that holds one number, and returns other if there is none.
func readNumber(dir, name string, other int) int {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return other
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return other
	}
	return n
}
