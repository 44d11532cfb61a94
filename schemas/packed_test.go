package schemas

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// unpacked is the CounterBatch of a PackedBatch, without what that leaves out.
func unpacked(p *PackedBatch) *CounterBatch {
	b := &CounterBatch{NodeHeader: p.NodeHeader, Reported: p.Reported}
	for i, m := range p.Layout.Metrics {
		b.Metrics = append(b.Metrics, CounterBatchMetric{m.Name, m.Unit, m.Scope, p.AppendValues(nil, i)})
	}
	return b
}

// checkPacked holds a BatchReader to Unmarshal: the same errors, the same records, the same values, and the same word
// on the clock. It reads twice, since the second time it knows names and layout.
func checkPacked(t *testing.T, r *BatchReader, b []byte) {
	t.Helper()
	want, wantErr := Unmarshal(b)
	for range 2 {
		var packed PackedBatch
		got, err := r.Read(b, &packed)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%x: error %v, want %v", b, err, wantErr)
		}
		if err != nil {
			continue
		}
		if batch, is := want.(*CounterBatch); is {
			left := *batch
			left.BootID, left.RunID, left.Cpus = "", "", nil
			for _, appended := range []int64{0, left.SentAt, math.MaxInt64 / 2} {
				if sign, want := packed.Clock(appended), ClockOf(batch, appended); sign != want {
					t.Fatalf("%x: the clock is %+v, want %+v", b, sign, want)
				}
			}
			got, want = unpacked(&packed), &left
		}
		if diff := sameBatch(want, got); diff != "" {
			t.Fatalf("%x: %s", b, diff)
		}
		want, _ = Unmarshal(b)
	}
}

// TestPackedIsTheBatch: a reader that has read thousands of batches of many layouts reads each as Unmarshal does. So it
// is with cut ones, spoiled ones, other forms of the same, and other records.
func TestPackedIsTheBatch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := draw{rand.New(rand.NewPCG(seed, 12))}
	r := &BatchReader{}
	checkPacked(t, r, manyBlocks(t, 3))
	checkPacked(t, r, mustMarshal(t, &Gap{Node: "n1", RunID: "r", Reason: "x"}))
	checkPacked(t, r, mustMarshal(t, wideBatch(0, 0)))
	for range 60 / slower {
		b := mustMarshal(t, legal["CounterBatch"](d))
		checkPacked(t, r, b)
		for range 20 {
			checkPacked(t, r, b[:d.IntN(len(b))])
			spoiled := bytes.Clone(b)
			spoiled[headerBytes+d.IntN(len(b)-headerBytes)] ^= 1 << d.IntN(8)
			checkPacked(t, r, spoiled)
		}
		checkPacked(t, r, append(bytes.Clone(b), 0))
	}
}

// TestLayoutsAreShared: batches that differ in nothing but their node and their values have one layout, and others
// their own. A reader remembers the latest ones.
func TestLayoutsAreShared(t *testing.T) {
	r := &BatchReader{}
	layout := func(b *CounterBatch) *Layout {
		var p PackedBatch
		if _, err := r.Read(mustMarshal(t, b), &p); err != nil {
			t.Fatal(err)
		}
		return p.Layout
	}
	first := layout(wideBatch(3, 4))
	other := wideBatch(3, 4)
	other.Node, other.JobID, other.Metrics[1].Values[2] = "n18", "4712", -1
	if layout(other) != first {
		t.Error("a node with other values has another layout")
	}
	for name, change := range map[string]func(b *CounterBatch){
		"unit":  func(b *CounterBatch) { b.Metrics[2].Unit = "B" },
		"name":  func(b *CounterBatch) { b.Metrics[2].Name = "metric_00x" },
		"scope": func(b *CounterBatch) { b.Metrics[2].Scope, b.Metrics[2].Values = ScopeNode, []float64{1} },
		"fewer": func(b *CounterBatch) { b.Metrics = b.Metrics[:2] },
	} {
		changed := wideBatch(3, 4)
		change(changed)
		if layout(changed) == first {
			t.Errorf("another %s has the same layout", name)
		}
	}
	if layout(wideBatch(3, 5)) == first || layout(wideBatch(3, 4)) != first {
		t.Error("the layout of four CPUs is not that of five, and is still known")
	}
	for n := range maxLayouts {
		layout(wideBatch(4+n, 4))
	}
	if len(r.layouts) != maxLayouts || layout(wideBatch(3, 4)) == first {
		t.Errorf("%d layouts are remembered", len(r.layouts))
	}
}

// TestTextsAreForgotten: a reader does not grow with names that never come again.
func TestTextsAreForgotten(t *testing.T) {
	r := &BatchReader{}
	b := wideBatch(1, 1)
	for n := range maxTexts + 10 {
		b.Node = fmt.Sprint("n", n)
		var p PackedBatch
		if _, err := r.Read(mustMarshal(t, b), &p); err != nil || p.Node != b.Node {
			t.Fatalf("%s is read as %s: %v", b.Node, p.Node, err)
		}
		if len(r.texts) > maxTexts {
			t.Fatalf("%d names are remembered", len(r.texts))
		}
	}
}

// TestPackedAllocations: reading the batch of a known node, and its values, allocates nothing.
func TestPackedAllocations(t *testing.T) {
	if slower > 1 {
		t.Skip("the race detector allocates")
	}
	r, b, p := &BatchReader{}, mustMarshal(t, wideBatch(37, 16)), &PackedBatch{}
	values := make([]float64, 0, 37*16)
	n := testing.AllocsPerRun(100, func() {
		_, _ = r.Read(b, p)
		values = values[:0]
		for m := range p.Layout.Metrics {
			values = p.AppendValues(values, m)
		}
	})
	if n > 0 || len(values) != 37*16 {
		t.Errorf("reading %d values allocates %v times", len(values), n)
	}
}
