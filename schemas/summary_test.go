package schemas

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// checkSummary holds the codec of a JobSummary to the general one: what it takes, the general one takes, and reads the
// same. What is read has the same bytes again.
func checkSummary(t *testing.T, b []byte) (taken bool) {
	t.Helper()
	e, err := lookup(b)
	if err != nil || !e.isSummary || len(b) > MaxRecordBytes {
		return false
	}
	got, taken := decodeSummary(b[headerBytes:])
	if !taken {
		return false
	}
	want, err := generalBatch(b)
	if err != nil {
		t.Fatalf("only the codec of JobSummary takes %x: %v", b, err)
	}
	if diff := sameBatch(want, got); diff != "" {
		t.Fatalf("%x: %s", b, diff)
	}
	general, err := e.schema().AppendSingleObject(nil, got)
	if err != nil {
		t.Fatal(err)
	}
	own, err := Marshal(got)
	if err != nil || !bytes.Equal(own, general) {
		t.Fatalf("%x is written as %x, want %x (%v)", b, own, general, err)
	}
	return true
}

// TestSummaryIsTheGeneralOne: legal summaries are read by their own codec alone, and cut or spoiled ones never
// differently.
func TestSummaryIsTheGeneralOne(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := draw{rand.New(rand.NewPCG(seed, 12))}
	for range 60 / slower {
		b := mustMarshal(t, legal["JobSummary"](d))
		if !checkSummary(t, b) {
			t.Fatalf("a legal summary is left to the general codec: %x", b)
		}
		for range 20 {
			cut := b[:headerBytes+d.IntN(len(b)-headerBytes)]
			if checkSummary(t, cut) {
				t.Errorf("a summary that is cut is read: %x", cut)
			}
			spoiled := bytes.Clone(b)
			spoiled[headerBytes+d.IntN(len(b)-headerBytes)] ^= 1 << d.IntN(8)
			checkSummary(t, spoiled)
		}
		if checkSummary(t, append(bytes.Clone(b), 0)) {
			t.Errorf("bytes behind a summary are read: %x", b)
		}
	}
}

// TestSummaryDoesNotAlias: the reader may use its buffer again, and who appends to a list changes no other.
func TestSummaryDoesNotAlias(t *testing.T) {
	b := mustMarshal(t, wideSummary(3))
	r, err := Unmarshal(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	for i := range r.(*JobSummary).Metrics {
		m := &r.(*JobSummary).Metrics[i]
		_, _, _ = append(*m.Deciles, 1), append(m.Certified.OrderStatistics, 1), append(m.Certified.Knots, Knot{})
		_ = append(m.Certified.Atoms, Atom{})
	}
	if diff := sameBatch(wideSummary(3), r); diff != "" {
		t.Error(diff)
	}
}

// TestSummaryAllocations: reading allocates for the record, its metrics and each type within, and writing once.
func TestSummaryAllocations(t *testing.T) {
	if slower > 1 {
		t.Skip("the race detector allocates")
	}
	summary := wideSummary(37)
	b := mustMarshal(t, summary)
	if n := testing.AllocsPerRun(100, func() { _, _ = Unmarshal(b) }); n > 10 {
		t.Errorf("reading allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = Marshal(summary) }); n > 1 {
		t.Errorf("writing allocates %v times", n)
	}
}

func FuzzSummary(f *testing.F) {
	f.Add(mustMarshal(f, wideSummary(2)))
	f.Add(mustMarshal(f, wideSummary(0)))
	f.Fuzz(func(t *testing.T, b []byte) { checkSummary(t, b) })
}

// wideSummary is a summary of so many metrics, as collect writes it for 784 values with certificates of 512 bytes.
func wideSummary(metrics int) *JobSummary {
	s := &JobSummary{
		Cluster: "c1", JobID: "4711", IntervalStart: 1_700_000_010_000, IntervalMs: 10_000,
		Method: MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 49, NodesReported: 49,
	}
	r := rand.New(rand.NewPCG(1, 1))
	ascending := func(n int) *[]float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i) + r.Float64()
		}
		return &values
	}
	low, high := "n0017", "n0049"
	for m := range metrics {
		c := &Certified{Eps: r.Float64() / 100, OrderStatistics: *ascending(11)}
		for k := range 40 {
			c.Knots = append(c.Knots, Knot{float64(k) + r.Float64(), int64(20 * k)})
		}
		c.Atoms = append(c.Atoms, Atom{r.Float64(), 3})
		s.Metrics = append(s.Metrics, JobSummaryMetric{
			Name: fmt.Sprintf("metric_%03d", m), Unit: "1/s", Scope: ScopeCore, Count: 784, Nodes: 49,
			Mean: new(r.Float64()), Stddev: new(r.Float64()), NodeStddev: new(r.Float64()),
			LowNode: &low, HighNode: &high, Deciles: ascending(11),
			RankError: new(float64), Certified: c, LowNodeMean: new(r.Float64()),
			HighNodeMean: new(r.Float64()),
		})
	}
	return s
}

// BenchmarkSummary reads and writes a job's summary of 37 metrics, by each codec. It reports nanoseconds a metric.
func BenchmarkSummary(b *testing.B) {
	const metrics = 37
	summary := wideSummary(metrics)
	value := mustMarshal(b, summary)
	schema := table.byName["weir.v1.JobSummary"].schema()
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"read/own", func() error { _, ok := decodeSummary(value[headerBytes:]); return okOr(ok) }},
		{"read/general", func() error { _, err := generalBatch(value); return err }},
		{"read/checked", func() error { _, err := Unmarshal(value); return err }},
		{"write/own", func() error { _, err := Marshal(summary); return err }},
		{"write/general", func() error { _, err := schema.AppendSingleObject(nil, summary); return err }},
		{"rows", func() error { summary.Rows(); return nil }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/metrics, "ns/metric")
		})
	}
}
