package schemas

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bound sets one field of a legal record. It takes the values up to the field's limit, through the codec and back.
// It refuses those beyond it, with the name of the field.
func bound[R Record, V any](t *testing.T, legal func() R, field string, set func(r R, v V), taken, refused []V) {
	t.Helper()
	for _, v := range taken {
		r := legal()
		set(r, v)
		b, err := MarshalChecked(r)
		if err != nil {
			t.Errorf("%T, %s %.80v: %v", r, field, v, err)
			continue
		}
		if back, err := Unmarshal(b); err != nil ||
			!cmp.Equal(Record(r), back, sameRecord) {
			t.Errorf("%T, %s %.80v: another record comes back, %v", r, field, v, err)
		}
	}
	for _, v := range refused {
		r := legal()
		set(r, v)
		refuses(t, r, field, v)
	}
}

func refuses(t *testing.T, r Record, field string, v any) {
	t.Helper()
	err := r.Validate()
	if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), ErrInvalid.Error()+": "+field+": ") {
		t.Errorf("%T, %s %.80v: %v", r, field, v, err)
	}
}

// What the fields of all records share: values up to a limit, and beyond it.
var (
	x64   = strings.Repeat("x", 64)
	x4096 = strings.Repeat("x", 4096)

	goodNames = []string{"a", "z", "A", "Z", "0", "9", "-", "_", ":", "a.b_c:d-9", "...", "_x", x64}
	badNames  = []string{
		"", ".", "..", x64 + "x", "a/b", "a;b", "a@b", "a[b", "a`b", "a{b", "a,b", "a b", "µ", "\xff", "a\x00", "a\n",
		"../etc",
	}
	goodJobs      = []string{"4711", "a_b", JobRest, "rest", x64}
	badJobs       = append([]string{"_mine", "_", "__rest", "_REST"}, badNames...)
	goodUnits     = []string{"", "µs", "1", x64, strings.Repeat("µ", 32)}
	badUnits      = []string{x64 + "x", strings.Repeat("µ", 33), "\xb5s", "a\tb", "\x1b[2J", "\u202e", "\u00a0"}
	goodTexts     = []string{"", "Größe", x4096}
	badTexts      = []string{x4096 + "x", "\xff", "a\nb", "\u009b2J"}
	goodEpochs    = []int64{0, 1, 1 << 53}
	badEpochs     = []int64{-1, 1<<53 + 1, math.MaxInt64, math.MinInt64}
	goodTimes     = []int64{0, 1, 4102444800000}
	badTimes      = []int64{-1, 4102444800001, math.MaxInt64, math.MinInt64}
	goodLengths   = []int64{1, 1000, 86_400_000}
	badLengths    = []int64{0, -1, -1000, 86_400_001, math.MaxInt64, math.MinInt64}
	goodStarts    = []int64{0, 10_000, 4102444800000} // of intervals of ten seconds
	badStarts     = []int64{-10_000, 1, 9_999, 10_001, 4102444810000, math.MaxInt64 / 10_000 * 10_000}
	natural       = []int32{0, 1, math.MaxInt32}
	negative      = []int32{-1, math.MinInt32}
	goodMetricLen = []int{0, 1, 1024}
	badMetricLen  = []int{1025, 5000}
)

// placed are the fields of every record of an interval.
func placed[R Record](t *testing.T, legal func() R, fields func(r R) (start, length *int64)) {
	t.Helper()
	bound(t, legal, "interval_ms", func(r R, v int64) { start, length := fields(r); *start, *length = 0, v },
		goodLengths, badLengths)
	bound(t, legal, "interval_start", func(r R, v int64) { start, length := fields(r); *start, *length = v, 10_000 },
		goodStarts, badStarts)
}

// owned are the fields of every record of a job.
func owned[R Record](t *testing.T, legal func() R, fields func(r R) (cluster, job *string, restart *int32)) {
	t.Helper()
	bound(t, legal, "cluster", func(r R, v string) { cluster, _, _ := fields(r); *cluster = v }, goodNames, badNames)
	bound(t, legal, "job_id", func(r R, v string) { _, job, _ := fields(r); *job = v }, goodJobs, badJobs)
	bound(t, legal, "restart", func(r R, v int32) { _, _, restart := fields(r); *restart = v }, natural, negative)
}

// measured are the fields of every metric.
func measured[R Record](t *testing.T, legal func() R, fields func(r R) (name, unit, scope *string)) {
	t.Helper()
	bound(t, legal, "metrics.name", func(r R, v string) { name, _, _ := fields(r); *name = v }, goodNames, badNames)
	bound(t, legal, "metrics.unit", func(r R, v string) { _, unit, _ := fields(r); *unit = v }, goodUnits, badUnits)
	bound(t, legal, "metrics.scope", func(r R, v string) { _, _, scope := fields(r); *scope = v }, nil,
		[]string{"", "Core", "nodes", "rack"})
}

func sent[R Record](t *testing.T, legal func() R, header func(r R) *NodeHeader) {
	t.Helper()
	placed(t, legal, func(r R) (*int64, *int64) { h := header(r); return &h.IntervalStart, &h.IntervalMs })
	owned(t, legal, func(r R) (*string, *string, *int32) { h := header(r); return &h.Cluster, &h.JobID, &h.Restart })
	bound(t, legal, "job_id", func(r R, v string) { header(r).JobID = v }, nil, []string{JobSystem})
	bound(t, legal, "run_id", func(r R, v string) { header(r).BootID = v }, goodUnits, badUnits)
	bound(t, legal, "run_id", func(r R, v string) { header(r).RunID = v }, goodUnits, badUnits)
	bound(t, legal, "seq", func(r R, v int64) { header(r).Seq = v }, []int64{0, math.MaxInt64},
		[]int64{-1, math.MinInt64})
	bound(t, legal, "epoch", func(r R, v int64) { header(r).Epoch = v }, goodEpochs, badEpochs)
	bound(t, legal, "sent_at", func(r R, v int64) { header(r).SentAt = v }, goodTimes, badTimes)
	bound(t, legal, "sampled_at", func(r R, v int64) { header(r).SampledAt = v },
		[]int64{0, 4102444800000_999}, []int64{-1000, 4102444801_000_000, math.MaxInt64, math.MinInt64})
	bound(t, legal, "cpus", func(r R, v []int32) { header(r).Cpus = v },
		nil, [][]int32{{-1, 0, 1}, {0, 1, math.MinInt32}, {0, 0, 1}, {5, 3, 5}, make([]int32, 65537)})
}

// cpusUpTo are so many CPUs, the last ones first.
func cpusUpTo(n int) []int32 {
	cpus := make([]int32, n)
	for i := range cpus {
		cpus[i] = int32(n - 1 - i)
	}
	return cpus
}

func TestLimitsOfCounterBatch(t *testing.T) {
	legal := func() *CounterBatch {
		b := fullBatch(1, 3)
		b.Metrics = append(b.Metrics, CounterBatchMetric{"other", "B", ScopeNode, []float64{math.NaN()}})
		return b
	}
	sent(t, legal, func(b *CounterBatch) *NodeHeader { return &b.NodeHeader })
	bound(t, legal, "node", func(b *CounterBatch, v string) { b.Node = v }, goodNames, badNames)
	measured(t, legal, func(b *CounterBatch) (name, unit, scope *string) {
		m := &b.Metrics[0]
		return &m.Name, &m.Unit, &m.Scope
	})
	ofCPUs := func(n int) []float64 { return make([]float64, n) }
	bound(t, legal, "metrics.values", func(b *CounterBatch, v []float64) { b.Metrics[0].Values = v },
		[][]float64{{math.NaN(), math.Inf(1), -math.MaxFloat64}}, [][]float64{nil, ofCPUs(2), ofCPUs(4)})
	bound(t, legal, "metrics.values", func(b *CounterBatch, v []float64) { b.Metrics[1].Values = v },
		[][]float64{{math.Inf(-1)}}, [][]float64{nil, ofCPUs(2), ofCPUs(3)})
	for scope, n := range map[string][2][]int{ // how many values may be there, and how many may not
		ScopeJob:    {{1}, {0, 2, 3}},
		ScopeSocket: {{1, 2, 3, 1024}, {0, 1025}},
		ScopeGPU:    {{1, 8, 1024}, {0, 1025}},
	} {
		bound(t, legal, "metrics.values", func(b *CounterBatch, n int) {
			b.Metrics[1].Scope, b.Metrics[1].Values = scope, ofCPUs(n)
		}, n[0], n[1])
	}
	bound(t, legal, "metrics", func(b *CounterBatch, n int) { b.Metrics = fullBatch(n, 3).Metrics }, goodMetricLen,
		badMetricLen)
	bound(t, legal, "metrics.name", func(b *CounterBatch, v string) { b.Metrics[1].Name = v }, nil,
		[]string{legal().Metrics[0].Name})
	bound(t, legal, "cpus", func(b *CounterBatch, v []int32) { b.Cpus, b.Metrics = v, b.Metrics[1:] },
		[][]int32{nil, {0}, {math.MaxInt32, 0}, cpusUpTo(65536)}, [][]int32{cpusUpTo(65537)})
}

// TestLimitsOfReported: a record names at most 16 metrics that the job reported. Each of them is its own, of the node.
func TestLimitsOfReported(t *testing.T) {
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("r%02d", i))
		}
		return all
	}
	good := [][]string{nil, {"r03"}, names(16), {"r00", "r16"}}
	bad := [][]string{names(17), {"other"}, {"r01", "r00"}, {"r00", "r00"}, {""}, {"of_cores"}}
	bound(t, func() *CounterBatch {
		b := &CounterBatch{NodeHeader: goodNodeSummary().NodeHeader, Metrics: []CounterBatchMetric{
			{"of_cores", "1", ScopeCore, make([]float64, len(goodNodeSummary().Cpus))},
		}}
		for _, name := range names(17) {
			b.Metrics = append(b.Metrics, CounterBatchMetric{name, "", ScopeNode, []float64{1}})
		}
		return b
	}, "reported", func(b *CounterBatch, v []string) { b.Reported = v }, good, bad)
	bound(t, func() *NodeSummary {
		s := &NodeSummary{NodeHeader: goodNodeSummary().NodeHeader}
		for _, name := range append(names(17), "of_cores") {
			scope := ScopeNode
			if name == "of_cores" {
				scope = ScopeCore
			}
			m := JobSummaryMetric{Name: name, Scope: scope, Invalid: 1}
			s.Metrics = append(s.Metrics, NodeSummaryMetric{JobSummaryMetric: m})
		}
		return s
	}, "reported", func(s *NodeSummary, v []string) { s.Reported = v }, good, bad)
}

func TestLimitsOfNodeSummary(t *testing.T) {
	sent(t, goodNodeSummary, func(s *NodeSummary) *NodeHeader { return &s.NodeHeader })
	bound(t, goodNodeSummary, "metrics", func(s *NodeSummary, n int) { s.Metrics = fullSummary(n).Metrics },
		goodMetricLen, badMetricLen)
	bound(t, goodNodeSummary, "node", func(s *NodeSummary, v string) { s.Node, s.Metrics = v, nil }, goodNames,
		badNames)
	bound(t, goodNodeSummary, "metrics.low_node", func(s *NodeSummary, v string) { s.Node = v }, nil, []string{"n18"})
	first := func(s *NodeSummary) *JobSummaryMetric { return &s.Metrics[0].JobSummaryMetric }
	measured(t, goodNodeSummary, func(s *NodeSummary) (name, unit, scope *string) {
		m := first(s)
		return &m.Name, &m.Unit, &m.Scope
	})
	reduced(t, goodNodeSummary, first)
	bound(t, goodNodeSummary, "metrics.name", func(s *NodeSummary, name string) {
		s.Metrics = append(s.Metrics, s.Metrics[0])
		s.Metrics[1].Name = name
	}, []string{"other"}, []string{"ipc"})

	// How many values there are, on how many nodes, and how many belong.
	type counts struct {
		scope          string
		count, invalid int64
		nodes          int32
	}
	set := func(s *NodeSummary, c counts) {
		m := first(s)
		m.Scope, m.Count, m.Invalid, m.Nodes = c.scope, c.count, c.invalid, c.nodes
		s.Metrics[0].Certified = Certified{}
		if c.count == 0 {
			m.Mean, m.Deciles = nil, nil
		}
	}
	bound(t, goodNodeSummary, "metrics.nodes", set, nil, []counts{
		{ScopeCore, 3, 0, 0},
		{ScopeCore, 3, 0, 2},
		{ScopeCore, 0, 3, 1},
		{ScopeCore, 0, 3, 2},
		{ScopeCore, 3, 0, math.MaxInt32},
	})
	bound(t, goodNodeSummary, "metrics.count", set, []counts{
		{ScopeCore, 3, 0, 1},
		{ScopeCore, 2, 1, 1},
		{ScopeCore, 1, 0, 1},
		{ScopeCore, 0, 3, 0},
		{ScopeCore, 0, 0, 0},
		{ScopeNode, 1, 0, 1},
		{ScopeNode, 0, 1, 0},
		{ScopeNode, 0, 0, 0},
		{ScopeJob, 1, 0, 1},
		{ScopeJob, 0, 1, 0},
		{ScopeSocket, 3, 1, 1},
		{ScopeGPU, 3, 1021, 1},
		{ScopeGPU, 0, 1024, 0},
	}, []counts{
		{ScopeCore, 4, 0, 1},
		{ScopeCore, 3, 1, 1},
		{ScopeCore, 2, 2, 1},
		{ScopeCore, 0, 4, 0},
		{ScopeNode, 1, 1, 1},
		{ScopeNode, 2, 0, 1},
		{ScopeNode, 0, 2, 0},
		{ScopeJob, 1, 1, 1},
		{ScopeJob, 0, 2, 0},
		{ScopeSocket, 3, 1022, 1},
		{ScopeGPU, 0, 1025, 0},
		{ScopeCore, 4, math.MinInt64, 1},
		{ScopeCore, math.MaxInt64, 0, 1},
	})
}

// TestNodeSummaryAgreesWithItself: a row of the archive is made of what the node says, so what contradicts itself is
// refused. What certified is worth is judged where it is merged.
func TestNodeSummaryAgreesWithItself(t *testing.T) {
	set := func(s *NodeSummary, change func(m *NodeSummaryMetric)) { change(&s.Metrics[0]) }
	type changes = []func(m *NodeSummaryMetric)
	bound(t, goodNodeSummary, "metrics.low_node", set,
		changes{func(m *NodeSummaryMetric) { m.LowNode, m.HighNode = nil, nil }},
		changes{
			func(m *NodeSummaryMetric) { m.LowNode = new("n1") },
			func(m *NodeSummaryMetric) { m.HighNode = new("n1") },
		})
	bound(t, goodNodeSummary, "metrics.rank_error", set,
		changes{
			func(m *NodeSummaryMetric) { m.RankError = nil },
			func(m *NodeSummaryMetric) { m.RankError = new(math.Copysign(0, -1)) },
		},
		changes{
			func(m *NodeSummaryMetric) { m.RankError = new(1e-300) }, func(m *NodeSummaryMetric) { m.Lo = m.Deciles },
			func(m *NodeSummaryMetric) { m.Hi = m.Deciles },
			func(m *NodeSummaryMetric) { m.Lo, m.Hi = m.Deciles, m.Deciles },
		})
	bound(t, goodNodeSummary, "metrics.mean", set,
		changes{func(m *NodeSummaryMetric) { m.Mean = new(1.0) }, func(m *NodeSummaryMetric) { m.Mean = new(3.0) }},
		changes{
			func(m *NodeSummaryMetric) { m.Mean = new(math.Nextafter(1, 0)) },
			func(m *NodeSummaryMetric) { m.Mean = new(math.Nextafter(3, 4)) },
		})
	ends := func(first, last float64) func(m *NodeSummaryMetric) {
		return func(m *NodeSummaryMetric) {
			m.Mean = new(2.0)
			d := slices.Clone(*m.Deciles)
			d[0], d[10] = first, last
			m.Deciles = &d
		}
	}
	knots := func(change func(m *NodeSummaryMetric), of ...Knot) func(m *NodeSummaryMetric) {
		return func(m *NodeSummaryMetric) {
			m.Certified = Certified{Knots: of}
			change(m)
		}
	}
	both := func(change func(m *NodeSummaryMetric), c Certified) func(m *NodeSummaryMetric) {
		return func(m *NodeSummaryMetric) {
			m.Certified = c
			change(m)
		}
	}
	statistics := Certified{OrderStatistics: []float64{1, 2, 3}, Knots: []Knot{{9, 1}, {10, 3}}}
	disordered := Certified{OrderStatistics: []float64{1, 0.5, 9}}
	bound(t, goodNodeSummary, "metrics.deciles", set, changes{
		knots(ends(1, 3), Knot{1, 1}, Knot{3, 3}), knots(ends(1, 3), Knot{1, 1}, Knot{2, 2}, Knot{3, 3}),
		knots(ends(0, 9)), // nothing is known
		// the ends are not among them
		knots(ends(0, 9), Knot{1, 2}, Knot{3, 3}), knots(ends(0, 9), Knot{1, 1}, Knot{3, 2}),
		both(ends(1, 3), statistics), both(ends(0, 9), disordered),
		both(ends(0, 9), Certified{Atoms: []Atom{{1, 1}, {3, 1}}}),
		both(ends(0, 9), Certified{Atoms: []Atom{{1, 1}, {3, 3}}}),
		both(ends(1, 3), Certified{Atoms: []Atom{{1, 1}, {3, 2}}, OrderStatistics: []float64{7, 8}}),
	}, changes{
		ends(0, 3), ends(1, 4), ends(0, 4), knots(ends(0, 3), Knot{1, 1}, Knot{3, 3}),
		knots(ends(1, 4), Knot{1, 1}, Knot{3, 3}),
		both(ends(0, 3), statistics), both(ends(1, 4), statistics),
		both(ends(0, 3), Certified{Atoms: []Atom{{1, 1}, {3, 2}}}),
	})
	// From ten values on, the deciles lie between their order statistics.
	ten := func() *NodeSummary {
		s := goodNodeSummary()
		s.Cpus = cpusUpTo(10)
		m := &s.Metrics[0]
		m.Count, m.Mean, m.Deciles = 10, new(5.0), &[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
		m.Certified = Certified{OrderStatistics: slices.Clone(*m.Deciles)}
		return s
	}
	decile := func(k int, v float64) func(m *NodeSummaryMetric) {
		return func(m *NodeSummaryMetric) { (*m.Deciles)[k] = v }
	}
	statistic := func(k int, v float64) func(m *NodeSummaryMetric) {
		return func(m *NodeSummaryMetric) { m.Certified.OrderStatistics[k] = v }
	}
	bound(t, ten, "metrics.deciles", set, changes{
		decile(1, 2.5), decile(1, 3), decile(9, 11), statistic(5, 5.5),
		func(m *NodeSummaryMetric) { (*m.Deciles)[5], m.Count = 5.5, 9 }, // of fewer values, nothing follows
		func(m *NodeSummaryMetric) { (*m.Deciles)[1], m.Certified.OrderStatistics = 1, []float64{1, 11} },
	}, changes{
		decile(1, math.Nextafter(2, 0)), decile(1, math.Nextafter(3, 4)), decile(9, 9.5), statistic(10, 12),
		statistic(0, 0),
		statistic(5, 6.5), func(m *NodeSummaryMetric) { (*m.Deciles)[8], (*m.Deciles)[9] = 10.5, 10.5 },
	})
}

// reduced are the numbers of every summary of a metric. They are a legal metric's, of three values.
func reduced[R Record](t *testing.T, legal func() R, of func(r R) *JobSummaryMetric) {
	t.Helper()
	nan, inf := math.NaN(), math.Inf(1)
	wrong := []float64{nan, inf, -inf}
	for field, set := range map[string]func(m *JobSummaryMetric, v *float64){
		"mean":        func(m *JobSummaryMetric, v *float64) { m.Mean = v },
		"stddev":      func(m *JobSummaryMetric, v *float64) { m.Stddev = v },
		"node_stddev": func(m *JobSummaryMetric, v *float64) { m.NodeStddev = v },
		"rank_error":  func(m *JobSummaryMetric, v *float64) { m.RankError = v },
	} {
		refused := wrong
		switch field {
		case "stddev", "node_stddev":
			refused = append([]float64{-math.SmallestNonzeroFloat64, -1}, wrong...)
		case "rank_error":
			refused = append([]float64{-math.SmallestNonzeroFloat64, math.Nextafter(1, 2)}, wrong...)
		}
		bound(t, legal, "metrics."+field, func(r R, v float64) { set(of(r), &v) }, nil, refused)
	}
	absent := map[string]func(m *JobSummaryMetric){
		"no mean":              func(m *JobSummaryMetric) { m.Mean = nil },
		"no deciles":           func(m *JobSummaryMetric) { m.Deciles = nil },
		"neither":              func(m *JobSummaryMetric) { m.Mean, m.Deciles = nil, nil },
		"no values":            func(m *JobSummaryMetric) { m.Count = 0 },
		"deciles of no values": func(m *JobSummaryMetric) { m.Count, m.Mean = 0, nil },
	}
	for name, change := range absent {
		r := legal()
		if name != "deciles of no values" { // which alone contradict nothing
			change(of(r))
			refuses(t, r, "metrics.mean", name)
		}
	}
	eleven := []float64{-math.MaxFloat64, 0, 0, 0, 0, 0, 0, 0, 0, 0, math.MaxFloat64}
	changed := func(at int, v float64) []float64 {
		c := slices.Clone(eleven)
		c[at] = v
		return c
	}
	lists := [][]float64{
		{},
		eleven[:10], append(changed(0, 0), math.MaxFloat64), changed(0, nan), changed(0, -inf),
		changed(10, inf), changed(5, -1), changed(9, nan),
	}
	bound(t, legal, "metrics.deciles", func(r R, v []float64) { of(r).Deciles = &v }, nil, lists)
	bound(t, legal, "metrics.lo", func(r R, v []float64) { of(r).Lo = &v }, nil, lists)
	bound(t, legal, "metrics.hi", func(r R, v []float64) { of(r).Hi = &v }, nil, lists)
	bound(t, legal, "metrics.count", func(r R, v int64) { of(r).Count = v }, nil, []int64{-1, 1<<60 + 1, math.MaxInt64})
	bound(t, legal, "metrics.count", func(r R, v int64) { of(r).Invalid = v }, nil,
		[]int64{-1, 1<<60 + 1, math.MaxInt64})
	bound(t, legal, "metrics.count", func(r R, v int32) { of(r).Nodes = v }, nil, negative)
}

func TestLimitsOfJobSummary(t *testing.T) {
	legal := func() *JobSummary { return samples()[7].(*JobSummary) }
	first := func(s *JobSummary) *JobSummaryMetric { return &s.Metrics[0] }
	placed(t, legal, func(s *JobSummary) (*int64, *int64) { return &s.IntervalStart, &s.IntervalMs })
	owned(t, legal, func(s *JobSummary) (*string, *string, *int32) { return &s.Cluster, &s.JobID, &s.Restart })
	bound(t, legal, "job_id", func(s *JobSummary, v string) { s.JobID = v }, []string{JobSystem}, nil)
	measured(t, legal, func(s *JobSummary) (name, unit, scope *string) {
		m := first(s)
		return &m.Name, &m.Unit,
			&m.Scope
	})
	reduced(t, legal, first)
	bound(t, legal, "method", func(s *JobSummary, v string) { s.Method = v },
		[]string{MethodNode, MethodExact, MethodEstimated}, []string{"", "exact", "SOMEHOW"})
	for _, set := range []func(s *JobSummary, v int32){
		func(s *JobSummary, v int32) { s.Parts = v }, func(s *JobSummary, v int32) { s.PartsReported = v },
		func(s *JobSummary, v int32) { s.NodesExpected = v }, func(s *JobSummary, v int32) { s.NodesReported = v },
	} {
		bound(t, legal, "parts", set, natural, negative)
	}
	ofMetric := func(set func(m *JobSummaryMetric, v float64)) func(s *JobSummary, v float64) {
		return func(s *JobSummary, v float64) { set(first(s), v) }
	}
	most := []float64{0, math.MaxFloat64, math.SmallestNonzeroFloat64}
	bound(t, legal, "metrics.mean", ofMetric(func(m *JobSummaryMetric, v float64) { m.Mean = &v }),
		append(most, -math.MaxFloat64), nil)
	bound(t, legal, "metrics.stddev", ofMetric(func(m *JobSummaryMetric, v float64) { m.Stddev = &v }), most, nil)
	bound(t, legal, "metrics.node_stddev", ofMetric(func(m *JobSummaryMetric, v float64) { m.NodeStddev = &v }), most,
		nil)
	bound(t, legal, "metrics.rank_error", ofMetric(func(m *JobSummaryMetric, v float64) { m.RankError = &v }),
		[]float64{0, 0.5, 1}, nil)
	bound(t, legal, "metrics.count", func(s *JobSummary, v int64) { first(s).Count, first(s).Invalid = v, v },
		[]int64{1, 1 << 60}, nil)
	bound(t, legal, "metrics.count", func(s *JobSummary, v int32) { first(s).Nodes = v }, natural, nil)
	bound(t, legal, "metrics.low_node", func(s *JobSummary, v string) { first(s).LowNode = &v }, goodNames, badNames)
	bound(t, legal, "metrics.low_node", func(s *JobSummary, v string) { first(s).HighNode = &v }, goodNames, badNames)
	for field, of := range map[string]func(m *JobSummaryMetric) (node **string, mean **float64){
		"metrics.low_node_mean": func(m *JobSummaryMetric) (**string, **float64) { return &m.LowNode, &m.LowNodeMean },
		"metrics.high_node_mean": func(m *JobSummaryMetric) (**string, **float64) {
			return &m.HighNode, &m.HighNodeMean
		},
	} {
		bound(t, legal, field, func(s *JobSummary, v float64) { _, mean := of(first(s)); *mean = &v },
			append(most, -math.MaxFloat64), []float64{math.NaN(), math.Inf(1), math.Inf(-1)})
		bound(t, legal, field, func(s *JobSummary, v *float64) { node, mean := of(first(s)); *node, *mean = nil, v },
			[]*float64{nil}, []*float64{new(0.5)}) // a mean is a node's
		bound(t, legal, field, func(s *JobSummary, v *float64) { _, mean := of(first(s)); *mean = v },
			[]*float64{nil}, nil) // an older writer
	}
	bound(t, legal, "metrics.name", func(s *JobSummary, v string) { s.Metrics[1].Name = v }, nil, []string{"ipc"})
	many := func(s *JobSummary, n int) {
		s.Metrics = nil
		for _, name := range shortNames(n) {
			s.Metrics = append(s.Metrics, JobSummaryMetric{Name: name, Scope: ScopeNode})
		}
	}
	bound(t, legal, "metrics", many, goodMetricLen, badMetricLen)
}

func legalPartial() *JobPartial {
	p := samples()[9].(*JobPartial)
	p.Metrics[0].Certified = Certified{Atoms: []Atom{{1, 3}}}
	return p
}

func TestLimitsOfJobPartial(t *testing.T) {
	first := func(p *JobPartial) *JobPartialMetric { return &p.Metrics[0] }
	placed(t, legalPartial, func(p *JobPartial) (*int64, *int64) { return &p.IntervalStart, &p.IntervalMs })
	owned(t, legalPartial, func(p *JobPartial) (*string, *string, *int32) { return &p.Cluster, &p.JobID, &p.Restart })
	bound(t, legalPartial, "job_id", func(p *JobPartial, v string) { p.JobID = v }, []string{JobSystem}, nil)
	measured(t, legalPartial, func(p *JobPartial) (name, unit, scope *string) {
		m := first(p)
		return &m.Name, &m.Unit, &m.Scope
	})
	bound(t, legalPartial, "collector", func(p *JobPartial, v int32) { p.Collector = v }, natural, negative)
	bound(t, legalPartial, "collector", func(p *JobPartial, v int32) { p.Parts = v }, []int32{1, 10_000},
		[]int32{0, -1, 10_001})
	type nodes struct{ reported, expected, job int32 }
	bound(t, legalPartial, "collector", func(p *JobPartial, v nodes) {
		p.NodesReported, p.NodesExpected, p.JobNodes = v.reported, v.expected, v.job
	},
		[]nodes{{0, 0, 0}, {0, 5, 5}, {5, 5, 5}, {5, 5, 1 << 22}, {1 << 22, 1 << 22, 1 << 22}},
		[]nodes{
			{-1, 0, 0},
			{1, 0, 1},
			{2, 1, 5},
			{0, 6, 5},
			{0, -1, 0},
			{5, 5, 1<<22 + 1},
			{0, 0, math.MaxInt32},
			{0, 0, -1},
		})

	const most = 1_000_000_000_000
	type counts struct {
		count, invalid int64
		nodes          int32
		means          int64
	}
	bound(t, legalPartial, "metrics.count", func(p *JobPartial, v counts) {
		m := first(p)
		m.Count, m.Invalid, m.Nodes, m.NodeMeans = v.count, v.invalid, v.nodes, v.means
	}, []counts{
		{1, 0, 1, 1}, {most, most, 1 << 22, most}, {5, 0, 5, 0}, {5, 0, 0, 0},
	}, []counts{
		{-1, 0, 0, 0},
		{most + 1, 0, 1, 1},
		{5, -1, 1, 1},
		{5, most + 1, 1, 1},
		{5, 0, -1, 1},
		{5, 0, 6, 1},
		{most, 0, 1<<22 + 1, 1},
		{5, 0, 1, -1},
		{5, 0, 1, most + 1},
	})
	moments := map[string]func(m *JobPartialMetric) **float64{
		"mean":           func(m *JobPartialMetric) **float64 { return &m.Mean },
		"m2":             func(m *JobPartialMetric) **float64 { return &m.M2 },
		"node_mean":      func(m *JobPartialMetric) **float64 { return &m.NodeMean },
		"node_m2":        func(m *JobPartialMetric) **float64 { return &m.NodeM2 },
		"low_node_mean":  func(m *JobPartialMetric) **float64 { return &m.LowNodeMean },
		"high_node_mean": func(m *JobPartialMetric) **float64 { return &m.HighNodeMean },
	}
	for field, of := range moments {
		set := func(p *JobPartial, v *float64) { *of(first(p)) = v }
		bound(t, legalPartial, "metrics.mean", set, nil,
			[]*float64{nil, new(math.NaN()), new(math.Inf(1)), new(math.Inf(-1))})
		none := func(p *JobPartial, v *float64) { *of(&p.Metrics[1]) = v } // a metric without values
		bound(t, legalPartial, "metrics.mean", none, nil, []*float64{new(0.0), new(math.NaN())})
		if strings.HasSuffix(field, "m2") {
			bound(t, legalPartial, "metrics.m2", set, []*float64{new(0.0), new(math.MaxFloat64)},
				[]*float64{new(-math.SmallestNonzeroFloat64), new(-1.0)})
		}
	}
	type extremes struct{ low, high float64 }
	bound(t, legalPartial, "metrics.low_node_mean",
		func(p *JobPartial, v extremes) { first(p).LowNodeMean, first(p).HighNodeMean = &v.low, &v.high },
		[]extremes{{1, 1}, {-math.MaxFloat64, math.MaxFloat64}}, []extremes{{math.Nextafter(1, 2), 1}, {5, -5}})
	for _, of := range []func(m *JobPartialMetric) **string{
		func(m *JobPartialMetric) **string { return &m.LowNode },
		func(m *JobPartialMetric) **string { return &m.HighNode },
	} {
		bound(t, legalPartial, "metrics.low_node", func(p *JobPartial, v string) { *of(first(p)) = &v }, goodNames,
			badNames)
		bound(t, legalPartial, "metrics.low_node", func(p *JobPartial, v *string) { *of(first(p)) = v }, nil,
			[]*string{nil})
		bound(t, legalPartial, "metrics.low_node", func(p *JobPartial, v *string) { *of(&p.Metrics[1]) = v }, nil,
			[]*string{new("n1")})
	}
	bound(t, legalPartial, "metrics.name", func(p *JobPartial, v [3]string) {
		m := &p.Metrics[1]
		m.Name, m.Unit, m.Scope = v[0], v[1], v[2]
	}, [][3]string{{"ipc", "W", ScopeCore}, {"ipc", "1", ScopeNode}}, [][3]string{{"ipc", "1", ScopeCore}})
	bound(t, legalPartial, "metrics", func(p *JobPartial, n int) {
		p.Metrics = nil
		for _, name := range shortNames(n) {
			p.Metrics = append(p.Metrics, JobPartialMetric{Name: name, Scope: ScopeCore})
		}
	}, goodMetricLen, badMetricLen)
	bound(t, legalPartial, "shared", func(p *JobPartial, v string) { p.Shared[1].Node = v }, goodNames,
		append([]string{"n1"}, badNames...))
}

func TestLimitsOfPlans(t *testing.T) {
	tick := func() *Tick {
		return &Tick{
			1_700_000_010_000, 10_000, 3,
			[]TickJob{{"1", 0, 1, 2, []string{"n1", "n2"}}, {"1", 1, 1, 1, nil}},
			[]string{"n1", "n2"},
			true, 2,
		}
	}
	bound(t, tick, "machine_nodes", func(k *Tick, v int32) { k.MachineNodes = v }, []int32{0, 1, 1 << 22},
		[]int32{-1, 1<<22 + 1})
	placed(t, tick, func(k *Tick) (*int64, *int64) { return &k.IntervalStart, &k.IntervalMs })
	bound(t, tick, "epoch", func(k *Tick, v int64) { k.Epoch = v }, goodEpochs, badEpochs)
	bound(t, tick, "job_id", func(k *Tick, v string) { k.Jobs[0].JobID = v }, goodJobs, badJobs)
	bound(t, tick, "restart", func(k *Tick, v int32) { k.Jobs[0].Restart = v }, []int32{0, 2, math.MaxInt32}, negative)
	bound(t, tick, "jobs", func(k *Tick, v string) { k.Jobs[0].JobID = v }, nil, []string{JobSystem})
	bound(t, tick, "jobs", func(k *Tick, v int32) { k.Jobs[0].Restart = v }, nil, []int32{1}) // there already
	bound(t, tick, "jobs", func(k *Tick, v int32) { k.Jobs[0].Parts = v }, []int32{0, 10_000},
		[]int32{-1, 10_001, math.MaxInt32})
	bound(t, tick, "jobs", func(k *Tick, v int32) { k.Jobs[0].JobNodes = v }, []int32{2, 1 << 22},
		[]int32{1, 0, -1, 1<<22 + 1})
	bound(t, tick, "jobs.nodes", func(k *Tick, v string) { k.Jobs[0].Nodes[0] = v }, goodNames,
		append([]string{"n2"}, badNames...))
	bound(t, tick, "shared", func(k *Tick, v string) { k.Shared[0] = v }, goodNames,
		append([]string{"n2"}, badNames...))

	route := func() *Route {
		return &Route{
			"n17", 3, 1_700_000_010_001, 2,
			[]RouteEntry{
				{"1", 0, nil, 0, ModeLocal, nil, ""},
				{"4711", 1, []int32{0, 1}, 5, ModeCollect, []int32{2}, "job_4711"},
			},
		}
	}
	last := func(r *Route) *RouteEntry { return &r.Entries[1] }
	bound(t, route, "node", func(r *Route, v string) { r.Node = v }, goodNames, badNames)
	bound(t, route, "epoch", func(r *Route, v int64) { r.Epoch = v }, goodEpochs, badEpochs)
	bound(t, route, "interval_start", func(r *Route, v int64) { r.IntervalStart = v }, goodTimes, badTimes)
	bound(t, route, "home", func(r *Route, v int32) { r.Home = v }, natural, negative)
	bound(t, route, "entries.job_id", func(r *Route, v string) { last(r).JobID = v }, []string{"a", x64},
		append([]string{JobRest, JobSystem}, badJobs...))
	bound(t, route, "entries.job_id", func(r *Route, v int32) { last(r).Restart = v }, natural, negative)
	bound(t, route, "entries.partition", func(r *Route, v int32) { last(r).Partition = v }, natural, negative)
	bound(t, route, "entries.mode", func(r *Route, v string) { last(r).Mode = v }, []string{ModeLocal, ModeCollect},
		[]string{"", "local", "DROP"})
	bound(t, route, "entries.cpus", func(r *Route, v []int32) { last(r).Cpus = v },
		[][]int32{nil, {0}, cpusUpTo(65536)}, [][]int32{{0, -1}, {math.MinInt32}, cpusUpTo(65537)})
	bound(t, route, "entries.gpus", func(r *Route, v []int32) { last(r).Gpus = v },
		[][]int32{nil, {0}, {3, 1023}, cpusUpTo(1024)}, [][]int32{{0, -1}, {math.MinInt32}, cpusUpTo(1025)})
	bound(t, route, "entries.cgroup", func(r *Route, v string) { last(r).Cgroup = v },
		append([]string{"", "job_123", "s5K1KKYAYG5D00"}, goodNames...),
		slices.DeleteFunc(slices.Clone(badNames), func(v string) bool { return v == "" }))

	state := func() *BalanceState { return &BalanceState{3, 1_700_000_010_000, 10_000} }
	placed(t, state, func(s *BalanceState) (*int64, *int64) { return &s.IntervalStart, &s.IntervalMs })
	bound(t, state, "epoch", func(s *BalanceState, v int64) { s.Epoch = v }, goodEpochs, badEpochs)

	trigger := func() *Trigger { return &Trigger{"c1", 1_700_000_010_000, 10_000, 1_700_000_010_001} }
	placed(t, trigger, func(r *Trigger) (*int64, *int64) { return &r.IntervalStart, &r.IntervalMs })
	bound(t, trigger, "cluster", func(r *Trigger, v string) { r.Cluster = v }, goodNames, badNames)
	bound(t, trigger, "sent_at", func(r *Trigger, v int64) { r.SentAt = v }, goodTimes, badTimes)

	order := func() *TopologyOrder {
		return &TopologyOrder{"c1", 1_700_000_010_001, "admin1:7117", make([]byte, 16), 600, []string{"n1", "n2"}}
	}
	bound(t, order, "cluster", func(o *TopologyOrder, v string) { o.Cluster = v }, goodNames, badNames)
	bound(t, order, "ordered_at", func(o *TopologyOrder, v int64) { o.OrderedAt = v }, goodTimes, badTimes)
	bound(t, order, "coordinator", func(o *TopologyOrder, v string) { o.Coordinator = v },
		[]string{"a:1", "10.0.0.1:65535", "[fe80::1]:7117", "admin.site.org:80", strings.Repeat("x", 253) + ":1"},
		[]string{"", "a", ":1", "a:0", "a:65536", "a:-1", "a:http", "a:b:1", "a\n:1", strings.Repeat("x", 254) + ":1"})
	bound(t, order, "secret", func(o *TopologyOrder, v []byte) { o.Secret = v },
		[][]byte{make([]byte, 16), make([]byte, 64)}, [][]byte{nil, make([]byte, 15), make([]byte, 65)})
	bound(t, order, "seconds", func(o *TopologyOrder, v int64) { o.Seconds = v }, []int64{1, 86400},
		[]int64{math.MinInt64, -1, 0, 86401, math.MaxInt64})
	bound(t, order, "nodes", func(o *TopologyOrder, v []string) { o.Nodes = v }, [][]string{nil, {"n1"}, {x64, "b"}},
		[][]string{{""}, {"a b"}, {"n1", "n2", "n1"}})

	mark := func() *Watermark { return &Watermark{5, 1_700_000_010_000, 10_000} }
	placed(t, mark, func(w *Watermark) (*int64, *int64) { return &w.IntervalStart, &w.IntervalMs })
	bound(t, mark, "collector", func(w *Watermark, v int32) { w.Collector = v }, natural, negative)
}

// TestLimitsOfFacts: a record about a node cannot carry numbers that no node has, or texts that harm a terminal.
func TestLimitsOfFacts(t *testing.T) {
	facts := func() *NodeFacts {
		return &NodeFacts{
			Cluster: "c1", Node: "n17", Source: FactsAgent, Gpus: make([]NodeGPU, 2), Nics: make([]NodeNIC, 2),
		}
	}
	shorts, longs := []string{"", "AMD EPYC 7763", strings.Repeat("x", 128)},
		[]string{strings.Repeat("x", 129), "a\n", "\x1b[2J", "\xff"}
	bound(t, facts, "cluster", func(f *NodeFacts, v string) { f.Cluster = v }, goodNames, badNames)
	bound(t, facts, "node", func(f *NodeFacts, v string) { f.Node = v }, goodNames, badNames)
	bound(t, facts, "source", func(f *NodeFacts, v string) { f.Source = v }, []string{FactsAgent, FactsSlurm},
		[]string{"", "agent", "ROOT"})
	bound(t, facts, "read_at", func(f *NodeFacts, v int64) { f.ReadAt = v }, goodTimes, badTimes)
	for field, set := range map[string]func(f *NodeFacts, v string){
		"version": func(f *NodeFacts, v string) { f.Version = v },
		"kernel":  func(f *NodeFacts, v string) { f.Kernel = v }, "boot_id": func(f *NodeFacts, v string) { f.BootID = v },
		"cpu_model":        func(f *NodeFacts, v string) { f.CPUModel = v },
		"peak_flops_from":  func(f *NodeFacts, v string) { f.PeakFlopsFrom = v },
		"peak_mem_bw_from": func(f *NodeFacts, v string) { f.PeakMemBWFrom = v },
		"gpus.model":       func(f *NodeFacts, v string) { f.Gpus[1].Model = v },
		"nics.name":        func(f *NodeFacts, v string) { f.Nics[1].Name = v },
	} {
		bound(t, facts, field, set, shorts, longs)
	}
	bound(t, facts, "cpus", func(f *NodeFacts, v int32) { f.CPUs = v }, []int32{0, 1, 65536}, []int32{-1, 65537})
	bound(t, facts, "threads_per_core", func(f *NodeFacts, v int32) { f.ThreadsPerCore = v }, []int32{0, 64},
		[]int32{-1, 65, math.MinInt32})
	bound(t, facts, "sockets", func(f *NodeFacts, v int32) { f.Sockets = v }, []int32{0, 1024}, []int32{-1, 1025})
	bound(t, facts, "numa_nodes", func(f *NodeFacts, v int32) { f.NumaNodes = v }, []int32{0, 1024}, []int32{-1, 1025})
	bytes, tooMany := []int64{0, 1, 1 << 60}, []int64{-1, math.MinInt64, 1<<60 + 1, math.MaxInt64}
	bound(t, facts, "memory", func(f *NodeFacts, v int64) { f.Memory = v }, bytes, tooMany)
	bound(t, facts, "gpus.memory", func(f *NodeFacts, v int64) { f.Gpus[1].Memory = v }, bytes, tooMany)
	bound(t, facts, "nics.rate", func(f *NodeFacts, v int64) { f.Nics[1].Rate = v }, []int64{0, 1e15},
		[]int64{-1, 1e15 + 1, math.MaxInt64})
	peaks, notPeaks := []float64{0, 1, 1e18}, []float64{-1, 1.01e18, math.NaN(), math.Inf(1), math.Inf(-1)}
	bound(t, facts, "peak_flops", func(f *NodeFacts, v float64) { f.PeakFlops = v }, peaks, notPeaks)
	bound(t, facts, "peak_mem_bw", func(f *NodeFacts, v float64) { f.PeakMemBW = v }, peaks, notPeaks)
	bound(t, facts, "gpus", func(f *NodeFacts, n int) { f.Gpus = make([]NodeGPU, n) }, []int{0, 1024}, []int{1025})
	bound(t, facts, "nics", func(f *NodeFacts, n int) { f.Nics = make([]NodeNIC, n) }, []int{0, 256}, []int{257})
}

func TestLimitsOfReports(t *testing.T) {
	progress := func() *Progress {
		return &Progress{From: 1, Position: 9, Hold: 4, Loads: []JobLoad{{"1", 0, 1, 1}, {"4711", 1, 12, 60_000}}}
	}
	type positions struct{ from, hold, position int64 }
	bound(t, progress, "position", func(p *Progress, v positions) {
		p.From, p.Hold, p.Position = v.from, v.hold,
			v.position
	}, []positions{
		{0, 0, 0}, {5, 0, 5}, {0, 5, 5}, {0, 0, math.MaxInt64}, {math.MaxInt64, math.MaxInt64, math.MaxInt64},
	}, []positions{{-1, 0, 0}, {6, 0, 5}, {0, 6, 5}, {0, -1, 5}, {0, 0, -1}, {math.MinInt64, 0, 0}})
	last := func(p *Progress) *JobLoad { return &p.Loads[1] }
	bound(t, progress, "job_id", func(p *Progress, v string) { last(p).JobID = v },
		append([]string{JobSystem}, goodJobs...), badJobs)
	bound(t, progress, "restart", func(p *Progress, v int32) { last(p).Restart = v }, natural, negative)
	bound(t, progress, "loads", func(p *Progress, v int32) { last(p).Nodes = v }, []int32{1, math.MaxInt32},
		[]int32{0, -1})
	bound(t, progress, "loads", func(p *Progress, v int64) { last(p).Bytes = v }, []int64{0, 1 << 50},
		[]int64{-1, 1<<50 + 1, math.MaxInt64})
	bound(t, progress, "topic_id", func(p *Progress, v string) { p.TopicID = v }, goodUnits, badUnits)
	bound(t, progress, "open", func(p *Progress, v int64) { p.Open = v }, []int64{0, math.MaxInt64},
		[]int64{-1, math.MinInt64})
	bound(t, progress, "stopped", func(p *Progress, v string) { p.Stopped = v }, goodTexts, badTexts)

	gap := func() *Gap { return &Gap{"n17", "r", 1, 2, 12, "ring full"} }
	bound(t, gap, "node", func(g *Gap, v string) { g.Node = v }, goodNames, badNames)
	bound(t, gap, "run_id", func(g *Gap, v string) { g.RunID = v }, goodUnits, badUnits)
	bound(t, gap, "reason", func(g *Gap, v string) { g.Reason = v }, goodTexts, badTexts)
	bound(t, gap, "records", func(g *Gap, v int64) { g.Records = v }, []int64{0, math.MaxInt64},
		[]int64{-1, math.MinInt64})
	bound(t, gap, "first_interval_start", func(g *Gap, v int64) { g.FirstIntervalStart = v }, goodTimes, badTimes)
	bound(t, gap, "last_interval_start", func(g *Gap, v int64) { g.LastIntervalStart = v }, goodTimes, badTimes)

	reject := func() *Reject { return &Reject{"weir.counters", 3, 99, "malformed", "00ff", []byte{0xff}} }
	bound(t, reject, "topic", func(r *Reject, v string) { r.Topic = v }, goodTexts, badTexts)
	bound(t, reject, "reason", func(r *Reject, v string) { r.Reason = v }, goodTexts, badTexts)
	bound(t, reject, "hash", func(r *Reject, v string) { r.Hash = v }, goodUnits, badUnits)
	bound(t, reject, "head", func(r *Reject, v []byte) { r.Head = v }, [][]byte{nil, make([]byte, 1024)},
		[][]byte{make([]byte, 1025)})

	job := func() *Job { return &Job{JobID: "4711", Nodes: []string{"n1", "n2"}, State: StateRunning} }
	bound(t, job, "job_id", func(j *Job, v string) { j.JobID = v }, goodNames, badNames)
	bound(t, job, "nodes", func(j *Job, v string) { j.Nodes[1] = v }, goodNames, badNames)
	for field, of := range map[string]func(j *Job) *string{
		"name": func(j *Job) *string { return &j.Name }, "user": func(j *Job) *string { return &j.User },
		"account": func(j *Job) *string { return &j.Account }, "queue": func(j *Job) *string { return &j.Queue },
		"state": func(j *Job) *string { return &j.State }, "reason": func(j *Job) *string { return &j.Reason },
	} {
		bound(t, job, field, func(j *Job, v string) { *of(j) = v }, goodTexts, badTexts)
	}
	bound(t, job, "cores", func(j *Job, v int64) { j.Cores = &v }, []int64{0, 1 << 38}, []int64{-1, 1<<38 + 1})
	bound(t, job, "gpus", func(j *Job, v int32) { j.Gpus = &v }, []int32{0, math.MaxInt32}, []int32{-1})
	bound(t, job, "time_limit_s", func(j *Job, v int64) { j.TimeLimitS = &v },
		[]int64{0, 1 << 32}, []int64{-1, math.MaxInt64})
	bound(t, job, "mem_requested_bytes", func(j *Job, v int64) { j.MemRequestedBytes = &v },
		[]int64{0, 1 << 60}, []int64{-1, math.MaxInt64})
	bound(t, job, "array_job", func(j *Job, v string) { j.ArrayJob = &v }, goodNames, badNames)
	bound(t, job, "array_task", func(j *Job, v int32) { j.ArrayTask = &v }, natural, negative)
}

func TestLimitsOfFindings(t *testing.T) {
	x1000, jobs := strings.Repeat("x", 1000), append([]string{JobRest, JobSystem}, badJobs...)
	of := func(wanted string) Record {
		all := samples()
		return all[slices.IndexFunc(all, func(r Record) bool { return nameOf(r) == wanted })]
	}
	finding := func() *Finding { return of("weir.v1.Finding").(*Finding) }
	bound(t, finding, "cluster", func(f *Finding, v string) { f.Cluster = v }, goodNames, badNames)
	bound(t, finding, "job_id", func(f *Finding, v string) { f.JobID = v }, []string{"a", x64}, jobs)
	bound(t, finding, "restart", func(f *Finding, v int32) { f.Restart = v }, natural, negative)
	bound(t, finding, "rule", func(f *Finding, v string) { f.Rule = v }, goodNames, badNames)
	bound(t, finding, "rule_hash", func(f *Finding, v string) { f.RuleHash = v }, goodNames, badNames)
	bound(t, finding, "node", func(f *Finding, v string) { f.Node = &v }, goodNames, badNames)
	for field, of := range map[string]func(f *Finding) *string{
		"title": func(f *Finding) *string { return &f.Title }, "hint": func(f *Finding) *string { return &f.Hint },
		"slurm": func(f *Finding) *string { return &f.Slurm },
	} {
		bound(t, finding, field, func(f *Finding, v string) { *of(f) = v }, []string{"", "Größe", x1000},
			[]string{x1000 + "x", "\xff", "a\nb", "\u009b2J", "\x1b[2J"})
	}
	bound(t, finding, "state", func(f *Finding, v string) { f.State = v }, []string{"OPEN", "CLOSED"},
		[]string{"", "open", "SHUT"})
	bound(t, finding, "certainty", func(f *Finding, v string) { f.Certainty = v }, []string{"CERTAIN", "POSSIBLE"},
		[]string{"", "certain"})
	bound(t, finding, "class", func(f *Finding, v string) { f.Class = v }, []string{"LOW", "MED", "HIGH"},
		[]string{"", "Low", "MEDIUM"})
	type severity struct{ mean, worst float64 }
	bound(t, finding, "severity", func(f *Finding, v severity) { f.Severity, f.Worst = v.mean, v.worst },
		[]severity{{0, 0}, {1, 1}, {0, 1}, {0.5, 0.5}},
		[]severity{
			{-0.1, 1},
			{0.5, math.Nextafter(0.5, 0)},
			{0, math.Nextafter(1, 2)},
			{math.NaN(), 1},
			{0, math.NaN()},
			{0, math.Inf(1)},
		})
	for field, of := range map[string]func(f *Finding) *int64{
		"first_interval": func(f *Finding) *int64 { return &f.FirstInterval },
		"last_interval":  func(f *Finding) *int64 { return &f.LastInterval },
		"as_of":          func(f *Finding) *int64 { return &f.AsOf },
	} {
		bound(t, finding, field, func(f *Finding, v int64) { *of(f) = v }, goodTimes, badTimes)
	}
	bound(t, finding, "job_start", func(f *Finding, v int64) { f.JobStart = &v }, goodTimes, badTimes)
	bound(t, finding, "interval_ms", func(f *Finding, v int64) { f.IntervalMs = v }, goodLengths, badLengths)
	type counts struct{ matched, evaluated, intervals int64 }
	bound(t, finding, "intervals",
		func(f *Finding, v counts) {
			f.Matched, f.Evaluated, f.Intervals, f.NodeIntervals = v.matched, v.evaluated, v.intervals, 0
		},
		[]counts{{0, 0, 0}, {1, 2, 3}, {5, 5, 5}, {0, 0, math.MaxInt64}},
		[]counts{{-1, 0, 0}, {2, 1, 5}, {1, 3, 2}, {0, 0, -1}, {0, -1, 5}})
	bound(t, finding, "node_intervals", func(f *Finding, v int64) { f.NodeIntervals = v }, []int64{0, 20},
		[]int64{-1, 21})
	shown := func(n int) []FindingEvidence { return make([]FindingEvidence, n) }
	bound(t, finding, "evidence", func(f *Finding, n int) {
		f.Evidence = shown(n)
		for i := range f.Evidence {
			f.Evidence[i].Name = "m"
		}
	}, []int{0, 1, 16}, []int{17})
	bound(t, finding, "evidence", func(f *Finding, v FindingEvidence) { f.Evidence[0] = v },
		[]FindingEvidence{{"cpu_idle.d9", -math.MaxFloat64, 0, math.MaxFloat64}, {x1000, 2, 1, 0}},
		[]FindingEvidence{
			{"", 0, 0, 0},
			{x1000 + "x", 0, 0, 0},
			{"a\x1b", 0, 0, 0},
			{"m", math.NaN(), 0, 0},
			{"m", 0, math.Inf(1), 0},
			{"m", 0, 0, math.Inf(-1)},
		})
	if k := string(finding().Key()); k != "4711/1/idle-cores" {
		t.Errorf("key %q", k)
	}

	state := func() *FindState { return of("weir.v1.FindState").(*FindState) }
	bound(t, state, "cluster", func(s *FindState, v string) { s.Cluster = v }, goodNames, badNames)
	bound(t, state, "job_id", func(s *FindState, v string) { s.JobID = v }, []string{"a", x64}, jobs)
	bound(t, state, "restart", func(s *FindState, v int32) { s.Restart = v }, natural, negative)
	bound(t, state, "as_of", func(s *FindState, v int64) { s.AsOf = v }, goodTimes, badTimes)
	bound(t, state, "offset", func(s *FindState, v int64) { s.Offset = v }, []int64{0, math.MaxInt64},
		[]int64{-1, math.MinInt64})
	bound(t, state, "state", func(s *FindState, n int) { s.State = make([]byte, n) }, []int{0, 1 << 20},
		[]int{1<<20 + 1})
}

// TestLimitsOfNotices: a record about a message carries no text that breaks a header, and no hours that no machine has.
func TestLimitsOfNotices(t *testing.T) {
	notice := func() *Notice {
		return &Notice{
			Cluster: "c1", JobID: "4711", Channel: ChannelMail, State: NoticeSent, Rule: "idle-cores", Task: "4711",
			Last: "4711", Tasks: 1,
		}
	}
	ids, notIDs := []string{"a", x64}, []string{"", "_rest", "a b", "a\n"}
	bound(t, notice, "cluster", func(n *Notice, v string) { n.Cluster = v }, goodNames, badNames)
	bound(t, notice, "rule", func(n *Notice, v string) { n.Rule = v }, goodNames, badNames)
	bound(t, notice, "job_id", func(n *Notice, v string) { n.JobID = v }, ids, notIDs)
	bound(t, notice, "task", func(n *Notice, v string) { n.Task = v }, ids, notIDs)
	bound(t, notice, "last", func(n *Notice, v string) { n.Last = v }, ids, notIDs)
	bound(t, notice, "restart", func(n *Notice, v int32) { n.Restart = v }, []int32{0, math.MaxInt32}, []int32{-1})
	bound(t, notice, "tries", func(n *Notice, v int32) { n.Tries = v }, []int32{0, math.MaxInt32}, []int32{-1})
	bound(t, notice, "tasks", func(n *Notice, v int64) { n.Tasks = v }, []int64{1, math.MaxInt64}, []int64{0, -1})
	bound(t, notice, "message", func(n *Notice, v string) { n.Message = v }, []string{"", "3f9a6c1e"},
		[]string{"a b", "a\n"})
	bound(t, notice, "channel", func(n *Notice, v string) { n.Channel = v },
		[]string{ChannelMail, ChannelWebhook, ChannelComment}, []string{"", "mail", "SMS"})
	bound(t, notice, "state", func(n *Notice, v string) { n.State = v },
		[]string{NoticeGathering, NoticeWaiting, NoticeSending, NoticeSent, NoticeFailed, NoticeSkipped},
		[]string{"", "sent", "OPEN"})
	for field, most := range map[string]int{
		"user": 4096, "name": 4096, "reason": 4096, "title": 1000, "hint": 1000, "slurm": 1000,
	} {
		set := func(n *Notice, v string) {
			*map[string]*string{
				"user": &n.User, "name": &n.Name, "reason": &n.Reason, "title": &n.Title, "hint": &n.Hint, "slurm": &n.Slurm,
			}[field] = v
		}
		bound(t, notice, field, set, []string{"", "Störung 7", strings.Repeat("x", most)},
			[]string{strings.Repeat("x", most+1), "a\r\nBcc: b@c", "a\n", "\x1b[2J", "\xff"})
	}
	for field, of := range map[string]func(n *Notice) *int64{
		"created":    func(n *Notice) *int64 { return &n.Created },
		"changed":    func(n *Notice) *int64 { return &n.Changed },
		"not_before": func(n *Notice) *int64 { return &n.NotBefore },
		"ended":      func(n *Notice) *int64 { return &n.Ended },
	} {
		bound(t, notice, field, func(n *Notice, v int64) { *of(n) = v }, goodTimes, badTimes)
	}
	for field, of := range map[string]func(n *Notice) *float64{
		"wasted_core_hours": func(n *Notice) *float64 { return &n.WastedCoreHours },
		"wasted_gpu_hours":  func(n *Notice) *float64 { return &n.WastedGPUHours },
		"held_core_hours":   func(n *Notice) *float64 { return &n.HeldCoreHours },
		"held_gpu_hours":    func(n *Notice) *float64 { return &n.HeldGPUHours },
		"last_core_hours":   func(n *Notice) *float64 { return &n.LastCoreHours },
		"last_gpu_hours":    func(n *Notice) *float64 { return &n.LastGPUHours },
	} {
		bound(t, notice, field, func(n *Notice, v float64) { *of(n) = v }, []float64{0, 0.5, 1e12},
			[]float64{-1, 1.01e12, math.NaN(), math.Inf(1)})
	}
	if k := string(notice().Key()); k != "4711/0/MAIL" {
		t.Errorf("key %q", k)
	}
}
