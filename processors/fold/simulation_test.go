package fold

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

var schedulesFlag = flag.Int("schedules", kafkatest.Cases(10_000, 200), "crash schedules to simulate for each fold")

// The tests of this package name what foldtest makes up very often.
const (
	simCluster = foldtest.Cluster
	simT       = foldtest.IntervalMs
	simEpochMs = foldtest.EpochMs
)

var (
	batch   = foldtest.Batch
	encode  = foldtest.Encode
	fatesOf = foldtest.Fates
	header  = foldtest.Header
	newSeed = foldtest.NewSeed
	partial = foldtest.Partial
	tickJob = foldtest.TickJob
	tickOf  = foldtest.Tick
)

// said is everything that a partition's transactions made durable.
type said struct {
	Outputs []string // as bytes
	Rejects []string
	Counts  schemas.ProgressCounts
	Hold    int64
	Open    int64
	Lost    []string // resumptions that did not find the open records that the Progress names
}

// machine runs a fold as the loop does, and dies when it is told to.
type machine struct {
	newFold func(p *schemas.Progress) Fold
	add     func(a *Account, e Entry) // account.add, or a variant with an error
	log     []Entry
	replays int64
}

// run folds the log to its end. dies is asked before and after every commit.
func (m *machine) run(t *testing.T, r *rand.Rand, dies func() bool) said {
	t.Helper()
	var durable said
	var last *schemas.Progress
	for {
		a, start := OpenAccount(m.newFold, last, m.log[0].Offset)
		i, _ := slices.BinarySearchFunc(m.log, start, func(e Entry, o int64) int { return int(e.Offset - o) })
		alive, resumed := true, last == nil
		for alive && i < len(m.log) {
			for range 1 + r.IntN(8) { // what one poll returns
				if i < len(m.log) {
					if !resumed && m.log[i].Offset >= last.Position {
						resumed = true
						if open := a.Fold.Progress(last.Position).Open; open != last.Open {
							lost := fmt.Sprintf("at %d: %d of %d", last.Position, open, last.Open)
							durable.Lost = append(durable.Lost, lost)
						}
					}
					m.add(a, m.log[i])
					i++
				}
			}
			if a.Position == a.From || !a.HasNews() && r.IntN(6) > 0 && i < len(m.log) {
				continue // still replaying, or nothing to say yet
			}
			if alive = !dies(); !alive {
				break
			}
			last = m.commit(t, a, &durable, last)
			alive = !dies()
		}
		m.replays += a.replayed
		if alive && last != nil {
			durable.Counts, durable.Hold, durable.Open = last.Counts, last.Hold, last.Open
			return durable
		}
	}
}

// commit is the transaction: all of it, or nothing.
func (m *machine) commit(t *testing.T, a *Account, durable *said, last *schemas.Progress) *schemas.Progress {
	t.Helper()
	for _, o := range a.Outputs {
		durable.Outputs = append(durable.Outputs, string(encode(t, o)))
	}
	for _, x := range a.Rejects {
		durable.Rejects = append(durable.Rejects, fmt.Sprintf("%d %s", x.Offset, x.Reason))
	}
	p := a.Progress()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if last != nil && (p.From != last.Position || p.Position < last.Position || p.Hold < last.Hold ||
		last.Closed != nil && *p.Closed < *last.Closed || last.Dropped != nil && *p.Dropped < *last.Dropped) {
		t.Fatalf("progress went back: %+v after %+v", p, last)
	}
	a.Committed()
	read, err := schemas.Unmarshal(encode(t, p)) // as its successor will see it
	if err != nil {
		t.Fatal(err)
	}
	return read.(*schemas.Progress)
}

// simulation is what came of a simulation.
type simulation struct {
	difference       string // the first one; empty: there is none
	crashes, replays int64
}

// simulate compares runs that crash with the run that does not, until one differs.
func simulate(
	t *testing.T, seed uint64, schedules int, newLog func(r *rand.Rand) []Entry, m machine,
) (done simulation) {
	t.Helper()
	reference := m
	reference.add = (*Account).Add
	var counts schemas.ProgressCounts
	const schedulesPerLog = 20
	for n := range schedules / schedulesPerLog {
		seed := seed + uint64(n)
		r := rand.New(rand.NewPCG(seed, 7))
		log := newLog(r)
		reference.log, m.log = log, log
		want := reference.run(t, r, func() bool { return false })
		counts.Add(want.Counts)
		if all := fatesOf(want.Counts); all+want.Open != int64(len(log)) {
			done.difference = fmt.Sprintf("seed %d: %d records have a fate and %d are open, of %d",
				seed, all, want.Open, len(log))
			return done
		}
		for range schedulesPerLog {
			often := 3 + r.IntN(10+len(log)/8)
			got := m.run(t, r, func() bool {
				dies := r.IntN(often) == 0
				if dies {
					done.crashes++
				}
				return dies
			})
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				done.difference = fmt.Sprintf("seed %d (repeat with -seed): with crashes (+), without (-):\n%s",
					seed, diff)
				return done
			}
		}
	}
	done.replays = m.replays
	t.Logf("seed %d: %d schedules, %d crashes, %d entries replayed, fates %+v",
		seed, schedules, done.crashes, done.replays, counts)
	return done
}

// logWriter makes a partition's log.
type logWriter struct {
	t       testing.TB
	r       *rand.Rand
	entries []Entry
	next    int64
	nowMs   int64
}

func (w *logWriter) put(rec schemas.Record) { w.putBytes(encode(w.t, rec)) }

func (w *logWriter) putBytes(b []byte) {
	w.entries = append(w.entries, Entry{Offset: w.next, AppendedMs: w.nowMs, Value: b})
	w.next += 1 + int64(w.r.IntN(2)) // a transaction marker takes an offset
}

func nodeSummary(node, job string, start, length int64) *schemas.NodeSummary {
	mean, zero, deciles := 1.5, 0.0, []float64{1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2}
	certified := schemas.Certified{Atoms: []schemas.Atom{{Value: 1, Count: 1}, {Value: 2, Count: 1}}}
	if start/length%2 == 0 {
		certified = schemas.Certified{Eps: 0.5, OrderStatistics: []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}}
	}
	return &schemas.NodeSummary{NodeHeader: header(node, job, start, length), Metrics: []schemas.NodeSummaryMetric{{
		JobSummaryMetric: schemas.JobSummaryMetric{
			Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore, Count: 2, Nodes: 1,
			Mean: &mean, Stddev: new(0.5), NodeStddev: &zero,
			LowNode: &node, HighNode: &node, Deciles: &deciles, RankError: &zero,
		},
		Certified: certified,
	}}}
}

// newCounterLog has every fate, missing, late and second Ticks, a pause longer than the outage and a changed interval.
func newCounterLog(t testing.TB) func(r *rand.Rand) []Entry {
	return func(r *rand.Rand) []Entry {
		w := &logWriter{t: t, r: r, next: int64(r.IntN(50)), nowMs: simEpochMs}
		start, length := simEpochMs, simT
		var overdue []*schemas.Tick
		if r.IntN(8) == 0 { // the interval was longer before, and then Ticks stay away for more than the outage
			w.nowMs = start + 10*simT
			w.put(&schemas.Tick{IntervalStart: start, IntervalMs: 10 * simT})
			for start += 10 * simT; start < simEpochMs+100*simT; start += simT {
				w.nowMs = start + simT
				w.put(batch("n1", "whole", start, simT, 1))
			}
		}
		for range 8 + r.IntN(10) {
			w.nowMs = start + length
			writeInterval(w, start, length)
			if r.IntN(20) == 0 { // more metrics than a summary may have
				w.put(wide("n1", "whole", start, length, "a", 700))
				w.put(wide("n2", "whole", start, length, "b", 700))
			}
			tick := &schemas.Tick{IntervalStart: start, IntervalMs: length, Jobs: tickJobs(r)}
			for n := range 5 { // n4 is none of those listed
				if r.IntN(3) == 0 {
					tick.Shared = append(tick.Shared, fmt.Sprint("n", n))
				}
			}
			switch r.IntN(6) {
			case 0: // the balancer is away
				overdue = append(overdue, tick)
			case 1: // nobody will ever write this one
			default:
				if r.IntN(3) == 0 { // what was due comes, oldest first
					for _, late := range overdue {
						putTick(w, late)
					}
					overdue = nil
				}
				putTick(w, tick)
				if r.IntN(5) == 0 {
					putTick(w, tick)
				}
				writeInterval(w, start-length*int64(r.IntN(3)), length) // after the Tick: late
			}
			switch r.IntN(12) {
			case 0:
				start += int64(config.Outage+r.IntN(4)) * length
			case 1:
				length, start = 2*simT, (start/(2*simT)+1)*2*simT
			default:
				start += length
			}
		}
		for _, late := range overdue {
			putTick(w, late)
		}
		return w.entries
	}
}

// putTick writes a Tick, at times in parts. A part may be there twice, records may come between, and the last may be
// missing.
func putTick(w *logWriter, tick *schemas.Tick) {
	r := w.r
	if r.IntN(3) > 0 {
		w.put(tick)
		return
	}
	for from := 0; ; {
		part := *tick
		to := from + r.IntN(4)
		part.More = to < len(tick.Jobs)
		to = min(to, len(tick.Jobs))
		part.Jobs = tick.Jobs[from:to]
		if !part.More && r.IntN(8) == 0 {
			return
		}
		w.put(&part)
		if !part.More {
			return
		}
		switch from = to; r.IntN(12) {
		case 0:
			w.put(&part)
		case 1:
			writeInterval(w, tick.IntervalStart, tick.IntervalMs)
		case 2: // of two planners at once
			w.put(&schemas.Tick{
				IntervalStart: tick.IntervalStart, IntervalMs: 2 * tick.IntervalMs, More: r.IntN(2) == 0,
			})
		case 3:
			w.put(&schemas.Tick{
				IntervalStart: tick.IntervalStart - tick.IntervalMs, IntervalMs: tick.IntervalMs, More: r.IntN(2) == 0,
			})
		case 4:
			start := tick.IntervalStart + tick.IntervalMs*int64(config.Outage+r.IntN(4))
			w.nowMs = max(w.nowMs, start+tick.IntervalMs)
			w.put(batch("n3", "whole", start, tick.IntervalMs, 1))
		}
	}
}

// wide is a batch of so many metrics.
func wide(node, job string, start, length int64, prefix string, metrics int) *schemas.CounterBatch {
	b := batch(node, job, start, length, 1)
	for m := range metrics {
		b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
			Name: fmt.Sprintf("%s%04d", prefix, m), Unit: "1", Scope: schemas.ScopeNode, Values: []float64{float64(m)},
		})
	}
	return b
}

func writeInterval(w *logWriter, start, length int64) {
	r := w.r
	for range r.IntN(10) {
		node := fmt.Sprintf("n%d", r.IntN(4))
		job := []string{"whole", "split", "ended", "_rest", "unheard"}[r.IntN(5)]
		switch r.IntN(16) {
		case 0:
			w.putBytes([]byte("not a record"))
		case 1:
			w.put(&schemas.Watermark{IntervalStart: start, IntervalMs: length})
		case 2:
			other := batch(node, job, start, length, 1)
			other.Cluster = "elsewhere"
			w.put(other)
		case 3:
			w.put(batch(node, job, start+20*length, length, 1)) // from the future
		case 4:
			w.put(&schemas.Gap{Node: node, FirstIntervalStart: start, LastIntervalStart: start, Records: 1})
		case 5:
			w.put(batch(node, job, start/(length*2)*(length*2), length*2, 1)) // another interval_ms
		case 6:
			w.put(nodeSummary(node, "whole", start, length)) // of a job of several nodes
		case 7:
			w.put(nodeSummary("n0", "local", start, length))
		default:
			b := batch(node, job, start, length, r.Float64())
			if r.IntN(3) == 0 { // the job reports
				b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
					Name: "steps", Unit: "1/s", Scope: schemas.ScopeNode, Values: []float64{r.Float64()},
				})
				b.Reported = []string{"steps"}
			}
			w.put(b)
		}
	}
}

func tickJobs(r *rand.Rand) []schemas.TickJob {
	jobs := []schemas.TickJob{
		{JobID: "_rest", Parts: 2, JobNodes: 5, Nodes: []string{"n0", "n3"}},
		{JobID: "ended", Parts: 0, JobNodes: 2, Nodes: []string{"n0", "n1"}},
		{JobID: "local", Parts: 1, JobNodes: 1, Nodes: []string{"n0"}},
		{JobID: "split", Parts: 3, JobNodes: 7, Nodes: []string{"n0", "n1", "n2"}},
		{JobID: "whole", Parts: 1, JobNodes: 3, Nodes: []string{"n1", "n2", "n3"}},
	}
	return slices.Delete(jobs, r.IntN(6), 5)
}

func newCollectorFold(p *schemas.Progress) Fold {
	fold := NewCollector(simCluster, 3, 4, p)
	fold.Sketch = 512
	return fold
}

func TestSimulatedCollector(t *testing.T) {
	t.Parallel()
	m := machine{newFold: newCollectorFold, add: (*Account).Add}
	if diff := simulate(t, newSeed(), *schedulesFlag, newCounterLog(t), m).difference; diff != "" {
		t.Fatal(diff)
	}
}

// TestSimulationCrashes with the same logs in every run: a simulation without crashes would prove nothing.
func TestSimulationCrashes(t *testing.T) {
	for name, m := range map[string]struct {
		newLog func(r *rand.Rand) []Entry
		fold   func(p *schemas.Progress) Fold
	}{"collect": {newCounterLog(t), newCollectorFold}, "merge": {newPartialLog(t), newMergerFold}} {
		done := simulate(t, 1, 40, m.newLog, machine{newFold: m.fold, add: (*Account).Add})
		if done.difference != "" || done.crashes == 0 || done.replays == 0 {
			t.Errorf("%s: %+v", name, done)
		}
	}
}

// TestSimulatedLogsHaveEveryFate folds the same logs in every run. Logs drawn by the clock would lack a rare fate at
// times.
func TestSimulatedLogsHaveEveryFate(t *testing.T) {
	c := foldWithoutCrashes(t, newCounterLog(t), newCollectorFold)
	expectAll(t, map[string]int64{
		"summarized": c.Summarized, "rejected": c.Rejected, "late": c.Late, "dropped": c.Dropped,
		"duplicate": c.Duplicate, "misrouted": c.Misrouted, "ended": c.Ended, "gaps": c.Gaps,
		"outputs": c.Outputs, "left out of an output": c.Surplus,
	})
	c = foldWithoutCrashes(t, newPartialLog(t), newMergerFold)
	expectAll(t, map[string]int64{
		"summarized": c.Summarized, "rejected": c.Rejected, "late": c.Late, "late_nodes": c.LateNodes,
		"duplicate": c.Duplicate, "outputs": c.Outputs,
	})
}

// foldWithoutCrashes folds logs that are the same in every run.
func foldWithoutCrashes(
	t *testing.T, newLog func(r *rand.Rand) []Entry, newFold func(p *schemas.Progress) Fold,
) schemas.ProgressCounts {
	t.Helper()
	var counts schemas.ProgressCounts
	for seed := range uint64(kafkatest.Cases(300, 60)) { // sixty have every fate
		r := rand.New(rand.NewPCG(seed, 7))
		m := machine{newFold: newFold, add: (*Account).Add, log: newLog(r)}
		counts.Add(m.run(t, r, func() bool { return false }).Counts)
	}
	return counts
}

func expectAll(t *testing.T, counts map[string]int64) {
	t.Helper()
	for fate, n := range counts {
		if n == 0 {
			t.Errorf("no log had a record that was %s", fate)
		}
	}
}

const simCollectors = 3

// newPartialLog interleaves three collectors: each at its own pace, one perhaps slow, one perhaps lost for good, one
// perhaps never heard of.
func newPartialLog(t testing.TB) func(r *rand.Rand) []Entry {
	return func(r *rand.Rand) []Entry {
		w := &logWriter{t: t, r: r, nowMs: simEpochMs + simT}
		intervals := 4 + int64(r.IntN(12))
		if r.IntN(16) == 0 {
			intervals += config.Outage // long enough for the outage to pass
		}
		var at [simCollectors]int64
		pace := [simCollectors]int{10, 10, 10}
		mute := [simCollectors]int64{intervals, intervals, intervals}
		switch r.IntN(4) {
		case 0:
			pace[r.IntN(simCollectors)] = 1
		case 1:
			mute[r.IntN(simCollectors)] = r.Int64N(5) // 0: never heard of
		}
		for range intervals * 40 {
			c := r.IntN(simCollectors)
			if r.IntN(10) >= pace[c] || at[c] >= mute[c] || at[c] > slices.Max(at[:])+3 {
				continue
			}
			start := simEpochMs + at[c]*simT
			w.nowMs = max(w.nowMs, start+simT)
			writeShare(w, int32(c), start)
			if at[c]++; at[c] > 3 && r.IntN(40) == 0 { // a gap in the balancer's life
				at[c] += int64(r.IntN(5))
			}
		}
		return w.entries
	}
}

func writeShare(w *logWriter, c int32, start int64) {
	r := w.r
	if r.IntN(12) > 0 {
		w.put(partial("all", c, start, simCollectors))
	}
	if c < 2 {
		w.put(partial("two", c, start, 2))
	}
	if start%(3*simT) == 0 {
		machine := partial(schemas.JobSystem, c, start, simCollectors)
		for n := range 3 {
			if r.IntN(2) == 0 {
				node := schemas.SharedNode{Node: fmt.Sprint("shared", n), Reported: r.IntN(2) == 0}
				machine.Shared = append(machine.Shared, node)
			}
		}
		w.put(machine)
	}
	switch r.IntN(14) {
	case 0:
		w.put(partial("two", c%2, start-simT*int64(r.IntN(3)), 2)) // late, or the second of its collector
	case 1:
		w.putBytes([]byte{1})
	case 2:
		w.put(partial("two", simCollectors, start, 2)) // no such collector
	case 3:
		w.put(partial("two", 2, start, 2)) // of a window that is complete without
	case 4:
		w.put(batch("n0", "two", start, simT, 1))
	}
	w.put(&schemas.Watermark{Collector: c, IntervalStart: start, IntervalMs: simT})
}

func newMergerFold(p *schemas.Progress) Fold {
	fold := NewMerger(simCluster, simCollectors, p)
	fold.Sketch = 512
	return fold
}

func TestSimulatedMerger(t *testing.T) {
	t.Parallel()
	m := machine{newFold: newMergerFold, add: (*Account).Add}
	if diff := simulate(t, newSeed(), *schedulesFlag, newPartialLog(t), m).difference; diff != "" {
		t.Fatal(diff)
	}
}

// The variants below have one deliberate error each. The simulation is worth what it catches.

// holdsByWindow forgets that an emitted window's interval is still open.
type holdsByWindow struct{ *Merger }

func (f holdsByWindow) Progress(position int64) *schemas.Progress {
	p := f.Merger.Progress(position)
	p.Hold = position
	for start, windows := range f.windows {
		for _, w := range windows {
			if !w.emitted {
				p.Hold = min(p.Hold, f.first[start])
			}
		}
	}
	return p
}

// holdsNothing takes what has been read as done with.
type holdsNothing struct{ Fold }

func (f holdsNothing) Progress(position int64) *schemas.Progress {
	p := f.Fold.Progress(position)
	p.Hold = position
	return p
}

// forgetsParts holds nothing for the Ticks of an interval whose last one is still to come.
type forgetsParts struct{ *Collector }

func (f forgetsParts) Progress(position int64) *schemas.Progress {
	begun := f.Begun
	f.Begun = None
	p := f.Collector.Progress(position)
	f.Begun = begun
	return p
}

// neverDrops has no drop rule: closedLengthMs is made so long that no record is ever the config.Outage older.
type neverDrops struct{ *Collector }

func (f neverDrops) Apply(e Entry) Effects {
	length := f.closedLengthMs
	f.closedLengthMs = 1 << 40
	fx := f.Collector.Apply(e)
	if f.closedLengthMs == 1<<40 {
		f.closedLengthMs = length
	}
	return fx
}

func TestSimulationCatchesErrors(t *testing.T) {
	speaksTwice := func(a *Account, e Entry) {
		resumed := a.resumed
		if e.Offset < resumed {
			a.resumed = 0
		}
		a.Add(e)
		a.resumed = resumed
	}
	counters, partials := newCounterLog(t), newPartialLog(t)
	add := (*Account).Add
	variants := map[string]struct {
		newLog  func(r *rand.Rand) []Entry
		machine machine
	}{
		"output not discarded on replay, collect": {counters, machine{newFold: newCollectorFold, add: speaksTwice}},
		"output not discarded on replay, merge":   {partials, machine{newFold: newMergerFold, add: speaksTwice}},
		"hold by window, merge": {partials, machine{add: add, newFold: func(p *schemas.Progress) Fold {
			return holdsByWindow{NewMerger(simCluster, simCollectors, p)}
		}}},
		"no hold, collect": {counters, machine{add: add, newFold: func(p *schemas.Progress) Fold {
			return holdsNothing{newCollectorFold(p)}
		}}},
		"no hold for Ticks in parts": {counters, machine{add: add, newFold: func(p *schemas.Progress) Fold {
			return forgetsParts{NewCollector(simCluster, 3, 4, p)}
		}}},
		"no hold, merge": {partials, machine{add: add, newFold: func(p *schemas.Progress) Fold {
			return holdsNothing{newMergerFold(p)}
		}}},
	}
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			if simulate(t, 1, 4000, v.newLog, v.machine).difference == "" {
				t.Error("not caught")
			}
		})
	}
}

// openIntervals folds a log without crashes and returns the most intervals that were ever open.
func openIntervals(f interface {
	Fold
	held() int
}, log []Entry,
) int {
	most := 0
	for _, e := range log {
		f.Apply(e)
		most = max(most, f.held())
	}
	return most
}

func (l *Ledger) held() int { return len(l.first) }

// TestMemoryIsBoundedWithoutTicks: the drop rule is what bounds it, and without the rule the test fails.
func TestMemoryIsBoundedWithoutTicks(t *testing.T) {
	w := &logWriter{t: t, r: rand.New(rand.NewPCG(1, 1)), nowMs: simEpochMs}
	const intervals = 5 * config.Outage
	for i := range int64(intervals) {
		w.nowMs = simEpochMs + (i+1)*simT
		w.put(batch("n1", "whole", simEpochMs+i*simT, simT, 1))
	}
	if most := openIntervals(NewCollector(simCluster, 0, 1, nil), w.entries); most > config.Outage+2 {
		t.Errorf("%d intervals open", most)
	}
	if most := openIntervals(neverDrops{NewCollector(simCluster, 0, 1, nil)}, w.entries); most != intervals {
		t.Errorf("without the rule %d intervals are open, not %d: the test above proves nothing", most, intervals)
	}

	w.entries = nil
	for i := range int64(intervals) {
		w.nowMs = simEpochMs + (i+1)*simT
		w.put(partial("all", 0, simEpochMs+i*simT, simCollectors))
		w.put(&schemas.Watermark{Collector: 0, IntervalStart: simEpochMs + i*simT, IntervalMs: simT})
	}
	m := NewMerger(simCluster, simCollectors, nil)
	if most := openIntervals(m, w.entries); most > config.Outage+2 || len(m.windows) > config.Outage+2 {
		t.Errorf("merge: %d intervals open", most)
	}
}

func TestSummariesDoNotDependOnTheOrderOfArrival(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var records []schemas.Record
	for n := range 12 {
		b := batch(fmt.Sprintf("n%02d", n), "j", simEpochMs, simT, r.NormFloat64())
		if n == 5 {
			b.Metrics[0].Unit = "percent"
		}
		records = append(records, b)
	}
	var nodes []string
	for n := range 13 {
		nodes = append(nodes, fmt.Sprintf("n%02d", n))
	}
	tick := tickOf(simEpochMs, false, tickJob("j", 1, nodes...))
	var want []byte
	for range 20 {
		r.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		c := NewCollector(simCluster, 0, 1, nil)
		for i, rec := range append(slices.Clone(records), tick) {
			fx := c.Apply(Entry{Offset: int64(i), AppendedMs: simEpochMs + simT, Value: encode(t, rec)})
			if len(fx.Outputs) == 0 {
				continue
			}
			got := append(encode(t, fx.Outputs[0]), encode(t, fx.Outputs[1])...) // and the share of _system
			if want != nil && !bytes.Equal(got, want) {
				t.Fatalf("%x\n%x", got, want)
			}
			want = got
			s := fx.Outputs[0].(*schemas.JobSummary)
			if m := s.Metrics[0]; s.NodesExpected != 13 || s.NodesReported != 12 ||
				m.Count != 22 || m.Invalid != 2 || m.Nodes != 11 || m.Unit != "1" {
				t.Fatalf("%+v", s)
			}
		}
	}
	if want == nil {
		t.Fatal("no summary")
	}
}
