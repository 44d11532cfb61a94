package replay

import (
	"cmp"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// atOnce is the number of metrics that are reduced at a time.
var atOnce = runtime.GOMAXPROCS(0)

// reducedIn reports whether some values of the shares were reduced on their node.
func reducedIn(shares []*share) bool {
	return slices.ContainsFunc(shares, func(s *share) bool { return s.reduced })
}

// summarize makes the summary of a job from its shares, at least one, ordered by partition. It is EXACT, since all
// values are in the log, unless a node reduced them.
func summarize(t *Terms, shares []*share) *schemas.JobSummary {
	first := shares[0]
	s := &schemas.JobSummary{
		Cluster: t.Cluster, JobID: first.Job.JobID, Restart: first.Job.Restart,
		IntervalStart: first.Start, IntervalMs: first.LengthMs, Method: schemas.MethodExact,
		Parts: first.Parts, PartsReported: int32(len(shares)), NodesExpected: first.JobNodes,
	}
	switch {
	case first.Job == machineKey:
		s.NodesExpected, s.NodesReported = machineNodes(shares)
	case first.Parts == 1:
		s.NodesExpected, s.NodesReported = int32(len(first.Nodes)), first.Reported()
	default:
		for _, of := range shares {
			s.NodesReported += of.Reported()
		}
	}
	if len(first.Records) == 1 && first.Job != machineKey {
		s.Method = schemas.MethodNode
		for i := range first.Records[0].Summary.Metrics {
			if m := &first.Records[0].Summary.Metrics[i]; t.wantsMetric(m.Name) {
				s.Metrics = append(s.Metrics, fold.Reduced(m, t.Sketch))
			}
		}
		return s
	}
	s.Metrics = metrics(t, shares, s.NodesReported)
	exact := func(m schemas.JobSummaryMetric) bool { return m.Count == 0 || *m.RankError == 0 && m.Lo == nil }
	if len(s.Metrics) == 0 || !all(s.Metrics, exact) {
		s.Method = schemas.MethodEstimated
	}
	return s
}

func all[V any](list []V, is func(V) bool) bool {
	return !slices.ContainsFunc(list, func(v V) bool { return !is(v) })
}

// machineNodes counts nodes of several partitions once.
func machineNodes(shares []*share) (expected, reported int32) {
	machine := map[string]bool{}
	for _, s := range shares {
		for node, came := range s.Nodes {
			machine[node] = machine[node] || came
		}
	}
	for _, came := range machine {
		if expected++; came {
			reported++
		}
	}
	for _, s := range shares { // if some shares are missing, the others know
		expected = max(expected, s.JobNodes)
	}
	return expected, reported
}

// metrics reduces the columns of all shares, several at a time. If some values of the machine are unknown, it leaves
// out computed metrics, which would cover fewer cores than the others.
func metrics(t *Terms, shares []*share, nodes int32) []schemas.JobSummaryMetric {
	columns := map[recount.Metric]*column{}
	for _, s := range shares {
		shared := s.SharedReported()
		for m, c := range s.columns {
			if columns[m] == nil {
				columns[m] = &column{}
			}
			columns[m].merge(c, shared)
		}
	}
	if t.Set != nil && reducedIn(shares) {
		for _, name := range t.Set.Names() {
			maps.DeleteFunc(columns, func(m recount.Metric, _ *column) bool { return m.Name == name })
		}
	}
	votes := func(c *column) int { return c.votes.Count() }
	recount.Elect(columns, recount.OfName, votes, (*column).takes)
	recount.Cut(columns, votes)
	names := slices.SortedFunc(maps.Keys(columns), func(a, b recount.Metric) int { return cmp.Compare(a.Name, b.Name) })
	list := make([]schemas.JobSummaryMetric, len(names))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, name := range names {
		g.Go(func() error {
			list[i] = columns[name].summary(name, nodes, t.Sketch)
			return nil
		})
	}
	_ = g.Wait() // no reduction fails
	return list
}

// merge adds the column of a further share. Other shares may count up to shared of its nodes too.
func (c *column) merge(of *column, shared int) {
	c.invalid += of.invalid
	c.lists = append(c.lists, of.lists...)
	c.parts, c.moments = append(c.parts, of.parts...), c.moments.Add(of.moments)
	if c.means = append(c.means, of.means...); len(of.means) > 0 {
		c.add(of.lowest, of.highest)
		c.votes.Add(len(of.with), shared, of.lowest.node, of.highest.node)
	}
	c.nodes += int64(len(of.with))
}

// summary reduces a copy of the values, so that the lists keep their order.
func (c *column) summary(name recount.Metric, nodes int32, sketch int) schemas.JobSummaryMetric {
	values := slices.Concat(c.lists...)
	m := schemas.JobSummaryMetric{Name: name.Name, Unit: name.Unit, Scope: name.Scope}
	d, own := describe(values, sketch, len(c.parts) > 0)
	m.Count, m.Invalid = d.Count+c.moments.Count, d.Invalid+c.invalid
	if m.Count == 0 {
		return m
	}
	mean, stddev, deciles, rankError := d.Mean, d.Stddev(), d.Deciles[:], 0.0
	if len(c.parts) > 0 {
		parts := c.parts
		if d.Count > 0 {
			parts = append(slices.Clone(parts), own)
		}
		e, ok := quantile.Merge(parts)
		if !ok { // more values than any machine produces
			m.Invalid, m.Count = m.Invalid+m.Count, 0
			return m
		}
		sum := quantile.Moments{Count: d.Count, Mean: d.Mean, M2: d.M2}.Add(c.moments)
		deciles, rankError = e.Deciles[:], e.RankError
		mean, stddev = min(max(sum.Mean, deciles[0]), deciles[10]), quantile.Stddev(sum.M2, sum.Count)
		if !e.Exact {
			lo, hi := e.Lo[:], e.Hi[:]
			m.Lo, m.Hi = &lo, &hi
		}
		if sketch > 0 {
			own, _ = quantile.Recompress(parts, quantile.Budget{Bytes: sketch, Ranks: quantile.Quick.Ranks})
		}
	}
	nodeStddev := quantile.Reduce(slices.Clone(c.means)).Stddev()
	m.Nodes, m.Mean, m.Stddev, m.NodeStddev = int32(min(c.nodes, int64(nodes))), &mean, &stddev, &nodeStddev
	m.LowNode, m.HighNode = &c.lowest.node, &c.highest.node
	m.LowNodeMean, m.HighNodeMean = &c.lowest.mean, &c.highest.mean
	m.Deciles, m.RankError = &deciles, &rankError
	if sketch > 0 {
		m.Certified = fold.CertifiedOf(&own)
	}
	return m
}

// describe reduces values, and certifies them if that is wanted.
func describe(values []float64, sketch int, merged bool) (quantile.Distribution, quantile.Summary) {
	switch {
	case merged:
		return quantile.Certify(values, quantile.Large)
	case sketch == 0:
		return quantile.Reduce(values), quantile.Summary{}
	}
	return quantile.Certify(values, quantile.Budget{Bytes: sketch, Ranks: quantile.Large.Ranks})
}
