package producers

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// model is the ring in its simplest form: records in order of interval, then arrival. Of more intervals than fit, the
// oldest is dropped and counted.
type model struct {
	held []item
	gap  *schemas.Gap
}

func (m *model) add(its ...item) {
	m.held = append(m.held, its...)
	slices.SortStableFunc(m.held, func(a, b item) int { return int(a.start - b.start) })
	for {
		intervals := map[int64]bool{}
		for _, it := range m.held {
			intervals[it.start] = true
		}
		if len(intervals) <= 3 {
			return
		}
		for oldest := m.held[0].start; m.held[0].start == oldest; m.held = m.held[1:] {
			m.lose(m.held[0])
		}
	}
}

func (m *model) lose(it item) {
	if m.gap == nil {
		m.gap = &schemas.Gap{
			Node: "n", RunID: "run", FirstIntervalStart: it.start, LastIntervalStart: it.start,
			Reason: reasonFull,
		}
	}
	m.gap.FirstIntervalStart = min(m.gap.FirstIntervalStart, it.start)
	m.gap.LastIntervalStart = max(m.gap.LastIntervalStart, it.start)
	m.gap.Records++
}

func TestRingAgainstModel(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	for range 300 {
		r, m := newRing("n", "run", 3, nodeBytes), &model{}
		var flying []item
		next, drops := int64(0), int64(0)
		for range 100 {
			switch rng.IntN(5) {
			case 0, 1: // an interval
				next += 1 + rng.Int64N(2)
				var its []item
				for p := range rng.Int32N(3) + 1 {
					its = append(its, item{start: next, partition: p})
				}
				r.push(its)
				m.add(its...)
			case 2: // hand one over
				it, ok := r.take()
				if ok != (len(m.held) > 0) {
					t.Fatalf("take is %v with %d held", ok, len(m.held))
				}
				if ok {
					if diff := cmp.Diff(m.held[0], it, cmp.AllowUnexported(item{})); diff != "" {
						t.Fatalf("taken (-want +got):\n%s", diff)
					}
					m.held = m.held[1:]
					flying = append(flying, it)
				}
			case 3: // one comes back
				if len(flying) > 0 {
					i := rng.IntN(len(flying))
					r.back(flying[i])
					m.add(flying[i])
					flying = slices.Delete(flying, i, i+1)
				}
			case 4: // tell what was lost
				if it, ok := r.takeGap(9); ok {
					if diff := cmp.Diff(m.gap, it.gap); diff != "" {
						t.Fatalf("gap (-want +got):\n%s", diff)
					}
					drops += m.gap.Records
					m.gap = nil
				} else if m.gap != nil {
					t.Fatal("no gap although records were lost")
				}
			}
			if r.depth() != len(m.held) {
				t.Fatalf("depth %d, want %d", r.depth(), len(m.held))
			}
		}
		if m.gap != nil {
			drops += m.gap.Records
		}
		if r.drops != drops {
			t.Fatalf("%d drops, want %d", r.drops, drops)
		}
	}
}

func TestRingGaps(t *testing.T) {
	r := newRing("n", "run", 2, nodeBytes)
	it := func(start int64) item { return item{start: start} }
	if r.push([]item{it(1)}) || r.push([]item{it(2)}) {
		t.Error("a ring that holds everything says that it drops")
	}
	if !r.push([]item{it(3)}) || r.push([]item{it(4)}) {
		t.Error("the first drop, and it alone, is to be said")
	}
	r.lose(it(7), "MESSAGE_TOO_LARGE")
	told, _ := r.takeGap(5)
	r.push([]item{it(8)})
	r.owe(told.gap) // it could not be sent: both are told at the next chance
	want := []*schemas.Gap{
		{Node: "n", RunID: "run", FirstIntervalStart: 7, LastIntervalStart: 7, Records: 1, Reason: "MESSAGE_TOO_LARGE"},
		{Node: "n", RunID: "run", FirstIntervalStart: 1, LastIntervalStart: 3, Records: 3, Reason: reasonFull},
	}
	if diff := cmp.Diff(want, r.gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	for i := range 100 { // any number of reasons takes bounded memory, and no record is forgotten
		r.lose(it(int64(i)), string(rune('a'+i)))
	}
	sum := int64(0)
	for _, g := range r.gaps {
		sum += g.Records
	}
	if len(r.gaps) != maxGaps || sum != 104 {
		t.Errorf("%d gaps tell of %d records, want %d of 104", len(r.gaps), sum, maxGaps)
	}
}

// TestRingIsBoundedInBytes: the ring never exceeds its limit, except by the newest interval alone. The newest interval
// stays whole, and every record that is neither held nor taken is in a Gap.
func TestRingIsBoundedInBytes(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 2))
	for range 300 {
		r := newRing("n", "run", 1+rng.IntN(32), 1+rng.Int64N(2000))
		var flying []item
		pushed, delivered, start := 0, 0, int64(0)
		for range 200 {
			switch rng.IntN(4) {
			case 0, 1: // an interval, some larger than the ring
				start++
				its := make([]item, 1+rng.IntN(20))
				for i := range its {
					its[i] = item{start: start, bytes: 1 + rng.Int64N(200)}
				}
				pushed += len(its)
				r.push(its)
				if newest := r.batches[len(r.batches)-1]; newest.start != start || len(newest.items) != len(its) {
					t.Fatalf("of %d records of the newest interval %d, %d of interval %d are held",
						len(its), start, len(newest.items), newest.start)
				}
			case 2:
				if it, ok := r.take(); ok {
					flying = append(flying, it)
				}
			case 3: // what was sent is acknowledged, or comes back
				if len(flying) == 0 {
					break
				}
				i := rng.IntN(len(flying))
				if rng.IntN(2) == 0 {
					r.back(flying[i])
				} else {
					delivered++
				}
				flying = slices.Delete(flying, i, i+1)
			}
			var bytes int64
			for _, b := range r.batches {
				for _, it := range b.items {
					bytes += it.bytes
				}
			}
			if bytes != r.bytes {
				t.Fatalf("the ring counts %d bytes and holds %d", r.bytes, bytes)
			}
			if bytes > r.limit && len(r.batches) > 1 {
				t.Fatalf("%d intervals have %d bytes of %d", len(r.batches), bytes, r.limit)
			}
			var told int64
			for _, g := range r.gaps {
				told += g.Records
			}
			if got := r.depth() + len(flying) + delivered + int(told); got != pushed {
				t.Fatalf("%d of %d records are accounted for", got, pushed)
			}
		}
	}
}

// TestRingsShareAProcess: many simulated nodes do not multiply the limit, and each can still hold some intervals.
func TestRingsShareAProcess(t *testing.T) {
	if got := ringBytes(1); got != nodeBytes {
		t.Errorf("one node has %d bytes", got)
	}
	sampled := &sample{}
	sampled.cpus, sampled.columns = (&simulated{node: "sim0001"}).Interval(0)
	items, _ := form(&schemas.Route{Node: "sim0001"}, sampled, schemas.NodeHeader{})
	for _, nodes := range []int{1, 24, 1000, 10_000} {
		share := ringBytes(nodes)
		if share*int64(nodes) > fleetBytes || share < 4*items[0].bytes {
			t.Errorf("each of %d nodes has %d bytes, an interval takes %d", nodes, share, items[0].bytes)
		}
	}
}
