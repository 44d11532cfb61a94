package balancer

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/schemas"
)

// closing is what the Ticks of one interval are made from.
type closing struct {
	start, ms  int64
	collectors int
	routes     []schemas.Route                   // in force for the interval
	lives      map[schemas.JobKey]scheduler.Span // of the jobs, as known now; a job that is not among them covers all intervals
	planned    bool                              // a plan was made for this interval
}

// ticks returns one Tick for each partition. A job is where the Routes have it, for they decide what agents send:
// partition by partition its nodes, and with each how many there are in all and over how many partitions.
//
// A job that ended before the interval did has parts 0; its nodes stay listed, so that their records are counted as those
// of an ended job. Where nobody planned the interval, a job whose life does not cover it is left out.
// Entries beyond the last partition are left out too: they are of another number of collectors.
func ticks(c closing) []schemas.Tick {
	shares := make([]map[schemas.JobKey][]string, c.collectors)
	for p := range shares {
		shares[p] = map[schemas.JobKey][]string{}
	}
	epoch := int64(0)
	for i := range c.routes {
		r := &c.routes[i]
		epoch = max(epoch, r.Epoch)
		for k := range r.Entries {
			e := &r.Entries[k]
			if key := (schemas.JobKey{JobID: e.JobID, Restart: e.Restart}); int(e.Partition) < c.collectors && c.lists(key) {
				shares[e.Partition][key] = append(shares[e.Partition][key], r.Node)
			}
		}
		if r.SendsRest() && int(r.Home) < c.collectors {
			rest := schemas.JobKey{JobID: schemas.JobRest}
			shares[r.Home][rest] = append(shares[r.Home][rest], r.Node)
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
		all[p] = schemas.Tick{IntervalStart: c.start, IntervalMs: c.ms, Epoch: epoch}
		for key, nodes := range share {
			slices.Sort(nodes)
			j := schemas.TickJob{JobID: key.JobID, Restart: key.Restart, Parts: sizes[key].parts, JobNodes: sizes[key].nodes, Nodes: nodes}
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

// lists reports whether the Ticks name the job at all.
func (c *closing) lists(key schemas.JobKey) bool {
	l, known := c.lives[key]
	return c.planned || !known || l.Covers(c.start, c.ms)
}

// ended reports whether the job ended before the interval did.
func (c *closing) ended(key schemas.JobKey) bool {
	l, known := c.lives[key]
	return known && l.End < c.start+c.ms
}
