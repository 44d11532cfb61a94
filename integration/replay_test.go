package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weirhpc/weir/analysis/audit"

	"github.com/weirhpc/weir/analysis/replay"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/derive"
)

// summaryKey names a summary.
type summaryKey struct {
	job   schemas.JobKey
	start int64
}

func keyOf(s *schemas.JobSummary) summaryKey {
	return summaryKey{schemas.JobKey{JobID: s.JobID, Restart: s.Restart}, s.IntervalStart}
}

// replayTerms returns the terms of a replay of all jobs and intervals.
func replayTerms() replay.Terms {
	return replay.Terms{
		Cluster: foldCluster, Collectors: foldCollectors, Sketch: auditedSketch,
		From: audit.Beginning, To: math.MaxInt64,
	}
}

// replayed hands the logs of counters to a replay, in the order that it asks for. held is the most that it held.
func (b *bookkept) replayed(t replay.Terms) (f *replay.Fold, all []*schemas.JobSummary, held int64) {
	f = replay.New(t)
	read := map[replay.Source]int{}
	for s, ok := f.Next(); ok; s, ok = f.Next() {
		log := b.topics[audit.Source{Topic: schemas.TopicCounters, Partition: s.Partition}]
		if read[s] < len(log) {
			f.Add(s, log[read[s]])
			read[s]++
		} else {
			f.End(s)
		}
		held = max(held, f.Held())
		all = append(all, f.Ready()...)
	}
	return f, all, held
}

// collected returns the summaries of the topic.
func (b *bookkept) collected() map[summaryKey]*schemas.JobSummary {
	all := map[summaryKey]*schemas.JobSummary{}
	for _, e := range b.topics[audit.Source{Topic: schemas.TopicJobSummary}] {
		v, err := schemas.Unmarshal(e.Value)
		if err != nil {
			b.t.Fatal(err)
		}
		all[keyOf(v.(*schemas.JobSummary))] = v.(*schemas.JobSummary)
	}
	return all
}

// compareReplay compares a replayed summary with the summary on the topic. It returns whether the topic's was an
// estimate.
func compareReplay(t *testing.T, got, want *schemas.JobSummary) (estimate bool) {
	t.Helper()
	at := fmt.Sprintf("job %s interval %d", want.JobID, want.IntervalStart)
	if want.Parts == 1 {
		if !bytes.Equal(encoded(t, got), encoded(t, want)) {
			t.Errorf("%s: replayed\n%.500s\nthe topic has\n%.500s", at, jsonOf(t, got), jsonOf(t, want))
		}
		return false
	}
	if got.Parts != want.Parts || got.PartsReported != want.PartsReported || got.NodesExpected != want.NodesExpected ||
		got.NodesReported != want.NodesReported || len(got.Metrics) != len(want.Metrics) {
		t.Errorf("%s: replayed %+v, the topic has %+v", at, got, want)
		return false
	}
	for i := range want.Metrics {
		g, w := &got.Metrics[i], &want.Metrics[i]
		if g.Name != w.Name || g.Unit != w.Unit || g.Count != w.Count || g.Invalid != w.Invalid || g.Nodes != w.Nodes {
			t.Errorf("%s: replayed %+v, the topic has %+v", at, g, w)
		}
		if w.Count == 0 {
			continue
		}
		// A sum of great values that cancel each other is as exact as these are.
		least, greatest := (*w.Deciles)[0], (*w.Deciles)[10]
		closely := math.Abs(*g.Mean-*w.Mean) <= 1e-9*max(math.Abs(least), math.Abs(greatest))
		if *g.LowNode != *w.LowNode || *g.HighNode != *w.HighNode || !closely ||
			!nearly(*g.LowNodeMean, *w.LowNodeMean) || !nearly(*g.HighNodeMean, *w.HighNodeMean) ||
			!nearly(*g.Stddev, *w.Stddev) || !nearly(*g.NodeStddev, *w.NodeStddev) {
			t.Errorf("%s: replayed %+v, the topic has %+v", at, g, w)
		}
		if *w.RankError == 0 && *g.RankError == 0 && !slices.Equal(*g.Deciles, *w.Deciles) {
			t.Errorf("%s: replayed deciles %v, the topic has %v", at, *g.Deciles, *w.Deciles)
		}
		if w.Lo == nil || g.Lo != nil {
			continue
		}
		estimate = true
		for k, d := range *g.Deciles {
			if d < (*w.Lo)[k] || d > (*w.Hi)[k] {
				t.Errorf("%s: %s: exact d%d %v is outside the topic's bracket [%v, %v]",
					at, w.Name, k, d, (*w.Lo)[k], (*w.Hi)[k])
			}
		}
	}
	return estimate
}

func encoded(t *testing.T, s *schemas.JobSummary) []byte {
	t.Helper()
	value, err := schemas.MarshalChecked(s)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func nearly(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
}

// TestReplayAgreesWithTheFolds: without late records a replay returns the summaries of the topic. Summaries of whole
// jobs are equal bit for bit, including their certified summaries. Summaries of split jobs are exact, and lie within
// the topic's brackets.
func TestReplayAgreesWithTheFolds(t *testing.T) {
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 30), nil)
	terms := replayTerms()
	terms.AsCollected = true
	f, all, _ := b.replayed(terms)
	topic := b.collected()
	methods, estimates, exact := map[string]int{}, 0, 0
	for _, s := range all {
		want := topic[keyOf(s)]
		if want == nil {
			t.Errorf("the topic lacks %+v", keyOf(s))
			continue
		}
		if methods[s.Method]++; compareReplay(t, s, want) {
			if estimates++; s.Method == schemas.MethodExact {
				exact++
			}
		}
	}
	t.Logf("%v, %d estimates of the topic, %d of them exact here, %+v", methods, estimates, exact, f.Tally)
	if len(all) != len(topic) || methods[schemas.MethodNode] == 0 || exact == 0 || f.Tally.Late == 0 {
		t.Errorf("%d summaries, the topic has %d", len(all), len(topic))
	}
	if !slices.IsSortedFunc(all, func(a, b *schemas.JobSummary) int { return int(a.IntervalStart - b.IntervalStart) }) {
		t.Error("the intervals are not in order")
	}
}

// TestReplayTakesLateRecords: a record that collect left out, because it came late, counts in a replay.
func TestReplayTakesLateRecords(t *testing.T) {
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 30), nil)
	f, all, _ := b.replayed(replayTerms())
	topic := b.collected()
	more := int64(0)
	for _, s := range all {
		want := topic[keyOf(s)]
		if s.JobID == schemas.JobSystem {
			continue
		}
		if more += int64(s.NodesReported - want.NodesReported); s.NodesReported == want.NodesReported {
			compareReplay(t, s, want)
		}
	}
	if f.Tally.LateTaken == 0 || more != f.Tally.LateTaken {
		t.Errorf("%d nodes more than the topic has: %+v", more, f.Tally)
	}
}

// TestReplayLooksAhead: a record counts if it comes 64 intervals late, and is left out if it comes later.
func TestReplayLooksAhead(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	l := &foldLog{t: t, r: rand.New(rand.NewPCG(7, 1))}
	for i := range int64(90) {
		l.interval(foldStart + i*foldT)
		if i == 75 { // node n05 has sent nothing
			l.send(1, "n05", "whole", foldStart+(i-63)*foldT, []int32{2, 3}, false)
			l.send(1, "n05", "whole", foldStart+(i-66)*foldT, []int32{2, 3}, false)
		}
	}
	b := bookkeep(t, l, nil)
	f, all, _ := b.replayed(replayTerms())
	topic, more := b.collected(), map[int64]int32{}
	for _, s := range all {
		if of := s.NodesReported - topic[keyOf(s)].NodesReported; s.JobID == "whole" && of != 0 {
			more[(s.IntervalStart-foldStart)/foldT] = of
		}
	}
	if more[75-63] != 1 || more[75-66] != 0 || f.Tally.Late != 1 {
		t.Errorf("more nodes in %v, %+v", more, f.Tally)
	}
}

// TestReplayOfChosenJobs: a replay of some jobs and intervals returns exactly these, and holds nothing of others.
func TestReplayOfChosenJobs(t *testing.T) {
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 30), nil)
	topic := b.collected()
	terms := replayTerms()
	terms.AsCollected, terms.From, terms.To = true, foldStart+10*foldT, foldStart+20*foldT
	terms.Jobs = []replay.Choice{{JobID: "split", Restart: replay.EveryRestart}, {JobID: "own-1"}}
	terms.Metrics = []string{"sim_tail"}
	f, all, held := b.replayed(terms)
	jobs := map[string]int{}
	for _, s := range all {
		jobs[s.JobID]++
		want := *topic[keyOf(s)]
		want.Metrics = slices.DeleteFunc(slices.Clone(want.Metrics), func(m schemas.JobSummaryMetric) bool {
			return m.Name != "sim_tail"
		})
		if compareReplay(t, s, &want); len(s.Metrics) != 1 {
			t.Errorf("%s: %d metrics", s.JobID, len(s.Metrics))
		}
	}
	if jobs["split"] != 10 || jobs["own-1"] < 5 || len(jobs) != 2 || f.Tally.Intervals != 10 || held > 80 {
		t.Errorf("%v, %d held, %+v", jobs, held, f.Tally)
	}
	terms.Jobs = []replay.Choice{{JobID: schemas.JobSystem}}
	if _, all, _ = b.replayed(terms); len(all) != 10 || all[0].NodesReported != topic[keyOf(all[0])].NodesReported {
		t.Errorf("%d summaries of the machine", len(all))
	}
}

// TestReplayComputesMetrics: a defined metric takes the values that its formula gives for the recorded ones, CPU by
// CPU, with the moments of an exact fold. Jobs that were reduced on their node have no values, and are named.
func TestReplayComputesMetrics(t *testing.T) {
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 10), nil)
	set, err := derive.Compile([]derive.Definition{
		{Name: "copy", Expr: "sim_tail * 2 / 2"},
		{Name: "double", Expr: "copy + sim_tail"},
		{Name: "never", Expr: "sim_tail / (sim_tail - sim_tail)"},
	})
	if err == nil {
		err = set.Resolve(map[string]string{"sim_tail": schemas.ScopeCore})
	}
	if err != nil {
		t.Fatal(err)
	}
	terms := replayTerms()
	terms.Set = set
	f, all, _ := b.replayed(terms)
	computed := 0
	for _, s := range all {
		byName := map[string]schemas.JobSummaryMetric{}
		for _, m := range s.Metrics {
			byName[m.Name] = m
		}
		tail, of, double, never := byName["sim_tail"], byName["copy"], byName["double"], byName["never"]
		if of.Name == "" {
			if len(s.Metrics) > 0 && !f.Reduced[keyOf(s).job] {
				t.Errorf("%s: no computed metric in %+v", s.JobID, keyOf(s))
			}
			continue
		}
		computed++
		of.Name = "sim_tail"
		if !reflect.DeepEqual(of, tail) {
			t.Errorf("%s: computed %+v, recorded %+v", s.JobID, of, tail)
		}
		if never.Count != 0 || never.Invalid != tail.Count+tail.Invalid || never.Deciles != nil {
			t.Errorf("%s: values of a division by zero: %+v", s.JobID, never)
		}
		for k, d := range *double.Deciles {
			if !nearly(d, 2*(*tail.Deciles)[k]) {
				t.Errorf("%s: d%d of the double is %v", s.JobID, k, d)
			}
		}
	}
	if computed == 0 || !f.Reduced[schemas.JobKey{JobID: "own-0"}] || f.Reduced[schemas.JobKey{JobID: "whole"}] {
		t.Errorf("%d computed, reduced on their nodes: %v", computed, f.Reduced)
	}
}

// TestReplayHoldsOpenIntervals: the memory of a replay does not grow with the log.
func TestReplayHoldsOpenIntervals(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	_, _, short := bookkeep(t, auditedLog(t, 70), nil).replayed(replayTerms())
	_, _, long := bookkeep(t, auditedLog(t, 110), nil).replayed(replayTerms())
	t.Logf("%d things in 70 intervals, %d in 110", short, long)
	if long > short+short/5 {
		t.Errorf("a replay of 70 intervals held %d records and shares; one of 110 held %d", short, long)
	}
}
