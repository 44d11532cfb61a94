package scheduler

import (
	"cmp"
	"strconv"
	"time"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// simulatedCPUs are the logical CPUs of a simulated node of NewSimulated's mix.
const simulatedCPUs = 32

// MinSimulated is the least number of nodes that NewSimulated's mix of jobs needs.
const MinSimulated = 16

// simulatedSlot is a set of nodes that runs one job after the other.
type simulatedSlot struct {
	nodes  []string
	cpus   []int32
	cycle  int64 // intervals from one job's start to the next one's; 0: one job for ever
	runs   int64 // longest run in intervals; it ends before the next one starts
	phase  int64 // intervals by which the slot's cycle is shifted
	offset int64 // ms into an interval at which jobs start
	stop   int64 // ms into the interval after its last at which a job ends, unannounced
}

// Simulated is one of the simulator's job mixes.
type Simulated struct {
	ms    int64
	cores int // logical CPUs of a node
	slots []simulatedSlot
}

// NewSimulated returns jobs for N = len(nodes) simulated nodes, at least MinSimulated, of 32 logical CPUs, 0 to 31. The
// jobs are a pure function of the time and of N. Let l_max be max(2, N/4), l_dist 0.9 l_max, and let four collectors
// lie over these nodes in this order. Then in every interval:
//
//   - One job of N/3 nodes runs for ever. It is above l_max, and so the only one that is spread.
//   - Other jobs of two and more nodes are whole at one collector. Each is within N/12 if that is at least 2, and
//     together they are below N/3.
//   - There are jobs of one node, and one node with two jobs on its CPUs.
//   - Jobs start and end as intervals pass. An end is known once it has happened. Some happen between the plan of an
//     interval and its end.
//   - At least one node is without a job.
func NewSimulated(nodes []string, interval time.Duration) *Simulated {
	n := len(nodes)
	s := &Simulated{ms: interval.Milliseconds(), cores: simulatedCPUs}
	// The big job takes every third node, so that every home includes some.
	var big, rest []string
	for i, node := range nodes {
		if i%3 == 0 && len(big) < n/3 {
			big = append(big, node)
		} else {
			rest = append(rest, node)
		}
	}
	next := func(k int) (nodes []string) {
		k = min(k, len(rest))
		nodes, rest = rest[:k:k], rest[k:]
		return nodes
	}
	pair := next(2)
	// The default plan of an interval is made a margin before its end. No plan knows of an end halfway between.
	unforeseen := s.ms - (min(time.Second, interval/4) / 2).Milliseconds()
	s.slots = []simulatedSlot{
		{nodes: big},
		{nodes: pair, cpus: cpuRange(0, 16)},
		{nodes: pair[:min(1, len(pair))], cpus: cpuRange(16, 32)},
		{nodes: next(max(2, n/16))},
		{nodes: next(max(2, n/20)), cycle: 5, runs: 3, offset: s.ms / 3, stop: s.ms / 2},
		{nodes: next(max(2, n/24)), cycle: 4, runs: 2, phase: 1, stop: unforeseen},
		{nodes: next(1)},
	}
	for i := range 1 + (n-MinSimulated)/16 {
		s.slots = append(s.slots, simulatedSlot{
			nodes: next(1), cycle: 6, runs: 4, phase: int64(i), offset: s.ms / 4, stop: unforeseen,
		})
	}
	return s
}

const (
	// mucShort: one job of so many is short, and its nodes get the next one when it ends. With a life of mucLife
	// intervals that ends, and begins, 2 % of the jobs in an interval.
	mucShort = 5
	mucLife  = 10
)

// NewSuperMUC returns jobs for a machine of len(nodes) nodes, at least MinSimulated, with so many logical CPUs each.
// Sizes and places come from assign.MUCJobs: 185 exclusive jobs on the 9,288 nodes of SuperMUC. The jobs are a pure
// function of the time and of the numbers of nodes and CPUs. Most jobs run for ever. About 2 % end in an interval, at
// any time in it and unannounced, and as many begin on the nodes that have become free.
func NewSuperMUC(nodes []string, cores int, interval time.Duration) *Simulated {
	s := &Simulated{ms: interval.Milliseconds(), cores: cores}
	gap := min(1000, s.ms/10) // between two jobs on the same nodes
	for i, numbers := range assign.MUCJobs(len(nodes)) {
		slot := simulatedSlot{nodes: make([]string, len(numbers))}
		for k, n := range numbers {
			slot.nodes[k] = nodes[n]
		}
		if i%mucShort == mucShort-1 {
			short := int64(i / mucShort)
			slot.cycle, slot.runs, slot.phase = mucLife, mucLife, short%mucLife
			slot.offset = gap + (short*s.ms/7)%(s.ms-gap) // a job ends a gap before the next one's offset
			slot.stop = slot.offset - gap
		}
		s.slots = append(s.slots, slot)
	}
	return s
}

func cpuRange(from, to int32) (cpus []int32) {
	for c := from; c < to; c++ {
		cpus = append(cpus, c)
	}
	return cpus
}

// Jobs implements Source.
func (s *Simulated) Jobs(now time.Time) ([]Job, []Fault) {
	var jobs []Job
	for k, slot := range s.slots {
		if len(slot.nodes) == 0 {
			continue
		}
		if slot.cycle == 0 {
			jobs = append(jobs, slot.job(1000+k, s.cores, 0, nil, nil))
			continue
		}
		cycle := slot.cycle * s.ms
		newest := (now.UnixMilli() - slot.phase*s.ms) / cycle
		oldest := newest - config.Outage/slot.cycle - 2
		for n := max(0, oldest); n <= newest; n++ {
			start := n*cycle + slot.phase*s.ms + slot.offset
			if start > now.UnixMilli() {
				continue
			}
			end := start - slot.offset + slot.runs*s.ms + slot.stop
			limit := (slot.runs + 1) * s.ms / 1000
			j := slot.job(1000+len(s.slots)*int(n+1)+k, s.cores, start, &end, &limit)
			if end > now.UnixMilli() {
				j.End = nil
			}
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func (s *simulatedSlot) job(number, cpus int, start int64, end, limit *int64) Job {
	cores := cmp.Or(len(s.cpus), cpus)
	j := Job{Job: schemas.Job{
		JobID: "sim-" + strconv.Itoa(number), Name: "simulated", User: "sim", Account: "weir", Queue: "sim",
		Nodes: s.nodes, Cpus: s.cpus, End: end, Cores: new(int64(cores * len(s.nodes))), Gpus: new(int32),
		TimeLimitS: limit, Exclusive: new(cores == cpus),
	}}
	if start > 0 {
		j.Start = &start
	}
	return j
}
