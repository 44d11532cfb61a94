package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/schemas"
)

// closing is the input for the Ticks of one interval.
type closing struct {
	start, ms  int64
	collectors int
	routes     []schemas.Route                   // in force for the interval
	lives      map[schemas.JobKey]scheduler.Span // of the jobs, as known now; an unknown job covers all intervals
	planned    bool                              // a plan was made for this interval
}

// tickBytes is the largest size of a Tick of several jobs. Longer ones are split: in a collector's memory a Tick takes
// many times its length, and a fetch should have room for other records. A single job may take schemas.MaxRecordBytes.
const tickBytes = 1 << 20

// ticks returns one Tick for each partition, of any length. A job belongs to the partitions of its Routes, since Routes
// decide where agents send. A Tick lists the nodes of the job in the partition, and counts all of its nodes and
// partitions. It also contains the number of the machine's nodes, from which _system computes the missing ones.
//
// A job that ended before the interval did gets parts 0. Its nodes stay listed, so that their records count as records
// of an ended job. If the interval was not planned, jobs that did not run throughout it are left out. Entries beyond
// the last partition are left out too: they come from another number of collectors.
func ticks(c closing) []schemas.Tick {
	shares := make([]map[schemas.JobKey][]string, c.collectors)
	for p := range shares {
		shares[p] = map[schemas.JobKey][]string{}
	}
	shared := make([][]string, c.collectors)
	epoch, machine := int64(0), int32(0)
	var at []int32 // the partitions that list a node
	for i := range c.routes {
		r := &c.routes[i]
		epoch, at = max(epoch, r.Epoch), at[:0]
		for k := range r.Entries {
			e := &r.Entries[k]
			key := schemas.JobKey{JobID: e.JobID, Restart: e.Restart}
			if int(e.Partition) < c.collectors && c.lists(key) {
				shares[e.Partition][key] = append(shares[e.Partition][key], r.Node)
				at = append(at, e.Partition)
			}
		}
		if r.SendsRest() && int(r.Home) < c.collectors {
			rest := schemas.JobKey{JobID: schemas.JobRest}
			shares[r.Home][rest] = append(shares[r.Home][rest], r.Node)
			at = append(at, r.Home)
		}
		machine += int32(min(1, len(at)))
		slices.Sort(at)
		if at = slices.Compact(at); len(at) > 1 {
			for _, p := range at {
				shared[p] = append(shared[p], r.Node)
			}
		}
	}
	type size struct{ parts, nodes int32 }
	sizes := map[schemas.JobKey]size{}
	for _, share := range shares {
		for key, nodes := range share {
			sizes[key] = size{sizes[key].parts + 1, sizes[key].nodes + int32(len(nodes))}
		}
	}
	all := make([]schemas.Tick, c.collectors)
	for p, share := range shares {
		slices.Sort(shared[p])
		all[p] = schemas.Tick{
			IntervalStart: c.start, IntervalMs: c.ms, Epoch: epoch, Shared: shared[p],
			MachineNodes: min(machine, schemas.MaxNodes),
		}
		for key, nodes := range share {
			slices.Sort(nodes)
			j := schemas.TickJob{
				JobID: key.JobID, Restart: key.Restart,
				Parts: sizes[key].parts, JobNodes: sizes[key].nodes, Nodes: nodes,
			}
			if c.ended(key) {
				j.Parts = 0
			}
			all[p].Jobs = append(all[p].Jobs, j)
		}
		slices.SortFunc(all[p].Jobs, func(a, b schemas.TickJob) int {
			return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
		})
	}
	return all
}

// lists reports whether the Ticks name the job.
func (c *closing) lists(key schemas.JobKey) bool {
	l, known := c.lives[key]
	return c.planned || !known || l.Covers(c.start, c.ms)
}

// ended reports whether the job ended before the interval did.
func (c *closing) ended(key schemas.JobKey) bool {
	l, known := c.lives[key]
	return known && l.End < c.start+c.ms
}

// unfit is a job with a share that fits no record, and the reason.
type unfit struct {
	job schemas.JobKey
	err error
}

// encodeTick returns the records of a Tick in their order, and the jobs that fit none of them. These jobs are left out,
// so that the interval is closed for all others.
func encodeTick(t schemas.Tick) (values [][]byte, left []unfit, err error) {
	pieces, values, left := splitTick(t)
	last := t
	last.Jobs, last.Shared = nil, nil
	if n := len(pieces); n > 0 {
		last, values = pieces[n-1], values[:n-1]
	}
	last.More = false
	value, err := schemas.MarshalChecked(&last)
	return append(values, value), left, err
}

// splitTick returns the pieces of a Tick and their encodings, all with More.
func splitTick(t schemas.Tick) (pieces []schemas.Tick, values [][]byte, left []unfit) {
	t.More = true
	value, err := schemas.MarshalChecked(&t)
	switch jobs := len(t.Jobs); {
	case jobs == 0:
		return nil, nil, nil
	case err == nil && (len(value) <= tickBytes || jobs == 1):
		return []schemas.Tick{t}, [][]byte{value}, nil
	case jobs == 1:
		return nil, nil, []unfit{{schemas.JobKey{JobID: t.Jobs[0].JobID, Restart: t.Jobs[0].Restart}, err}}
	}
	for half := range slices.Chunk(t.Jobs, (len(t.Jobs)+1)/2) {
		piece := t
		piece.Jobs, piece.Shared = half, sharedBy(half, t.Shared)
		morePieces, moreValues, moreLeft := splitTick(piece)
		pieces, values, left = append(pieces, morePieces...), append(values, moreValues...), append(left, moreLeft...)
	}
	return pieces, values, left
}

// sharedBy returns the shared nodes that the jobs have. shared must be sorted.
func sharedBy(jobs []schemas.TickJob, shared []string) []string {
	if len(shared) == 0 {
		return nil
	}
	var has []string
	for i := range jobs {
		for _, n := range jobs[i].Nodes {
			if _, found := slices.BinarySearch(shared, n); found {
				has = append(has, n)
			}
		}
	}
	slices.Sort(has)
	return slices.Compact(has)
}

// checkAbove is the estimated length above which a part of a record is encoded to see whether it fits. Shorter parts
// always fit.
const checkAbove = 64 << 10

// unfitting returns the jobs that a plan cannot include, with the reason: either the share of the job in one partition
// fits no Tick, or the Route of a node lacks room for it. Collectors would find out too late.
func unfitting(routes []schemas.Route, start, ms int64) map[schemas.JobKey]string {
	type share struct {
		job schemas.JobKey
		at  int32
	}
	bytes, wrong := map[share]int{}, map[schemas.JobKey]string{}
	for i := range routes {
		r := &routes[i]
		length := 0
		for k := range r.Entries {
			e := &r.Entries[k]
			bytes[share{schemas.JobKey{JobID: e.JobID, Restart: e.Restart}, e.Partition}] += 2 + len(r.Node)
			length += 16 + len(e.JobID) + 2*len(e.Cpus)
		}
		if length > checkAbove {
			reason := fmt.Sprintf("node %s has %d jobs, more than one Route takes: fewer jobs on the node",
				r.Node, len(r.Entries))
			for _, e := range r.Entries[roomIn(r):] {
				wrong[schemas.JobKey{JobID: e.JobID, Restart: e.Restart}] = reason
			}
		}
	}
	for s, length := range bytes {
		if length <= checkAbove {
			continue
		}
		t := schemas.Tick{
			IntervalStart: start, IntervalMs: ms,
			Jobs:         []schemas.TickJob{{JobID: s.job.JobID, Restart: s.job.Restart, Parts: 1}},
			MachineNodes: schemas.MaxNodes,
		}
		j := &t.Jobs[0]
		for i := range routes {
			for _, e := range routes[i].Entries {
				if e.Partition == s.at && e.JobID == s.job.JobID && e.Restart == s.job.Restart {
					j.Nodes = append(j.Nodes, routes[i].Node)
				}
			}
		}
		t.Shared = j.Nodes // at the most
		j.JobNodes = int32(len(j.Nodes))
		if _, err := schemas.MarshalChecked(&t); err != nil {
			wrong[s.job] = fmt.Sprintf("its %d nodes at collector %d do not fit into one Tick (%v): "+
				"more collectors, or a smaller balance.l_max", len(j.Nodes), s.at, err)
		}
	}
	return wrong
}

// roomIn returns the number of its entries that fit into a Route.
func roomIn(r *schemas.Route) int {
	return sort.Search(len(r.Entries), func(n int) bool {
		some := *r
		some.Entries = r.Entries[:n+1]
		_, err := schemas.MarshalChecked(&some)
		return err != nil
	})
}
