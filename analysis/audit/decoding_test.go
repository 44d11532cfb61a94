package audit

import (
	"math"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// TestWrongDecodingIsFound: weir's codec reads one value of a batch wrongly, by its last bit. The audit that decodes
// this record twice names topic, partition, offset and field, and another one is silent.
func TestWrongDecodingIsFound(t *testing.T) {
	t.Parallel()
	batch := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: "c", Node: "n1", JobID: "1", IntervalStart: 10_000, IntervalMs: 10_000, Cpus: []int32{0, 1},
	}}
	for _, name := range []string{"a", "b"} {
		batch.Metrics = append(batch.Metrics, schemas.CounterBatchMetric{
			Name: name, Unit: "1", Scope: schemas.ScopeCore, Values: []float64{0.25, 0.5},
		})
	}
	value, err := schemas.MarshalChecked(batch)
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(b []byte) (schemas.Record, error) {
		r, err := schemas.Decode(b)
		r.(*schemas.CounterBatch).Metrics[1].Values[1] = math.Nextafter(0.5, 1)
		return r, err
	}
	for oneIn, want := range map[int64]int64{0: 0, 1: 2, DecodedOneIn: 1} {
		b := NewBooks(Terms{Cluster: "c", Prefix: "weir.", Collectors: 4, From: never, Only: -1, DecodedOneIn: oneIn})
		b.second.Decode = wrong
		for _, offset := range []int64{0, 1} { // one in a hundred: the first
			b.Add(Source{schemas.TopicCounters, 3}, Entry{Offset: offset, AppendedMs: 20_000, Value: value})
		}
		r := b.Close()
		if r.Found != want || r.Decoded != (Decoded{OneIn: oneIn, Read: 2, Twice: want}) {
			t.Errorf("one in %d: %+v, differences %v; want %d", oneIn, r.Decoded, r.Differences, want)
			continue
		}
		if want == 0 {
			continue
		}
		d := r.Differences[0]
		const line = "weir.counters-3 at 0: metrics[1].values[1]: weir's Decode reads 0.5000000000000001, goavro 0.5"
		if d.Kind != kindDecoding || d.Field != "metrics[1].values[1]" || d.String() != line {
			t.Errorf("%+v\n%s\nwant\n%s", d, d, line)
		}
	}
}

// TestMalformedIsNotDecodedTwice: goavro reserves what a hostile count asks for, so it never gets such a record.
func TestMalformedIsNotDecodedTwice(t *testing.T) {
	t.Parallel()
	value, err := schemas.Marshal(&schemas.Tick{IntervalStart: 10_000, IntervalMs: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	hostile := append(value[:13:13], "\xfe\xff\xff\xff\x0f"...) // jobs: 2^31 - 1
	b := NewBooks(Terms{Cluster: "c", Prefix: "weir.", Collectors: 1, From: never, Only: -1, DecodedOneIn: 1})
	for i, v := range [][]byte{hostile, []byte("{}"), value} {
		b.Add(Source{schemas.TopicCounters, 0}, Entry{Offset: int64(i), AppendedMs: 20_000, Value: v})
	}
	if r := b.Close(); r.Decoded != (Decoded{OneIn: 1, Read: 3, Twice: 1, Malformed: 2}) {
		t.Errorf("%+v", r.Decoded)
	}
}

// TestChosenEvenly: one offset in a hundred is chosen, of all and of those at any distance. Offset 0 is chosen, so that
// no short topic is left out.
func TestChosenEvenly(t *testing.T) {
	t.Parallel()
	if !chosen(0, DecodedOneIn) || !chosen(1, 1) || !chosen(math.MaxInt64, 1) || chosen(0, 0) {
		t.Error("offset 0, one in 1, none")
	}
	for stride := int64(1); stride <= 300; stride++ {
		const offsets = 100_000
		n := 0
		for i := range int64(offsets) {
			if chosen(i*stride, DecodedOneIn) {
				n++
			}
		}
		if n < offsets/DecodedOneIn*9/10 || n > offsets/DecodedOneIn*11/10 {
			t.Errorf("of each %dth offset, %d in %d are chosen", stride, n, offsets)
		}
	}
}
