package fold

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestAccountsCloseWhereverRetentionCuts: every offset before the position has one fate, is open or is lost.
func TestAccountsCloseWhereverRetentionCuts(t *testing.T) {
	t.Parallel()
	foldCutLogs(t, newSeed(), uint64(kafkatest.Cases(500, 10)))
	if lostOpen, lostUnread := foldCutLogs(t, 1, 10); lostOpen == 0 || lostUnread == 0 { // the same in every run
		t.Errorf("%d times open records were lost, %d times unread ones: the test proves nothing", lostOpen, lostUnread)
	}
}

// foldCutLogs folds random logs with restarts, and checks each Progress. Some restarts find that retention took the
// beginning of what they read. It returns how often that hit open and unread records.
func foldCutLogs(t *testing.T, seed, logs uint64) (lostOpen, lostUnread int) {
	t.Helper()
	t.Logf("seed %d (repeat with -seed)", seed)
	for n := range logs {
		r := rand.New(rand.NewPCG(seed+n, 9))
		log := newCounterLog(t)(r)
		for i := range log {
			log[i].Offset = int64(i) // without markers every offset is a record
		}
		end := int64(len(log))
		var last *schemas.Progress
		logStart := int64(0)
		for last == nil || last.Position < end {
			a, i := OpenAccount(newCollectorFold, last, logStart)
			for range 1 + r.IntN(60) { // until it crashes
				if i >= end {
					break
				}
				a.Add(log[i])
				i++
				if a.Position == a.From && a.Lost == nil || r.IntN(4) > 0 && i < end {
					continue
				}
				p := a.Progress()
				if got := fatesOf(p.Counts) + p.Counts.Lost + p.Open; got != p.Position {
					t.Fatalf("seed %d: %d records have a fate, are open or lost, of %d: %+v",
						seed+n, got, p.Position, p)
				}
				if p.LostFrom != nil && *p.LostTo > p.From {
					lostUnread++
				} else if p.LostFrom != nil {
					lostOpen++
				}
				a.Committed()
				last = p
			}
			if last != nil && r.IntN(6) == 0 {
				logStart = max(logStart, min(last.Hold+int64(r.IntN(20)), end-1))
			}
		}
	}
	return lostOpen, lostUnread
}

// TestReplayEnds: the replay is over behind the last record that the predecessor read, which may be a marker.
func TestReplayEnds(t *testing.T) {
	for _, marker := range []bool{false, true} {
		p := &schemas.Progress{Position: 12, Hold: 10}
		a, start := OpenAccount(newMergerFold, p, 0)
		if start != 10 || !a.Replays() {
			t.Fatalf("reads from %d, replays %v", start, a.Replays())
		}
		a.Add(entry(t, 10, &schemas.Watermark{IntervalStart: simEpochMs, IntervalMs: simT}))
		if !a.Replays() {
			t.Error("the replay ended too early")
		}
		if marker {
			a.Advance(12)
		} else {
			a.Add(entry(t, 11, &schemas.Watermark{IntervalStart: simEpochMs, IntervalMs: simT}))
		}
		if a.Replays() {
			t.Errorf("the replay goes on behind its end, marker %v", marker)
		}
	}
	if a, _ := OpenAccount(newMergerFold, nil, 5); a.Replays() {
		t.Error("a beginning is a replay")
	}
}

// entry is a record that was appended when the first interval ended.
func entry(t testing.TB, offset int64, r schemas.Record) Entry {
	t.Helper()
	return Entry{Offset: offset, AppendedMs: simEpochMs + simT, Value: encode(t, r)}
}

// A replay that is cut and crashes says nothing; the next one finds the same.
func TestLossOfOpenRecordsIsSaidOnce(t *testing.T) {
	open := func(p *schemas.Progress) Fold { return NewCollector(simCluster, 0, 1, p) }
	a, _ := OpenAccount(open, nil, 0)
	for i := range int64(4) {
		a.Add(entry(t, i, batch(fmt.Sprintf("n%d", i), "whole", simEpochMs, simT, 1)))
	}
	last := a.Progress()
	for range 2 {
		b, from := OpenAccount(open, last, 3)
		if from != 3 || b.HasNews() {
			t.Fatalf("from %d, %+v", from, b)
		}
		b.Add(entry(t, 3, batch("n3", "whole", simEpochMs, simT, 1)))
		if b.HasNews() {
			t.Error("the replay has not ended, and something is said already")
		}
		b.Advance(5) // a marker ends it
		p := b.Progress()
		if p.Counts.Lost != 3 || p.Open != 1 || p.LostFrom == nil || *p.LostFrom != 0 || *p.LostTo != 3 {
			t.Errorf("%+v", p)
		}
	}
	b, _ := OpenAccount(open, last, 10)
	if p := b.Progress(); p.Counts.Lost != 4+6 || *p.LostFrom != 0 || *p.LostTo != 10 {
		t.Errorf("all of it is gone: %+v", p)
	}
}

// What is left of a window that was emitted is not emitted again.
func TestACutReplayEmitsNoWindowTwice(t *testing.T) {
	newFold := func(p *schemas.Progress) Fold { return newMergerFold(p) }
	a, _ := OpenAccount(newFold, nil, 0)
	put := func(a *Account, offset int64, r schemas.Record) { a.Add(entry(t, offset, r)) }
	put(a, 0, partial("two", 0, simEpochMs, 2))
	put(a, 1, partial("two", 1, simEpochMs, 2))
	if len(a.Outputs) != 1 {
		t.Fatalf("%d outputs", len(a.Outputs))
	}
	b, from := OpenAccount(newFold, a.Progress(), 1)
	for o := from; o < 2; o++ {
		put(b, o, partial("two", 1, simEpochMs, 2))
	}
	for c := range int32(simCollectors) {
		put(b, 2+int64(c), &schemas.Watermark{Collector: c, IntervalStart: simEpochMs, IntervalMs: simT})
	}
	if len(b.Outputs) > 0 {
		t.Errorf("emitted again: %+v", b.Outputs)
	}
}

// rubbishAt folds entries of one byte, appended at these times, with commits and crashes after each of some.
func rubbishAt(t *testing.T, limit int64, appended []int64, crashes func(i int) bool) (stoppedAt int) {
	t.Helper()
	var last *schemas.Progress
	a, _ := OpenAccount(newCollectorFold, nil, 0)
	for i, ms := range appended {
		a.Unreadable.Limit = limit
		a.Add(Entry{Offset: int64(i), AppendedMs: ms, Value: []byte{1}})
		if a.Unreadable.Stopped != nil {
			return i
		}
		if crashes(i) {
			last = a.Progress()
			a, _ = OpenAccount(newCollectorFold, last, 0)
		}
	}
	return -1
}

func TestUnreadableRecordsStopByTheLogAlone(t *testing.T) {
	every := func(n int, ms int64) (times []int64) {
		for i := range n {
			times = append(times, simEpochMs+int64(i)*ms)
		}
		return times
	}
	for name, c := range map[string]struct {
		appended []int64
		want     int
	}{
		"six at once":                            {every(6, 0), 5},
		"five at once":                           {every(5, 0), -1},
		"six in a minute":                        {every(6, 11_999), 5},
		"one in 13 s for an hour":                {every(300, 13_000), -1},
		"six while the broker's clock goes back": {every(6, -1000), 5},
		"a clock that was an hour ahead":         {append(every(5, 0), simEpochMs-3_600_000, simEpochMs-3_600_000), -1},
	} {
		for schedule := range 8 {
			r := rand.New(rand.NewPCG(uint64(schedule), 1))
			crashes := func(int) bool { return schedule > 0 && r.IntN(3) == 0 }
			if got := rubbishAt(t, 5, c.appended, crashes); got != c.want {
				t.Errorf("%s, schedule %d: stopped at %d, want %d", name, schedule, got, c.want)
			}
		}
	}
}

// TestNodesWithAWrongClockStopNothing: eight nodes with a wrong clock, and eight with a wrong cluster, at 200 ms, for
// an outage and more without a Tick.
func TestNodesWithAWrongClockStopNothing(t *testing.T) {
	const length = 200
	a, _ := OpenAccount(newCollectorFold, nil, 0)
	offset := int64(0)
	for i := range int64(200) {
		start := simEpochMs + i*length
		for n := range 16 {
			b := batch(fmt.Sprintf("n%d", n), "whole", start+3_600_000, length, 1)
			if n >= 8 {
				b = batch(fmt.Sprintf("n%d", n), "whole", start, length, 1)
				b.Cluster = "elsewhere"
			}
			a.Add(Entry{Offset: offset, AppendedMs: start + length, Value: encode(t, b)})
			offset++
		}
		good := encode(t, batch("good", "whole", start, length, 1))
		a.Add(Entry{Offset: offset, AppendedMs: start + length, Value: good})
		offset++
	}
	p := a.Progress()
	if a.Unreadable.Stopped != nil || p.Counts.Rejected != 3200 {
		t.Errorf("stopped by %+v, %d rejected", a.Unreadable.Stopped, p.Counts.Rejected)
	}
	if len(p.Rejected) > 66*16 {
		t.Errorf("Progress lists %d rejected records, of more than an outage", len(p.Rejected))
	}
}

func TestRejectedOffsetsInProgressAreBounded(t *testing.T) {
	a, _ := OpenAccount(newCollectorFold, nil, 0)
	open := entry(t, 0, batch("n1", "whole", simEpochMs, simT, 1))
	a.Add(open)
	for i := range int64(maxHeldRejects + 7) {
		a.Add(Entry{Offset: 1 + i, AppendedMs: simEpochMs + simT, Value: []byte{1}})
	}
	p := a.Progress()
	if len(p.Rejected) != maxHeldRejects || p.Rejected[0] != 8 {
		t.Fatalf("%d offsets from %d", len(p.Rejected), p.Rejected[0])
	}
	if _, err := schemas.MarshalChecked(p); err != nil {
		t.Error(err)
	}
	b, from := OpenAccount(newCollectorFold, p, 0)
	for o := from; o < p.Position; o++ { // a replay finds the others for itself
		e := Entry{Offset: o, AppendedMs: simEpochMs + simT, Value: []byte{1}}
		if o == 0 {
			e = open
		}
		b.Add(e)
	}
	if diff := cmp.Diff(p.Rejected, b.Progress().Rejected); diff != "" || b.HasNews() {
		t.Errorf("news %v: %s", b.HasNews(), diff)
	}
}
