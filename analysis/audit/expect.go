package audit

import (
	"cmp"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/schemas"
)

// expectation is the summary that the log of counters implies.
type expectation struct {
	jobInterval
	lengthMs                     int64
	partition                    int32 // of the Tick
	offset                       int64
	merged                       bool
	parts, partsReported         int32
	nodesExpected, nodesReported int32
	reduced                      *schemas.NodeSummary // the only record, if it is a NodeSummary
	metrics                      map[string]*metric
}

// metric is the expectation for one metric of a summary. low and high are the deciles with every value that only a node
// knows at its lower and at its upper bound. They are equal if all values are known.
type metric struct {
	unit, scope        string
	invalid            int64
	nodes              int32
	values, nodeMeans  moments
	lowNodes, topNodes []string // nodes with the lowest and the highest means, but for rounding
	lowest, highest    nodeMean // the first of these nodes, with their greatest scale
	low, high          [11]float64
	truth              truth // until the summary was compared
}

// expectWhole returns the expected summary of a job with one share.
func expectWhole(w jobInterval, lengthMs int64, s *share) *expectation {
	e := expectMerged(w, lengthMs, []*share{s})
	e.merged, e.nodesExpected = false, int32(len(s.Nodes))
	if len(s.Records) == 1 && s.Records[0].Summary != nil {
		e.reduced, e.metrics = s.Records[0].Summary, nil
	}
	return e
}

// expectMerged returns the expected summary of a job with several shares, ordered by partition.
func expectMerged(w jobInterval, lengthMs int64, shares []*share) *expectation {
	first := shares[0]
	e := &expectation{
		jobInterval: w, lengthMs: lengthMs, partition: first.Partition, offset: first.Offset, merged: true,
		parts: first.Parts, partsReported: int32(len(shares)), nodesExpected: first.JobNodes,
	}
	machine := map[string]bool{} // nodes of several partitions count once
	for _, s := range shares {
		e.nodesReported += s.Reported()
		for node, came := range s.Nodes {
			machine[node] = machine[node] || came
		}
	}
	if w.job.JobID == schemas.JobSystem {
		e.nodesExpected, e.nodesReported = int32(len(machine)), 0
		for _, s := range shares { // if some shares are missing, the others know
			e.nodesExpected = max(e.nodesExpected, s.JobNodes)
		}
		for _, came := range machine {
			if came {
				e.nodesReported++
			}
		}
	}
	e.metrics = reduceAll(shares, e.nodesReported)
	return e
}

// candidate is one of the metrics with the same name, which differ in unit or scope.
type candidate struct {
	columns []*column
	votes   recount.Votes
	invalid int64 // values of other candidates that lost
}

func (c *candidate) takes(loser *candidate) {
	c.invalid += loser.invalid
	for _, of := range loser.columns {
		c.invalid += of.invalid + of.count()
	}
}

// reduceAll computes every metric of the shares, several at a time.
func reduceAll(shares []*share, nodes int32) map[string]*metric {
	candidates := map[recount.Metric]*candidate{}
	for _, s := range shares {
		shared := s.SharedReported()
		for m, c := range s.columns {
			if candidates[m] == nil {
				candidates[m] = &candidate{}
			}
			of := candidates[m]
			if of.columns = append(of.columns, c); len(c.means) > 0 {
				low, high := extremesOf(c.means)
				of.votes.Add(c.nodes(), shared, low.node, high.node)
			}
		}
	}
	votes := func(c *candidate) int { return c.votes.Count() }
	recount.Elect(candidates, recount.OfName, votes, (*candidate).takes)
	recount.Cut(candidates, votes)
	metrics := make(map[string]*metric, len(candidates))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for name, of := range candidates {
		m := &metric{unit: name.Unit, scope: name.Scope, invalid: of.invalid}
		metrics[name.Name] = m
		g.Go(func() error {
			m.reduce(of.columns, nodes)
			return nil
		})
	}
	_ = g.Wait() // no reduction fails
	return metrics
}

// extremesOf returns the nodes with the lowest and the highest mean. Ties go to the node that sorts first.
func extremesOf(means []nodeMean) (low, high nodeMean) {
	low = slices.MinFunc(means, func(a, b nodeMean) int {
		return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(a.node, b.node))
	})
	high = slices.MinFunc(means, func(a, b nodeMean) int {
		return cmp.Or(cmp.Compare(b.mean, a.mean), cmp.Compare(a.node, b.node))
	})
	return low, high
}

// reduce computes a metric from its columns.
func (m *metric) reduce(columns []*column, nodes int32) {
	var lists [][]float64
	var groups []moments
	var means []nodeMean
	var low, high []float64 // of values that only a node knows
	for _, c := range columns {
		m.invalid += c.invalid
		lists = append(lists, c.values)
		for _, p := range c.parts {
			lists = append(lists, p.values)
		}
		for _, r := range c.reduced {
			from := len(low)
			low, high = known(low, high, r)
			if len(r.Certified.Atoms) > 0 {
				lists = append(lists, slices.Clone(low[from:]))
				low, high = low[:from], high[:from]
				continue
			}
			group := moments{count: r.Count, mean: *r.Mean}
			if r.Stddev != nil {
				group.stddev = *r.Stddev
			}
			groups = append(groups, group)
		}
		means = append(means, c.means...)
		if m.nodes += int32(len(c.means)); c.with != nil {
			m.nodes += int32(len(c.with) - len(c.means))
		}
	}
	m.nodes = min(m.nodes, nodes)
	if m.values = momentsWith(groups, lists...); m.values.count == 0 {
		m.nodes = 0
		return
	}
	m.extremes(means)
	all := slices.Concat(lists...)
	if len(low) == 0 {
		slices.Sort(all)
		m.truth, m.low = truth{all, all}, deciles(all)
		m.high = m.low
		return
	}
	low, high = append(low, all...), append(high, all...)
	slices.Sort(low)
	slices.Sort(high)
	m.truth = newTruth(low, high)
	m.low, m.high = deciles(low), deciles(high)
}

func deciles(sorted []float64) (d [11]float64) {
	for k := range d {
		d[k] = decile(sorted, k)
	}
	return d
}

func (m *metric) extremes(means []nodeMean) {
	values := make([]float64, len(means))
	for i := range means {
		values[i] = means[i].mean
	}
	m.nodeMeans = momentsOf(values)
	low, high := extremesOf(means)
	m.lowest, m.highest = low, high
	for _, n := range means { // a mean is as exact as its values are, which may cancel each other
		m.nodeMeans.scale = max(m.nodeMeans.scale, n.scale)
		if near(n.mean, low.mean, max(n.scale, low.scale)) {
			m.lowNodes, m.lowest.scale = append(m.lowNodes, n.node), max(m.lowest.scale, n.scale)
		}
		if near(n.mean, high.mean, max(n.scale, high.scale)) {
			m.topNodes, m.highest.scale = append(m.topNodes, n.node), max(m.highest.scale, n.scale)
		}
	}
}
