package topics

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// written is a summary in its topic.
type written struct {
	*schemas.JobSummary
	at int64 // milliseconds
}

func (w written) record(t *testing.T) *kgo.Record {
	t.Helper()
	value, err := schemas.Marshal(w.JobSummary)
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{
		Key: schemas.JobKey{JobID: w.JobID, Restart: w.Restart}.Key(), Value: value,
		Timestamp: time.UnixMilli(w.at),
	}
}

// someJobs are the summaries of some jobs and their restarts, as they are written: each after its interval, some of
// them much later. Every restart begins after the one before it.
func someJobs(r *rand.Rand, now int64) (log []written) {
	for job := range 1 + r.IntN(3) {
		start := now - 1000*int64(20+r.IntN(60))
		for restart := range 1 + r.IntN(3) {
			for range r.IntN(8) {
				s := topicstest.Summary("j"+strconv.Itoa(job), int32(restart), start, "x")
				if start += 1000 * int64(1+r.IntN(2)); start > now {
					break
				}
				late := int64(r.IntN(300))
				if r.IntN(4) == 0 {
					late = int64(r.IntN(20_000))
				}
				log = append(log, written{s, min(now, s.IntervalStart+1000+late)})
			}
			start = (start/1000 + 1) * 1000
		}
	}
	slices.SortStableFunc(log, func(a, b written) int { return cmp.Compare(a.at, b.at) })
	return log
}

// between are those that were written since a time and before another.
func between(log []written, since, before int64) (part []written) {
	for _, w := range log {
		if w.at >= since && w.at < before {
			part = append(part, w)
		}
	}
	return part
}

// TestNewestSummaryInAnyWindows: wherever the windows begin in which a topic is read backwards, the last summary of
// each job is found.
func TestNewestSummaryInAnyWindows(t *testing.T) {
	const now = int64(1_700_000_000_000)
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		log := someJobs(r, now)
		want := map[string]int64{}
		for _, w := range log {
			key := string(w.record(t).Key)
			want[key] = max(want[key], w.IntervalStart)
		}
		n := newest{map[string]*schemas.JobSummary{}, map[string]bool{}, bare}
		for since, before := now, now+1; before > now-200_000; since, before = since-int64(1+r.IntN(30_000)), since {
			for _, w := range between(log, since, before) {
				if err := n.add(w.record(t)); err != nil {
					t.Fatal(err)
				}
			}
			n.readBack(time.UnixMilli(since))
		}
		got := map[string]int64{}
		for key, s := range n.of {
			got[key] = s.IntervalStart
			if strings.Contains(s.Cluster, "c") || len(s.Metrics) != 1 {
				t.Errorf("seed %d: %d metrics are kept of cluster %q", seed, len(s.Metrics), s.Cluster)
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

// TestWhatIsNoSummaryIsPassedOver, in every reader of them.
func TestWhatIsNoSummaryIsPassedOver(t *testing.T) {
	watermark, err := schemas.Marshal(&schemas.Watermark{IntervalMs: 1})
	if err != nil {
		t.Fatal(err)
	}
	n, h := newest{map[string]*schemas.JobSummary{}, map[string]bool{}, bare}, history{jobID: "j", mine: everySummary, n: 1}
	for _, value := range [][]byte{nil, []byte("rubbish"), watermark, watermark[:11]} {
		r := &kgo.Record{Key: []byte("j/0"), Value: value}
		if err := cmp.Or(n.add(r), h.add(r)); err != nil {
			t.Error(err)
		}
	}
	if len(n.of)+len(h.all) > 0 {
		t.Errorf("%v, %v", n.of, h.all)
	}
	for key, want := range map[string]bool{
		"j/0": true, "j/12": true, "j": false, "": false, "jj/0": false,
		"/0": false, "k/j/0": false,
	} {
		if isOf(&kgo.Record{Key: []byte(key)}, "j") != want {
			t.Errorf("key %q is of job j: %v", key, !want)
		}
	}
}

// TestHistoryIsTheLastIntervals: read backwards in windows until there is enough, the rows are those that reading all
// of the topic gives.
func TestHistoryIsTheLastIntervals(t *testing.T) {
	const now = int64(1_700_000_000_000)
	ended := map[string]int{}
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 2))
		log := someJobs(r, now)
		h := history{jobID: "j0", mine: everySummary, n: r.IntN(8)}
		var all []*schemas.JobSummary
		known := map[schemas.JobKey]*schemas.Job{}
		for _, w := range log {
			all = append(all, w.JobSummary)
			key := schemas.JobKey{JobID: w.JobID, Restart: w.Restart}
			if seed%2 == 0 && w.JobID == "j0" && (known[key] == nil || w.IntervalStart < *known[key].Start) {
				known[key] = &schemas.Job{JobID: w.JobID, Restart: w.Restart, Start: &w.IntervalStart}
			}
		}
		why := ""
		before := now + 1
		for since := now - int64(r.IntN(10_000)); why == ""; since, before = since-int64(1+r.IntN(30_000)), since {
			for _, w := range between(log, since, before) {
				if err := h.add(w.record(t)); err != nil {
					t.Fatal(err)
				}
			}
			if h.window(time.UnixMilli(since)); h.enough() {
				why = "enough"
			}
			if !h.asked {
				h.scheduled(known)
			}
			switch {
			case why != "":
			case h.whole():
				why = "it began at "
			case since < now-200_000:
				why, h.begin = "has no more", true
			}
		}
		ended[why]++
		of := func(rows []schemas.Row) (starts []int64) {
			for _, row := range rows {
				if row.Restart == h.restart {
					starts = append(starts, row.IntervalStart)
				}
			}
			return starts
		}
		want, got := of(lastRows(all, "j0", h.n)), of(lastRows(h.all[:h.read], "j0", h.n))
		if !slices.Equal(want, got) {
			t.Fatalf("seed %d: -n %d of restart %d ends with %q and %v, want %v", seed, h.n, h.restart, why, got, want)
		}
		if fewer := h.fewer(config.Default()); (fewer == "") != (len(got) >= h.n) || fewer != "" &&
			!strings.Contains(fewer, why) {
			t.Errorf("seed %d: of %d intervals there are %d, for %s: %q", seed, h.n, len(got), why, fewer)
		}
	}
	if len(ended) != 3 {
		t.Errorf("the cases are not all there: %v", ended)
	}
	h := history{jobID: "j", mine: everySummary, n: 2, since: time.UnixMilli(now)}
	if fewer := h.fewer(config.Default()); fewer != "job j has 0 of 2 intervals: "+
		"what was written before 2023-11-14T22:13:20Z was not read "+
		"within 1m0s; the archive may have it" {
		t.Error(fewer)
	}
}

// TestLastRowsOfEachLife compares with the definition: of each restart the last n intervals, in order, with all their
// metrics.
func TestLastRowsOfEachLife(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		var all []*schemas.JobSummary
		starts := map[int32][]int64{}
		for _, w := range someJobs(r, 1_000_000) {
			all = append(all, w.JobSummary)
			if w.JobID == "j0" {
				starts[w.Restart] = append(starts[w.Restart], w.IntervalStart)
			}
		}
		r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		n := r.IntN(6)
		var want, got []string
		for _, restart := range slices.Sorted(maps.Keys(starts)) {
			slices.Sort(starts[restart])
			for _, start := range starts[restart][max(0, len(starts[restart])-n):] {
				want = append(want, strconv.Itoa(int(restart))+" "+strconv.FormatInt(start, 10))
			}
		}
		before := slices.Clone(all)
		for _, row := range lastRows(all, "j0", n) {
			got = append(got, strconv.Itoa(int(row.Restart))+" "+strconv.FormatInt(row.IntervalStart, 10))
		}
		if !slices.Equal(want, got) || !slices.Equal(before, all) {
			t.Fatalf("seed %d, -n %d: %v, want %v", seed, n, got, want)
		}
	}
}

// TestJobRowsOfAll: whoever is known and not completed has a row, and whoever has a summary: the last one.
func TestJobRowsOfAll(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		var summaries []*schemas.JobSummary
		last, known := map[schemas.JobKey]*schemas.JobSummary{}, map[schemas.JobKey]*schemas.Job{}
		for _, w := range someJobs(r, 1_000_000) {
			key := schemas.JobKey{JobID: w.JobID, Restart: w.Restart}
			w.Parts, w.NodesReported, w.Method = r.Int32(), r.Int32(), schemas.MethodEstimated
			summaries = append(summaries, w.JobSummary)
			if last[key] == nil || last[key].IntervalStart < w.IntervalStart {
				last[key] = w.JobSummary
			}
			if r.IntN(2) == 0 {
				known[key] = &schemas.Job{
					JobID: w.JobID, Restart: w.Restart, State: schemas.StateCompleted,
					User: "u", Name: "n", Reason: "r",
				}
			}
		}
		for i := range r.IntN(3) {
			key := schemas.JobKey{JobID: "j0", Restart: int32(7 + i)}
			known[key] = &schemas.Job{State: []string{schemas.StatePending, schemas.StateCompleted}[r.IntN(2)]}
		}
		r.Shuffle(len(summaries), func(i, k int) { summaries[i], summaries[k] = summaries[k], summaries[i] })
		rows := jobRows(known, summaries)
		if rows == nil || !slices.IsSortedFunc(rows, func(a, b JobRow) int {
			return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
		}) {
			t.Fatalf("seed %d: out of order: %v", seed, rows)
		}
		got := map[schemas.JobKey]JobRow{}
		for _, row := range rows {
			got[schemas.JobKey{JobID: row.JobID, Restart: row.Restart}] = row
		}
		want := map[schemas.JobKey]JobRow{}
		for key, s := range last {
			want[key] = JobRow{
				JobID: key.JobID, Restart: key.Restart, IntervalStart: &s.IntervalStart, IntervalMs: &s.IntervalMs,
				Method: &s.Method,
				Parts:  &s.Parts, PartsReported: &s.PartsReported, NodesExpected: &s.NodesExpected,
				NodesReported: &s.NodesReported, Metrics: new(1),
			}
		}
		for key, j := range known {
			row, ok := want[key]
			if !ok && j.State == schemas.StateCompleted {
				continue
			}
			row.JobID, row.Restart, row.State, row.User, row.Name, row.Reason = key.JobID, key.Restart, j.State,
				j.User, j.Name, j.Reason
			want[key] = row
		}
		if diff := gocmp.Diff(want, got); diff != "" || len(rows) != len(want) {
			t.Fatalf("seed %d: %d rows\n%s", seed, len(rows), diff)
		}
	}
}

func TestJobRows(t *testing.T) {
	known := map[schemas.JobKey]*schemas.Job{
		{JobID: "a"}:    {JobID: "a", State: "RUNNING", User: "ada"},
		{JobID: "bad"}:  {JobID: "bad", State: "SKIPPED", Reason: "unknown node n9"},
		{JobID: "old"}:  {JobID: "old", State: "COMPLETED"},
		{JobID: "done"}: {JobID: "done", State: "COMPLETED", User: "eve"},
	}
	rows := jobRows(known, []*schemas.JobSummary{
		topicstest.Summary("a", 0, 2000, "x", "y"), topicstest.Summary("a", 0, 1000, "x"), // out of order: the later interval counts
		topicstest.Summary("done", 0, 1000), topicstest.Summary(schemas.JobRest, 0, 2000),
	})
	var got []string
	for _, r := range rows {
		line := r.JobID + " " + r.State + " " + r.User + r.Reason
		if r.IntervalStart != nil {
			line += " " + *r.Method
		}
		got = append(got, line)
	}
	want := []string{"_rest   EXACT", "a RUNNING ada EXACT", "bad SKIPPED unknown node n9", "done COMPLETED eve EXACT"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if *rows[1].IntervalStart != 2000 || *rows[1].Metrics != 2 {
		t.Errorf("%+v", rows[1])
	}
}

func TestLastRows(t *testing.T) {
	all := []*schemas.JobSummary{
		topicstest.Summary("a", 0, 3000, "x"), topicstest.Summary("a", 0, 1000, "x"), topicstest.Summary("a", 0, 2000, "x", "y"), topicstest.Summary("a", 1, 9000),
		topicstest.Summary("b", 0, 9000, "x"),
	}
	var got []int64
	for _, r := range lastRows(all, "a", 2) {
		got = append(got, r.IntervalStart)
	}
	if diff := gocmp.Diff([]int64{2000, 2000, 3000, 9000}, got); diff != "" {
		t.Error(diff)
	}
	if rows := lastRows(all, "none", 2); rows != nil {
		t.Errorf("%v", rows)
	}
}
