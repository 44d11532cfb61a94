package audit

import (
	"cmp"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// record is a CounterBatch or a NodeSummary.
type record struct {
	*schemas.NodeHeader
	batch   *schemas.CounterBatch
	summary *schemas.NodeSummary
	run     *AgentRun // nil: of an interval before the audited ones
}

// checkSummary returns an error if the numbers of a NodeSummary contradict each other.
func checkSummary(s *schemas.NodeSummary) error {
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if err := checkCertified(m.Count, &m.Certified); err != nil || m.Invalid > quantile.MaxCount {
			return cmp.Or(err, errForeign)
		}
	}
	return nil
}

func checkCertified(count int64, c *schemas.Certified) error {
	s := quantile.Summary{Count: count, Eps: c.Eps, Order: c.OrderStatistics}
	for _, k := range c.Knots {
		s.Knots = append(s.Knots, quantile.Knot(k))
	}
	for _, a := range c.Atoms {
		s.Atoms = append(s.Atoms, quantile.Atom(a))
	}
	return s.Check()
}

func summarized(f *Fates) *int64 { return &f.Summarized }

func late(f *Fates) *int64       { return &f.Late }

func dropped(f *Fates) *int64    { return &f.Dropped }

func duplicate(f *Fates) *int64  { return &f.Duplicate }

func misrouted(f *Fates) *int64  { return &f.Misrouted }

func endedJob(f *Fates) *int64   { return &f.Ended }

func rejected(f *Fates) *int64   { return &f.Rejected }
