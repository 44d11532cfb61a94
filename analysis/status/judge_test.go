package status

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

func TestJudge(t *testing.T) {
	cfg := config.Default()
	start, age := int64(1_700_000_000_000), int64(2000)
	behind := start - 5*cfg.Interval.Milliseconds()
	good := func() *Status {
		return &Status{
			TickMs: &start, TickAgeMs: &age, Collect: map[string]int64{}, Merge: map[string]int64{},
			Partitions: []Partition{{Stage: "collect", Owner: "a", ClosedMs: &start, Lag: 3}, {
				Stage: "merge",
				Owner: "a",
			}},
			Sink: []SinkPartition{{Position: 1, End: 9}},
		}
	}
	old := int64(60_000)
	stuck, moved := start-60_000, start-5_000
	// behind is partition 0 of collect as it is while its owner cannot fold it, or has not folded it yet.
	behindSince := func(s *Status, committed *int64, reason string) {
		s.TimeMs = start + 12_000
		s.Partitions[0].ClosedMs, s.Partitions[0].CommittedMs, s.Partitions[0].RejectReason = &behind, committed, reason
	}
	intervals := func(i Interval) func(s *Status) {
		return func(s *Status) { s.Intervals = []Interval{i, i, i} }
	}
	for name, c := range map[string]struct {
		change func(s *Status)
		says   string
	}{
		"all is well": {func(*Status) {}, ""},
		"no Tick":     {func(s *Status) { s.TickMs, s.TickAgeMs = nil, nil }, "no interval was ever closed"},
		"old Tick":    {func(s *Status) { s.TickAgeMs = &old }, "ended 1m0s ago"},
		"no owner":    {func(s *Status) { s.Partitions[1].Owner = "" }, "merge: nobody owns partition 0"},
		"behind": {func(s *Status) { s.Partitions[0].ClosedMs = &behind }, "collect: partition 0 is behind by " +
			"3 offsets"},
		"an open transaction": {func(s *Status) {
			p := &s.Partitions[0]
			p.ClosedMs, p.End, p.Lag, p.Held = &behind, 7, 0, 4
		}, "collect: partition 0 waits at offset 7 for a transaction that somebody left open there, with 4 offsets " +
			"behind it"},
		"an open transaction of summaries": {
			func(s *Status) { s.Sink[0] = SinkPartition{Position: 9, End: 9, Behind: true} },
			"sink: partition 0 waits at offset 9 for a transaction",
		},
		"a merge that has nothing to say": {func(s *Status) {
			quiet := start - 25_000
			s.Partitions[1].ClosedMs, s.Partitions[1].Lag = &quiet, 20
		}, ""},
		"a topic of summaries made again": {
			func(s *Status) { s.Sink[0] = SinkPartition{Position: 5, End: 9, Replaced: true} },
			"sink: partition 0: its topic was deleted and made again, and the archive holds the old one up to 5",
		},
		"sink behind": {func(s *Status) { s.Sink[0].Behind = true }, "archived up to 1 of 9"},
		"sink waits": {func(s *Status) {
			s.Sink[0].Behind, s.Sink[0].Waits = true, &sink.Unknown{Offset: 4, TimestampMs: start, Reason: "x"}
		}, "sink: partition 0 waits at offset 4, written at 2023-11-14T22:13:20Z, a summary of an unknown schema: " +
			"upgrade the sink"},
		"lost":         {func(s *Status) { s.Collect["lost"] = 7 }, "retention took 7 records"},
		"silent nodes": {func(s *Status) { s.Silent = []string{"n1", "n2"} }, "2 nodes are silent: [n1 n2]"},
		"no route":     {func(s *Status) { s.Routeless = []string{"n3"} }, "1 nodes have no route: [n3]"},
		"stopped by rejects": {
			func(s *Status) { behindSince(s, &stuck, "of cluster d") },
			"collect: partition 0 is stopped at offset 0, 3 offsets behind; its last reject: of cluster d: mend " +
				"what writes such records",
		},
		"stopped before its first commit": {
			func(s *Status) { behindSince(s, nil, "of cluster d") },
			"partition 0 is stopped at offset 0",
		},
		"stopped, nobody knows why": {
			func(s *Status) { behindSince(s, &stuck, "") },
			"partition 0 is stopped at offset 0, 3 offsets behind: the log of a",
		},
		"its owner is gone": {func(s *Status) {
			behindSince(s, &stuck, "")
			s.Partitions[0].Owner = "weir/10.0.0.7:57478"
		}, "collect: partition 0 is stopped at offset 0, 3 offsets behind: the log of weir/10.0.0.7:57478 says why, " +
			"it has committed nothing for 1m12s; " +
			"where it does not run, start another `weir collect`: the group then shares its partitions out anew"},
		"its first owner is gone": {func(s *Status) {
			behindSince(s, nil, "")
			s.Partitions[0].ClosedMs, s.Partitions[0].FirstMs = nil, &stuck
		}, "collect: partition 0 is stopped at offset 0, 3 offsets behind: the log of a says why, it has committed " +
			"nothing for 1m12s; where it does not run"},
		"its first owner has just begun": {func(s *Status) {
			behindSince(s, nil, "")
			s.Partitions[0].ClosedMs, s.Partitions[0].FirstMs = nil, &moved
		}, "collect: partition 0 is behind by 3 offsets"},
		"an owner without records to commit": {func(s *Status) {
			behindSince(s, &stuck, "")
			s.Partitions[0].Lag = 0
		}, ""},
		"catching up after rejects": {
			func(s *Status) { behindSince(s, &moved, "of cluster d") },
			"collect: partition 0 is behind by 3 offsets",
		},
		"rejected, and went on": {func(s *Status) { s.Partitions[0].RejectReason = "of cluster d" }, ""},
		"Tick from the future": {
			func(s *Status) { ahead := int64(-7_200_000); s.TickAgeMs = &ahead },
			"the last closed interval ends in 2h0m0s: set the clock",
		},
		"some jobs end": {intervals(Interval{Summarized: 5, Ended: 5}), ""},
		"late once": {func(s *Status) {
			intervals(Interval{Late: 3})(s)
			s.Intervals[1].Late = 0
		}, ""},
		"one row of many": {func(s *Status) { s.NodesExpected, s.NodesReported = 9, 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			c.change(s)
			s.judge(cfg)
			if text := strings.Join(s.Wrong, "; "); c.says == "" && text != "" || !strings.Contains(text,
				c.says) || len(s.Wrong) > 1 {
				t.Errorf("%q, want %q alone", text, c.says)
			}
		})
	}
}

// Every line of a verdict says what mends it: an instruction, or where to look.
func TestWrongNamesItsRemedy(t *testing.T) {
	start, age, other := int64(1_700_000_000_000), int64(-7_200_000), int64(1)
	s := &Status{
		TimeMs: start, TickMs: &start, TickAgeMs: &age, TickLengthMs: &other, PlannedMs: new(int64),
		Collect: map[string]int64{"lost": 1}, Merge: map[string]int64{},
		Partitions: []Partition{
			{Stage: "collect", Owner: "a", Replaced: true}, {Stage: "collect", Partition: 1}, {
				Stage:     "collect",
				Partition: 2, Owner: "a", Lag: 1,
			},
		},
		Rejects: []Rejects{{"weir.counters", 3, 1, "of cluster d"}}, Sink: []SinkPartition{{
			Position: 1, End: 2,
			Behind: true,
		}}, SinkError: "x",
		Intervals:  []Interval{{Late: 1, Ended: 1}, {Late: 1, Ended: 1}, {Late: 1, Ended: 1}},
		Incomplete: []IncompleteJob{{JobID: "j"}}, Silent: []string{"n"}, Routeless: []string{"n"},
		OtherInterval: map[string]int64{"n": 1},
	}
	*s.PlannedMs = start + 7_200_000
	s.judge(config.Default())
	if len(s.Wrong) != 16 {
		t.Errorf("%d lines:\n%s", len(s.Wrong), strings.Join(s.Wrong, "\n"))
	}
	for _, w := range s.Wrong {
		remedy := w[strings.LastIndex(w, ": ")+1:]
		known := regexp.MustCompile(
			`set |start |add |raise |mend |says|say$|is (a|.weir .*.) .*running|look at|is in its`)
		if !known.MatchString(remedy) {
			t.Errorf("%q names no remedy", w)
		}
	}
}

// What becomes of a record is judged as the collectors do, where a Tick comes in two records too.
func TestAccounts(t *testing.T) {
	a := newAccounts("", 2000, 1000)
	hear := func(node, job string, start, length int64) {
		a.add(0, &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Node: node, JobID: job, IntervalStart: start,
			IntervalMs: length,
		}})
	}
	list := func(job string, parts int32, nodes ...string) schemas.TickJob {
		return schemas.TickJob{JobID: job, Parts: parts, Nodes: nodes}
	}
	hear("old", "j", 1000, 1000)
	hear("n1", "j", 2000, 1000)
	hear("n1", "j", 2000, 1000) // a duplicate
	hear("n1", "over", 2000, 1000)
	hear("n2", "nowhere", 2000, 1000)
	hear("n4", "j", 2000, 500)
	a.add(0, &schemas.Tick{IntervalStart: 2000, IntervalMs: 1000, More: true, Jobs: []schemas.TickJob{list("j", 1,
		"n1", "n2", "n3", "n4")}})
	hear("n2", "k", 2000, 1000) // between the two: in time
	a.add(0, &schemas.Tick{IntervalStart: 2000, IntervalMs: 1000, Jobs: []schemas.TickJob{
		list("k", 1, "n2"),
		list("over", 0, "n1"),
	}})
	hear("n5", "j", 2000, 1000)
	hear("n1", "j", 3000, 1000) // not closed yet
	s := &Status{}
	absent := a.close(s)
	if diff := cmp.Diff([]Interval{{
		IntervalStart: 2000, Expected: 5, Summarized: 2, Late: 1, Misrouted: 1,
		Ended: 1,
	}}, s.Intervals); diff != "" {
		t.Error(diff)
	}
	want := &Status{
		Intervals: s.Intervals, Silent: []string{"n3"}, Late: []string{"n5"}, Misrouted: []string{"n2"},
		OtherInterval: map[string]int64{"n4": 500},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(missing{{JobID: "j"}: {"n2": true, "n3": true, "n4": true}}, absent); diff != "" {
		t.Error(diff)
	}
}

// A job is incomplete when its last three rows all are, in whatever order they came; fewer rows say nothing.
func TestIncompleteRows(t *testing.T) {
	r := rows{}
	add := func(job string, reported ...int32) {
		for i := range reported {
			at := (i + 2) % len(reported) // out of order
			row := topicstest.Summary(job, 0, int64(at)*1000)
			row.NodesReported = reported[at]
			r.add(row)
		}
	}
	add("ok", 3, 3, 3, 3)
	add("mended", 2, 2, 2, 3)
	add("broken", 3, 2, 0, 1)
	add("short", 1, 1)
	add(schemas.JobSystem, 0, 0, 0, 0)
	incomplete, expected, reported := r.judged(missing{{JobID: "broken"}: {"n2": true, "n1": true}})
	want := []IncompleteJob{{
		JobID: "broken", IntervalStart: 3000, Parts: 1, PartsReported: 1, NodesExpected: 3, NodesReported: 1,
		Missing: []string{"n1", "n2"},
	}}
	if diff := cmp.Diff(want, incomplete); diff != "" {
		t.Error(diff)
	}
	if expected != 18 || reported != 12 {
		t.Errorf("%d of %d nodes reported", reported, expected)
	}
}
