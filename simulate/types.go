package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhpc/weir/config"
)

// configFile is the configuration that Write puts beside the archive of a machine with node types. Commands read it
// with --config.
const configFile = "weir.yaml"

// types returns the node types of the machine.
func (m *machine) types() []config.NodeType {
	kind := func(name, nodes string, threads, gpus int) config.NodeType {
		return config.NodeType{
			Name: name, Nodes: nodes, CPUs: bigCPUs, ThreadsPerCore: threads, GPUs: &gpus, Memory: nodeMemory,
			PeakFlops: peakFlops, PeakMemBW: peakMemBW,
		}
	}
	n := len(m.names)
	all := []config.NodeType{
		kind("standard", fmt.Sprintf("n[0001-%s]", m.names[n-m.gpus-m.smt-1][1:]), 1, 0),
		kind("gpu", fmt.Sprintf("g[0001-%s]", m.names[n-1][1:]), 1, nodeGPUs),
	}
	if m.smt > 0 {
		all = append(all, kind("threaded", fmt.Sprintf("s[0001-%s]", m.names[n-m.gpus-1][1:]), 2, 0))
	}
	return all
}

// writeConfig writes the configuration of an archive, so that commands know its machine and ask no broker.
func (m *machine) writeConfig(o *Options) error {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("looking for the archive: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# A made-up machine and its archive: weir jobs --config %s\n", filepath.Join(dir, configFile))
	fmt.Fprintf(&b, "cluster: %s\nsink:\n  dir: %q\nmachine:\n", o.Cluster, dir)
	for _, t := range m.types() {
		fmt.Fprintf(&b, "  - name: %s\n    nodes: %q\n    cpus: %d\n    threads_per_core: %d\n    gpus: %d\n",
			t.Name, t.Nodes, t.CPUs, t.ThreadsPerCore, *t.GPUs)
		fmt.Fprintf(&b, "    memory: %d\n    peak_flops: %g\n    peak_mem_bw: %g\n", t.Memory, t.PeakFlops, t.PeakMemBW)
	}
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the machine: %w", err)
	}
	return nil
}
