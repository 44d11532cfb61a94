package integration

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/schemas/second"
)

// The oracle knows the rules, not the code. It reads the log of counters through the generic Avro codec, and says what
// must have become of every record. It computes every summary that it can from the values themselves.

type oracleMetric struct {
	Name, Unit, Scope string
	Values            []*float64 // null: NaN
}

type oracleRecord struct {
	partition     int32
	offset        int64
	schema        string
	Cluster       string `json:"cluster"`
	Node          string `json:"node"`
	IntervalStart int64  `json:"interval_start"`
	IntervalMs    int64  `json:"interval_ms"`
	JobID         string `json:"job_id"`
	Restart       int    `json:"restart"`
	Cpus          []int  `json:"cpus"`
	Metrics       []oracleMetric
	Reported      []string
	Jobs          []oracleJob
	More          bool `json:"more"`
}

type oracleJob struct {
	closed   int64    // offset of the Tick that lists it
	JobID    string   `json:"job_id"`
	Restart  int      `json:"restart"`
	Parts    int      `json:"parts"`
	JobNodes int      `json:"job_nodes"`
	Nodes    []string `json:"nodes"`
}

func (j *oracleJob) is(r *oracleRecord) bool { return j.JobID == r.JobID && j.Restart == r.Restart }

// window is one job in one interval.
type window struct {
	job     string
	restart int
	start   int64
}

// expectation is what the log says a summary must be.
type expectation struct {
	parts, nodes int
	records      []*oracleRecord
	machine      map[string]bool // of _system: the nodes that any Tick lists, and whether a record came
}

// expected and reported are how many nodes the summary must count.
func (e *expectation) expected() int {
	if e.machine != nil {
		return len(e.machine)
	}
	return e.nodes
}

func (e *expectation) reported() int {
	if e.machine == nil {
		return len(e.records)
	}
	n := 0
	for _, came := range e.machine {
		if came {
			n++
		}
	}
	return n
}

// leavesOut reports whether the summary lacks a record's metric. The machine lacks all metrics that jobs reported by
// themselves. A job keeps 16 names of each partition: the names that most nodes report, in alphabetical order if they
// tie.
func (e *expectation) leavesOut(r *oracleRecord, metric string) bool {
	if !slices.Contains(r.Reported, metric) {
		return false
	}
	if e.machine != nil {
		return true
	}
	nodes := map[string]int{}
	for _, other := range e.records {
		for _, name := range other.Reported {
			if other.partition == r.partition {
				nodes[name]++
			}
		}
	}
	before := 0
	for name, n := range nodes {
		if n > nodes[metric] || n == nodes[metric] && name < metric {
			before++
		}
	}
	return before >= 16
}

type fates struct{ summarized, rejected, late, duplicate, misrouted, ended int64 }

func fatesOf(c schemas.ProgressCounts) fates {
	return fates{c.Summarized, c.Rejected, c.Late, c.Duplicate, c.Misrouted, c.Ended}
}

func (f *fates) add(g fates) {
	f.summarized, f.rejected, f.late = f.summarized+g.summarized, f.rejected+g.rejected, f.late+g.late
	f.duplicate, f.misrouted, f.ended = f.duplicate+g.duplicate, f.misrouted+g.misrouted, f.ended+g.ended
}

type oracle struct {
	windows map[window]*expectation
	fates   map[int32]*fates // by partition
	rejects map[string]bool  // partition/offset
	strays  []window         // of misrouted records
	late    []*oracleRecord

	brackets int            // of estimates, checked
	rules    map[string]int // how often each of the rules that are rarely met was checked
}

// The rules that a run may miss: a judge of them that met none has judged nothing.
const (
	ruleEnded    = "values of ended jobs in _system"
	ruleJobs     = "nodes of _system with several jobs"
	ruleShared   = "nodes of _system in several partitions"
	ruleExact    = "exact metrics of an estimate"
	ruleNothing  = "metrics without a value"
	ruleNoMetric = "summaries without metrics"
	ruleParts    = "Ticks in parts"
)

func newOracle(t *testing.T, cluster string, log []*kgo.Record) *oracle {
	t.Helper()
	o := &oracle{
		windows: map[window]*expectation{}, fates: map[int32]*fates{}, rejects: map[string]bool{},
		rules: map[string]int{},
	}
	byPartition := map[int32][]*oracleRecord{}
	for _, r := range log {
		if o.fates[r.Partition] == nil {
			o.fates[r.Partition] = &fates{}
		}
		rec := &oracleRecord{partition: r.Partition, offset: r.Offset}
		name, value, err := second.JSON(r.Value)
		if err == nil {
			err = json.Unmarshal(value, rec)
		}
		if err != nil || name != "weir.v1.Tick" && name != "weir.v1.Gap" && rec.Cluster != cluster {
			o.reject(rec)
			continue
		}
		rec.schema = name
		byPartition[r.Partition] = append(byPartition[r.Partition], rec)
	}
	for p, records := range byPartition {
		o.judge(t, p, records)
	}
	for w, e := range o.windows {
		if w.job == schemas.JobSystem {
			e.parts = len(byPartition) // each has a Tick of every interval, at the end of a clean run
		}
	}
	return o
}

func (o *oracle) reject(r *oracleRecord) {
	o.fates[r.partition].rejected++
	o.rejects[fmt.Sprintf("%d/%d", r.partition, r.offset)] = true
}

// judge says what became of each record of a partition: it looks for the Tick that closed the record's interval.
func (o *oracle) judge(t *testing.T, partition int32, records []*oracleRecord) {
	t.Helper()
	f := o.fates[partition]
	ticks := o.closers(t, partition, records)
	first := map[string]bool{}
	taken := map[*oracleRecord][]*oracleRecord{}
	for _, r := range records {
		if r.schema == "weir.v1.Tick" || r.schema == "weir.v1.Gap" {
			continue
		}
		closer := slices.IndexFunc(ticks, func(k *oracleRecord) bool { return k.IntervalStart >= r.IntervalStart })
		key := fmt.Sprint(r.Node, r.IntervalStart, r.JobID, r.Restart)
		switch {
		case closer >= 0 && ticks[closer].closes(r) < r.offset:
			f.late++
			o.late = append(o.late, r)
			continue
		case first[key]:
			f.duplicate++
			continue
		}
		first[key] = true
		if closer < 0 {
			t.Errorf("partition %d: no Tick closes %d, at the end of a clean run", partition, r.IntervalStart)
			continue
		}
		taken[ticks[closer]] = append(taken[ticks[closer]], r)
	}
	for _, k := range ticks {
		o.close(f, k, taken[k])
	}
}

// closers are the Ticks that close something, in order. Those of one interval that come in parts are joined: each part
// closes its jobs, the last one the interval.
func (o *oracle) closers(t *testing.T, partition int32, records []*oracleRecord) (ticks []*oracleRecord) {
	t.Helper()
	var parts *oracleRecord
	for _, r := range records {
		if r.schema != "weir.v1.Tick" || len(ticks) > 0 && r.IntervalStart <= ticks[len(ticks)-1].IntervalStart {
			continue
		}
		if parts != nil && parts.IntervalStart != r.IntervalStart {
			t.Errorf("partition %d: the Ticks of %d have no last part", partition, parts.IntervalStart)
			parts = nil
		}
		if parts == nil {
			parts = r
		} else {
			o.rules[ruleParts]++
		}
		for i := range r.Jobs {
			if r.Jobs[i].closed = r.offset; parts != r {
				parts.Jobs = append(parts.Jobs, r.Jobs[i])
			}
		}
		if parts.offset = r.offset; !r.More {
			ticks, parts = append(ticks, parts), nil
		}
	}
	return ticks
}

// closes is the offset from which on a record is late: of the part that lists its job, else of the last one.
func (r *oracleRecord) closes(record *oracleRecord) int64 {
	for i := range r.Jobs {
		if r.IntervalStart == record.IntervalStart && r.Jobs[i].is(record) {
			return r.Jobs[i].closed
		}
	}
	return r.offset
}

func (o *oracle) close(f *fates, tick *oracleRecord, records []*oracleRecord) {
	all := window{schemas.JobSystem, 0, tick.IntervalStart}
	if o.windows[all] == nil {
		o.windows[all] = &expectation{machine: map[string]bool{}}
	}
	o.list(o.windows[all].machine, tick)
	for _, j := range tick.Jobs {
		if j.Parts == 0 {
			continue
		}
		w := window{j.JobID, j.Restart, tick.IntervalStart}
		if o.windows[w] == nil {
			o.windows[w] = &expectation{parts: j.Parts, nodes: j.JobNodes}
		}
	}
	for _, r := range records {
		fate := &f.misrouted
		for _, j := range tick.Jobs {
			if !j.is(r) || !slices.Contains(j.Nodes, r.Node) ||
				r.IntervalStart != tick.IntervalStart || r.IntervalMs != tick.IntervalMs {
				continue
			}
			switch {
			case r.schema == "weir.v1.NodeSummary" && j.JobNodes > 1:
				fate = &f.rejected
				o.rejects[fmt.Sprintf("%d/%d", r.partition, r.offset)] = true
			case j.Parts == 0:
				fate = &f.ended
				o.rules[ruleEnded]++
				o.windows[all].add(r)
			default:
				fate = &f.summarized
				o.windows[window{r.JobID, r.Restart, r.IntervalStart}].add(r)
				o.windows[all].add(r)
			}
		}
		if *fate++; fate == &f.misrouted {
			o.strays = append(o.strays, window{r.JobID, r.Restart, r.IntervalStart})
		}
	}
}

func (e *expectation) add(r *oracleRecord) {
	e.records = append(e.records, r)
	if e.machine != nil {
		e.machine[r.Node] = true
	}
}

// list adds the nodes that a partition's Tick lists to the machine's.
func (o *oracle) list(machine map[string]bool, tick *oracleRecord) {
	here := map[string]int{}
	for _, j := range tick.Jobs {
		for _, n := range j.Nodes {
			if here[n]++; here[n] == 2 {
				o.rules[ruleJobs]++
			}
		}
	}
	for n := range here {
		if _, listed := machine[n]; listed {
			o.rules[ruleShared]++
			continue
		}
		machine[n] = false
	}
}

// share is what one node has of one job in a partition.
type share struct {
	node, job string
	partition int32
}

// values are all valid values of a metric of a window, sorted, and how many were not valid.
func (e *expectation) values(m *schemas.JobSummaryMetric) (sorted []float64, invalid int64,
	shares map[share][]float64,
) {
	shares = map[share][]float64{}
	for _, r := range e.records {
		if e.leavesOut(r, m.Name) {
			continue
		}
		for _, v := range r.values(m) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				invalid++
				continue
			}
			sorted = append(sorted, v)
			at := share{r.Node, fmt.Sprint(r.JobID, "/", r.Restart), r.partition}
			shares[at] = append(shares[at], v)
		}
	}
	sort.Float64s(sorted)
	return sorted, invalid, shares
}

// values are what the record's node has measured. A NodeSummary no longer has them, but what a simulated node measures
// is known.
func (r *oracleRecord) values(m *schemas.JobSummaryMetric) []float64 {
	var values []float64
	for _, of := range r.Metrics {
		switch {
		case of.Name != m.Name:
		case r.schema == "weir.v1.NodeSummary" && m.Scope == schemas.ScopeNode:
			values = append(values, ofNode(r.Node, m.Name, r.IntervalStart))
		case r.schema == "weir.v1.NodeSummary":
			cpus := make([]int32, len(r.Cpus))
			for i, cpu := range r.Cpus {
				cpus[i] = int32(cpu)
			}
			_, known := measured(r.Node, m.Name, cpus, r.IntervalStart)
			values = append(values, known...)
		default:
			for _, v := range of.Values {
				if v == nil {
					values = append(values, math.NaN())
					continue
				}
				values = append(values, *v)
			}
		}
	}
	return values
}

// decile is type 4, in integers, from its definition.
func decile(x []float64, k int) float64 {
	n := len(x)
	whole, rest := n*k/10, n*k%10
	if whole < 1 {
		return x[0]
	}
	if whole >= n || rest == 0 {
		return x[whole-1]
	}
	return x[whole-1] + float64(rest)/10*(x[whole]-x[whole-1])
}

func mean(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s / float64(len(v))
}

func deviation(v []float64) float64 {
	m, s := mean(v), 0.0
	for _, x := range v {
		s += (x - m) * (x - m)
	}
	return math.Sqrt(s / float64(len(v)))
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(math.Abs(a)+math.Abs(b))+1e-12 }

// check compares one summary of the topic with what must be in it.
func (o *oracle) check(s *schemas.JobSummary) error {
	e := o.windows[windowOf(s)]
	if e == nil {
		return fmt.Errorf("no Tick lists it")
	}
	if int(s.Parts) != e.parts || s.PartsReported != s.Parts || int(s.NodesExpected) != e.expected() ||
		int(s.NodesReported) != e.reported() {
		return fmt.Errorf("parts %d/%d, nodes %d/%d; want %d parts, nodes %d/%d",
			s.PartsReported, s.Parts, s.NodesReported, s.NodesExpected, e.parts, e.reported(), e.expected())
	}
	if err := o.checkMethod(s, e); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, r := range e.records {
		for _, m := range r.Metrics {
			if !e.leavesOut(r, m.Name) {
				names[m.Name] = true
			}
		}
	}
	if len(names) != len(s.Metrics) {
		return fmt.Errorf("%d metrics, want %d", len(s.Metrics), len(names))
	}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		sorted, invalid, shares := e.values(m)
		if err := checkMetric(m, sorted, invalid, shares, e.reported()); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		if err := o.checkDeciles(s.Method, m, sorted); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// checkMethod holds method to how the summary came about. A merge is EXACT where its shares name all their values,
// which no topic of summaries says: checkDeciles holds it to exact deciles.
func (o *oracle) checkMethod(s *schemas.JobSummary, e *expectation) error {
	merged := e.parts > 1 || s.JobID == schemas.JobSystem
	want := s.Method
	switch {
	case !merged && len(e.records) == 1 && e.records[0].schema == "weir.v1.NodeSummary":
		want = schemas.MethodNode
	case len(s.Metrics) == 0:
		o.rules[ruleNoMetric]++
		want = schemas.MethodEstimated
	case !merged:
		want = schemas.MethodExact
	case s.Method == schemas.MethodNode:
		want = schemas.MethodEstimated
	}
	if s.Method != want {
		return fmt.Errorf("method %s, want %s", s.Method, want)
	}
	return nil
}

func checkMetric(m *schemas.JobSummaryMetric, sorted []float64, invalid int64, shares map[share][]float64,
	reported int,
) error {
	if m.Count != int64(len(sorted)) || m.Invalid != invalid {
		return fmt.Errorf("count %d, invalid %d; want %d, %d", m.Count, m.Invalid, len(sorted), invalid)
	}
	if len(sorted) == 0 {
		if m.Mean != nil || m.Stddev != nil || m.Deciles != nil || m.LowNode != nil || m.RankError != nil ||
			m.LowNodeMean != nil || m.HighNodeMean != nil || m.Lo != nil || m.Hi != nil || m.Nodes != 0 {
			return fmt.Errorf("no values, and yet %+v", m)
		}
		return nil
	}
	var means []float64
	nodes := map[share]bool{} // of each partition
	low, high := math.Inf(1), math.Inf(-1)
	isLow, isHigh := false, false
	for _, values := range shares {
		v := mean(values)
		means = append(means, v)
		low, high = min(low, v), max(high, v)
	}
	for at, values := range shares {
		nodes[share{node: at.node, partition: at.partition}] = true
		isLow = isLow || at.node == *m.LowNode && near(mean(values), low)
		isHigh = isHigh || at.node == *m.HighNode && near(mean(values), high)
	}
	switch {
	case !near(*m.Mean, mean(sorted)) || !near(*m.Stddev, deviation(sorted)):
		return fmt.Errorf("mean %v, stddev %v; want %v, %v", *m.Mean, *m.Stddev, mean(sorted), deviation(sorted))
	case int(m.Nodes) != min(len(nodes), reported) || !near(*m.NodeStddev, deviation(means)):
		return fmt.Errorf("nodes %d, node_stddev %v; want %d, %v", m.Nodes, *m.NodeStddev, min(len(nodes), reported),
			deviation(means))
	case !isLow || !isHigh:
		return fmt.Errorf("low %s, high %s have not the means %v and %v", *m.LowNode, *m.HighNode, low, high)
	case m.LowNodeMean == nil || m.HighNodeMean == nil || !near(*m.LowNodeMean, low) || !near(*m.HighNodeMean, high):
		return fmt.Errorf("the means of %s and %s are not %v and %v", *m.LowNode, *m.HighNode, low, high)
	}
	return nil
}

// checkDeciles holds exact deciles to the definition, and estimates to what they promise. The true decile lies in each
// bracket, and no estimate is further off in rank than rank_error.
func (o *oracle) checkDeciles(method string, m *schemas.JobSummaryMetric, sorted []float64) error {
	n := len(sorted)
	if n == 0 {
		o.rules[ruleNothing]++
		return nil
	}
	d := *m.Deciles
	if m.RankError == nil {
		return fmt.Errorf("%s without rank_error", method)
	}
	exact := *m.RankError == 0
	switch {
	case (m.Lo == nil) != exact || (m.Hi == nil) != exact, !exact && method != schemas.MethodEstimated, !exact &&
		slices.Equal(*m.Lo, *m.Hi):
		return fmt.Errorf("%s with rank_error %v, lo %v, hi %v", method, *m.RankError, m.Lo, m.Hi)
	case exact && method == schemas.MethodEstimated:
		o.rules[ruleExact]++
	}
	for k := range 11 {
		want := decile(sorted, k)
		if m.Lo == nil {
			if d[k] != want {
				return fmt.Errorf("d%d = %v with rank_error %v, want %v", k, d[k], *m.RankError, want)
			}
			continue
		}
		lo, hi := (*m.Lo)[k], (*m.Hi)[k]
		if lo > want || want > hi || lo > d[k] || d[k] > hi {
			return fmt.Errorf("d%d = %v, which is %v, in [%v, %v]", k, d[k], want, lo, hi)
		}
		o.brackets++
		if d[k] == want {
			continue
		}
		below, _ := slices.BinarySearch(sorted, d[k]) // #{x < d}
		upTo, _ := slices.BinarySearchFunc(sorted, d[k], func(x, d float64) int {
			if x <= d {
				return -1
			}
			return 1
		})
		at := max(float64(n*k)/10, 1)
		if off := max(at-float64(upTo), float64(below+1)-at, 0); *m.RankError == 0 && d[k] != want ||
			off > *m.RankError*float64(n)+1e-6 {
			return fmt.Errorf("d%d is %v ranks off, rank_error is %v of %d", k, off, *m.RankError, n)
		}
	}
	return nil
}

// reportedPrefix begins the names of the metrics that jobs report.
const reportedPrefix = "z_report"

// ofNode is a value of the node.
func ofNode(node, metric string, start int64) float64 {
	if strings.HasPrefix(metric, reportedPrefix) {
		metric = "sim_load"
	}
	return producers.SimulatedValue(node, metric, -1, start)
}

// measured is what a node measures for a job on some of its CPUs: of these, of GPUs, or of the job alone. It lacks one
// GPU that the job holds. The metrics that are not of CPUs come last by their names.
func measured(node, metric string, cpus []int32, start int64) (scope string, values []float64) {
	scope, of, places := schemas.ScopeCore, metric, cpus
	switch metric {
	case "video_power":
		scope, of, places = schemas.ScopeGPU, "sim_gaps", cpus[:min(3, len(cpus))]
	case "work_memory":
		scope, of, places = schemas.ScopeJob, "sim_tail", cpus[:1]
	}
	if strings.HasPrefix(metric, reportedPrefix) {
		return schemas.ScopeNode, []float64{ofNode(node, metric, start)}
	}
	for _, cpu := range places {
		values = append(values, producers.SimulatedValue(node, of, int(cpu), start))
	}
	if scope == schemas.ScopeGPU {
		values = append(values, math.NaN())
	}
	return scope, values
}
