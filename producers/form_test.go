package producers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

func smallSample() *sample {
	return &sample{
		start: 3000, sampledAt: 4000017, cpus: []int32{0, 1, 4, 5},
		columns: []source.Column{
			{Name: "a", Unit: "1", Scope: schemas.ScopeCore, Values: []float64{10, 11, 14, math.NaN()}},
			{Name: "b", Unit: "B", Scope: schemas.ScopeNode, Values: []float64{7}},
		},
	}
}

// sampleOfGPUs is smallSample with two sockets, and with GPUs 0, 1 and 3. GPU 3 lacks a metric. All metrics of GPUs in
// a record are of the same ones, so that they can be compared.
func sampleOfGPUs() *sample {
	s := smallSample()
	s.columns = append(s.columns,
		source.Column{
			Name: "g", Unit: "W", Scope: schemas.ScopeGPU, Rows: []int32{0, 1, 3}, Values: []float64{100, 101, 103},
		},
		source.Column{Name: "h", Unit: "W", Scope: schemas.ScopeGPU, Rows: []int32{0, 1}, Values: []float64{30, 31}},
		source.Column{Name: "p", Unit: "W", Scope: schemas.ScopeSocket, Rows: []int32{0, 1}, Values: []float64{80, 90}},
	)
	return s
}

// holding adds GPUs to an entry.
func holding(e schemas.RouteEntry, gpus ...int32) schemas.RouteEntry {
	e.Gpus = gpus
	return e
}

// TestFormOfGPUs: two jobs of one node have their own CPUs and GPUs, and nobody else's. What no job holds goes with
// _rest, as the values of sockets do.
func TestFormOfGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		entries []schemas.RouteEntry
		want    []sent
		unknown lacking
	}{
		"no job": {
			want: []sent{{"_rest/0", 3, "batch", []int32{0, 1, 4, 5}, []string{
				"a[10 11 14 NaN]", "b[7]", "g[100 101 103]", "h[30 31 NaN]", "p[80 90]",
			}}},
		},
		"the whole node": {
			entries: []schemas.RouteEntry{holding(entry("j", 2, schemas.ModeLocal), 1)}, // it holds them all
			want: []sent{{"j/1", 2, "summary", []int32{0, 1, 4, 5}, []string{
				"a3 1", "b1 0", "g3 0", "h2 1", "p2 0",
			}}},
		},
		"two share the node": {
			entries: []schemas.RouteEntry{
				holding(entry("j", 2, schemas.ModeCollect, 0, 1), 1, 3),
				holding(entry("k", 1, schemas.ModeLocal, 4), 0),
			},
			want: []sent{
				{"j/1", 2, "batch", []int32{0, 1}, []string{"a[10 11]", "g[101 103]", "h[31 NaN]"}},
				{"k/1", 1, "summary", []int32{4}, []string{"a1 0", "g1 0", "h1 0"}},
				{"_rest/0", 3, "batch", []int32{5}, []string{"a[NaN]", "b[7]", "p[80 90]"}},
			},
		},
		"one without GPUs": {
			entries: []schemas.RouteEntry{
				holding(entry("j", 2, schemas.ModeCollect, 0, 1), 3),
				entry("k", 1, schemas.ModeCollect, 4, 5),
			},
			want: []sent{
				{"j/1", 2, "batch", []int32{0, 1}, []string{"a[10 11]", "g[103]", "h[NaN]"}},
				{"k/1", 1, "batch", []int32{4, 5}, []string{"a[14 NaN]"}},
				{"_rest/0", 3, "batch", []int32{}, []string{"b[7]", "g[100 101]", "h[30 31]", "p[80 90]"}},
			},
		},
		"one that the node lacks, out of order and twice": {
			entries: []schemas.RouteEntry{holding(entry("j", 2, schemas.ModeCollect, 5, 1, 9, 5), 7, 1, 1)},
			want: []sent{
				{"j/1", 2, "batch", []int32{1, 5, 9}, []string{"a[11 NaN NaN]", "g[101 NaN]", "h[31 NaN]"}},
				{"_rest/0", 3, "batch", []int32{0, 4}, []string{
					"a[10 14]", "b[7]", "g[100 103]", "h[30 NaN]", "p[80 90]",
				}},
			},
			unknown: lacking{[]int32{9}, []int32{7}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			route := &schemas.Route{Node: "n", Home: 3, Entries: c.entries}
			head := schemas.NodeHeader{Cluster: "c", Node: "n", IntervalMs: 1000}
			items, unknown := form(route, sampleOfGPUs(), head)
			if diff := cmp.Diff(c.want, describe(items)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.unknown, unknown, cmp.AllowUnexported(lacking{})); diff != "" {
				t.Errorf("unknown (-want +got):\n%s", diff)
			}
			for _, it := range items {
				if _, err := schemas.MarshalChecked(it.record(5000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestRouteOfGPUsOnANodeWithoutSource: a node that reads no GPU says nothing of those that a job holds.
func TestRouteOfGPUsOnANodeWithoutSource(t *testing.T) {
	route := &schemas.Route{Node: "n", Entries: []schemas.RouteEntry{holding(entry("j", 2, schemas.ModeCollect, 0), 1)}}
	items, unknown := form(route, smallSample(), schemas.NodeHeader{Cluster: "c", Node: "n", IntervalMs: 1000})
	if got := describe(items)[0].Metrics; len(unknown.gpus) > 0 || len(got) != 1 || got[0] != "a[10]" {
		t.Errorf("%v, %v", got, unknown)
	}
}

func entry(job string, partition int32, mode string, cpus ...int32) schemas.RouteEntry {
	return schemas.RouteEntry{JobID: job, Restart: 1, Cpus: cpus, Partition: partition, Mode: mode}
}

// sent is what of a record the tables below speak of.
type sent struct {
	Job       string
	Partition int32
	Kind      string
	Cpus      []int32
	Metrics   []string
}

func describe(items []item) []sent {
	var all []sent
	for _, it := range items {
		s := sent{Partition: it.partition}
		switch r := it.record(5000).(type) {
		case *schemas.CounterBatch:
			s.Kind, s.Job, s.Cpus = "batch", r.Job().String(), r.Cpus
			for _, m := range r.Metrics {
				s.Metrics = append(s.Metrics, fmt.Sprint(m.Name, m.Values))
			}
		case *schemas.NodeSummary:
			s.Kind, s.Job, s.Cpus = "summary", r.Job().String(), r.Cpus
			for _, m := range r.Metrics {
				s.Metrics = append(s.Metrics, fmt.Sprint(m.Name, m.Count, m.Invalid))
			}
		}
		all = append(all, s)
	}
	return all
}

// header is that of the record of an item.
func header(it item) schemas.NodeHeader {
	switch r := it.record(5000).(type) {
	case *schemas.CounterBatch:
		return r.NodeHeader
	case *schemas.NodeSummary:
		return r.NodeHeader
	}
	return schemas.NodeHeader{}
}

func TestForm(t *testing.T) {
	for name, c := range map[string]struct {
		entries []schemas.RouteEntry
		want    []sent
		unknown []int32
	}{
		"no job": {
			want: []sent{{"_rest/0", 3, "batch", []int32{0, 1, 4, 5}, []string{"a[10 11 14 NaN]", "b[7]"}}},
		},
		"whole node, collected": {
			entries: []schemas.RouteEntry{entry("j", 2, schemas.ModeCollect)},
			want:    []sent{{"j/1", 2, "batch", []int32{0, 1, 4, 5}, []string{"a[10 11 14 NaN]", "b[7]"}}},
		},
		"whole node, reduced": {
			entries: []schemas.RouteEntry{entry("j", 2, schemas.ModeLocal)},
			want:    []sent{{"j/1", 2, "summary", []int32{0, 1, 4, 5}, []string{"a3 1", "b1 0"}}},
		},
		"two share the node": {
			entries: []schemas.RouteEntry{
				entry("j", 2, schemas.ModeCollect, 4, 0),
				entry("k", 1, schemas.ModeLocal, 5),
			},
			want: []sent{
				{"j/1", 2, "batch", []int32{0, 4}, []string{"a[10 14]"}},
				{"k/1", 1, "summary", []int32{5}, []string{"a0 1"}},
				{"_rest/0", 3, "batch", []int32{1}, []string{"a[11]", "b[7]"}},
			},
		},
		"all cpus named": {
			entries: []schemas.RouteEntry{entry("j", 2, schemas.ModeCollect, 0, 1, 4, 5)},
			want: []sent{
				{"j/1", 2, "batch", []int32{0, 1, 4, 5}, []string{"a[10 11 14 NaN]"}},
				{"_rest/0", 3, "batch", []int32{}, []string{"b[7]"}},
			},
		},
		"cpus that are not there, or named twice": {
			entries: []schemas.RouteEntry{
				entry("j", 2, schemas.ModeCollect, 9, 1, 1),
				entry("k", 2, schemas.ModeCollect, 8),
			},
			want: []sent{
				{"j/1", 2, "batch", []int32{1, 9}, []string{"a[11 NaN]"}},
				{"k/1", 2, "batch", []int32{8}, []string{"a[NaN]"}},
				{"_rest/0", 3, "batch", []int32{0, 4, 5}, []string{"a[10 14 NaN]", "b[7]"}},
			},
			unknown: []int32{9, 8},
		},
	} {
		t.Run(name, func(t *testing.T) {
			route := &schemas.Route{Node: "n", Epoch: 12, Home: 3, Entries: c.entries}
			head := schemas.NodeHeader{Cluster: "c", Node: "n", Seq: 40, IntervalMs: 1000}
			items, unknown := form(route, smallSample(), head)
			if diff := cmp.Diff(c.want, describe(items)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.unknown, unknown.cpus); diff != "" {
				t.Errorf("unknown CPUs (-want +got):\n%s", diff)
			}
			for i, it := range items {
				h := header(it)
				if h.SentAt != 5000 {
					t.Errorf("record %d was sent at %d", i, h.SentAt)
				}
				h.SentAt = 0
				h.JobID, h.Restart, h.Cpus = "", 0, nil
				want := schemas.NodeHeader{
					Cluster: "c", Node: "n", Seq: int64(41 + i), IntervalStart: 3000,
					IntervalMs: 1000, SampledAt: 4000017, Epoch: 12,
				}
				if diff := cmp.Diff(want, h); diff != "" {
					t.Errorf("header %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestSummary(t *testing.T) {
	route := &schemas.Route{Node: "n", Entries: []schemas.RouteEntry{entry("j", 0, schemas.ModeLocal)}}
	s := smallSample()
	s.columns = append(s.columns,
		source.Column{
			Name: "c", Unit: "1", Scope: schemas.ScopeCore,
			Values: []float64{math.NaN(), math.Inf(1), math.NaN(), math.NaN()},
		})
	items, _ := form(route, s, schemas.NodeHeader{Cluster: "c", Node: "n", IntervalMs: 1000})
	got := items[0].record(5000).(*schemas.NodeSummary).Metrics
	at := func(v float64) *float64 { return &v }
	node := "n"
	want := []schemas.NodeSummaryMetric{
		{JobSummaryMetric: schemas.JobSummaryMetric{
			Name: "a", Unit: "1", Scope: "core", Count: 3, Invalid: 1, Nodes: 1,
			Mean: at(35.0 / 3), Stddev: at(math.Sqrt(26.0) / 3), NodeStddev: at(0), LowNode: &node, HighNode: &node,
			RankError: at(0),
			// 3k/10 = 0, .3, .6, .9, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3 among 10, 11, 14
			Deciles: &[]float64{10, 10, 10, 10, 10.2, 10.5, 10.8, 11.3, 12.2, 13.1, 14},
		}, Certified: schemas.Certified{Atoms: []schemas.Atom{
			{Value: 10, Count: 1},
			{Value: 11, Count: 1},
			{Value: 14, Count: 1},
		}}},
		{JobSummaryMetric: schemas.JobSummaryMetric{
			Name: "b", Unit: "B", Scope: "node", Count: 1, Nodes: 1,
			Mean: at(7), Stddev: at(0), NodeStddev: at(0), LowNode: &node, HighNode: &node, RankError: at(0),
			Deciles: &[]float64{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7},
		}, Certified: schemas.Certified{Atoms: []schemas.Atom{{Value: 7, Count: 1}}}},
		{JobSummaryMetric: schemas.JobSummaryMetric{Name: "c", Unit: "1", Scope: "core", Invalid: 4}},
	}
	ignoreEps := cmpopts.IgnoreFields(schemas.Certified{}, "Eps") // its own package's business
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12), ignoreEps); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if v := s.columns[0].Values[0]; v != 10 || !math.IsNaN(s.columns[0].Values[3]) {
		t.Error("reducing changed the sample")
	}
}

// For any valid route, every CPU and GPU of the node is in exactly one record, and so is a node-scoped value. Every
// record can be encoded and validates, and the sequence has no hole.
func TestFormProperty(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	for range 2000 {
		s := randomSample(rng)
		route := randomRoute(rng, s.cpus)
		items, _ := form(route, s, schemas.NodeHeader{Cluster: "c", Node: "n", Seq: 5, IntervalMs: 1000})
		cpus, nodeValues, gpus := map[int32]int{}, 0, map[float64]int{}
		for i, it := range items {
			if got := header(it).Seq; got != int64(6+i) {
				t.Fatalf("record %d has seq %d", i, got)
			}
			for _, c := range header(it).Cpus {
				cpus[c]++
			}
			switch r := it.record(5000).(type) {
			case *schemas.CounterBatch:
				nodeValues += len(slices.DeleteFunc(slices.Clone(r.Metrics), func(m schemas.CounterBatchMetric) bool {
					return m.Scope != schemas.ScopeNode
				}))
				for _, m := range r.Metrics {
					for _, v := range m.Values {
						if m.Name == "g" {
							gpus[v]++
						}
					}
				}
			case *schemas.NodeSummary:
				nodeValues += len(slices.DeleteFunc(slices.Clone(r.Metrics), func(m schemas.NodeSummaryMetric) bool {
					return m.Scope != schemas.ScopeNode
				}))
				for _, m := range r.Metrics {
					for _, a := range m.Certified.Atoms {
						if m.Name == "g" {
							gpus[a.Value] += int(a.Count)
						}
					}
				}
			}
			b, err := encode(it, time.UnixMilli(5000))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := schemas.Unmarshal(b); err != nil {
				t.Fatalf("route %+v: %v", route, err)
			}
		}
		for _, c := range s.cpus {
			if cpus[c] != 1 {
				t.Fatalf("cpu %d is in %d records of route %+v", c, cpus[c], route)
			}
		}
		for _, v := range s.columns[2].Values {
			if gpus[v] != 1 {
				t.Fatalf("GPU %g is in %d records of route %+v", v, gpus[v], route)
			}
		}
		if nodeValues != 1 {
			t.Fatalf("the node's value is in %d records of route %+v", nodeValues, route)
		}
	}
}

func randomSample(rng *rand.Rand) *sample {
	s := &sample{start: 4000, cpus: []int32{}}
	for c := range int32(12) {
		if rng.IntN(4) > 0 {
			s.cpus = append(s.cpus, c)
		}
	}
	values := make([]float64, len(s.cpus))
	for i := range values {
		if values[i] = rng.NormFloat64(); rng.IntN(5) == 0 {
			values[i] = math.NaN()
		}
	}
	gpus := source.Column{Name: "g", Unit: "1", Scope: schemas.ScopeGPU}
	for g := range int32(5) {
		if rng.IntN(4) > 0 {
			gpus.Rows, gpus.Values = append(gpus.Rows, g), append(gpus.Values, float64(g))
		}
	}
	s.columns = []source.Column{
		{Name: "a", Unit: "1", Scope: schemas.ScopeCore, Values: values},
		{Name: "b", Unit: "1", Scope: schemas.ScopeNode, Values: []float64{1}},
		gpus,
	}
	return s
}

// randomRoute gives the CPUs, and some that are not there, to up to three jobs, or the node to one.
func randomRoute(rng *rand.Rand, cpus []int32) *schemas.Route {
	modes := []string{schemas.ModeCollect, schemas.ModeLocal}
	r := &schemas.Route{Node: "n", Home: rng.Int32N(4)}
	if rng.IntN(4) == 0 {
		r.Entries = []schemas.RouteEntry{entry("whole", rng.Int32N(4), modes[rng.IntN(2)])}
		return r
	}
	for k := range rng.IntN(4) {
		r.Entries = append(r.Entries, entry(fmt.Sprint("j", k), rng.Int32N(4), modes[rng.IntN(2)], int32(100+k)))
	}
	for _, c := range cpus {
		if k := rng.IntN(len(r.Entries) + 1); k < len(r.Entries) {
			r.Entries[k].Cpus = append(r.Entries[k].Cpus, c)
		}
	}
	for g := range int32(6) {
		if k := rng.IntN(len(r.Entries) + 1); k < len(r.Entries) {
			r.Entries[k].Gpus = append(r.Entries[k].Gpus, g)
		}
	}
	return r
}

func BenchmarkForm37x16(b *testing.B) {
	s := &sample{start: 4000}
	for c := range int32(16) {
		s.cpus = append(s.cpus, c)
	}
	for m := range 37 {
		values := make([]float64, 16)
		for i := range values {
			values[i] = float64(m*i) / 7
		}
		s.columns = append(s.columns, source.Column{
			Name: fmt.Sprintf("metric_%02d", m), Unit: "1",
			Scope: schemas.ScopeCore, Values: values,
		})
	}
	for name, mode := range map[string]string{"collect": schemas.ModeCollect, "local": schemas.ModeLocal} {
		route := &schemas.Route{Node: "n", Entries: []schemas.RouteEntry{entry("j", 0, mode)}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				items, _ := form(route, s, schemas.NodeHeader{Cluster: "c", Node: "n", IntervalMs: 1000})
				if _, err := encode(items[0], time.UnixMilli(5000)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// jobSample is a sample of a node that two jobs share, as cgroups of Slurm and PBS tell of them.
func jobSample(jobs ...source.JobColumns) *sample {
	s := smallSample()
	s.jobs = jobs
	return s
}

func cgroupOf(name string, used float64, cpus ...int32) source.JobColumns {
	return source.JobColumns{Cgroup: name, CPUs: cpus, Columns: []source.Column{
		{Name: "job_mem_used", Unit: "B", Scope: schemas.ScopeJob, Values: []float64{used}},
	}}
}

// TestSharedNode: two jobs on one node give two batches, each with its own memory.
func TestSharedNode(t *testing.T) {
	slurm, pbs := entry("71", 1, schemas.ModeCollect, 0, 1), entry("72.server", 2, schemas.ModeLocal, 4, 5)
	named := entry("73_4", 1, schemas.ModeCollect, 0, 1)
	named.Cgroup = "s5K1KKYAYG5D00"
	alone := entry("71", 1, schemas.ModeCollect)
	rest := sent{"_rest/0", 3, "batch", []int32{}, []string{"b[7]"}}
	for name, c := range map[string]struct {
		entries []schemas.RouteEntry
		jobs    []source.JobColumns
		want    []sent
	}{
		"two jobs": {
			[]schemas.RouteEntry{slurm, pbs},
			[]source.JobColumns{cgroupOf("72.server", 200), cgroupOf("job_99", 300), cgroupOf("job_71", 100)},
			[]sent{
				{"71/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]", "job_mem_used[100]"}},
				{"72.server/1", 2, "summary", []int32{4, 5}, []string{"a1 1", "job_mem_used1 0"}},
				rest,
			},
		},
		"the Route's name decides": {
			[]schemas.RouteEntry{named},
			[]source.JobColumns{cgroupOf("job_73_4", 1, 0, 1), cgroupOf("s5K1KKYAYG5D00", 2, 4, 5)},
			[]sent{
				{"73_4/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]", "job_mem_used[2]"}},
				{"_rest/0", 3, "batch", []int32{4, 5}, []string{"a[14 NaN]", "b[7]"}},
			},
		},
		"the job's number, where Slurm has a SLUID and does not name cgroups by it": {
			[]schemas.RouteEntry{named},
			[]source.JobColumns{cgroupOf("job_73", 1), cgroupOf("job_73_4", 7)},
			[]sent{
				{"73_4/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]", "job_mem_used[7]"}},
				{"_rest/0", 3, "batch", []int32{4, 5}, []string{"a[14 NaN]", "b[7]"}},
			},
		},
		"by CPUs": {
			[]schemas.RouteEntry{slurm, pbs},
			[]source.JobColumns{cgroupOf("s5K1KKYAYG5D00", 100, 0, 1), cgroupOf("s5K1KKYAYG5D01", 200, 4, 5)},
			[]sent{
				{"71/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]", "job_mem_used[100]"}},
				{"72.server/1", 2, "summary", []int32{4, 5}, []string{"a1 1", "job_mem_used1 0"}},
				rest,
			},
		},
		"two of the same CPUs": {
			[]schemas.RouteEntry{slurm},
			[]source.JobColumns{cgroupOf("s5K1KKYAYG5D00", 100, 0, 1), cgroupOf("s5K1KKYAYG5D01", 200, 0, 1)},
			[]sent{
				{"71/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]"}},
				{"_rest/0", 3, "batch", []int32{4, 5}, []string{"a[14 NaN]", "b[7]"}},
			},
		},
		"one of two with the same CPUs is known": {
			[]schemas.RouteEntry{slurm, entry("74", 1, schemas.ModeCollect, 0, 1)},
			[]source.JobColumns{cgroupOf("s5K1KKYAYG5D00", 100, 0, 1), cgroupOf("job_74", 200, 0, 1)},
			[]sent{
				{"71/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]", "job_mem_used[100]"}},
				{"74/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]", "job_mem_used[200]"}},
				{"_rest/0", 3, "batch", []int32{4, 5}, []string{"a[14 NaN]", "b[7]"}},
			},
		},
		"two entries of the same CPUs": {
			[]schemas.RouteEntry{slurm, entry("74", 1, schemas.ModeCollect, 0, 1)},
			[]source.JobColumns{cgroupOf("s5K1KKYAYG5D00", 100, 0, 1)},
			[]sent{
				{"71/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]"}},
				{"74/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]"}},
				{"_rest/0", 3, "batch", []int32{4, 5}, []string{"a[14 NaN]", "b[7]"}},
			},
		},
		"the whole node": {
			[]schemas.RouteEntry{alone},
			[]source.JobColumns{cgroupOf("s5K1KKYAYG5D00", 100, 0, 1, 4, 5)},
			[]sent{{"71/1", 1, "batch", []int32{0, 1, 4, 5}, []string{"a[10 11 14 NaN]", "b[7]", "job_mem_used[100]"}}},
		},
		"without a list of CPUs": {
			[]schemas.RouteEntry{slurm},
			[]source.JobColumns{cgroupOf("s5K1KKYAYG5D00", 100)},
			[]sent{
				{"71/1", 1, "batch", []int32{0, 1}, []string{"a[10 11]"}},
				{"_rest/0", 3, "batch", []int32{4, 5}, []string{"a[14 NaN]", "b[7]"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			route := &schemas.Route{Node: "n", Home: 3, Entries: c.entries}
			items, _ := form(route, jobSample(c.jobs...), schemas.NodeHeader{
				Cluster: "c", Node: "n", IntervalMs: 1000, BootID: "b", RunID: "r",
			})
			if diff := cmp.Diff(c.want, describe(items)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, it := range items {
				if err := it.record(5000).(interface{ Validate() error }).Validate(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
