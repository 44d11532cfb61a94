package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	// latest is when a summary must be there, after the end of its interval. A balancer that was killed is missed after
	// six seconds, and brokers may ask for a pause of backoff_cap.
	latest = 20_000 // ms
	// silence is the number of intervals in a row for which a partition may be without any record. One process
	// simulates all nodes: it publishes nothing for a boundary that it missed on a busy machine.
	silence = 5
	// memorySlack is the growth of a process that is allowed beyond twice its quiet memory. The longest legal record
	// has 4 MiB. Its decoded form and its outputs take some five times as much, and Go's collector lets a heap double
	// before it collects.
	memorySlack = 64 << 20 // bytes
)

// spot is the position of a record.
type spot struct {
	topic     string // without the prefix
	partition int32
	offset    int64
}

func (p spot) String() string { return fmt.Sprintf("%s-%d at %d", p.topic, p.partition, p.offset) }

// evidence is the input of the judge of hostile input.
type evidence struct {
	from, to, intervalMs int64 // the intervals judged, both included

	untouched []int32                      // partitions of counters
	ticks     map[int32]map[int64][]window // by partition and interval: the jobs that are whole there
	heard     map[int32]map[int64]int      // by partition and interval: the records that came
	summaries map[window]int               // how many there are
	wrong     map[window]string            // the fault of a summary
	lateMs    map[window]int64             // from the end of the interval

	written map[spot]string  // written by hand, with its kind
	refused map[spot]bool    // the illegal ones of these
	rejects map[spot]string  // the reason, from topic rejects and the footers of the archive
	stopped []string         // partitions that a log calls stopped, as counters-1
	behind  map[string]int64 // the committed position of these

	ended  []string         // processes that ended by themselves
	panics int              // lines of logs
	quiet  map[string]int64 // memory of each process before, in bytes
	peak   map[string]int64 // the most that it had later
}

// complaints returns all faults of a run. It is a pure function.
func (e *evidence) complaints() []string {
	return slices.Concat(e.missedIntervals(), e.missedRejects(), e.lostProcesses(), e.grownProcesses())
}

// hasTick reports whether an interval is closed in a partition.
func (e *evidence) hasTick(p int32, start int64) bool {
	_, closed := e.ticks[p][start]
	return closed
}

// ticked reports whether the last interval is closed in all partitions that nobody touched.
func (e *evidence) ticked() bool {
	return !slices.ContainsFunc(e.untouched, func(p int32) bool { return !e.hasTick(p, e.to) })
}

// missedIntervals looks for a Tick and a right summary of every job for every interval of the partitions nobody
// touched.
func (e *evidence) missedIntervals() (faults []string) {
	for _, p := range e.untouched {
		silent := 0
		for s := e.from; s <= e.to; s += e.intervalMs {
			jobs, closed := e.ticks[p][s]
			if !closed {
				faults = append(faults, fmt.Sprintf("partition %d has no Tick of %d", p, s))
				continue
			}
			for _, w := range jobs {
				switch n := e.summaries[w]; {
				case n != 1:
					faults = append(faults, fmt.Sprintf("partition %d: %+v has %d summaries", p, w, n))
				case e.wrong[w] != "":
					faults = append(faults, fmt.Sprintf("partition %d: %+v: %s", p, w, e.wrong[w]))
				case e.lateMs[w] > latest:
					faults = append(faults, fmt.Sprintf("partition %d: %+v came %d ms after its interval", p, w,
						e.lateMs[w]))
				}
			}
			if silent++; e.heard[p][s] > 0 {
				silent = 0
			}
			if silent == silence {
				faults = append(faults, fmt.Sprintf("partition %d: no node was heard of in %d intervals up to %d", p,
					silence, s))
			}
		}
	}
	return faults
}

// missedRejects looks for the reason of every illegal record. Records that a stopped partition has not read yet need
// none.
func (e *evidence) missedRejects() (faults []string) {
	for at := range e.refused {
		part := fmt.Sprintf("%s-%d", at.topic, at.partition)
		if slices.Contains(e.stopped, part) && at.offset >= e.behind[part] {
			continue
		}
		if e.rejects[at] == "" {
			faults = append(faults, fmt.Sprintf("%s (%s) was refused without a reason", at, e.written[at]))
		}
	}
	for at, reason := range e.rejects {
		if _, ours := e.written[at]; !ours {
			faults = append(faults, fmt.Sprintf("%s is weir's own, and was refused: %s", at, reason))
		}
	}
	slices.Sort(faults)
	return faults
}

func (e *evidence) lostProcesses() (faults []string) {
	for _, name := range e.ended {
		faults = append(faults, name+" ended by itself")
	}
	if e.panics > 0 {
		faults = append(faults, fmt.Sprintf("%d panics", e.panics))
	}
	return faults
}

func (e *evidence) grownProcesses() (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(e.peak)) {
		if limit := 2*e.quiet[name] + memorySlack; e.peak[name] > limit {
			faults = append(faults, fmt.Sprintf("%s took %d MiB, where it took %d MiB in quiet", name,
				e.peak[name]>>20, e.quiet[name]>>20))
		}
	}
	return faults
}

// breakages returns functions that each break a run in one way, and return the complaint that the judge must then make.
func (e *evidence) breakages() map[string]func(e *evidence) string {
	p := e.untouched[0]
	job := func(e *evidence) window { // the first of all that the judge looks at
		for s := e.from; s <= e.to; s += e.intervalMs {
			if jobs := e.ticks[p][s]; len(jobs) > 0 {
				return jobs[0]
			}
		}
		return window{}
	}
	least := func(at map[spot]bool) spot {
		return slices.MinFunc(slices.Collect(maps.Keys(at)),
			func(a, b spot) int { return strings.Compare(a.String(), b.String()) })
	}
	return map[string]func(e *evidence) string{
		"a summary is missing": func(e *evidence) string {
			w := job(e)
			delete(e.summaries, w)
			return fmt.Sprintf("partition %d: %+v has 0 summaries", p, w)
		},
		"a summary is there twice": func(e *evidence) string {
			w := job(e)
			e.summaries[w]++
			return fmt.Sprintf("partition %d: %+v has 2 summaries", p, w)
		},
		"a summary is late": func(e *evidence) string {
			w := job(e)
			e.lateMs[w] = latest + 1
			return fmt.Sprintf("partition %d: %+v came %d ms after its interval", p, w, latest+1)
		},
		"a Tick is missing": func(e *evidence) string {
			s := job(e).start
			delete(e.ticks[p], s)
			return fmt.Sprintf("partition %d has no Tick of %d", p, s)
		},
		"nodes are silent": func(e *evidence) string {
			for s := e.from; s < e.from+silence*e.intervalMs; s += e.intervalMs {
				delete(e.heard[p], s)
			}
			e.heard[p][e.from+silence*e.intervalMs] = 1
			return fmt.Sprintf("partition %d: no node was heard of in %d intervals up to %d", p, silence,
				e.from+(silence-1)*e.intervalMs)
		},
		"a reject is missing": func(e *evidence) string {
			kept := map[spot]bool{}
			for at := range e.refused {
				if e.rejects[at] != "" {
					kept[at] = true
				}
			}
			at := least(kept)
			delete(e.rejects, at)
			return fmt.Sprintf("%s (%s) was refused without a reason", at, e.written[at])
		},
		"a record of weir is rejected": func(e *evidence) string {
			at := spot{"counters", p, 1 << 40}
			e.rejects[at] = "no reason"
			return at.String() + " is weir's own, and was refused: no reason"
		},
		"a process ended": func(e *evidence) string {
			e.ended = append(e.ended, "collect-a")
			return "collect-a ended by itself"
		},
		"memory is out of bounds": func(e *evidence) string {
			name := slices.Min(slices.Collect(maps.Keys(e.peak)))
			e.peak[name] = 2*e.quiet[name] + memorySlack + 1
			return fmt.Sprintf("%s took %d MiB, where it took %d MiB in quiet", name, e.peak[name]>>20,
				e.quiet[name]>>20)
		},
	}
}

// clone is deep as far as breakages change it.
func (e *evidence) clone() *evidence {
	c := *e
	c.ticks, c.heard = map[int32]map[int64][]window{}, map[int32]map[int64]int{}
	for p := range e.ticks {
		c.ticks[p] = maps.Clone(e.ticks[p])
	}
	for p := range e.heard {
		c.heard[p] = maps.Clone(e.heard[p])
	}
	c.summaries, c.lateMs = maps.Clone(e.summaries), maps.Clone(e.lateMs)
	c.rejects, c.peak, c.ended = maps.Clone(e.rejects), maps.Clone(e.peak), slices.Clone(e.ended)
	return &c
}

// seesBreakages breaks a run on purpose, once for each property, and requires the judge to see that fault and no other.
func (e *evidence) seesBreakages(t *testing.T) {
	t.Helper()
	before := e.complaints()
	for what, spoil := range e.breakages() {
		c := e.clone()
		want := spoil(c)
		got := slices.DeleteFunc(c.complaints(), func(f string) bool { return slices.Contains(before, f) })
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s: the judge should see just that (-), and complains (+)\n%s", what, diff)
		}
	}
}

// TestHostileJudge makes sure that the judge of make hostile detects faults.
func TestHostileJudge(t *testing.T) {
	e := &evidence{
		from: 1000, to: 9000, intervalMs: 1000, untouched: []int32{2},
		ticks: map[int32]map[int64][]window{2: {}}, heard: map[int32]map[int64]int{2: {}},
		summaries: map[window]int{}, wrong: map[window]string{}, lateMs: map[window]int64{},
		written: map[spot]string{
			{"counters", 0, 7}: "rubbish", {"counters", 0, 8}: "legal",
			{"counters", 1, 5}: "unread",
		},
		refused: map[spot]bool{{"counters", 0, 7}: true, {"counters", 1, 5}: true},
		rejects: map[spot]string{{"counters", 0, 7}: "not an Avro single-object value"},
		stopped: []string{"counters-1"}, behind: map[string]int64{"counters-1": 5},
		quiet: map[string]int64{"collect-a": 50 << 20}, peak: map[string]int64{"collect-a": 90 << 20},
	}
	for s := e.from; s <= e.to; s += e.intervalMs {
		w := window{"j", 0, s}
		e.ticks[2][s], e.heard[2][s], e.summaries[w], e.lateMs[w] = []window{w}, 3, 1, 1500
	}
	if faults := e.complaints(); len(faults) > 0 {
		t.Fatalf("a clean run has faults: %q", faults)
	}
	e.seesBreakages(t)
	e.stopped = nil
	if diff := cmp.Diff([]string{"counters-1 at 5 (unread) was refused without a reason"}, e.complaints()); diff != "" {
		t.Errorf("a partition that nobody calls stopped has to be read to its end:\n%s", diff)
	}
}
