package schemas

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
		r.RankError = m.RankError
		if m.Lo != nil && m.Hi != nil {
			r.Lo, r.Hi = *m.Lo, *m.Hi
		}
		if m.Deciles == nil || len(*m.Deciles) != 11 {
			continue
		}
		for k, cell := range r.deciles() {
			*cell = &(*m.Deciles)[k]
		}
	}
	return rows
}

func (r *Row) deciles() [11]**float64 {
	return [11]**float64{&r.D0, &r.D1, &r.D2, &r.D3, &r.D4, &r.D5, &r.D6, &r.D7, &r.D8, &r.D9, &r.D10}
}
