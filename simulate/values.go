package simulate

import (
	"hash/fnv"
	"math"

	"github.com/weirhpc/weir/schemas"
)

// Logical CPUs and memory of the machine's nodes.
const (
	nodeCPUs   = 16
	nodeMemory = 256 << 30
)

// slowNode is the number of a faulty node, from 0. Programs get less done there in the same cycles.
const slowNode = 6

// state is the load of a job on a node in an interval.
type state struct {
	busy            int     // CPUs that work
	user, system    float64 // of a CPU that works
	iowait, ipc     float64
	memory          float64
	spread          float64 // of the values of the CPUs
	seed            uint64
	backgroundUsers float64
}

// measureHabits returns the measurements of a node in the mix habits, which all belong to one piece.
func measureHabits(node int, pieces []piece, start int64) [][]schemas.CounterBatchMetric {
	s := stateOf(nil, 0, node, 0)
	if j := pieces[0].job; j != nil {
		s = stateOf(j, pieces[0].k, node, start-*j.Start)
	}
	return [][]schemas.CounterBatchMetric{s.metrics(uint64(start), node)}
}

// stateOf returns the load of a job on its k-th node, elapsedMs after its start. A nil job leaves the node idle.
func stateOf(j *job, k int, node int, elapsedMs int64) state {
	if j == nil {
		return state{memory: 4 << 30, backgroundUsers: 0.002, seed: uint64(node), ipc: 0.5}
	}
	h := j.habit
	s := state{
		busy: int(math.Ceil(h.busy * nodeCPUs)), user: h.user1, system: 0.02, ipc: h.ipc, spread: 0.04,
		memory: h.memory * (1 << 30), backgroundUsers: 0.002, seed: j.seed,
	}
	if n := len(j.on); n > 1 {
		s.user *= 1 - h.uneven*float64(k)/float64(n-1)
	}
	if p := h.phases.Milliseconds(); p > 0 && elapsedMs%p < p/5 { // it writes its results
		s.user, s.iowait, s.system = s.user*0.2, 0.6, 0.08
	}
	if node == slowNode {
		s.ipc *= 0.7
	}
	if grow := float64(elapsedMs) / float64(*j.End-*j.Start); h.fails > 0 {
		s.memory *= 0.3 + 0.7*grow
	}
	return s
}

// metrics returns some of the agent's metrics, under the agent's names.
func (s state) metrics(minute uint64, node int) []schemas.CounterBatchMetric {
	names := [5]string{"cpu_idle", "cpu_iowait", "cpu_system", "cpu_user", "ipc"}
	all := make([]schemas.CounterBatchMetric, 0, len(names)+2)
	for _, name := range names {
		all = append(all, schemas.CounterBatchMetric{
			Name: name, Unit: "1", Scope: schemas.ScopeCore, Values: make([]float64, nodeCPUs),
		})
	}
	loadSum := 0.0
	for c := range nodeCPUs {
		draw := mix(s.seed ^ mix(uint64(node)<<32|uint64(c)) ^ mix(minute))
		user, system, iowait := s.backgroundUsers*unit(draw), 0.001*unit(mix(draw)), 0.0
		ipc := 0.4 + 0.2*unit(mix(draw+1))
		if c < s.busy {
			user = clamp(s.user + s.spread*(unit(draw)-0.5))
			system = clamp(min(s.system*(0.5+unit(mix(draw))), 1-user))
			iowait = clamp(min(s.iowait*(0.9+0.2*unit(mix(draw+2))), 1-user-system))
			ipc = s.ipc * (0.95 + 0.1*unit(mix(draw+1)))
		}
		loadSum += user + system + iowait
		for i, v := range [5]float64{clamp(1 - user - system - iowait), iowait, system, user, ipc} {
			all[i].Values[c] = v
		}
	}
	draw := mix(s.seed ^ mix(uint64(node)<<32|1<<20) ^ mix(minute))
	memory := math.Round(min(s.memory*(0.98+0.04*unit(draw)), nodeMemory)/4096) * 4096
	all = append(all, schemas.CounterBatchMetric{
		Name: "cpu_load", Unit: "1", Scope: schemas.ScopeNode,
		Values: []float64{math.Round(loadSum*100) / 100},
	})
	return append(all, schemas.CounterBatchMetric{
		Name: "mem_used", Unit: "B", Scope: schemas.ScopeNode,
		Values: []float64{memory},
	})
}

// clamp brings a fraction of time into [0, 1], at the resolution of /proc/stat: hundredths of a second in a minute.
func clamp(x float64) float64 { return math.Round(min(max(x, 0), 1)*6000) / 6000 }

// unit maps a draw to [0, 1).
func unit(draw uint64) float64 { return float64(draw>>11) / (1 << 53) }

// mix scatters the bits of x (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // a hash does not fail
	return h.Sum64()
}
