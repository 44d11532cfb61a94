package schemas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// oneNodeJobs is a Tick with n jobs of one node each, whose ids have at least so many bytes.
func oneNodeJobs(n, idBytes int) *Tick {
	t := &Tick{IntervalStart: 1_700_000_010_000, IntervalMs: 10_000}
	for i := range n {
		t.Jobs = append(t.Jobs, TickJob{fmt.Sprintf("%0*d", idBytes, i), 0, 1, 1, []string{fmt.Sprintf("n%d", i%392)}})
	}
	return t
}

func progressWith(loads, rejected int) *Progress {
	p := &Progress{Position: int64(rejected)}
	for i := range loads {
		p.Loads = append(p.Loads, JobLoad{fmt.Sprint(i), 0, 1, 900})
	}
	for i := range rejected {
		p.Rejected = append(p.Rejected, int64(i))
	}
	return p
}

// shortNames are n names, as short as there are.
func shortNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.FormatInt(int64(i), 36)
	}
	return names
}

func jobsWithoutNodes(n int) *Tick {
	t := &Tick{IntervalMs: 1}
	for _, id := range shortNames(n) {
		t.Jobs = append(t.Jobs, TickJob{JobID: id})
	}
	return t
}

func routeWith(n int) *Route {
	r := &Route{Node: "n"}
	for _, id := range shortNames(n) {
		r.Entries = append(r.Entries, RouteEntry{JobID: id, Mode: ModeLocal})
	}
	return r
}

func sharedBy(n int) *JobPartial {
	p := &JobPartial{Cluster: "c", JobID: JobSystem, IntervalMs: 1, Parts: 1}
	for _, node := range shortNames(n) {
		p.Shared = append(p.Shared, SharedNode{Node: node})
	}
	return p
}

func fullBatch(metrics, cpus int) *CounterBatch {
	b := &CounterBatch{NodeHeader: goodNodeSummary().NodeHeader}
	b.Cpus = nil
	for i := range cpus {
		b.Cpus = append(b.Cpus, int32(i))
	}
	for _, name := range shortNames(metrics) {
		b.Metrics = append(b.Metrics, CounterBatchMetric{name, "1", ScopeCore, make([]float64, cpus)})
	}
	return b
}

func fullSummary(metrics int) *NodeSummary {
	s := goodNodeSummary()
	m := s.Metrics[0]
	s.Metrics = nil
	for _, name := range shortNames(metrics) {
		m.Name = name
		s.Metrics = append(s.Metrics, m)
	}
	return s
}

// TestLegalExtremesAreReadable: what a process of weir can have to write, it can read.
func TestLegalExtremesAreReadable(t *testing.T) {
	for name, r := range map[string]Record{ // a tenth of each under the race detector
		"20,000 one-node jobs":               oneNodeJobs(20_000/slower, 1),
		"20,000 one-node jobs with long ids": oneNodeJobs(20_000/slower, 64),
		"130,000 one-node jobs":              oneNodeJobs(130_000/slower, 1),
		"100,000 loads":                      progressWith(100_000/slower, 0),
		"100,000 rejected offsets":           progressWith(0, 100_000/slower),
		"both":                               progressWith(100_000/slower, 100_000/slower),
		"100,000 nodes of one letter":        &Job{JobID: "1", Nodes: shortNames(100_000 / slower)},
		"100,000 jobs without a node":        jobsWithoutNodes(100_000 / slower),
		"100,000 entries of a route":         routeWith(100_000 / slower),
		"100,000 shared nodes":               sharedBy(100_000 / slower),
		"1,024 metrics of 400 CPUs":          fullBatch(1024, 400/slower),
		"1,024 summaries":                    fullSummary(1024),
	} {
		b, err := MarshalChecked(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var back Record
		n := allocated(memoryBound(b), func() { back, err = Unmarshal(b) })
		t.Logf("%s: %d bytes, %d in memory", name, len(b), n)
		if n > memoryBound(b) {
			t.Errorf("%s: %d bytes allocate %d, more than %d", name, len(b), n, memoryBound(b))
		}
		if err != nil {
			t.Errorf("%s, %d bytes: %v", name, len(b), err)
		} else if !bytes.Equal(mustMarshal(t, back), b) {
			t.Errorf("%s: another record comes back", name)
		}
	}
}

// manyBlocks is a CounterBatch whose list of CPUs has each entry in a block of its own, and no end.
func manyBlocks(t testing.TB, n int) []byte {
	b := mustMarshal(t, &CounterBatch{NodeHeader: NodeHeader{Cluster: "c", Node: "n", IntervalMs: 1, JobID: JobRest}})
	b = b[:len(b)-3] // without cpus, metrics and reported
	for range n {
		b = append(b, 2, 0) // a block of one: CPU 0
	}
	return append(b, 0, 0, 0)
}

// TestManyBlocksAllocateLittle: the decoder copies a list once for each of its blocks. So 2,865 bytes cost 477,928, and
// a million bytes would cost 250 GB.
func TestManyBlocksAllocateLittle(t *testing.T) {
	for _, n := range []int{1, 2, 1_400, 100_000} {
		b := manyBlocks(t, n)
		if got := allocated(memoryBound(b), func() { _, _ = Unmarshal(b) }); got > memoryBound(b) {
			t.Errorf("%d bytes allocate %d, more than %d", len(b), got, memoryBound(b))
		}
	}
	if _, err := Unmarshal(manyBlocks(t, 1)); err != nil {
		t.Errorf("one block: %v", err)
	}
	if _, err := Unmarshal(manyBlocks(t, 100_000)); !errors.Is(err, errMalformed) {
		t.Errorf("100,000 blocks: %v", err)
	}
	// Two blocks are as Avro allows.
	b := manyBlocks(t, 0)
	b = append(b[:len(b)-3], 2, 0, 2, 2, 0, 0, 0)
	if r, err := Unmarshal(b); err != nil || !slices.Equal(r.(*CounterBatch).Cpus, []int32{0, 1}) {
		t.Errorf("two blocks: %v, %v", r, err)
	}
}

// wrong are changes that make a good record one that no process of weir writes, and that would hurt those who read it.
type wrong[T any] map[string]struct {
	change func(r *T)
	field  string
}

func (w wrong[T]) refused(t *testing.T, good func() *T, record func(r *T) Record) {
	t.Helper()
	if _, err := Unmarshal(mustMarshal(t, record(good()))); err != nil {
		t.Fatalf("the good record: %v", err)
	}
	for name, c := range w {
		r := good()
		c.change(r)
		_, err := Unmarshal(mustMarshal(t, record(r)))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.field+":") {
			t.Errorf("%s: %v, want ErrInvalid naming %s", name, err, c.field)
		}
	}
}

func goodNodeSummary() *NodeSummary {
	deciles := []float64{1, 1, 1, 1, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3}
	return &NodeSummary{
		NodeHeader: NodeHeader{
			Cluster: "c1", Node: "n17", IntervalStart: 1_700_000_010_000, IntervalMs: 10_000, JobID: "4711",
			Cpus: []int32{0, 1, 4},
		},
		Metrics: []NodeSummaryMetric{{JobSummaryMetric{
			Name: "ipc", Unit: "1", Scope: ScopeCore, Count: 3, Nodes: 1, Mean: new(2.0), Stddev: new(0.8),
			NodeStddev: new(0.0), LowNode: new("n17"), HighNode: new("n17"), Deciles: &deciles, RankError: new(0.0),
		}, Certified{Atoms: []Atom{{1, 1}, {2, 1}, {3, 1}}}}},
	}
}

func TestHostileNodeSummariesAreInvalid(t *testing.T) {
	wrong[NodeSummary]{
		"another node":      {func(s *NodeSummary) { s.Metrics[0].LowNode = new("n18") }, "metrics.low_node"},
		"no node":           {func(s *NodeSummary) { s.Metrics[0].HighNode = new("\xff") }, "metrics.low_node"},
		"Latin-1 unit":      {func(s *NodeSummary) { s.Metrics[0].Unit = "\xb5s" }, "metrics.unit"},
		"unit with escape":  {func(s *NodeSummary) { s.Metrics[0].Unit = "\x1b[2J" }, "metrics.unit"},
		"unit of two lines": {func(s *NodeSummary) { s.Metrics[0].Unit = "a\nb" }, "metrics.unit"},
		"boot id":           {func(s *NodeSummary) { s.BootID = "\xff" }, "run_id"},
		"run id":            {func(s *NodeSummary) { s.RunID = "\x00" }, "run_id"},
		"counts overflow":   {func(s *NodeSummary) { s.Metrics[0].Invalid = math.MaxInt64 }, "metrics.count"},
		"stddev":            {func(s *NodeSummary) { s.Metrics[0].Stddev = new(-1.0) }, "metrics.stddev"},
		"nodes":             {func(s *NodeSummary) { s.Metrics[0].Nodes = 0 }, "metrics.nodes"},
		"stddev of nodes": {
			func(s *NodeSummary) { s.Metrics[0].NodeStddev = new(math.NaN()) }, "metrics.node_stddev",
		},
		"rank error": {func(s *NodeSummary) { s.Metrics[0].RankError = new(2.0) }, "metrics.rank_error"},
		"estimated":  {func(s *NodeSummary) { s.Metrics[0].RankError = new(0.5) }, "metrics.rank_error"},
		"bounds":     {func(s *NodeSummary) { s.Metrics[0].Lo = s.Metrics[0].Deciles }, "metrics.rank_error"},
		"mean":       {func(s *NodeSummary) { s.Metrics[0].Mean = new(1e308) }, "metrics.mean"},
		"ends":       {func(s *NodeSummary) { s.Metrics[0].Certified.Atoms[2].Value = 4 }, "metrics.deciles"},
		"epoch":      {func(s *NodeSummary) { s.Epoch = math.MaxInt64 }, "epoch"},
		"seq":        {func(s *NodeSummary) { s.Seq = -1 }, "seq"},
		"sent":       {func(s *NodeSummary) { s.SentAt = math.MaxInt64 }, "sent_at"},
		"sampled":    {func(s *NodeSummary) { s.SampledAt = math.MinInt64 }, "sampled_at"},
		"order statistics": {func(s *NodeSummary) {
			m := &s.Metrics[0]
			s.Cpus, m.Count = []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 10
			m.Certified = Certified{OrderStatistics: []float64{1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3}}
		}, "metrics.deciles"},
		"CPUs": {func(s *NodeSummary) {
			for i := range int32(1<<16 + 1) {
				s.Cpus = append(s.Cpus, 10+i)
			}
		}, "cpus"},
	}.refused(t, goodNodeSummary, func(r *NodeSummary) Record { return r })
}

func TestHostilePartialsAreInvalid(t *testing.T) {
	good := func() *JobPartial {
		return &JobPartial{"c1", "4711", 0, 1_700_000_010_000, 10_000, 5, 2, 7, 3, 2, []JobPartialMetric{
			{
				"ipc", "1", ScopeCore, 3, 0, 2, new(1.0), new(2.0), new(3.0), new(4.0), new("a"), new(5.0), new("b"),
				new(6.0),
				Certified{Atoms: []Atom{{1, 3}}},
				4,
			},
		}, []SharedNode{{"n1", true}}}
	}
	wrong[JobPartial]{
		"low node": {func(p *JobPartial) { p.Metrics[0].LowNode = new("\xff") }, "metrics.low_node"},
		"high node": {
			func(p *JobPartial) { p.Metrics[0].HighNode = new(strings.Repeat("n", 1<<20)) }, "metrics.low_node",
		},
		"unit":       {func(p *JobPartial) { p.Metrics[0].Unit = "\xb5s" }, "metrics.unit"},
		"node means": {func(p *JobPartial) { p.Metrics[0].NodeMeans = math.MaxInt64 }, "metrics.count"},
		"nodes": {
			func(p *JobPartial) { p.Metrics[0].Nodes, p.Metrics[0].Count = math.MaxInt32, maxCount }, "metrics.count",
		},
		"parts":            {func(p *JobPartial) { p.Parts = math.MaxInt32 }, "collector"},
		"nodes of the job": {func(p *JobPartial) { p.JobNodes = math.MaxInt32 }, "collector"},
		"extremes":         {func(p *JobPartial) { p.Metrics[0].LowNodeMean = new(7.0) }, "metrics.low_node_mean"},
		"shared":           {func(p *JobPartial) { p.Shared[0].Node = "a/b" }, "shared"},
		"shared twice":     {func(p *JobPartial) { p.Shared = append(p.Shared, SharedNode{"n1", false}) }, "shared"},
	}.refused(t, good, func(r *JobPartial) Record { return r })
}

func TestHostileTextsAreInvalid(t *testing.T) {
	long := strings.Repeat("x", 5000)
	wrong[Job]{
		"name":    {func(j *Job) { j.Name = "\xff" }, "name"},
		"user":    {func(j *Job) { j.User = "\x1b]0;" }, "user"},
		"account": {func(j *Job) { j.Account = "a\nb" }, "account"},
		"queue":   {func(j *Job) { j.Queue = long }, "queue"},
		"reason":  {func(j *Job) { j.Reason = "\x00" }, "reason"},
		"nodes":   {func(j *Job) { j.Nodes = []string{"\xff"} }, "nodes"},
	}.refused(t, func() *Job { return &Job{JobID: "1", Name: "Größe µ", State: StateRunning} },
		func(r *Job) Record { return r })
	wrong[Gap]{
		"reason":  {func(g *Gap) { g.Reason = "\xff" }, "reason"},
		"run":     {func(g *Gap) { g.RunID = "\xff" }, "run_id"},
		"records": {func(g *Gap) { g.Records = -1 }, "records"},
		"first":   {func(g *Gap) { g.FirstIntervalStart = math.MinInt64 }, "first_interval_start"},
	}.refused(t, func() *Gap { return &Gap{Node: "n", Reason: "ring full"} }, func(r *Gap) Record { return r })
	wrong[Reject]{
		"reason": {func(r *Reject) { r.Reason = long }, "reason"},
		"topic":  {func(r *Reject) { r.Topic = "\xff" }, "topic"},
		"head":   {func(r *Reject) { r.Head = make([]byte, 1025) }, "head"},
	}.refused(t, func() *Reject { return &Reject{Topic: "t", Head: []byte{0xff}} }, func(r *Reject) Record { return r })
	wrong[Progress]{
		"loads": {func(p *Progress) { p.Loads = []JobLoad{{"\xff", 0, 1, 1}} }, "job_id"},
		"topic": {func(p *Progress) { p.TopicID = long }, "topic_id"},
		"open":  {func(p *Progress) { p.Open = -1 }, "open"},
	}.refused(t, func() *Progress { return &Progress{} }, func(r *Progress) Record { return r })
	wrong[Tick]{
		"epoch":  {func(k *Tick) { k.Epoch = math.MaxInt64 }, "epoch"},
		"shared": {func(k *Tick) { k.Shared = []string{"\xff"} }, "shared"},
		"parts":  {func(k *Tick) { k.Jobs[0].Parts = math.MaxInt32 }, "jobs"},
		"nodes":  {func(k *Tick) { k.Jobs[0].Nodes = []string{"b", "a", "b"}; k.Jobs[0].JobNodes = 3 }, "jobs.nodes"},
		"jobs":   {func(k *Tick) { k.Jobs = append(k.Jobs, TickJob{"2", 0, 1, 1, nil}, k.Jobs[0]) }, "jobs"},
	}.refused(t, func() *Tick { return oneNodeJobs(1, 1) }, func(r *Tick) Record { return r })
	wrong[Route]{
		"epoch": {func(r *Route) { r.Epoch = math.MaxInt64 }, "epoch"},
		"start": {func(r *Route) { r.IntervalStart = math.MaxInt64 }, "interval_start"},
		"cpus":  {func(r *Route) { r.Entries[0].Cpus = []int32{-1} }, "entries.cpus"},
	}.refused(t, func() *Route { return &Route{Node: "n", Entries: []RouteEntry{{JobID: "1", Mode: ModeLocal}}} },
		func(r *Route) Record { return r })
	wrong[JobSummary]{
		"unit":  {func(s *JobSummary) { s.Metrics[0].Unit = "\xb5s" }, "metrics.unit"},
		"node":  {func(s *JobSummary) { s.Metrics[0].LowNode = new("\xff") }, "metrics.low_node"},
		"nodes": {func(s *JobSummary) { s.NodesReported = -1 }, "parts"},
		"count": {func(s *JobSummary) { s.Metrics[0].Count = math.MaxInt64 }, "metrics.count"},
	}.refused(t, func() *JobSummary { return samples()[7].(*JobSummary) }, func(r *JobSummary) Record { return r })
}

// TestMetricsAreBounded: a record of 30,000 names in 990 KB gave a summary that no broker takes.
func TestMetricsAreBounded(t *testing.T) {
	with := func(n int) []Record {
		batch := &CounterBatch{NodeHeader: goodNodeSummary().NodeHeader}
		reduced := goodNodeSummary()
		summary := &JobSummary{Cluster: "c", JobID: "1", IntervalMs: 1, Method: MethodExact}
		partial := &JobPartial{Cluster: "c", JobID: "1", IntervalMs: 1, Parts: 2}
		reduced.Metrics = nil
		for i := range n {
			name := fmt.Sprint("m", i)
			m := JobSummaryMetric{Name: name, Scope: ScopeNode}
			batch.Metrics = append(batch.Metrics,
				CounterBatchMetric{Name: name, Scope: ScopeNode, Values: []float64{1}})
			reduced.Metrics = append(reduced.Metrics, NodeSummaryMetric{JobSummaryMetric: m})
			summary.Metrics = append(summary.Metrics, m)
			partial.Metrics = append(partial.Metrics, JobPartialMetric{Name: name, Scope: ScopeNode})
		}
		return []Record{batch, reduced, summary, partial}
	}
	for _, r := range with(1024) {
		if _, err := Unmarshal(mustMarshal(t, r)); err != nil {
			t.Errorf("1,024 metrics: %v", err)
		}
	}
	for _, n := range []int{1025, 30_000} {
		for _, r := range with(n) {
			if _, err := Unmarshal(mustMarshal(t, r)); !errors.Is(err, ErrInvalid) ||
				!strings.Contains(fmt.Sprint(err), "metrics:") {
				t.Errorf("%s with %d metrics: %v", nameOf(r), n, err)
			}
		}
	}
}

// TestBounds holds the doc of Unmarshal to what the schemas give.
func TestBounds(t *testing.T) {
	worst := 0
	for _, e := range table.byFingerprint {
		t.Logf("%-20s %2d a byte, and %d", e.name, e.shape().perByte, e.shape().constant)
		worst = max(worst, e.shape().perByte)
		if bound := e.shape().bound(0); bound > 1<<20 || e.shape().perByte > 28 {
			t.Errorf("%s: %d a byte and %d: Unmarshal promises 35 and 1 MiB", e.name, e.shape().perByte, bound)
		}
	}
	if worst != 28 {
		t.Errorf("%d a byte at most, the doc of Unmarshal says 28", worst)
	}
}

// densest appends a body of a shape in which each list has up to most items, of as few bytes as a string may have.
func (s *shape) densest(b []byte, most int, r *rand.Rand) []byte {
	switch s.kind {
	case "record":
		for _, f := range s.fields {
			b = f.densest(b, most, r)
		}
	case "array":
		n := r.IntN(most + 1)
		if s.most > 0 {
			n = min(n, s.most)
		}
		if n > 0 {
			b = binary.AppendVarint(b, int64(n))
			for range n {
				b = s.fields[0].densest(b, 1+most/10000, r)
			}
		}
		b = append(b, 0)
	case "union":
		i := r.IntN(len(s.fields))
		b = s.fields[i].densest(binary.AppendVarint(b, int64(i)), most, r)
	case "enum":
		b = binary.AppendVarint(b, int64(r.IntN(s.symbols)))
	case "string", "bytes":
		n := 0
		if r.IntN(10) == 0 {
			n = r.IntN(1100) // more than one block of the decoder's
		}
		b = append(binary.AppendVarint(b, int64(n)), make([]byte, n)...)
	case "double":
		b = append(b, make([]byte, 8)...)
	case "null":
	default:
		b = append(b, 0)
	}
	return b
}

// TestNoSingleBlockIsTooDense: a body with one block an array is within the budget of its schema, with any items. What
// decoding it allocates is within the bound.
func TestNoSingleBlockIsTooDense(t *testing.T) {
	for _, e := range table.byFingerprint {
		for seed := range max(uint64(4), 24/slower) {
			r := rand.New(rand.NewPCG(seed, 11))
			b := e.shape().densest(e.header(), []int{1, 10, 1000, 30_000}[seed%4], r)
			if len(b) > e.most() {
				continue
			}
			var err error
			n := allocated(memoryBound(b), func() { _, err = Unmarshal(b) })
			if errors.Is(err, errMalformed) {
				t.Errorf("%s, seed %d, %d bytes: %v", e.name, seed, len(b), err)
			}
			if n > memoryBound(b) {
				t.Errorf("%s, seed %d: %d bytes allocate %d, more than %d", e.name, seed, len(b), n, memoryBound(b))
			}
		}
	}
}

// TestMarshalCheckedFailsWhereUnmarshalDoes changes fields of good records by chance.
func TestMarshalCheckedFailsWhereUnmarshalDoes(t *testing.T) {
	const seeds = 8000 / slower
	refused, taken := 0, 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 12))
		all := append(samples(), goodNodeSummary(), oneNodeJobs(3, 1), routeWith(2), fullBatch(3, 2))
		record := all[r.IntN(len(all))]
		for range r.IntN(4) {
			mutate(reflect.ValueOf(record).Elem(), r)
		}
		b, err := Marshal(record)
		checked, checkedErr := MarshalChecked(record)
		if err != nil {
			if checkedErr == nil {
				t.Fatalf("seed %d: Marshal says %v, MarshalChecked nothing", seed, err)
			}
			continue
		}
		_, err = Unmarshal(b)
		if (err == nil) != (checkedErr == nil) || err != nil && err.Error() != checkedErr.Error() {
			t.Fatalf("seed %d: Unmarshal says %v, MarshalChecked %v of %+v", seed, err, checkedErr, record)
		}
		if err != nil {
			refused++
		} else if taken++; !bytes.Equal(b, checked) {
			t.Fatalf("seed %d: other bytes", seed)
		}
	}
	if refused < seeds/8 || taken < seeds/8 {
		t.Errorf("%d were refused and %d taken: they tell nothing", refused, taken)
	}
	// Of the size, a Tick of few bytes in memory: 65,000 jobs with ids of 64 bytes.
	large := oneNodeJobs(65_000, 64)
	_, err := Unmarshal(mustMarshal(t, large))
	_, checkedErr := MarshalChecked(large)
	if !errors.Is(err, errOversized) || !errors.Is(checkedErr, errOversized) {
		t.Errorf("%v, %v", err, checkedErr)
	}
	_, err = MarshalChecked(&JobSummary{Cluster: "c", JobID: "1", IntervalMs: 1, Method: "SOMEHOW"})
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("an enum's own symbol: %v", err)
	}
}

// mutate changes one field of v, or of what it holds.
func mutate(v reflect.Value, r *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		mutate(v.Field(r.IntN(v.NumField())), r)
	case reflect.Pointer:
		switch {
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
			if e := v.Elem(); e.Kind() == reflect.Slice { // one that is nil would be written as null
				e.Set(reflect.MakeSlice(e.Type(), 0, 0))
			}
		case r.IntN(3) == 0:
			v.SetZero()
		default:
			mutate(v.Elem(), r)
		}
	case reflect.Slice:
		switch n := v.Len(); {
		case n == 0:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case r.IntN(4) == 0: // shared with the one that it copies
			v.Set(reflect.Append(v, v.Index(r.IntN(n))))
		case r.IntN(4) == 0:
			v.Set(v.Slice(0, n-1))
		default:
			mutate(v.Index(r.IntN(n)), r)
		}
	case reflect.String:
		v.SetString([]string{"", "a", "\xff", "core", "a b", "µ", "EXACT", "_rest", strings.Repeat("x", 65)}[r.IntN(9)])
	case reflect.Int32:
		v.SetInt([]int64{0, 1, -1, 7, math.MaxInt32}[r.IntN(5)])
	case reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 10_000, 1_700_000_010_000, math.MaxInt64}[r.IntN(6)])
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, -1, 1e308, math.NaN(), math.Inf(1)}[r.IntN(6)])
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	}
}

func TestCleanTextIsValid(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Größe 5 µm": "Größe 5 µm", "a\xffb\xfe": "a?b?", "a\nb\x1b[0m": "a?b?[0m", "\u202egnp": "?gnp",
		"\ufffd":                  "?",
		strings.Repeat("µ", 3000): strings.Repeat("µ", 2046) + "...",
	} {
		if got := CleanText(text, maxTextBytes); got != want || !validText(got) {
			t.Errorf("%.80q becomes %.80q, want %.80q", text, got, want)
		}
	}
	if validUnit("\xb5s") || validUnit("a\tb") || validUnit(strings.Repeat("x", 65)) || !validUnit("") ||
		!validUnit("µs") || !validUnit("°C") {
		t.Error("validUnit")
	}
}

// header returns what values of a schema begin with.
func (e *entry) header() []byte {
	return binary.LittleEndian.AppendUint64([]byte{0xC3, 0x01}, e.fingerprint)
}
