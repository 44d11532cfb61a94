package rules

import (
	"math/rand/v2"

	"github.com/weirhpc/weir/schemas"
)

// scene is a job that the examples record.
type scene struct {
	name    string
	nodes   int
	cores   int // on each node
	gpus    int // on each node
	threads int
	minutes int
	stepMs  int64
	state   string
	reason  string
	limitS  int64
	request int64 // memory on each node
	asked   int64 // cores in all, if not all of the nodes
	split   bool  // the job has several collectors, so deciles are estimates
	metrics map[string]metricOf
}

// metricOf gives a value of a metric: of a core, socket or GPU k of a node, i minutes after the start.
type metricOf struct {
	scope string
	each  int // values a node; 0: one for each core
	of    func(r *rand.Rand, i, node, k int) float64
	on    int // nodes that have the metric; 0: all
}

func about(v, by float64) func(*rand.Rand, int, int, int) float64 {
	return func(r *rand.Rand, _, _, _ int) float64 { return v + by*(2*r.Float64()-1) }
}

func core(of func(r *rand.Rand, i, node, k int) float64) metricOf {
	return metricOf{scope: schemas.ScopeCore, each: 0, of: of}
}

func ofNode(of func(r *rand.Rand, i, node, k int) float64) metricOf {
	return metricOf{scope: schemas.ScopeNode, each: 1, of: of}
}

func socket(of func(r *rand.Rand, i, node, k int) float64) metricOf {
	return metricOf{scope: schemas.ScopeSocket, each: 2, of: of}
}

func gpu(of func(r *rand.Rand, i, node, k int) float64) metricOf {
	return metricOf{scope: schemas.ScopeGPU, each: 4, of: of}
}

const begin = 1_790_000_040_000 // not a mark

// when takes one of two values by a condition on minute, node and place.
func when(is func(i, node, k int) bool, yes, no func(*rand.Rand, int, int, int) float64,
) func(*rand.Rand, int, int, int) float64 {
	return func(r *rand.Rand, i, node, k int) float64 {
		if is(i, node, k) {
			return yes(r, i, node, k)
		}
		return no(r, i, node, k)
	}
}

var scenes = []scene{
	{name: "kernel-no-io-fires", nodes: 2, split: true, metrics: map[string]metricOf{ // floating-point assists
		"cpu_system": core(about(0.74, 0.05)), "disk_bytes": ofNode(about(11e3, 2e3)),
		"lustre_read_bw": ofNode(about(0, 0)),
	}},
	{name: "kernel-no-io-silent", nodes: 2, metrics: map[string]metricOf{ // it reads 300 MB/s
		"cpu_system": core(about(0.4, 0.05)), "disk_bytes": ofNode(about(11e3, 2e3)),
		"lustre_read_bw": ofNode(about(3e8, 1e7)),
	}},
	{name: "idle-cores-fires", nodes: 4, cores: 64, metrics: map[string]metricOf{ // 56 ranks on 64 cores
		"cpu_idle": core(when(func(_, _, k int) bool { return k >= 56 }, about(0.998, 0.001), about(0.03, 0.02))),
	}},
	{name: "idle-cores-silent", nodes: 1, cores: 64, metrics: map[string]metricOf{ // stage-in
		"cpu_idle": core(when(func(i, _, k int) bool { return i < 9 && k > 0 }, about(0.998, 0.001), about(0.03,
			0.02))),
	}},
	{name: "unused-node-fires", nodes: 8, metrics: map[string]metricOf{ // four dark nodes
		"cpu_idle": core(when(func(_, node, _ int) bool { return node >= 4 }, about(0.997, 0.002), about(0.03,
			0.02))),
	}},
	{name: "unused-node-silent", nodes: 8, metrics: map[string]metricOf{ // the head node waits
		"cpu_idle": core(when(func(_, node, _ int) bool { return node == 0 }, about(0.96, 0.02), about(0.03, 0.02))),
	}},
	{name: "serial-fires", nodes: 1, cores: 16, metrics: map[string]metricOf{ // one core is full
		"cpu_idle": core(when(func(_, _, k int) bool { return k == 5 }, about(0.01, 0.005), about(0.997, 0.002))),
	}},
	{name: "serial-silent", nodes: 1, metrics: map[string]metricOf{ // eight at 12 %
		"cpu_idle": core(about(0.88, 0.01)),
	}},
	{name: "low-cpu-fires", nodes: 2, metrics: map[string]metricOf{"cpu_idle": core(about(0.5, 0.1))}},
	{name: "low-cpu-silent", nodes: 2, metrics: map[string]metricOf{"cpu_idle": core(about(0.1, 0.05))}},
	{name: "imbalance-fires", nodes: 2, cores: 16, split: true, metrics: map[string]metricOf{ // hot ranks
		"cpu_user": core(when(func(_, _, k int) bool { return k%3 == 0 }, about(0.97, 0.02), about(0.25, 0.05))),
	}},
	{name: "imbalance-silent", nodes: 2, cores: 16, metrics: map[string]metricOf{"cpu_user": core(about(0.6, 0.05))}},
	{
		name: "imbalance-grows-fires", nodes: 1, cores: 16, minutes: 80,
		metrics: map[string]metricOf{ // a mesh is refined
			"cpu_user": core(func(r *rand.Rand, i, _, k int) float64 {
				return 0.97 - 0.5*float64(i)/80*float64(k)/15 + 0.01*r.Float64()
			}),
		},
	},
	{name: "imbalance-grows-silent", nodes: 1, cores: 16, minutes: 80, metrics: map[string]metricOf{ // phases
		"cpu_user": core(when(func(i, _, k int) bool { return i/6%2 == 0 && k > 7 }, about(0.4, 0.05), about(0.95,
			0.03))),
	}},
	{name: "slow-node-fires", nodes: 8, metrics: map[string]metricOf{ // throttled
		"clock":    core(when(func(_, node, _ int) bool { return node == 3 }, about(1.9e9, 1e7), about(2.6e9, 2e7))),
		"cpu_idle": core(about(0.03, 0.02)),
	}},
	{name: "slow-node-silent", nodes: 8, metrics: map[string]metricOf{ // rank 0 writes at times
		"clock": core(when(func(i, node, _ int) bool { return node == 0 && i%4 == 0 }, about(1.9e9, 1e7),
			about(2.6e9, 2e7))),
		"cpu_idle": core(about(0.03, 0.02)),
	}},
	{name: "slow-node-silent-dark", nodes: 4, metrics: map[string]metricOf{ // an idle node ticks at 1 GHz
		"clock":    core(when(func(_, node, _ int) bool { return node == 2 }, about(1e9, 1e7), about(2.6e9, 2e7))),
		"cpu_idle": core(when(func(_, node, _ int) bool { return node == 2 }, about(0.97, 0.02), about(0.03, 0.02))),
	}},
	{name: "memory-bound-fires", nodes: 2, metrics: map[string]metricOf{"mem_bw": socket(about(1.1e11,
		2e9))}}, // stream
	{name: "memory-bound-silent", nodes: 2, metrics: map[string]metricOf{"mem_bw": socket(about(2e10,
		2e9))}}, // matmul
	{name: "low-vector-fires", nodes: 1, metrics: map[string]metricOf{ // a scalar loop
		"flops_any": core(about(1.5e9, 2e8)), "vectorization_ratio": core(about(0.08, 0.02)),
	}},
	{name: "low-vector-silent", nodes: 1, metrics: map[string]metricOf{ // it reads and writes
		"flops_any": core(about(1e7, 1e6)), "vectorization_ratio": core(about(0.08, 0.02)),
	}},
	{name: "low-use-fires", nodes: 1, metrics: map[string]metricOf{ // a solver hangs
		"flops_any": core(about(1e6, 1e5)), "mem_bw": socket(about(2e9, 1e8)),
	}},
	{name: "low-use-silent", nodes: 1, metrics: map[string]metricOf{ // stream
		"flops_any": core(about(1e8, 1e7)), "mem_bw": socket(about(1.1e11, 2e9)),
	}},
	{name: "io-wait-fires", nodes: 2, metrics: map[string]metricOf{ // small reads
		"cpu_iowait": core(when(func(i, _, _ int) bool { return i%2 == 0 }, about(0.35, 0.1), about(0.02, 0.01))),
	}},
	{name: "io-wait-silent", nodes: 2, metrics: map[string]metricOf{ // one writer
		"cpu_iowait": core(when(func(_, node, k int) bool { return node == 0 && k == 0 }, about(0.9, 0.05), about(0,
			0))),
	}},
	{name: "swapping-fires", nodes: 2, metrics: map[string]metricOf{"swap_pages": ofNode(about(4000,
		500))}}, // thrash
	{name: "swapping-silent", nodes: 2, metrics: map[string]metricOf{ // one burst
		"swap_pages": ofNode(when(func(i, _, _ int) bool { return i == 20 }, about(4000, 500), about(0, 0))),
	}},
	{name: "memory-full-fires", nodes: 2, metrics: map[string]metricOf{ // 95 % for a while
		"mem_used": ofNode(when(func(i, node, _ int) bool { return node == 1 && i > 30 }, about(1.96e11, 1e9),
			about(9e10, 1e9))),
	}},
	{name: "memory-full-silent", nodes: 2, metrics: map[string]metricOf{ // page cache is not used
		"mem_used": ofNode(about(1.2e11, 2e9)),
	}},
	{name: "memory-over-fires", nodes: 1, asked: 4, request: 512e9, metrics: map[string]metricOf{ // 97 of 512 GB
		"job_mem_peak": {scope: schemas.ScopeJob, each: 1, of: grows},
	}},
	{name: "memory-over-silent", nodes: 1, request: 512e9, metrics: map[string]metricOf{ // the whole node
		"job_mem_peak": {scope: schemas.ScopeJob, each: 1, of: grows},
	}},
	{name: "memory-over-silent-partly", nodes: 4, asked: 4, request: 512e9, metrics: map[string]metricOf{ // one of four
		"job_mem_peak": {scope: schemas.ScopeJob, each: 1, of: about(9e9, 0), on: 1},
	}},
	{name: "unused-gpu-fires", nodes: 1, gpus: 4, metrics: map[string]metricOf{ // three of four
		"acc_utilization": gpu(when(func(_, _, k int) bool { return k == 2 }, about(0, 0), about(0.9, 0.05))),
	}},
	{name: "unused-gpu-fires-nodes", nodes: 2, gpus: 4, metrics: map[string]metricOf{ // three of four on each node
		"acc_utilization": gpu(when(func(_, _, k int) bool { return k == 2 }, about(0, 0), about(0.9, 0.05))),
	}},
	{name: "unused-gpu-silent", nodes: 1, gpus: 4, metrics: map[string]metricOf{ // all are warm
		"acc_utilization": gpu(about(0.03, 0.02)),
	}},
	{name: "unused-gpu-silent-many", nodes: 16, gpus: 4, metrics: map[string]metricOf{ // each has a kernel at times
		"acc_utilization": gpu(func(r *rand.Rand, _, _, _ int) float64 {
			if r.Float64() < 0.3 {
				return 0
			}
			return about(0.9, 0.05)(r, 0, 0, 0)
		}),
	}},
	{name: "overload-fires", nodes: 2, metrics: loaded(about(16, 0.5), 0.03, 0)}, // two threads a CPU
	{name: "overload-silent", nodes: 2, metrics: loaded( // a short spike
		when(func(i, _, _ int) bool { return i/4 == 5 }, about(40, 2), about(8, 0.2)), 0.03, 0)},
	{name: "overload-silent-disk", nodes: 2, metrics: loaded(about(16, 0.5), 0.03, 0.9)},  // all wait for a disk
	{name: "time-over-fires", nodes: 1, minutes: 180, stepMs: 300_000, limitS: 48 * 3600}, // 3 of 48 hours
	{
		name: "time-over-silent", nodes: 1, minutes: 180, stepMs: 300_000, limitS: 48 * 3600,
		state: schemas.StateCancelled,
	},
	{
		name: "time-over-silent-vanished", nodes: 1, minutes: 180, stepMs: 300_000, limitS: 48 * 3600,
		reason: schemas.ReasonUnlisted,
	},
	{ // a deadlock
		name: "stalled-fires", nodes: 1, minutes: 60, metrics: work(func(i, _, _ int) bool { return i < 40 }),
	},
	{ // it writes at its end
		name: "stalled-silent", nodes: 1, minutes: 60, metrics: work(func(i, _, _ int) bool { return i < 54 }),
	},
	{ // a parallel preparation, and one core that solves
		name: "stalled-silent-serial", nodes: 1, cores: 16, minutes: 60,
		metrics: work(func(i, _, k int) bool { return i < 20 || k == 3 }),
	},
	{ // both threads of a core prepare, and one of them solves
		name: "stalled-silent-siblings", nodes: 1, cores: 16, threads: 2, minutes: 60,
		metrics: work(func(i, _, k int) bool { return i < 20 || k < 8 }),
	},
}

// work are the metrics of cores that compute where a condition holds, and do nothing elsewhere.
func work(is func(i, node, k int) bool) map[string]metricOf {
	return map[string]metricOf{
		"cpu_idle": core(when(is, about(0.03, 0.02), about(0.994, 0.004))),
		"cpu_user": core(when(is, about(0.95, 0.03), about(0.003, 0.002))),
	}
}

// loaded are the metrics of nodes with so many tasks whose CPUs are idle, or wait for a disk, for a part of the time.
func loaded(tasks func(*rand.Rand, int, int, int) float64, idle, wait float64) map[string]metricOf {
	return map[string]metricOf{
		"cpu_load": ofNode(tasks), "cpu_idle": core(about(idle, idle/2)), "cpu_iowait": core(about(wait, wait/20)),
	}
}

// grows is a peak of memory.
func grows(_ *rand.Rand, i, _, _ int) float64 { return min(97e9, 3e9*float64(i)) }
