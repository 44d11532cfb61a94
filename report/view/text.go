package view

import (
	"cmp"
	"slices"
	"strings"
)

// Text describes the presentation of a metric.
type Text struct {
	Name, Title string
	Percent     bool // values of unit 1 are shares
	Better      int  // 1: high values are good, -1: low ones, 0: neither
}

// texts are the metrics of the agent in the order of a report. The first byDefault are shown by default.
var texts = []Text{
	{"cpu_user", "CPU time in user code", true, 1},
	{"cpu_system", "CPU time in the kernel", true, -1},
	{"cpu_iowait", "CPU time waiting for I/O", true, -1},
	{"cpu_idle", "CPU time idle", true, -1},
	{"clock", "Clock", false, 1},
	{"ipc", "Instructions per cycle", false, 1},
	{"flops_any", "Floating-point operations", false, 1},
	{"vectorization_ratio", "Vectorized operations", true, 1},
	{"mem_bw", "Memory bandwidth", false, 0},
	{"operational_intensity", "Operational intensity", false, 0},
	{"mem_used", "Memory used", false, 0},
	{"job_mem_used", "Memory used by the job", false, 0},
	{"acc_utilization", "GPU utilization", true, 1},
	{"acc_mem_used", "GPU memory used", false, 0},
	{"disk_bytes", "Local disk traffic", false, 0},
	{"lustre_read_bw", "Lustre read", false, 0},
	{"lustre_write_bw", "Lustre written", false, 0},
	{"swap_pages", "Pages swapped", false, -1},
	{"cpu_load", "Load", false, 0},
	{"peak_share_flops", "Share of peak FLOP/s", true, 1},
	{"peak_share_mem_bw", "Share of peak memory bandwidth", true, 0},
	{"bytes_per_cycle", "Memory bytes per cycle", false, 0},
	{"job_mem_peak", "Peak memory of the job", false, 0},
	{"nfs_read_bw", "NFS read", false, 0},
	{"nfs_write_bw", "NFS written", false, 0},
	{"ic_read_bw", "Network received", false, 0},
	{"ic_write_bw", "Network sent", false, 0},
	{"cpu_power", "CPU power", false, 0},
	{"node_power", "Node power", false, 0},
	{"temperature_max", "Hottest temperature", false, -1},
}

// shares are prefixes of other metrics with shares as values.
var shares = []string{
	"psi_", "job_psi_", "job_throttled", "numa_remote", "avx512_share", "sp_share", "branch_miss_ratio", "stall_",
	"tma_", "acc_mem_utilization", "acc_sm_active", "acc_tensor_active", "acc_fp", "acc_dram_active", "divider_active",
}

// Metrics returns the metrics that a report of a job shows by default, if they exist. Its bars need some of them.
func Metrics() []string {
	names := make([]string, 0, byDefault)
	for _, t := range texts[:byDefault] {
		names = append(names, t.Name)
	}
	return names
}

// TextOf returns the presentation of a metric. The title of an unknown metric is its name.
func TextOf(name string) Text {
	if i := place(name); i < len(texts) {
		return texts[i]
	}
	percent := slices.ContainsFunc(shares, func(s string) bool { return strings.HasPrefix(name, s) })
	return Text{Name: name, Title: name, Percent: percent}
}

// place returns the position of a metric in a report. All unknown metrics share the last.
func place(name string) int {
	i := slices.IndexFunc(texts, func(t Text) bool { return t.Name == name })
	if i < 0 {
		return len(texts)
	}
	return i
}

// compareNames orders metrics as in a report: weir's own first, then the others by name.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a, b))
}

// byDefault is the number of metrics that a report shows.
const byDefault = 16

// Shown returns the metrics among names that a report shows by default.
func Shown(names []string) []string {
	all := slices.Clone(names)
	slices.SortFunc(all, compareNames)
	all = slices.Compact(all)
	return all[:min(len(all), byDefault)]
}
