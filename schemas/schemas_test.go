package schemas

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/linkedin/goavro/v2"
	"github.com/twmb/avro"
)

var update = flag.Bool("update", false, "write the golden records of schemas that have none")

// samples has one full and one sparse record of every schema.
func samples() []Record {
	head := NodeHeader{
		Cluster: "c1", Node: "n17", BootID: "b", RunID: "r", Seq: 9, IntervalStart: 1_700_000_010_000,
		IntervalMs: 10_000, SampledAt: 1_700_000_020_000_123, SentAt: 1_700_000_020_400, JobID: "4711", Restart: 1,
		Epoch: 3, Cpus: []int32{0, 1, 4},
	}
	deciles := []float64{1, 1.5, 2, 2, 3, 4, 4, 5, 6, 7.25, 8}
	metric := JobSummaryMetric{
		Name: "ipc", Unit: "1", Scope: ScopeCore, Count: 3, Invalid: 1, Nodes: 1, Mean: new(2.5), Stddev: new(0.5),
		NodeStddev: new(0.0), LowNode: new("n17"), HighNode: new("n17"), Deciles: &deciles, RankError: new(0.0),
		Lo: &deciles, Hi: &deciles,
	}
	none := JobSummaryMetric{Name: "none", Unit: "s", Scope: ScopeNode, Invalid: 2}
	certified := Certified{Eps: 0.5, OrderStatistics: deciles, Knots: []Knot{{1.25, 2}}, Atoms: []Atom{{1, 1}, {2, 2}}}
	certain := metric
	certain.Certified, certain.LowNodeMean, certain.HighNodeMean = &certified, new(2.25), new(2.75)
	return []Record{
		&CounterBatch{NodeHeader: head, Metrics: []CounterBatchMetric{
			{"cpu_user", "1", ScopeCore, []float64{0.5, math.Copysign(0, -1), 1}},
			{"mem_used", "B", ScopeNode, []float64{1e9}},
			{"steps", "1/s", ScopeNode, []float64{12.5}},
		}, Reported: []string{"steps"}},
		&CounterBatch{NodeHeader: NodeHeader{Cluster: "c", Node: "n", IntervalMs: 1, JobID: JobRest}},
		&NodeSummary{
			NodeHeader: head, Metrics: []NodeSummaryMetric{{metric, certified}, {none, Certified{}}},
			Reported: []string{"none"},
		},
		&Gap{"n17", "r", 1_700_000_010_000, 1_700_000_050_000, 12, "ring full"},
		&Tick{
			1_700_000_010_000, 10_000, 3,
			[]TickJob{{"4711", 1, 2, 3, []string{"n1", "n2"}}, {JobRest, 0, 0, 0, nil}},
			[]string{"n2"},
			true, 7,
		},
		&Route{
			"n17", 3, 1_700_000_010_000, 2,
			[]RouteEntry{
				{"4711", 1, []int32{0, 1}, 5, ModeCollect, []int32{2, 3}, "s5K1KKYAYG5D00"},
				{"4712", 0, nil, 2, ModeLocal, nil, ""},
			},
		},
		&BalanceState{3, 1_700_000_010_000, 10_000},
		&JobSummary{
			"c1", "4711", 1, 1_700_000_010_000, 10_000, MethodEstimated, 2, 1, 3, 2,
			[]JobSummaryMetric{certain, none},
		},
		&JobSummary{"c1", JobSystem, 0, 0, 10_000, MethodExact, 1, 1, 3, 0, nil},
		&JobPartial{"c1", "4711", 1, 1_700_000_010_000, 10_000, 5, 2, 7, 3, 2, []JobPartialMetric{
			{
				"ipc", "1", ScopeCore, 3, 0, 2, new(1.0), new(2.0), new(3.0), new(4.0), new("a"), new(5.0), new("b"),
				new(6.0), certified, 4,
			},
			{Name: "none", Unit: "s", Scope: ScopeNode, Invalid: 4},
		}, []SharedNode{{"n1", true}, {"n2", false}}},
		&Watermark{5, 1_700_000_010_000, 10_000},
		&Trigger{"c1", 1_700_000_010_000, 10_000, 1_700_000_010_001},
		&TopologyOrder{
			"c1", 1_700_000_010_001, "admin1:7117", []byte("0123456789abcdef"), 600, []string{"n1", "n17"},
		},
		&Progress{
			1, 9, 4, new(int64(1_700_000_010_000)), 10_000, new(int64(1_699_999_000_000)),
			[]int64{4, 7},
			new(int64(0)), new(int64(1)),
			ProgressCounts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
			[]JobLoad{{"4711", 1, 12, 60_000}, {"4712", 0, 1, 2100}},
			"0123456789abcdef0123456789abcdef", 3, 2, 1_700_000_020_000, new(int64(1_700_000_030_000)), "why",
		},
		&Progress{},
		&Reject{"weir.counters", 3, 99, "malformed", "00ff", []byte{0, 1, 255}},
		&Job{
			"4711", 1, "cfd", "ada", "p1", "batch",
			[]string{"n1"},
			[]int32{0},
			new(int64(1)), new(int64(2)),
			new(int64(3)), "RUNNING", "",
			new(int64(48)), new(int32(4)), new(int64(3600)), new(int64(1 << 38)), new(true),
			new("4700"), new(int32(11)),
		},
		&Job{JobID: "x", State: "SKIPPED", Reason: "unknown node n9"},
		&Finding{
			"c1", "4711", 1, "idle-cores", "00ff00ff00ff00ff", "cores do nothing", "ask for 12", "#SBATCH -n 12",
			FindingOpen, true, Certain, ClassHigh, 0.25, 0.75, 1_700_000_010_000, 1_700_000_050_000, 1_700_000_060_000,
			10_000, 40, 30, 20, new("n17"), 12,
			[]FindingEvidence{{"cpu_idle.d9", 0.5, 0.75, 1}},
			new(int64(1_700_000_003_500)),
		},
		&Finding{
			Cluster: "c", JobID: "1", Rule: "r", RuleHash: "0", State: FindingClosed, Certainty: Possible,
			Class: ClassLow, IntervalMs: 1,
		},
		&NodeFacts{
			"c1", "n17", FactsAgent, "b1", 1_700_000_010_000, "1.0.0", "6.8.0-40-generic",
			"AMD EPYC 7763 64-Core Processor",
			256, 2, 2, 8, 540_000_000_000, 5.0176e12, "table", 4.096e11, "table",
			[]NodeGPU{{"NVIDIA A100-SXM4-40GB", 42_949_672_960}, {}},
			[]NodeNIC{{"ib0", 200_000_000_000}},
		},
		&Notice{
			"c1", "4711", 1, ChannelMail, NoticeWaiting, "exit status 75", "3f9a6c1e", 2, 1_700_000_010_000,
			1_700_000_020_000, 1_700_000_080_000, "alice", "Störung 7", "idle-cores", "Cores without work",
			"Ask for 6 nodes.", "#SBATCH --nodes=6", "4711", 1, 1_700_000_000_000, 310.25, 0, 512, 0, "4711", 310.25, 0,
		},
		&FindState{"c1", "4711", 1, 1_700_000_010_000, 99, true, []byte{0xc3, 1}, []byte{0, 1, 255}},
	}
}

// oracle is goavro on the schema as shipped: another implementation of the same standard. It is one of the body only.
// Its canonical form keeps {"type":"long"} where the standard says "long". So its fingerprint of a logical type is not
// the standard's. That of fastavro is: TestFingerprints has the numbers.
func oracle(t testing.TB, e *entry) *goavro.Codec {
	t.Helper()
	c, err := goavro.NewCodec(e.text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEverySchemaAgreesWithGoavro(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range samples() {
		e := table.byName[nameOf(r)]
		seen[e.name] = true
		ours, err := Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		c := oracle(t, e)
		native, rest, err := c.NativeFromBinary(ours[headerBytes:])
		if err != nil || len(rest) != 0 {
			t.Fatalf("%s: goavro does not read what we wrote: %v, %d bytes left", e.name, err, len(rest))
		}
		theirs, err := c.BinaryFromNative(ours[:headerBytes:headerBytes], native)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours, theirs) {
			t.Errorf("%s: goavro encodes\n%x, we\n%x", e.name, theirs, ours)
		}
		if r.Validate() != nil {
			continue // a record that is only there to be encoded
		}
		back, err := Unmarshal(theirs)
		if err != nil {
			t.Fatalf("%s: we do not read what goavro wrote: %v", e.name, err)
		}
		if diff := cmp.Diff(r, back, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", e.name, diff)
		}
	}
	for name := range table.byName {
		if !seen[name] {
			t.Errorf("no sample of %s", name)
		}
	}
}

// TestFingerprints pins what stands in every value on the wire, in its byte order. The numbers are CRC-64-AVRO of the
// canonical form, as fastavro 1.12 computes it.
func TestFingerprints(t *testing.T) {
	want := map[string]string{
		"BalanceState": "4ef5888d01398460", "CounterBatch": "047a882c3070c0bc", "FindState": "68bb29f19999f65f",
		"Finding": "cd6d0d9f5f6cb98d", "Gap": "b6415daba41fec8a",
		"Job": "0ae430c24bc69a0a", "JobPartial": "6ee17a58c2b5b02e", "JobSummary": "b8af70d00328cd54",
		"NodeSummary": "7e78e6b7b72c5edc", "Progress": "29966c93eccc0d81", "Reject": "1867763f6691ffd2",
		"Route": "4da3872c4b5d6ae9", "Tick": "d3533fc74b997a50", "Trigger": "8fb9321cf0582011",
		"TopologyOrder": "48e85ffc19cea16d", "NodeFacts": "1a8707bcd6cca407", "Notice": "ad7d0911405ed53d",
		"Watermark": "c33c7140ebff709d",
	}
	for _, r := range samples() {
		b := mustMarshal(t, r)
		name := strings.TrimPrefix(nameOf(r), "weir.v1.")
		if got := hex.EncodeToString(b[2:headerBytes]); got != want[name] {
			t.Errorf("%s: %s, want %s", name, got, want[name])
		}
	}
}

// TestGolden decodes a record of every schema ever shipped: a file per fingerprint, never changed.
func TestGolden(t *testing.T) {
	for _, r := range samples() {
		b, err := Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		e := table.byName[nameOf(r)]
		file := filepath.Join("testdata", strings.TrimPrefix(e.name, "weir.v1.")+"-"+e.hex+".avro")
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) && *update {
			if err := os.WriteFile(file, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s has no golden record: a changed schema needs one (go test ./schemas -update) "+
				"and keeps the old one's: %v", e.name, err)
		}
	}
	golden, err := filepath.Glob("testdata/*.avro")
	if err != nil || len(golden) < len(table.byName) {
		t.Fatalf("%d golden records for %d schemas: %v", len(golden), len(table.byName), err)
	}
	for _, file := range golden {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := JSON(b); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := Unmarshal(b); err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestKnownFingerprints: the fingerprint of a schema is known without parsing the schema, and is right all the same.
func TestKnownFingerprints(t *testing.T) {
	for _, e := range table.byFingerprint {
		h := avro.NewRabin()
		_, _ = h.Write(e.schema().Canonical()) // a hash does not fail
		if is := h.Sum64(); is != e.fingerprint || table.byFingerprint[is] != e {
			t.Errorf("the schema %s has fingerprint 0x%016x, and its table in codec.go or its file's name has 0x%016x", e.name,
				is, e.fingerprint)
		}
	}
}

// TestOlderSchemas: a process of today reads what one of yesterday wrote, and the schema's topic has both.
func TestOlderSchemas(t *testing.T) {
	files, err := filepath.Glob("older/*.avsc")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name, fingerprint, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".avsc"), "-")
		if !slices.ContainsFunc(All(),
			func(s Schema) bool { return s.Name == "weir.v1."+name && s.Fingerprint == fingerprint }) {
			t.Errorf("%s is not the schema that its name says", file)
		}
		if current := table.byName["weir.v1."+name]; current.hex == fingerprint {
			t.Errorf("%s is the current one", file)
		}
	}
	// What each older schema does not have yet.
	lacks := map[string]func(r Record){
		"CounterBatch-ee608f0833da3124": func(r Record) {
			b := r.(*CounterBatch)
			b.Metrics, b.Reported = b.Metrics[:2], nil
		},
		"NodeSummary-1121c6def35bc57d": func(r Record) { r.(*NodeSummary).Reported = nil },
		"Progress-127f90ccb199b6c0": func(r Record) {
			p := r.(*Progress)
			p.Loads, p.TopicID, p.Open, p.Counts.Surplus = nil, "", 0, 0
			p.Unreadable, p.UnreadableSince, p.Closing, p.Stopped = 0, 0, nil, ""
		},
		"Progress-660cab1becc58863": func(r Record) {
			p := r.(*Progress)
			p.TopicID, p.Open, p.Counts.Surplus = "", 0, 0
			p.Unreadable, p.UnreadableSince, p.Closing, p.Stopped = 0, 0, nil, ""
		},
		"Tick-7377f7aeabb9c862": func(r Record) {
			k := r.(*Tick)
			k.Shared, k.More, k.MachineNodes = nil, false, 0
		},
		"Tick-4fc664ac7e88c1c1": func(r Record) { r.(*Tick).MachineNodes = 0 },
		"JobPartial-9e16415d968881bc": func(r Record) {
			p := r.(*JobPartial)
			p.Shared, p.Metrics[0].NodeMeans = nil, 0
		},
		"Route-6db6690659469ec9": func(r Record) {
			for i := range r.(*Route).Entries {
				r.(*Route).Entries[i].Gpus, r.(*Route).Entries[i].Cgroup = nil, ""
			}
		},
		"JobSummary-bfcb75a2e5937b03": func(r Record) {
			m := &r.(*JobSummary).Metrics[0]
			m.Certified, m.LowNodeMean, m.HighNodeMean = nil, nil, nil
		},
		"JobSummary-f11e4832dcd0eed0": func(r Record) {
			m := &r.(*JobSummary).Metrics[0]
			m.LowNodeMean, m.HighNodeMean = nil, nil
		},
		"Job-5993b57f0bc18ef0": func(r Record) {
			j := r.(*Job)
			j.Cores, j.Gpus, j.TimeLimitS, j.MemRequestedBytes, j.Exclusive = nil, nil, nil, nil, nil
			j.ArrayJob, j.ArrayTask = nil, nil
		},
		"Finding-98d6d0416e32414a": func(r Record) { r.(*Finding).JobStart = nil },
		"Job-5ca6aea4000d9ab8":     func(r Record) { r.(*Job).ArrayJob, r.(*Job).ArrayTask = nil, nil },
	}
	if len(lacks) != len(files) {
		t.Errorf("%d of %d older schemas are compared", len(lacks), len(files))
	}
	for golden, blank := range lacks {
		b, err := os.ReadFile("testdata/" + golden + ".avro")
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(golden, "-")
		want := samples()[slices.IndexFunc(samples(), func(r Record) bool { return nameOf(r) == "weir.v1."+name })]
		blank(want)
		got, err := Unmarshal(b)
		if name == "NodeSummary" && errors.Is(err, ErrInvalid) { // its golden record has three values in two places
			e, _ := lookup(b)
			got = e.zero()
			_, err = e.schema().Decode(b[headerBytes:], got)
		}
		if err != nil || !cmp.Equal(want, got, cmpopts.EquateEmpty()) {
			t.Errorf("%s: %v\n%s", golden, err, cmp.Diff(want, got, cmpopts.EquateEmpty()))
		}
	}
}

func TestEveryTruncationAndTrailingByteIsRefused(t *testing.T) {
	for _, r := range samples() {
		b, err := Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for n := range b {
			if _, err := Unmarshal(b[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes are accepted", nameOf(r), n, len(b))
			}
		}
		if _, err := Unmarshal(append(b, 0)); !errors.Is(err, errMalformed) {
			t.Errorf("%s: a trailing byte gives %v", nameOf(r), err)
		}
	}
}

func TestHostileNamesAreInvalid(t *testing.T) {
	good := func() *CounterBatch { return samples()[0].(*CounterBatch) }
	cases := map[string]struct {
		change func(b *CounterBatch)
		field  string
	}{
		"path in node":      {func(b *CounterBatch) { b.Node = "../../etc" }, "node"},
		"dots as node":      {func(b *CounterBatch) { b.Node = ".." }, "node"},
		"empty node":        {func(b *CounterBatch) { b.Node = "" }, "node"},
		"long node":         {func(b *CounterBatch) { b.Node = strings.Repeat("a", 65) }, "node"},
		"slash in cluster":  {func(b *CounterBatch) { b.Cluster = "a/b" }, "cluster"},
		"underscore job":    {func(b *CounterBatch) { b.JobID = "_mine" }, "job_id"},
		"the whole machine": {func(b *CounterBatch) { b.JobID = JobSystem }, "job_id"},
		"negative restart":  {func(b *CounterBatch) { b.Restart = -1 }, "restart"},
		"metric name":       {func(b *CounterBatch) { b.Metrics[0].Name = "a b" }, "metrics.name"},
		"metric twice":      {func(b *CounterBatch) { b.Metrics[1].Name = "cpu_user" }, "metrics.name"},
		"scope":             {func(b *CounterBatch) { b.Metrics[0].Scope = "rack" }, "metrics.scope"},
		"values":            {func(b *CounterBatch) { b.Metrics[0].Values = []float64{1} }, "metrics.values"},
		"cpu twice":         {func(b *CounterBatch) { b.Cpus[1] = 0 }, "cpus"},
		"no interval":       {func(b *CounterBatch) { b.IntervalMs = 0 }, "interval_ms"},
		"odd start":         {func(b *CounterBatch) { b.IntervalStart++ }, "interval_start"},
		"year 300,000": {
			func(b *CounterBatch) { b.IntervalStart = math.MaxInt64 / 10_000 * 10_000 }, "interval_start",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := good()
			c.change(b)
			value, err := Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Unmarshal(value)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.field+":") {
				t.Errorf("got %v, want ErrInvalid naming %s", err, c.field)
			}
		})
	}
}

func TestJSONIsPlain(t *testing.T) {
	b, err := Marshal(samples()[7])
	if err != nil {
		t.Fatal(err)
	}
	name, value, err := JSON(b)
	if err != nil || name != "weir.v1.JobSummary" {
		t.Fatal(name, err)
	}
	var got struct {
		IntervalStart int64 `json:"interval_start"`
		Metrics       []struct {
			Mean    *float64  `json:"mean"`
			LowNode *string   `json:"low_node"`
			Deciles []float64 `json:"deciles"`
		}
	}
	if err := json.Unmarshal(value, &got); err != nil {
		t.Fatalf("%v in %s", err, value)
	}
	if got.IntervalStart != 1_700_000_010_000 || *got.Metrics[0].Mean != 2.5 || *got.Metrics[0].LowNode != "n17" ||
		got.Metrics[0].Deciles[9] != 7.25 || got.Metrics[1].Mean != nil {
		t.Errorf("%s", value)
	}
}

func TestTopicsAreComplete(t *testing.T) {
	z := Sizes{Collectors: 64, Routes: 16, Partials: 1, JobSummary: 8, Replication: 3}
	partitions := map[string]int{}
	for _, topic := range Topics("weir.", z) {
		partitions[topic.Name] = topic.Partitions
		if topic.Config["min.insync.replicas"] != "2" || topic.Replicas != 3 {
			t.Errorf("%s: %v with %d replicas loses acknowledged records", topic.Name, topic.Config, topic.Replicas)
		}
	}
	want := map[string]int{
		"weir.counters": 64, "weir.routes": 16, "weir.balance": 1, "weir.triggers": 1, "weir.partials": 1,
		"weir.topology-orders": 1,
		"weir.job-summary":     8, "weir.jobs": 1,
		"weir.progress": 64, "weir.merge-progress": 1, "weir.rejects": 1, "weir.schemas": 1,
		"weir.findings": 1, "weir.find-progress": 8, "weir.find-state": 8,
		"weir.facts": 1, "weir.notices": 1,
	}
	if diff := cmp.Diff(want, partitions); diff != "" {
		t.Error(diff)
	}
}

// allocated is how many bytes f allocates. The runtime counts those of the whole process, and other goroutines do not
// allocate five times in a row. So of five runs the least counts, and the first within the limit ends them.
func allocated(limit uint64, f func()) uint64 {
	least := uint64(math.MaxUint64)
	for i := 0; i < 5 && least > limit; i++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// memoryBound is what Unmarshal of b may allocate: by its schema, which is at most what its doc says.
func memoryBound(b []byte) uint64 {
	const errors = 16 << 10 // what an error says, and the runtime's own
	e, err := lookup(b)
	if err != nil {
		return errors
	}
	return uint64(e.shape().bound(len(b)) + errors)
}

func TestRealRecordsFitTheBudget(t *testing.T) {
	tick := &Tick{IntervalMs: 1000, Jobs: []TickJob{{"1", 0, 1, 20_000, nil}}}
	for i := range 20_000 {
		tick.Jobs[0].Nodes = append(tick.Jobs[0].Nodes,
			"n"+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)))
	}
	batch := samples()[0].(*CounterBatch)
	batch.Cpus, batch.Metrics = nil, nil
	for i := range 256 {
		batch.Cpus = append(batch.Cpus, int32(i))
	}
	for i := range 100 {
		batch.Metrics = append(batch.Metrics,
			CounterBatchMetric{
				"m" + string(rune('a'+i%26)) + string(rune('a'+i/26)), "", ScopeCore,
				make([]float64, 256),
			})
	}
	for _, r := range append(samples(), tick, batch) {
		b, err := Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Unmarshal(b); err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s of %d bytes: %v", nameOf(r), len(b), err)
		}
	}
}

func TestHostileBytesAllocateLittle(t *testing.T) {
	header := func(r Record) []byte {
		b, err := Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return b[:headerBytes:headerBytes]
	}
	huge := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01} // the count 2^63 - 1
	manyEmpty := append([]byte{0x80, 0x80, 0x80, 0x02}, make([]byte, 1<<21)...)
	for _, r := range samples() {
		for _, body := range [][]byte{
			huge, manyEmpty, bytes.Repeat([]byte{2}, 1<<20), append([]byte{0, 0, 0, 0}, huge...),
			bytes.Repeat(huge, 1000),
		} {
			b := append(header(r), body...)
			limit := memoryBound(b)
			if n := allocated(limit, func() { _, _ = Unmarshal(b) }); n > limit {
				t.Errorf("%s: %d bytes allocate %d, more than %d", nameOf(r), len(b), n, limit)
			}
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, r := range samples() {
		b, err := Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	golden, err := filepath.Glob("testdata/*.avro")
	if err != nil || len(golden) == 0 {
		f.Fatal(len(golden), err)
	}
	for _, file := range golden {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(mustMarshal(f, goodNodeSummary()))
	f.Add(manyBlocks(f, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Record
		var err error
		limit := memoryBound(b)
		if n := allocated(limit, func() { r, err = Unmarshal(b) }); n > limit {
			t.Fatalf("%d bytes allocate %d, more than %d", len(b), n, limit)
		}
		_, value, jsonErr := JSON(b)
		if err != nil {
			return
		}
		if jsonErr != nil || !json.Valid(value) {
			t.Fatalf("Unmarshal takes it, JSON does not: %v, %s", jsonErr, value)
		}
		again, err := MarshalChecked(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Unmarshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if once, twice := mustMarshal(t, r), mustMarshal(t, back); !bytes.Equal(once, twice) {
			t.Fatalf("a second round trip differs: %v %v", r, back)
		}
	})
}

func mustMarshal(t testing.TB, r Record) []byte {
	t.Helper()
	b, err := Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRows(t *testing.T) {
	s := samples()[7].(*JobSummary)
	rows := s.Rows()
	if len(rows) != 2 || *rows[0].Metric != "ipc" || *rows[0].D9 != 7.25 || rows[1].D0 != nil || rows[1].Mean != nil ||
		*rows[1].Invalid != 2 {
		t.Errorf("%+v", rows)
	}
	if rows := (&JobSummary{JobID: "1"}).Rows(); len(rows) != 1 || rows[0].Metric != nil {
		t.Errorf("a summary without metrics gives %+v", rows)
	}
	if n := reflect.TypeFor[Row]().NumField(); n != 43 {
		t.Errorf("%d columns", n)
	}
}
