package simulate

import (
	"math"

	"github.com/weirhpc/weir/schemas"
)

// Properties of the nodes in the mixes with problems. The node types in the archive's configuration repeat them.
const (
	bigCPUs       = 64
	nodeSockets   = 2
	nodeGPUs      = 4
	peakFlops     = 2.662e12 // of a node: 64 CPUs, 2.6 GHz, 16 operations a cycle
	peakMemBW     = 400e9    // of a node
	fullClock     = 2.6e9
	backgroundGiB = 5 // of the operating system
)

// piece is the part of a node that one job holds, or no job.
type piece struct {
	job  *job // nil: no job holds these CPUs
	k    int  // index of the node in its job
	cpus []int32
}

// core are the metrics of CPUs, in the order of coreValues.
var core = [...]struct{ name, unit string }{
	{"cpu_user", "1"},
	{"cpu_system", "1"},
	{"cpu_iowait", "1"},
	{"cpu_idle", "1"},
	{"clock", "Hz"},
	{"ipc", "1"},
	{"flops_any", "FLOP/s"},
	{"vectorization_ratio", "1"},
}

// sums are the loads of a node's pieces together.
type sums struct {
	flops             [nodeSockets]float64
	memBW             float64
	disk, read, write float64
	swap, tasks       float64
	memory            float64 // bytes
	gpus              [nodeGPUs]float64
}

// measureNode returns the agent's metrics for each piece of a node, under the names, units and scopes of the catalogue.
// Metrics of the whole node travel with the job that holds all of it, otherwise with the CPUs outside of jobs. The
// result is nil while the agent is silent.
func (m *machine) measureNode(node int, pieces []piece, start int64) [][]schemas.CounterBatchMetric {
	if silent(node, start) {
		return nil
	}
	of := sums{memory: backgroundGiB << 30, memBW: 0.1e9}
	all := make([][]schemas.CounterBatchMetric, len(pieces))
	carrier := 0
	for i := range pieces {
		p := &pieces[i]
		var u use
		at := moment{seed: uint64(node)}
		if p.job == nil {
			carrier, u = i, use{clock: fullClock, ipc: 0.5}
		} else {
			at = p.job.moment(p.k, start, m.intervalMs)
			u = p.job.habit.does.at(&at)
		}
		if node == slowNode {
			u.clock *= 0.93
		}
		all[i] = u.ofCores(mix(at.seed^mix(uint64(node)<<40|uint64(start/1000))), p, &of, m.ticks())
		if p.job != nil {
			all[i] = append(all[i], u.ofJob(&at)...)
			of.add(&u, len(p.cpus))
		}
	}
	all[carrier] = append(all[carrier], of.ofNode(mix(uint64(node)^mix(uint64(start))), m.hasGPUs(node))...)
	return all
}

// silent reports whether the agent of a node is away: for three minutes, once in three weeks.
func silent(node int, start int64) bool {
	const shift = 8 * 3600 * 1000
	return start%shift < 180_000 && mix(uint64(node)<<32^uint64(start/shift))%64 == 0
}

// moment returns an interval of the job on its k-th node.
func (j *job) moment(k int, start, length int64) moment {
	return moment{
		k: k, nodes: len(j.nodes), at: float64(start-*j.Start) / 1000, length: float64(length) / 1000,
		life: float64(*j.End-*j.Start) / 1000, seed: j.seed,
	}
}

// ticks returns the number of ticks of /proc/stat in an interval. A tick is a hundredth of a second.
func (m *machine) ticks() float64 { return float64(m.intervalMs) / 10 }

// ofCores returns the metrics of a piece's CPUs, and adds their operations to the node's sockets.
func (u *use) ofCores(seed uint64, p *piece, of *sums, ticks float64) []schemas.CounterBatchMetric {
	n := len(p.cpus)
	values := make([]float64, len(core)*n)
	all := make([]schemas.CounterBatchMetric, len(core), len(core)+11)
	for i, c := range core {
		all[i] = schemas.CounterBatchMetric{
			Name: c.name, Unit: c.unit, Scope: schemas.ScopeCore, Values: values[i*n : (i+1)*n : (i+1)*n],
		}
	}
	busy := int(math.Round(u.busy * float64(n)))
	starved := int(math.Round(u.starved * float64(busy)))
	for i, c := range p.cpus {
		draw := mix(seed ^ uint64(c))
		v := u.idleCPU(draw)
		if i < busy {
			v = u.busyCPU(draw, i >= busy-starved, float64(i)/float64(max(1, n-1)), i == 0 && p.k == 0)
		}
		used := 0.0
		for s := range 3 {
			v[s] = math.Round(v[s]*ticks) / ticks
			used += v[s]
		}
		v[3] = math.Round(max(0, 1-used)*ticks) / ticks
		of.flops[int(c)*nodeSockets/bigCPUs] += v[6]
		for k := range core {
			all[k].Values[i] = v[k]
		}
	}
	return all
}

// idleCPU returns the values of an unused CPU. It executes no floating-point instructions, so their ratio is NaN.
func (u *use) idleCPU(draw uint64) [len(core)]float64 {
	return [len(core)]float64{
		0.0012 * fraction(draw, 0), 0.0008 * fraction(draw, 1), 0, 0,
		u.clock * (0.98 + 0.04*fraction(draw, 2)), 0.4 + 0.2*fraction(draw, 3), 0, math.NaN(),
	}
}

// busyCPU returns the values of a CPU with work. last is its place among the CPUs, from 0 to 1.
func (u *use) busyCPU(draw uint64, starved bool, last float64, first bool) [len(core)]float64 {
	user := u.user
	if starved {
		user = u.starvedUser
	}
	user *= 1 - u.uneven*last
	user = max(0, user+0.02*min(1, user*10)*(fraction(draw, 0)-0.5))
	iowait := u.iowait * (0.9 + 0.2*fraction(draw, 2))
	if first && u.writer > 0 {
		user, iowait = user*(1-u.writer), u.writer
	}
	user = min(user, 1)
	system := min(u.system*(0.8+0.4*fraction(draw, 1)), 1-user)
	iowait = min(iowait, 1-user-system)
	works := 0.0
	if u.user > 0 {
		works = min(1.1, user/u.user)
	}
	flops, vector := u.flops*works*(0.95+0.1*fraction(draw, 3)), u.vector*(0.97+0.06*fraction(draw, 4))
	if flops <= 0 {
		flops, vector = 0, math.NaN()
	}
	return [len(core)]float64{
		user, system, iowait, 0,
		u.clock * (0.99 + 0.02*fraction(draw, 5)), u.ipc * (0.95 + 0.1*fraction(draw, 0)), flops, vector,
	}
}

// add adds the load that a job puts on the node with some of its CPUs.
func (t *sums) add(u *use, cpus int) {
	t.memBW += u.memBW
	t.disk, t.read, t.write, t.swap = t.disk+u.disk, t.read+u.read, t.write+u.write, t.swap+u.swap
	t.tasks += u.tasks * u.busy * float64(cpus)
	t.memory += u.memory * (1 << 30)
	t.gpus = u.gpus
}

// ofNode returns the metrics of the whole node.
func (t *sums) ofNode(seed uint64, gpus bool) []schemas.CounterBatchMetric {
	bw, intensity := make([]float64, nodeSockets), make([]float64, nodeSockets)
	flops, sum := 0.0, 0.0
	for s := range bw {
		bw[s] = t.memBW / nodeSockets * (0.98 + 0.04*fraction(seed, uint(s)))
		intensity[s] = t.flops[s] / bw[s]
		flops, sum = flops+t.flops[s], sum+bw[s]
	}
	memory := math.Round(min(t.memory*(0.99+0.02*fraction(seed, 3)), nodeMemory)/4096) * 4096
	all := []schemas.CounterBatchMetric{
		{Name: "mem_bw", Unit: "B/s", Scope: schemas.ScopeSocket, Values: bw},
		{Name: "operational_intensity", Unit: "FLOP/B", Scope: schemas.ScopeSocket, Values: intensity},
	}
	noise := 0.9 + 0.2*fraction(seed, 4)
	for _, x := range [...]struct {
		name, unit string
		value      float64
	}{
		{"disk_bytes", "B/s", t.disk*noise + 20e3*fraction(seed, 2)},
		{"lustre_read_bw", "B/s", t.read * noise},
		{"lustre_write_bw", "B/s", t.write * noise},
		{"swap_pages", "1/s", t.swap * noise},
		{"mem_used", "B", memory},
		{"cpu_load", "1", math.Round(100*(t.tasks+0.3*fraction(seed, 1))) / 100},
		{"peak_share_flops", "1", flops / peakFlops},
		{"peak_share_mem_bw", "1", sum / peakMemBW},
	} {
		all = append(all, schemas.CounterBatchMetric{
			Name: x.name, Unit: x.unit, Scope: schemas.ScopeNode, Values: []float64{x.value},
		})
	}
	if !gpus {
		return all
	}
	work := make([]float64, nodeGPUs)
	for i := range work {
		work[i] = math.Round(100*min(1, t.gpus[i]*(0.95+0.1*fraction(seed, uint(i))))) / 100
	}
	return append(all, schemas.CounterBatchMetric{
		Name: "acc_utilization", Unit: "1", Scope: schemas.ScopeGPU, Values: work,
	})
}

// ofJob returns the metrics of the job's control group on the node.
func (u *use) ofJob(m *moment) []schemas.CounterBatchMetric {
	pages := func(gib float64) []float64 { return []float64{math.Round(gib*(1<<30)/4096) * 4096} }
	used := u.memory * (0.995 + 0.005*m.wave(8, 600))
	return []schemas.CounterBatchMetric{
		{Name: "job_mem_used", Unit: "B", Scope: schemas.ScopeJob, Values: pages(used)},
		{Name: "job_mem_peak", Unit: "B", Scope: schemas.ScopeJob, Values: pages(u.memory + u.cache)},
	}
}

// fraction returns the i-th number of a draw, in [0, 1). A draw contains six numbers of ten bits.
func fraction(draw uint64, i uint) float64 { return float64(draw>>(10*(i%6))&1023) / 1024 }
