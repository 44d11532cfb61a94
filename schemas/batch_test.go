package schemas

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// generalBatch reads a value as Unmarshal does for all other records.
func generalBatch(b []byte) (Record, error) {
	e, err := lookupChecked(b)
	if err != nil {
		return nil, err
	}
	r := e.zero()
	_, err = e.schema().Decode(b[headerBytes:], r)
	return r, err
}

// sameBatch compares what both codecs read. NaNs are equal bit for bit.
func sameBatch(a, b Record) string {
	bits := cmp.Comparer(func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
	return cmp.Diff(a, b, bits, cmpopts.EquateEmpty())
}

// checkBatch holds the codec of a CounterBatch to the general one: what it takes, the general one takes, and reads the
// same. What is read has the same bytes again.
func checkBatch(t *testing.T, b []byte) (taken bool) {
	t.Helper()
	e, err := lookup(b)
	if err != nil || !e.isBatch || len(b) > MaxBatchBytes {
		return false
	}
	got, taken := decodeBatch(b[headerBytes:], e.hasReported())
	want, err := generalBatch(b)
	if !taken {
		return false
	}
	if err != nil {
		t.Fatalf("only the codec of CounterBatch takes %x: %v", b, err)
	}
	if diff := sameBatch(want, got); diff != "" {
		t.Fatalf("%x: %s", b, diff)
	}
	general, err := table.byName["weir.v1.CounterBatch"].schema().AppendSingleObject(nil, got)
	if err != nil {
		t.Fatal(err)
	}
	own, err := Marshal(got)
	if err != nil || !bytes.Equal(own, general) {
		t.Fatalf("%x is written as %x, want %x (%v)", b, own, general, err)
	}
	return true
}

// TestBatchIsTheGeneralOne: legal batches are read by their own codec alone, and cut or spoiled ones never differently.
func TestBatchIsTheGeneralOne(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := draw{rand.New(rand.NewPCG(seed, 11))}
	for range 60 / slower {
		b := mustMarshal(t, legal["CounterBatch"](d))
		if !checkBatch(t, b) {
			t.Fatalf("a legal batch is left to the general codec: %x", b)
		}
		for range 20 {
			cut := b[:headerBytes+d.IntN(len(b)-headerBytes)]
			if checkBatch(t, cut) {
				t.Errorf("a batch that is cut is read: %x", cut)
			}
			spoiled := bytes.Clone(b)
			spoiled[headerBytes+d.IntN(len(b)-headerBytes)] ^= 1 << d.IntN(8)
			checkBatch(t, spoiled)
		}
		if checkBatch(t, append(bytes.Clone(b), 0)) {
			t.Errorf("bytes behind a batch are read: %x", b)
		}
	}
}

// TestBatchDoesNotAlias: the reader may use its buffer again.
func TestBatchDoesNotAlias(t *testing.T) {
	b := mustMarshal(t, wideBatch(3, 4))
	r, err := Unmarshal(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if diff := sameBatch(wideBatch(3, 4), r); diff != "" {
		t.Error(diff)
	}
	values := r.(*CounterBatch).Metrics[0].Values
	_ = append(values, 1)
	if diff := sameBatch(wideBatch(3, 4), r); diff != "" {
		t.Errorf("who appends to values overwrites others: %s", diff)
	}
}

// TestBatchAllocations: reading allocates for the record, its values, texts, metrics and cpus, and writing once.
func TestBatchAllocations(t *testing.T) {
	if slower > 1 {
		t.Skip("the race detector allocates")
	}
	batch := wideBatch(37, 16)
	b := mustMarshal(t, batch)
	if n := testing.AllocsPerRun(100, func() { _, _ = Unmarshal(b) }); n > 5 {
		t.Errorf("reading allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = Marshal(batch) }); n > 1 {
		t.Errorf("writing allocates %v times", n)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(mustMarshal(f, wideBatch(3, 2)))
	f.Add(mustMarshal(f, wideBatch(0, 0)))
	f.Add(manyBlocks(f, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkBatch(t, b)
		r := &BatchReader{}
		checkPacked(t, r, mustMarshal(t, wideBatch(3, 2)))
		checkPacked(t, r, b)
	})
}

// wideBatch is a batch of so many metrics with values of so many CPUs.
func wideBatch(metrics, cpus int) *CounterBatch {
	b := &CounterBatch{NodeHeader: NodeHeader{
		Cluster: "c1", Node: "n17", BootID: "b", RunID: "r", Seq: 1, IntervalStart: 1_700_000_010_000,
		IntervalMs: 10_000, SampledAt: 1_700_000_020_000_000,
		SentAt: 1_700_000_020_001, JobID: "4711", Restart: 1, Epoch: 5,
	}}
	for c := range cpus {
		b.Cpus = append(b.Cpus, int32(c))
	}
	r := rand.New(rand.NewPCG(1, 1))
	for m := range metrics {
		metric := CounterBatchMetric{Name: fmt.Sprintf("metric_%03d", m), Unit: "1/s", Scope: ScopeCore}
		for range cpus {
			metric.Values = append(metric.Values, r.ExpFloat64())
		}
		b.Metrics = append(b.Metrics, metric)
	}
	return b
}

// BenchmarkBatch reads and writes a node's batch of 37 metrics and 16 CPUs, by each codec. It reports nanoseconds a
// value.
func BenchmarkBatch(b *testing.B) {
	const metrics, cpus = 37, 16
	batch := wideBatch(metrics, cpus)
	value := mustMarshal(b, batch)
	e := table.byName["weir.v1.CounterBatch"]
	dynamic := oracle(b, e)
	native, _, err := dynamic.NativeFromBinary(value[headerBytes:])
	if err != nil {
		b.Fatal(err)
	}
	reader, packed, values := &BatchReader{}, &PackedBatch{}, make([]float64, 0, metrics*cpus)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"read/packed", func() error { // and checked, with its values
			_, err := reader.Read(value, packed)
			values = values[:0]
			for m := range packed.Layout.Metrics {
				values = packed.AppendValues(values, m)
			}
			return err
		}},
		{"read/own", func() error { _, ok := decodeBatch(value[headerBytes:], e.hasReported()); return okOr(ok) }},
		{"read/general", func() error { _, err := generalBatch(value); return err }},
		{"read/goavro", func() error { _, _, err := dynamic.NativeFromBinary(value[headerBytes:]); return err }},
		{"read/checked", func() error { _, err := Unmarshal(value); return err }},
		{"write/own", func() error { _, err := Marshal(batch); return err }},
		{"write/general", func() error { _, err := e.schema().AppendSingleObject(nil, batch); return err }},
		{"write/goavro", func() error { _, err := dynamic.BinaryFromNative(nil, native); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(metrics*cpus), "ns/value")
		})
	}
}

func okOr(ok bool) error {
	if !ok {
		return errMalformed
	}
	return nil
}
