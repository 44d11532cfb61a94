package schemas

import "slices"

// Row is one metric of one summary, as the archive keeps it and as `weir job` shows it. Users' queries rely on its
// columns. A summary without metrics is one row without Metric.
type Row struct {
	Cluster       string    `parquet:"cluster,dict" json:"cluster"`
	JobID         string    `parquet:"job_id,dict" json:"job_id"`
	Restart       int32     `parquet:"restart" json:"restart"`
	IntervalStart int64     `parquet:"interval_start,timestamp(millisecond)" json:"interval_start"`
	IntervalMs    int64     `parquet:"interval_ms" json:"interval_ms"`
	Metric        *string   `parquet:"metric,optional,dict" json:"metric"`
	Unit          *string   `parquet:"unit,optional,dict" json:"unit"`
	Scope         *string   `parquet:"scope,optional,dict" json:"scope"`
	Method        string    `parquet:"method,dict" json:"method"`
	Parts         int32     `parquet:"parts" json:"parts"`
	PartsReported int32     `parquet:"parts_reported" json:"parts_reported"`
	NodesExpected int32     `parquet:"nodes_expected" json:"nodes_expected"`
	NodesReported int32     `parquet:"nodes_reported" json:"nodes_reported"`
	Nodes         *int32    `parquet:"nodes,optional" json:"nodes"`
	Count         *int64    `parquet:"count,optional" json:"count"`
	Invalid       *int64    `parquet:"invalid,optional" json:"invalid"`
	Mean          *float64  `parquet:"mean,optional" json:"mean"`
	Stddev        *float64  `parquet:"stddev,optional" json:"stddev"`
	NodeStddev    *float64  `parquet:"node_stddev,optional" json:"node_stddev"`
	LowNode       *string   `parquet:"low_node,optional,dict" json:"low_node"`
	HighNode      *string   `parquet:"high_node,optional,dict" json:"high_node"`
	D0            *float64  `parquet:"d0,optional" json:"d0"`
	D1            *float64  `parquet:"d1,optional" json:"d1"`
	D2            *float64  `parquet:"d2,optional" json:"d2"`
	D3            *float64  `parquet:"d3,optional" json:"d3"`
	D4            *float64  `parquet:"d4,optional" json:"d4"`
	D5            *float64  `parquet:"d5,optional" json:"d5"`
	D6            *float64  `parquet:"d6,optional" json:"d6"`
	D7            *float64  `parquet:"d7,optional" json:"d7"`
	D8            *float64  `parquet:"d8,optional" json:"d8"`
	D9            *float64  `parquet:"d9,optional" json:"d9"`
	D10           *float64  `parquet:"d10,optional" json:"d10"`
	RankError     *float64  `parquet:"rank_error,optional" json:"rank_error"`
	Lo            []float64 `parquet:"lo,optional,list" json:"lo"`
	Hi            []float64 `parquet:"hi,optional,list" json:"hi"`

	// The certified summary. Only the archive contains it: it is for merging rows, not for people.
	Eps             *float64  `parquet:"eps,optional" json:"-"`
	OrderStatistics []float64 `parquet:"order_statistics,optional,list" json:"-"`
	KnotValues      []float64 `parquet:"knot_values,optional,list" json:"-"`
	KnotRanks       []int64   `parquet:"knot_ranks,optional,list" json:"-"`
	AtomValues      []float64 `parquet:"atom_values,optional,list" json:"-"`
	AtomCounts      []int64   `parquet:"atom_counts,optional,list" json:"-"`

	// The means of LowNode and HighNode. They are last, as columns that a newer weir added.
	LowNodeMean  *float64 `parquet:"low_node_mean,optional" json:"low_node_mean"`
	HighNodeMean *float64 `parquet:"high_node_mean,optional" json:"high_node_mean"`
}

// Rows returns a row for each metric of the summary, in their order, or one row without a metric. The rows share memory
// with the summary.
func (s *JobSummary) Rows() []Row {
	head := Row{
		Cluster: s.Cluster, JobID: s.JobID, Restart: s.Restart,
		IntervalStart: s.IntervalStart, IntervalMs: s.IntervalMs,
		Method: s.Method, Parts: s.Parts, PartsReported: s.PartsReported,
		NodesExpected: s.NodesExpected, NodesReported: s.NodesReported,
	}
	if len(s.Metrics) == 0 {
		return []Row{head}
	}
	rows := make([]Row, len(s.Metrics))
	for i := range s.Metrics {
		m, r := &s.Metrics[i], &rows[i]
		*r = head
		r.Metric, r.Unit, r.Scope = &m.Name, &m.Unit, &m.Scope
		r.Nodes, r.Count, r.Invalid = &m.Nodes, &m.Count, &m.Invalid
		r.Mean, r.Stddev, r.NodeStddev, r.LowNode, r.HighNode = m.Mean, m.Stddev, m.NodeStddev, m.LowNode, m.HighNode
		r.RankError, r.LowNodeMean, r.HighNodeMean = m.RankError, m.LowNodeMean, m.HighNodeMean
		if m.Lo != nil && m.Hi != nil {
			r.Lo, r.Hi = *m.Lo, *m.Hi
		}
		r.setCertified(m.Certified)
		if m.Deciles == nil || len(*m.Deciles) != 11 {
			continue
		}
		for k, cell := range r.deciles() {
			*cell = &(*m.Deciles)[k]
		}
	}
	return rows
}

// Deciles returns d0 to d10. A missing one is nil.
func (r *Row) Deciles() [11]*float64 {
	return [11]*float64{r.D0, r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9, r.D10}
}

func (r *Row) deciles() [11]**float64 {
	return [11]**float64{&r.D0, &r.D1, &r.D2, &r.D3, &r.D4, &r.D5, &r.D6, &r.D7, &r.D8, &r.D9, &r.D10}
}

func (r *Row) setCertified(c *Certified) {
	if c == nil {
		return
	}
	r.Eps = &c.Eps
	if len(c.OrderStatistics) > 0 { // otherwise null, and not a list of nothing
		r.OrderStatistics = c.OrderStatistics
	}
	r.KnotValues, r.KnotRanks = slices.Grow(r.KnotValues, len(c.Knots)), slices.Grow(r.KnotRanks, len(c.Knots))
	for _, k := range c.Knots {
		r.KnotValues, r.KnotRanks = append(r.KnotValues, k.Value), append(r.KnotRanks, k.Rank)
	}
	r.AtomValues, r.AtomCounts = slices.Grow(r.AtomValues, len(c.Atoms)), slices.Grow(r.AtomCounts, len(c.Atoms))
	for _, a := range c.Atoms {
		r.AtomValues, r.AtomCounts = append(r.AtomValues, a.Value), append(r.AtomCounts, a.Count)
	}
}

// Certified returns the row's certified summary, or nil if the row lacks one. Lists of different lengths make nil too:
// no sink wrote them.
func (r *Row) Certified() *Certified {
	if r.Eps == nil || len(r.KnotValues) != len(r.KnotRanks) || len(r.AtomValues) != len(r.AtomCounts) {
		return nil
	}
	c := &Certified{Eps: *r.Eps, OrderStatistics: r.OrderStatistics}
	if len(r.KnotValues) > 0 {
		c.Knots = make([]Knot, len(r.KnotValues))
	}
	for i, v := range r.KnotValues {
		c.Knots[i] = Knot{v, r.KnotRanks[i]}
	}
	if len(r.AtomValues) > 0 {
		c.Atoms = make([]Atom, len(r.AtomValues))
	}
	for i, v := range r.AtomValues {
		c.Atoms[i] = Atom{v, r.AtomCounts[i]}
	}
	return c
}
