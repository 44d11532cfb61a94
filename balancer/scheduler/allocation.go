package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/topology"
)

// allocation is the CPUs of a job that has parts of nodes. It is valid while the job has the same nodes and as many
// CPUs.
type allocation struct {
	hostlist string
	count    int
	cpus     map[string][]int32 // by node, in Linux's numbers; empty: all
}

// rawAllocation is the CPUs of a job by node as scontrol shows them, in Slurm's own numbers, core by core.
type rawAllocation struct {
	bad  bool // a node was there twice, or a line unreadable
	cpus map[string][]int32
}

// covers reports whether the allocation is readable and has exactly these nodes.
func (s *rawAllocation) covers(hosts []string) bool {
	if s == nil || s.bad || len(s.cpus) != len(hosts) {
		return false
	}
	for _, h := range hosts {
		if _, ok := s.cpus[h]; !ok {
			return false
		}
	}
	return true
}

// scontrolReader gathers the allocations of the jobs that scontrol shows.
type scontrolReader struct {
	allocations map[string]*rawAllocation
	at          *rawAllocation // of the job whose lines come
}

// line reads one line of `scontrol show job -d`. A job whose CPUs cannot be read is marked, and the reading goes on.
func (p *scontrolReader) line(line string) error {
	if rest, ok := strings.CutPrefix(line, "JobId="); ok {
		id, _, _ := strings.Cut(rest, " ")
		if p.at = p.allocations[id]; p.at == nil {
			p.at = &rawAllocation{cpus: map[string][]int32{}}
			p.allocations[id] = p.at
		}
		return nil
	}
	rest, ok := strings.CutPrefix(line, "     Nodes=")
	if !ok || p.at == nil {
		return nil
	}
	list, rest, ok := strings.Cut(rest, " CPU_IDs=")
	if !ok {
		return nil
	}
	ids, _, _ := strings.Cut(rest, " ")
	hosts, err := topology.ExpandHosts(list)
	if err == nil {
		err = p.at.add(hosts, ids)
	}
	p.at.bad = p.at.bad || err != nil
	return nil // the other jobs may be well
}

// add gives the same CPUs to all hosts of a line, as Slurm folds hosts with the same CPUs into one.
func (s *rawAllocation) add(hosts []string, ids string) error {
	cpus, err := parseCPUs(ids)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if _, there := s.cpus[h]; there {
			return fmt.Errorf("node %s is there twice", h)
		}
		s.cpus[h] = cpus
	}
	return nil
}

// parseCPUs returns the numbers of a list such as 0-3,8.
func parseCPUs(text string) ([]int32, error) {
	numbers, err := topology.ExpandRanges(text)
	if err != nil {
		return nil, err
	}
	cpus := make([]int32, len(numbers))
	for i, n := range numbers {
		if n >= maxCPUs {
			return nil, fmt.Errorf("CPU %d is beyond any", n)
		}
		cpus[i] = int32(n)
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// numbering is how Linux numbers hardware threads: on some nodes, and on all others.
type numbering struct {
	of    map[string]string
	other string
}

// newNumbering expands the hostlists once, because every job asks for the numbering of its nodes.
func newNumbering(cfg config.Slurm) (numbering, error) {
	n := numbering{of: map[string]string{}, other: "spread"}
	for _, item := range cfg.Numberings() {
		if item.Hosts == "" {
			n.other = item.Kind
			continue
		}
		hosts, err := topology.ExpandHosts(item.Hosts)
		if err != nil {
			return n, fmt.Errorf("balance.slurm.cpu_ids: %w", err)
		}
		for _, h := range hosts {
			n.of[h] = cmp.Or(n.of[h], item.Kind) // the first item counts
		}
	}
	return n, nil
}

// CheckCPUIDs returns an error if a hostlist of balance.slurm.cpu_ids cannot be read.
func CheckCPUIDs(cfg config.Config) error {
	_, err := newNumbering(cfg.Balance.Slurm)
	return err
}

// linux turns Slurm's numbers, which go socket by socket and core by core, into Linux's. The result is empty if the
// job has the whole node. The numbers name hardware threads even where only cores are Slurm's CPUs.
func (n slurmNode) linux(ids []int32, numbering string) []int32 {
	if len(ids) >= n.cores*n.threads {
		return nil
	}
	cpus := slices.Clone(ids)
	for i, id := range ids {
		core, thread := int(id)/n.threads, int(id)%n.threads
		switch numbering {
		case "spread":
			cpus[i] = int32(core + thread*n.cores)
		case "interleaved":
			perSocket := n.cores / n.sockets
			cpus[i] = int32(core/perSocket + core%perSocket*n.sockets + thread*n.cores)
		}
	}
	slices.Sort(cpus)
	return cpus
}
