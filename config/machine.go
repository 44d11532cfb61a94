package config

import (
	"fmt"
	"strings"
	"unicode"
)

// NodeType describes the hardware of one kind of node, and its peaks. 0, and for GPUs nil, stands for unknown.
type NodeType struct {
	Name  string `mapstructure:"name"`
	Nodes string `mapstructure:"nodes"` // a hostlist; empty: all nodes that no other type names

	CPUs           int     `mapstructure:"cpus"` // logical ones
	ThreadsPerCore int     `mapstructure:"threads_per_core"`
	GPUs           *int    `mapstructure:"gpus"`
	Memory         int64   `mapstructure:"memory"`      // bytes
	PeakFlops      float64 `mapstructure:"peak_flops"`  // FLOP/s
	PeakMemBW      float64 `mapstructure:"peak_mem_bw"` // bytes/s
}

// Find is the configuration of find, and of commands that evaluate rules.
type Find struct {
	Rules    string   `mapstructure:"rules"`    // file or directory of *.yaml with the site's rules; empty: none
	Off      []string `mapstructure:"off"`      // ids of shipped rules that are off
	Possible bool     `mapstructure:"possible"` // findings too that bounds do not prove
}

// Bounds on a machine. They are far above any that there is.
const (
	maxNodeTypes      = 64
	maxHostlistBytes  = 64 << 10
	maxCPUsOfNode     = 1 << 16
	maxThreadsPerCore = 64
	maxGPUsOfNode     = 1024
	maxMemoryOfNode   = 1 << 60
)

// validateMachine checks each type by itself. Two types that name one node are found elsewhere, by code that expands
// hostlists.
func (c *Config) validateMachine(f *findings) {
	f.within("machine", int64(len(c.Machine)), 0, maxNodeTypes)
	names, others := map[string]bool{}, ""
	for i := range c.Machine {
		t := &c.Machine[i]
		key := fmt.Sprintf("machine[%d]", i)
		if f.name(key+".name", t.Name); names[t.Name] {
			f.wrong(errTwice, key+".name", fmt.Sprintf("%.80q", t.Name), "")
		}
		names[t.Name] = true
		switch {
		case t.Nodes == "" && others != "":
			f.wrong(errTogether, key+".nodes", `""`, fmt.Sprintf("a hostlist such as n[0001-2048]: "+
				"%.80q is the type of all other nodes", others))
		case t.Nodes == "":
			others = t.Name
		case len(t.Nodes) > maxHostlistBytes || strings.ContainsFunc(t.Nodes, notPrintable):
			f.wrong(errHostlist, key+".nodes", fmt.Sprintf("%.80q", t.Nodes), "")
		}
		t.validate(f, key)
	}
}

func (t *NodeType) validate(f *findings, key string) {
	f.within(key+".cpus", int64(t.CPUs), 0, maxCPUsOfNode)
	f.within(key+".threads_per_core", int64(t.ThreadsPerCore), 0, maxThreadsPerCore)
	if t.CPUs > 0 && t.ThreadsPerCore > 0 && t.CPUs%t.ThreadsPerCore != 0 {
		f.wrong(errTogether, key+".cpus", t.CPUs,
			fmt.Sprintf("a multiple of threads_per_core %d: cpus are logical ones", t.ThreadsPerCore))
	}
	if t.GPUs != nil {
		f.within(key+".gpus", int64(*t.GPUs), 0, maxGPUsOfNode)
	}
	f.within(key+".memory", t.Memory, 0, maxMemoryOfNode)
	f.peak(key+".peak_flops", t.PeakFlops)
	f.peak(key+".peak_mem_bw", t.PeakMemBW)
}

func (n *Find) validate(f *findings) {
	for _, id := range n.Off {
		f.name("find.off", id)
	}
}

func notPrintable(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }
