package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/topology"
)

// allocation lists the CPUs of a job that holds parts of nodes. It is valid while the job keeps its nodes and its
// number of CPUs.
type allocation struct {
	hostlist string
	count    int
	cpus     map[string][]int32 // by node, in Linux's numbers; empty: all
	gpus     map[string][]int32 // by node, if some are known
	cgroup   string             // empty: job_ and the job's number
}

// rawAllocation is the CPUs of a job by node as Slurm shows them, in Slurm's own numbers, core by core.
type rawAllocation struct {
	wrong string // why it must not be used; empty: it may
	cpus  map[string][]int32
	gpus  map[string][]int32 // by node, if some are known
	sluid string             // Slurm 25.11 and later have one; 26.05 names cgroups by it
}

func newRawAllocation() *rawAllocation {
	return &rawAllocation{cpus: map[string][]int32{}, gpus: map[string][]int32{}}
}

// refuse keeps the first reason.
func (s *rawAllocation) refuse(reason string) { s.wrong = cmp.Or(s.wrong, reason) }

// misfit returns why an allocation is not the one of a row; empty if it is. squeue's numbers of the job are fields of
// their own, so they hold for an answer with texts of users in it.
func (s *rawAllocation) misfit(r *slurmRow, machine map[string]slurmNode) string {
	switch {
	case s == nil:
		return fmt.Sprintf("scontrol does not say which CPUs it has on %.80q", topology.FoldHosts(r.hosts))
	case s.wrong != "":
		return "scontrol's answer is not used: " + s.wrong
	case len(s.cpus) == 0:
		return fmt.Sprintf("scontrol does not say which CPUs it has on %.80q", topology.FoldHosts(r.hosts))
	}
	least, most, gpus := 0, 0, 0
	for _, h := range r.hosts {
		ids, n := s.cpus[h], machine[h]
		if len(ids) == 0 || n.cpus == 0 || int(ids[len(ids)-1]) >= n.cores*n.threads {
			return fmt.Sprintf("scontrol's answer is not used: node %.80q has no CPUs in it, or unknown ones", h)
		}
		cores := coresOf(ids, n.threads)
		least, most = least+cores, most+cores*max(n.threads, n.cpus/n.cores)
		gpus += len(s.gpus[h])
	}
	switch {
	case len(s.cpus) != len(r.hosts):
		return "scontrol's answer is not used: it has other nodes than squeue's; " + unclearText
	case r.cpus < least || r.cpus > most: // a core counts as one CPU at least, and as its threads at most
		return fmt.Sprintf("scontrol's answer is not used: it has %d cores, where squeue has %d CPUs", least, r.cpus)
	case r.job.Gpus != nil && gpus > int(*r.job.Gpus):
		return fmt.Sprintf("scontrol's answer is not used: it has %d GPUs, where squeue has %d", gpus, *r.job.Gpus)
	}
	return ""
}

// coresOf counts the cores of hardware threads that ascend.
func coresOf(ids []int32, threads int) (cores int) {
	last := -1
	for _, id := range ids {
		if core := int(id) / threads; core != last {
			cores, last = cores+1, core
		}
	}
	return cores
}

// add gives the same CPUs and GPUs to all hosts of a line, as Slurm folds hosts with the same ones into one.
func (s *rawAllocation) add(hosts []string, cpus, gpus []int32) {
	for _, h := range hosts {
		if _, there := s.cpus[h]; there {
			s.refuse(fmt.Sprintf("node %.80q is there twice; %s", h, unclearText))
		}
		s.cpus[h] = cpus
		if len(gpus) > 0 {
			s.gpus[h] = gpus
		}
	}
}

// gpusOf returns the numbers of GPUs in a text such as gpu:a100:2(IDX:0-1),nic:1(IDX:0). It returns none if one of them
// is unknown, or if Slurm's numbers may differ from the numbers of the devices. That is so with MIG, which divides a
// GPU: Slurm counts each part, which shifts the numbers of all GPUs behind it.
func gpusOf(gres string) []int32 {
	var gpus []int32
	depth, from := 0, 0
	for i := 0; i <= len(gres); i++ {
		if i < len(gres) && gres[i] == '(' {
			depth++
		} else if i < len(gres) && gres[i] == ')' {
			depth--
		}
		if i < len(gres) && (gres[i] != ',' || depth > 0) { // a list of numbers contains commas of its own
			continue
		}
		item := gres[from:i]
		from = i + 1
		if what, _, _ := strings.Cut(item, "("); !isGPU(what) {
			continue
		}
		what, ids, _ := strings.Cut(item, "(IDX:")
		ids, closed := strings.CutSuffix(ids, ")")
		numbers, err := parseGPUs(ids)
		if !closed || err != nil || strings.Contains(what, "g.") { // as in gpu:1g.10gb
			return nil
		}
		gpus = append(gpus, numbers...)
	}
	slices.Sort(gpus)
	return slices.Compact(gpus)
}

// isGPU reports whether an item of a job's GRES is of GPUs, such as gpu:a100:2.
func isGPU(item string) bool {
	name, _, _ := strings.Cut(item, ":")
	return name == "gpu"
}

// maxGPUs bounds the GPUs of a node, as records do.
const maxGPUs = 1024

// parseGPUs returns the numbers of a list such as 0-3,8.
func parseGPUs(text string) ([]int32, error) {
	gpus, err := parseCPUs(text)
	if err == nil && len(gpus) > 0 && gpus[len(gpus)-1] >= maxGPUs {
		err = fmt.Errorf("GPU %d is beyond any", gpus[len(gpus)-1])
	}
	return gpus, err
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

// linux turns Slurm's numbers, which go socket by socket and core by core, into Linux's. The result is empty if the job
// holds the whole node. The numbers name hardware threads even if Slurm counts only cores as CPUs.
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
