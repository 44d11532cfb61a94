package status

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// TestAccountsOfAnotherCluster: collect refuses a record of another cluster, so the node is missing. It is not silent,
// since its agent runs.
func TestAccountsOfAnotherCluster(t *testing.T) {
	a := newAccounts("c", 2000, 1000)
	for node, cluster := range map[string]string{"n1": "c", "n2": "d"} {
		a.add(0, &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: cluster, Node: node, JobID: "j", IntervalStart: 2000, IntervalMs: 1000,
		}})
	}
	a.add(0, &schemas.Tick{
		IntervalStart: 2000, IntervalMs: 1000,
		Jobs: []schemas.TickJob{{JobID: "j", Parts: 1, Nodes: []string{"n1", "n2"}}},
	})
	a.add(0, &schemas.NodeSummary{NodeHeader: schemas.NodeHeader{
		Cluster: "d", Node: "n3", JobID: "j", IntervalStart: 2000, IntervalMs: 500,
	}})
	s := &Status{}
	absent := a.close(s)
	if diff := cmp.Diff([]Interval{{IntervalStart: 2000, Expected: 2, Summarized: 1}}, s.Intervals); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(missing{{JobID: "j"}: {"n2": true}}, absent); diff != "" {
		t.Error(diff)
	}
	if len(s.Silent)+len(s.Late)+len(s.Misrouted)+len(s.OtherInterval) > 0 {
		t.Errorf("%+v", s)
	}
}

// TestAccountsOfOtherTicks: a Tick of another interval takes no record, and a second Tick changes nothing. Records that
// are older than the last Ticks count for nothing.
func TestAccountsOfOtherTicks(t *testing.T) {
	a := newAccounts("c", 2000, 1000)
	hear := func(partition int32, node string, start int64) {
		a.add(partition, &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: "c", Node: node, JobID: "j", IntervalStart: start, IntervalMs: 1000,
		}})
	}
	tick := func(partition int32, start, length int64, nodes ...string) {
		a.add(partition, &schemas.Tick{
			IntervalStart: start, IntervalMs: length, Jobs: []schemas.TickJob{{JobID: "j", Parts: 1, Nodes: nodes}},
		})
	}
	hear(0, "n1", 2000)
	hear(0, "n2", 1000) // before the last Ticks
	tick(0, 1000, 1000, "n1", "n2", "n9")
	tick(0, 2000, 500, "n1", "n2")
	hear(1, "n3", 2000)
	tick(1, 2000, 1000, "n3")
	tick(1, 2000, 1000, "n4", "n5") // again
	s := &Status{}
	absent := a.close(s)
	want := []Interval{{IntervalStart: 2000, Expected: 3, Summarized: 1, Misrouted: 1}}
	if diff := cmp.Diff(want, s.Intervals); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(missing{{JobID: "j"}: {"n1": true, "n2": true}}, absent); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(s.Silent, []string{"n2"}) || len(s.Misrouted) > 0 { // the balancer is wrong, and not n1
		t.Errorf("silent %v, misrouted %v", s.Silent, s.Misrouted)
	}
}

// TestAccountsAddUp: every pair of a node and a job has one fate, whatever the order in which the records come.
func TestAccountsAddUp(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		type sent struct {
			partition int32
			record    schemas.Record
		}
		var inTime, ticks, after []sent
		pairs, expected := map[string]bool{}, int64(0)
		late := map[string]bool{}
		node := func() string { return fmt.Sprint("n", r.IntN(5)) }
		job := func() string { return fmt.Sprint("j", r.IntN(4)) }
		batch := func(start int64) sent {
			h := schemas.NodeHeader{Cluster: "c", Node: node(), JobID: job(), IntervalStart: start, IntervalMs: 1000}
			if r.IntN(2) == 0 {
				return sent{int32(r.IntN(2)), &schemas.NodeSummary{NodeHeader: h}}
			}
			return sent{int32(r.IntN(2)), &schemas.CounterBatch{NodeHeader: h}}
		}
		header := func(s sent) *schemas.NodeHeader {
			if b, ok := s.record.(*schemas.CounterBatch); ok {
				return &b.NodeHeader
			}
			return &s.record.(*schemas.NodeSummary).NodeHeader
		}
		// of which the first is too old, and the last stays open
		for start := int64(1000); start <= 4000; start += 1000 {
			for range r.IntN(12) {
				b := batch(start)
				inTime = append(inTime, b)
				if start > 1000 && start < 4000 {
					pairs[fmt.Sprint(b.partition, start, header(b).Node, header(b).JobID)] = true
				}
			}
			for p := int32(0); p < 2 && start < 4000; p++ {
				tick := &schemas.Tick{IntervalStart: start, IntervalMs: 1000}
				for j := range r.IntN(5) {
					listed := schemas.TickJob{JobID: fmt.Sprint("j", j), Parts: int32(r.IntN(2))}
					for n := range r.IntN(6) {
						listed.Nodes = append(listed.Nodes, fmt.Sprint("n", n))
					}
					if tick.Jobs = append(tick.Jobs, listed); start > 1000 && listed.Parts > 0 {
						expected += int64(len(listed.Nodes))
					}
				}
				cut := r.IntN(len(tick.Jobs) + 1)
				first := &schemas.Tick{IntervalStart: start, IntervalMs: 1000, Jobs: tick.Jobs[:cut], More: true}
				tick.Jobs = tick.Jobs[cut:]
				ticks = append(ticks, sent{p, first}, sent{p, tick},
					sent{p, &schemas.Tick{IntervalStart: start, IntervalMs: 1000}})
				for range r.IntN(3) {
					b := batch(start)
					b.partition = p
					if after = append(after, b); start > 1000 {
						late[header(b).Node] = true
					}
				}
			}
		}
		status := func() (*Status, missing) {
			a := newAccounts("c", 2000, 1000)
			for _, part := range [][]sent{inTime, ticks, after} {
				for _, s := range part {
					a.add(s.partition, s.record)
				}
			}
			s := &Status{}
			return s, a.close(s)
		}
		s, absent := status()
		var sum Interval
		for i := range s.Intervals {
			in := &s.Intervals[i]
			if in.IntervalStart != 2000+int64(i)*1000 || in.Summarized > in.Expected {
				t.Errorf("seed %d: %+v", seed, in)
			}
			sum.Expected += in.Expected
			sum.Summarized += in.Summarized + in.Misrouted + in.Ended
			sum.Late += in.Late
		}
		wantLate := int64(0)
		for _, b := range after {
			if header(b).IntervalStart > 1000 {
				wantLate++
			}
		}
		if sum.Expected != expected || sum.Summarized != int64(len(pairs)) || sum.Late != wantLate ||
			len(s.Late) != len(late) || len(s.Intervals) != 2 {
			t.Fatalf("seed %d: %+v of %d expected, %d in time, %d late of %d nodes", seed, sum, expected, len(pairs),
				wantLate, len(late))
		}
		if s.Misrouted == nil || s.Silent == nil || s.Late == nil || !slices.IsSorted(s.Silent) ||
			!slices.IsSorted(s.Misrouted) {
			t.Errorf("seed %d: names out of order: %v %v", seed, s.Silent, s.Misrouted)
		}
		r.Shuffle(len(inTime), func(i, k int) { inTime[i], inTime[k] = inTime[k], inTime[i] })
		again, absentAgain := status()
		if diff := cmp.Diff(s, again) + cmp.Diff(absent, absentAgain); diff != "" {
			t.Fatalf("seed %d: another order gives\n%s", seed, diff)
		}
	}
}

// TestIncompleteNeedsThreeRowsInARow, each of which lacks nodes or parts.
func TestIncompleteNeedsThreeRowsInARow(t *testing.T) {
	row := func(job string, restart int32, start int64, reported, parts int32) *schemas.JobSummary {
		s := topicstest.Summary(job, restart, start)
		s.NodesReported, s.Parts, s.PartsReported = reported, 2, parts
		return s
	}
	r := rows{}
	for start := int64(1000); start <= 5000; start += 1000 {
		r.add(row("more than expected", 0, start, 4, 3))
		r.add(row("of parts", 1, start, 3, 1))
		r.add(row(schemas.JobSystem, 0, start, 0, 0)) // all the others once more
		r.add(row("of parts", 0, start, 2, 2))
		if start > 2000 {
			r.add(row("three", 0, start, 0, 0))
		}
		if start > 3000 {
			r.add(row("two", 0, start, 0, 0))
		}
		if start < 3000 {
			r.add(row("long ago", 0, start, 3, 2))
		}
	}
	incomplete, expected, reported := r.judged(missing{{JobID: "three"}: {"b": true, "a": true}})
	var got []string
	for _, j := range incomplete {
		got = append(got, fmt.Sprintf("%s/%d at %d %d/%d %d/%d %v", j.JobID, j.Restart, j.IntervalStart,
			j.NodesReported, j.NodesExpected,
			j.PartsReported, j.Parts, j.Missing))
	}
	want := []string{
		"of parts/0 at 5000 2/3 2/2 []", "of parts/1 at 5000 3/3 1/2 []", "three/0 at 5000 0/3 0/2 [a b]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Of the last two intervals: five jobs have two rows.
	if expected != 10*3 || reported != 2*4+2*3+2*2 {
		t.Errorf("%d of %d nodes", reported, expected)
	}
	if incomplete, expected, reported := (rows{}).judged(nil); incomplete == nil || expected != 0 || reported != 0 {
		t.Errorf("of nothing: %v, %d, %d", incomplete, expected, reported)
	}
}

// TestJudgeAtItsLimits: what is just in order is, and what is just beyond is not.
func TestJudgeAtItsLimits(t *testing.T) {
	cfg := config.Default()
	ms := cfg.Interval.Milliseconds()
	patience, slack := (3*cfg.Interval + cfg.Grace).Milliseconds(), config.Slack(cfg.Interval).Milliseconds()
	const now = int64(1_700_000_000_000)
	good := func() *Status {
		closed := now - 3*ms
		return &Status{
			TimeMs: now, TickMs: new(now - 2*ms), TickAgeMs: new(ms), TickLengthMs: &ms, PlannedMs: new(now),
			Partitions: []Partition{
				{Stage: "collect", Owner: "a", Lag: 1, ClosedMs: &closed, CommittedMs: new(now)},
				{Stage: "merge", Owner: "a", Lag: 1, ClosedMs: &closed, CommittedMs: new(now)},
			},
		}
	}
	finds := func(p Partition) func(s *Status) {
		return func(s *Status) {
			p.Stage, s.Find = "find", map[string]int64{}
			s.Partitions = append(s.Partitions, p)
		}
	}
	closed := func(p int, before int64) func(s *Status) {
		return func(s *Status) { s.Partitions[p].ClosedMs = new(*s.TickMs - before) }
	}
	stuck := func(since int64) func(s *Status) {
		return func(s *Status) { closed(0, 3*ms)(s); s.Partitions[0].CommittedMs = new(now - since) }
	}
	still := 3 * max(cfg.Interval, 10*time.Second).Milliseconds()
	intervals := func(of ...Interval) func(s *Status) { return func(s *Status) { s.Intervals = of } }
	late, misrouted := Interval{Late: 1}, Interval{Misrouted: 1}
	for name, c := range map[string]struct {
		change func(s *Status)
		says   string // empty: nothing is wrong
	}{
		"good":                     {func(*Status) {}, ""},
		"Tick as old as it may be": {func(s *Status) { *s.TickAgeMs = patience }, ""},
		"Tick older": {
			func(s *Status) { *s.TickAgeMs = patience + 1 },
			"the last closed interval ended",
		},
		"Tick ahead, within slack": {func(s *Status) { *s.TickAgeMs = -slack }, ""},
		"Tick ahead": {
			func(s *Status) { *s.TickAgeMs = -slack - 1 },
			"the last closed interval ends in",
		},
		"plan ahead, within slack": {func(s *Status) { *s.PlannedMs = now + slack }, ""},
		"plan ahead":               {func(s *Status) { *s.PlannedMs = now + slack + 1 }, "a plan is valid only in"},
		"no plan":                  {func(s *Status) { s.PlannedMs = nil }, ""},
		"another interval":         {func(s *Status) { s.TickLengthMs = new(ms + 1) }, "the balancer's interval is"},
		"two intervals behind":     {closed(0, 2*ms), ""},
		"more":                     {closed(0, 2*ms+1), "collect: partition 0 is behind by 1 offsets"},
		"a merge behind":           {closed(1, 2*ms+10_000), ""},
		"a merge more behind":      {closed(1, 2*ms+10_001), "merge: partition 0 is behind by 1 offsets"},
		"behind nothing":           {func(s *Status) { closed(0, 9*ms)(s); s.Partitions[0].Lag = 0 }, ""},
		"nothing was ever closed": {
			func(s *Status) { s.Partitions[0].ClosedMs = nil },
			"collect: partition 0 is behind by 1 offsets",
		},
		"find folds": {finds(Partition{Owner: "a", Lag: 9, CommittedMs: new(now)}), ""},
		"find lags": {
			finds(Partition{Owner: "a", Lag: 9, CommittedMs: new(now), waits: true}),
			"find: partition 0 is behind by 9 offsets: wait where this number falls, else add `weir find --live`",
		},
		"find is stuck": {
			finds(Partition{Owner: "a", Lag: 9, CommittedMs: new(now - still - 1), waits: true}),
			"find: partition 0 is stopped at offset 0, 9 offsets behind: the log of a",
		},
		"find does not run": {finds(Partition{}), "find: nobody owns partition 0: start `weir find --live`"},
		"find lost summaries": {
			func(s *Status) { s.Find = map[string]int64{"lost": 1} },
			"find: retention took 1 records",
		},
		"committed just in time": {stuck(still), "collect: partition 0 is behind by 1 offsets"},
		"committed too long ago": {
			stuck(still + 1),
			"collect: partition 0 is stopped at offset 0, 1 offsets behind: the log of a",
		},
		"two late intervals": {intervals(late, late), ""},
		"three late intervals": {
			intervals(late, late, late),
			"3 records of the last 3 intervals came after the Tick",
		},
		"one of three was in time": {intervals(late, late, misrouted), ""},
		"three of misrouted": {
			intervals(misrouted, misrouted, misrouted),
			"3 records of the last 3 intervals are of jobs that no Tick",
		},
		"as many ended as went on": {intervals(Interval{Summarized: 2, Ended: 2}, Interval{Ended: 2},
			Interval{Ended: 2}), ""},
		"more ended": {intervals(Interval{Summarized: 1, Ended: 2}, Interval{Ended: 2},
			Interval{Ended: 1}), "5 records"},
		"merge lost records": {
			func(s *Status) { s.Merge = map[string]int64{"lost": 1} },
			"merge: retention took 1 records",
		},
		"nothing was expected": {func(s *Status) { s.NodesExpected, s.NodesReported = 0, 0 }, ""},
		"nobody reported": {
			func(s *Status) { s.NodesExpected = 1 },
			"no node reported in the last 2 intervals, of 1 expected",
		},
		"the archive just in order": {func(s *Status) { s.Sink = []SinkPartition{{Position: 9, End: 9}} }, ""},
		"an archive ahead": {
			func(s *Status) { s.Sink = []SinkPartition{{Position: 9, End: 4, Behind: true}} },
			"archived up to 9 of 4",
		},
		"whole rows of many parts": {
			func(s *Status) {
				s.Incomplete = []IncompleteJob{{
					JobID: "j", Restart: 2, Parts: 3, PartsReported: 3, NodesExpected: 5,
					NodesReported: 4,
				}}
			}, "1 jobs are incomplete in 3 rows in a row: [j/2 4/5 nodes]: look",
		},
		"eleven silent nodes": {
			func(s *Status) { s.Silent = strings.Fields("a b c d e f g h i j k") },
			"11 nodes are silent: [a b c d e f g h i j] and 1 more: is `weir agent` running",
		},
		"ten silent nodes": {
			func(s *Status) { s.Silent = strings.Fields("a b c d e f g h i j") },
			"10 nodes are silent: [a b c d e f g h i j]: is",
		},
	} {
		s := good()
		c.change(s)
		s.judge(cfg)
		if text := strings.Join(s.Wrong, "; "); c.says == "" && text != "" || !strings.Contains(text, c.says) ||
			len(s.Wrong) > 1 {
			t.Errorf("%s: %q, want %q alone", name, text, c.says)
		}
	}
	// Several lines come in order, and a reason that is known is said before what it looks like.
	many := good()
	stuck(still + 1)(many)
	many.Partitions[0].StopReason, many.Partitions[0].Replaced, many.Partitions[1].Owner = "too many rejects", true, ""
	many.Merge, many.Silent = map[string]int64{"lost": 1}, []string{"n1"}
	if many.judge(cfg); len(many.Wrong) != 4 || !slices.IsSorted(many.Wrong) ||
		many.Wrong[1] != "collect: partition 0 is stopped, 1 offsets behind: too many rejects" {
		t.Errorf("%q", many.Wrong)
	}
	// An owner stopped a partition if it says so, or if it is behind and commits nothing. Without an owner, nobody did.
	for name, c := range map[string]struct {
		change func(p *Partition)
		want   bool
	}{
		"says so":       {func(p *Partition) { p.StopReason, p.ClosedMs = "why", new(now) }, true},
		"is stuck":      {func(*Partition) {}, true},
		"nobody":        {func(p *Partition) { p.Owner = "" }, false},
		"not behind":    {func(p *Partition) { p.ClosedMs = new(now) }, false},
		"new, rejects":  {func(p *Partition) { p.CommittedMs, p.RejectReason = nil, "of cluster d" }, true},
		"new, no words": {func(p *Partition) { p.CommittedMs = nil }, false},
	} {
		s := good()
		stuck(still + 1)(s)
		c.change(&s.Partitions[0])
		if s.judge(cfg); s.Partitions[0].Stopped != c.want {
			t.Errorf("%s: stopped is %v, %q", name, s.Partitions[0].Stopped, s.Wrong)
		}
	}
	// Where the balancer has another interval, that is what is wrong, and not what comes of it.
	s := good()
	s.TickLengthMs, s.Intervals = new(ms+1), []Interval{misrouted, misrouted, misrouted}
	if s.judge(cfg); len(s.Wrong) != 1 || !strings.Contains(s.Wrong[0], "the balancer's interval") {
		t.Errorf("%q", s.Wrong)
	}
}
