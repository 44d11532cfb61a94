package find

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
)

// busyRule holds while the mean of metric load is over a half. It is open from the third interval on.
const busyRule = `
guards: {after: 0s, last: false, duration: 0s, intervals: 3, seen: 0}
metrics: [{name: load, unit: "1", scope: core}]
rules:
  - id: busy
    title: Busy
    needs: [load]
    each: load.mean > 0.5
    share: 0.5
    severity: {of: load.mean, from: 0, to: 1}
    hint: "user {{.job.user}}: {{pct .value}}"
`

func busyRules(t testing.TB, changes ...string) *rules.Set {
	t.Helper()
	text := strings.NewReplacer(changes...).Replace(busyRule)
	var shipped []string
	for _, id := range regexp.MustCompile(`(?m)^ *- id: (\S+)`).FindAllSubmatch(rules.Shipped(), -1) {
		shipped = append(shipped, string(id[1]))
	}
	set, err := rules.Compile(nil, shipped, rules.Source{Name: "busy.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// loadOf is a summary of a job with one metric.
func loadOf(job string, start, length int64, load float64) *schemas.JobSummary {
	deciles := slices.Repeat([]float64{load}, 11)
	node := "n1"
	return &schemas.JobSummary{
		Cluster: foldtest.Cluster, JobID: job, IntervalStart: start, IntervalMs: length, Method: schemas.MethodNode,
		Parts: 1, PartsReported: 1, NodesExpected: 1, NodesReported: 1,
		Metrics: []schemas.JobSummaryMetric{{
			Name: "load", Unit: "1", Scope: schemas.ScopeCore, Count: 4, Nodes: 1, Mean: &load, Stddev: new(float64),
			NodeStddev: new(float64), LowNode: &node, HighNode: &node, Deciles: &deciles, RankError: new(float64),
		}},
	}
}

// entryOf is a record that was appended when the first interval ended.
func entryOf(t testing.TB, offset int64, r schemas.Record) fold.Entry {
	t.Helper()
	return fold.Entry{Offset: offset, AppendedMs: foldtest.EpochMs + foldtest.IntervalMs, Value: foldtest.Encode(t, r)}
}

// finds is the whole of find for one partition, without a broker: what is committed is there for its successor.
type finds struct {
	mostAwake int   // 0: as it is
	closedMs  int64 // the interval that collect and merge have closed
	aheadMs   int64 // how much the clock of whoever commits is ahead

	t    *testing.T
	set  *rules.Set
	jobs map[schemas.JobKey]*schemas.Job // of topic jobs
	f    *finder
	log  []fold.Entry

	states   map[string]*schemas.FindState
	findings []*schemas.Finding
	deleted  []string // topic and key of tombstones
	counts   schemas.ProgressCounts
	last     *schemas.Progress
	replayed int64 // records that crashes folds again
}

// findingsKeptMs is topics.summary_retention.
const findingsKeptMs = 3 * 24 * 3600_000

func newFinds(t *testing.T) *finds {
	t.Helper()
	s := &finds{
		t: t, set: busyRules(t), jobs: map[schemas.JobKey]*schemas.Job{}, states: map[string]*schemas.FindState{},
		closedMs: fold.None,
	}
	s.restart()
	return s
}

// restart begins anew from what is committed, and replays what no FindState has.
func (s *finds) restart() {
	s.t.Helper()
	types, err := nodetypes.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var states []*schemas.FindState
	for _, key := range slices.Sorted(maps.Keys(s.states)) {
		states = append(states, s.states[key])
	}
	known := func(key schemas.JobKey) *schemas.Job { return s.jobs[key] }
	if s.f, err = newFinder(foldtest.Cluster, s.set, typesOf(types), false, known, s.last, slices.Values(states)); err != nil {
		s.t.Fatal(err)
	}
	s.f.mostAwake, s.f.keptMs = cmp.Or(s.mostAwake, mostAwake), findingsKeptMs
	for _, e := range s.log {
		if s.last != nil && e.Offset >= s.last.Hold {
			s.f.Apply(e)
		}
	}
}

// put folds summaries whose records were written right after their interval, and commits.
func (s *finds) put(summaries ...*schemas.JobSummary) fold.Effects {
	s.t.Helper()
	var all fold.Effects
	for _, one := range summaries {
		e := entryOf(s.t, int64(len(s.log)), one)
		e.AppendedMs = one.IntervalStart + one.IntervalMs + s.aheadMs
		s.log = append(s.log, e)
		fx := s.f.Apply(e)
		all.Outputs = append(all.Outputs, fx.Outputs...)
		all.Counts.Add(fx.Counts)
	}
	s.commit(all)
	return all
}

// learn lets news and the clock in, and commits.
func (s *finds) learn(nowMs int64, atEnd bool) fold.Effects {
	s.t.Helper()
	fx := s.f.learn(nowMs, func() int64 {
		if atEnd {
			return s.closedMs
		}
		return fold.Never
	})
	s.commit(fx)
	return fx
}

func (s *finds) commit(fx fold.Effects) {
	s.t.Helper()
	for _, o := range fx.Outputs {
		s.keep(o)
	}
	s.counts.Add(fx.Counts)
	s.last = s.f.Progress(int64(len(s.log)))
	s.last.Counts = s.counts
}

func (s *finds) keep(o schemas.Record) {
	s.t.Helper()
	switch o := o.(type) {
	case *schemas.Finding:
		s.findings = append(s.findings, o)
		foldtest.Encode(s.t, o)
	case *schemas.FindState:
		read, err := schemas.Unmarshal(foldtest.Encode(s.t, o)) // as a successor will see it
		if err != nil {
			s.t.Fatal(err)
		}
		s.states[string(o.Identity().Key())] = read.(*schemas.FindState)
	case fold.Tombstone:
		s.deleted = append(s.deleted, o.Topic+" "+string(o.Key))
		if o.Topic == schemas.TopicFindState {
			delete(s.states, string(o.Key))
		}
	default:
		s.t.Fatalf("a %T came out", o)
	}
}

// said is every finding in one line.
func (s *finds) said() (all []string) {
	for _, f := range s.findings {
		final := ""
		if f.Final {
			final = " final"
		}
		all = append(all, fmt.Sprintf("%s %s %s %d/%d%s", f.Key(), f.State, f.Class, f.Matched, f.Evaluated, final))
	}
	return all
}

func (s *finds) expect(want ...string) {
	s.t.Helper()
	if got := s.said(); !slices.Equal(got, want) {
		s.t.Fatalf("findings\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// lives puts n intervals of a job from start on, and returns where the next one starts.
func (s *finds) lives(job string, start int64, n int, load float64) int64 {
	s.t.Helper()
	for range n {
		s.put(loadOf(job, start, findT, load))
		start += findT
	}
	return start
}

// over tells topic jobs of a job that ended.
func (s *finds) over(job string, endMs int64) {
	s.jobs[schemas.JobKey{JobID: job}] = &schemas.Job{JobID: job, State: schemas.StateCompleted, End: &endMs}
}

const (
	findT     = int64(60_000)
	findEpoch = 1_700_000_000_000 / stateEveryMs * stateEveryMs // where the ten minutes of the rules begin
)

// TestFinderTellsALife: a finding opens, changes its class, closes, opens again, and is final with the job's last
// interval. Its FindState goes with each of these records.
func TestFinderTellsALife(t *testing.T) {
	s := newFinds(t)
	open := func(want int) {
		t.Helper()
		if n := s.f.open[schemas.ClassMed] + s.f.open[schemas.ClassHigh]; n != want {
			t.Errorf("%d findings are open, want %d", n, want)
		}
	}
	at := s.lives("1", findEpoch, 3, 0.6)
	open(1)
	at = s.lives("1", at, 7, 1)
	at = s.lives("1", at, 41, 0)
	open(0)
	at = s.lives("1", at, 40, 1)
	open(1)
	s.over("1", at+findT+findT/2)
	if fx := s.learn(at, true); len(fx.Outputs) != 1 {
		t.Errorf("news make %v, want a FindState", fx.Outputs)
	}
	fx := s.put(loadOf("1", at, findT, 0))
	if len(fx.Outputs) != 2 || fx.Counts.Outputs != 1 {
		t.Errorf("the end makes %v and counts %+v", fx.Outputs, fx.Counts)
	}
	open(0)
	s.expect("1/0/busy OPEN MED 3/3", "1/0/busy OPEN HIGH 10/10", "1/0/busy OPEN HIGH 10/20",
		"1/0/busy OPEN HIGH 10/30", "1/0/busy OPEN HIGH 10/40", "1/0/busy CLOSED HIGH 10/50",
		"1/0/busy OPEN HIGH 49/90", "1/0/busy OPEN HIGH 50/92 final")
	if state := s.states["1/0"]; !state.Ended || len(state.Job) > 0 {
		t.Errorf("%+v after the end", state)
	}
	s.put(loadOf("1", at+findT, findT, 1))
	if want := (schemas.ProgressCounts{Summarized: 92, Late: 1, Outputs: 8}); s.counts != want {
		t.Errorf("counts %+v, want %+v", s.counts, want)
	}
	if n := len(s.findings); n != 8 {
		t.Errorf("%d findings after a late summary", n)
	}
}

// TestFinderFates: every record has one fate. Pseudo-jobs have no rules.
func TestFinderFates(t *testing.T) {
	s := newFinds(t)
	foreign := loadOf("1", findEpoch, findT, 1)
	foreign.Cluster = "other"
	future, behind := loadOf("1", findEpoch, findT, 1), loadOf("1", findEpoch+findT, findT, 1)
	for _, r := range []struct {
		e    fold.Entry
		want schemas.ProgressCounts
	}{
		{entryOf(t, 0, loadOf("1", findEpoch, findT, 1)), schemas.ProgressCounts{Summarized: 1}},
		{entryOf(t, 1, loadOf("1", findEpoch, findT, 1)), schemas.ProgressCounts{Duplicate: 1}},
		{entryOf(t, 2, loadOf("1", findEpoch-findT, findT, 1)), schemas.ProgressCounts{Summarized: 1}},
		{entryOf(t, 3, loadOf("1", findEpoch-findT, findT, 1)), schemas.ProgressCounts{Duplicate: 1}},
		{entryOf(t, 4, loadOf(schemas.JobSystem, findEpoch, findT, 1)), schemas.ProgressCounts{Summarized: 1}},
		{entryOf(t, 5, loadOf(schemas.JobRest, findEpoch, findT, 1)), schemas.ProgressCounts{Summarized: 1}},
		{entryOf(t, 6, foreign), schemas.ProgressCounts{Rejected: 1}},
		{fold.Entry{Offset: 7, AppendedMs: findEpoch, Value: []byte("rubbish")}, schemas.ProgressCounts{Rejected: 1}},
		{
			entryOf(t, 8, &schemas.Watermark{IntervalStart: findEpoch, IntervalMs: findT}),
			schemas.ProgressCounts{Rejected: 1},
		},
		{
			fold.Entry{Offset: 9, AppendedMs: findEpoch + findT - aheadMs - 1, Value: foldtest.Encode(t, future)},
			schemas.ProgressCounts{Rejected: 1},
		},
		{ // a process whose clock is behind committed it
			fold.Entry{Offset: 10, AppendedMs: findEpoch + 2*findT - aheadMs, Value: foldtest.Encode(t, behind)},
			schemas.ProgressCounts{Summarized: 1},
		},
	} {
		if r.e.AppendedMs == 0 || r.e.Offset < 7 {
			r.e.AppendedMs = findEpoch + findT
		}
		fx := s.f.Apply(r.e)
		if fx.Counts.Outputs = 0; fx.Counts != r.want {
			t.Errorf("offset %d: %+v, want %+v", r.e.Offset, fx.Counts, r.want)
		}
		for _, x := range fx.Rejects {
			if !x.ByRule {
				t.Errorf("offset %d could stop the partition: %+v", r.e.Offset, x)
			}
		}
	}
	if len(s.f.jobs) != 1 {
		t.Errorf("%d jobs are watched", len(s.f.jobs))
	}
}

// TestFinderEndsByTheClock: a job whose last interval never comes ends two minutes after its end, but not while its
// summaries wait on the topic.
func TestFinderEndsByTheClock(t *testing.T) {
	s := newFinds(t)
	at := s.lives("1", findEpoch, 5, 1)
	end := at + 10*findT
	s.learn(at, true)
	s.over("1", end)
	for _, c := range []struct {
		nowMs int64
		atEnd bool
	}{{end + endPatienceMs - 1, true}, {end + endPatienceMs, false}} {
		if s.learn(c.nowMs, c.atEnd); s.findings[len(s.findings)-1].Final {
			t.Fatalf("ended at %d, at the topic's end %v", c.nowMs-end, c.atEnd)
		}
	}
	s.learn(end+endPatienceMs, true)
	s.expect("1/0/busy OPEN HIGH 3/3", "1/0/busy OPEN HIGH 5/5 final")
	if fx := s.learn(end+2*endPatienceMs, true); len(fx.Outputs) > 0 {
		t.Errorf("a second end: %v", fx.Outputs)
	}
}

// TestFinderWaitsForCatchUp: after an outage summaries of a job come long after its end, some at a time. It does not
// end while they come, also where a restart lies between them, nor where topic jobs does not know it.
func TestFinderWaitsForCatchUp(t *testing.T) {
	for _, known := range []bool{true, false} {
		s := newFinds(t)
		now := int64(findEpoch + 2*goneMs)
		if known {
			s.over("1", findEpoch+20*findT) // its last intervals never come
		}
		at := int64(findEpoch)
		for n := range 10 {
			at = s.lives("1", at, 1, 1)
			if n == 5 {
				s.restart()
			}
			s.learn(now, true)
			now += endPatienceMs - 1
		}
		if s.counts.Summarized != 10 || s.counts.Late != 0 {
			t.Errorf("known %v: %+v", known, s.counts)
		}
		s.learn(now+1, true)
		if last := s.findings[len(s.findings)-1]; !last.Final || last.Evaluated != 10 {
			t.Errorf("known %v: the last finding is %+v", known, last)
		}
	}
}

// TestFinderWaitsForClosedIntervals: in an outage of collect or merge a job is silent, and its end passes. It ends once
// they have closed its last interval, and what came until then counts.
func TestFinderWaitsForClosedIntervals(t *testing.T) {
	end := findEpoch + 20*findT
	noEnd := &schemas.Job{JobID: "1", State: schemas.StateCompleted}
	for _, c := range []struct {
		name      string
		job       *schemas.Job
		now       int64
		closed    int64 // one interval more ends it
		intervals int   // after the outage
	}{
		{"over", &schemas.Job{JobID: "1", State: schemas.StateCompleted, End: &end}, end + endPatienceMs, end - 1, 10},
		{"over, without an end", noEnd, end + endPatienceMs, end + endPatienceMs - 1, 10},
		{"not known", nil, findEpoch + 14*findT + goneMs, findEpoch + 14*findT + goneMs - 1, 10},
	} {
		s := newFinds(t)
		if c.job != nil {
			s.jobs[c.job.Identity()] = &schemas.Job{JobID: "1", State: schemas.StateRunning}
		}
		at := s.lives("1", findEpoch, 4, 1)
		s.learn(at, true)
		s.closedMs = at - findT
		if c.job != nil {
			s.jobs[c.job.Identity()] = c.job
		}
		s.learn(c.now, true)
		s.learn(c.now+goneMs, true)
		at = s.lives("1", at, c.intervals, 1)
		s.closedMs = c.closed
		s.learn(c.now+goneMs, true)
		s.learn(c.now+2*goneMs, true)
		if s.counts.Late > 0 || s.counts.Summarized != 14 || s.states["1/0"].Ended {
			t.Errorf("%s: before its last interval is closed: %+v", c.name, s.counts)
		}
		s.closedMs++
		s.learn(c.now+2*goneMs, true)
		if last := s.findings[len(s.findings)-1]; !last.Final || last.Evaluated != 14 {
			t.Errorf("%s: the last finding is %+v", c.name, last)
		}
		if s.put(loadOf("1", at, findT, 1)); s.counts.Late != 1 {
			t.Errorf("%s: after its end: %+v", c.name, s.counts)
		}
	}
}

// TestClosedBy: an interval is closed once every partition has closed it.
func TestClosedBy(t *testing.T) {
	at := func(ms int64) *schemas.Progress { return &schemas.Progress{Closed: &ms} }
	for _, c := range []struct {
		partitions int
		last       map[int32]*schemas.Progress
		want       int64
	}{
		{2, map[int32]*schemas.Progress{0: at(20), 1: at(10)}, 10},
		{3, map[int32]*schemas.Progress{0: at(20), 1: at(10)}, fold.Never},
		{2, map[int32]*schemas.Progress{0: at(20), 1: {}}, fold.Never},
	} {
		if got := closedBy(c.partitions, c.last); got != c.want {
			t.Errorf("%v: %d, want %d", c.last, got, c.want)
		}
	}
}

// TestFinderEndsForgottenJobs: a job that topic jobs does not have ends a day after its last interval. One that runs
// stays, however long it is silent.
func TestFinderEndsForgottenJobs(t *testing.T) {
	s := newFinds(t)
	s.jobs[schemas.JobKey{JobID: "runs"}] = &schemas.Job{JobID: "runs", State: schemas.StateRunning}
	at := s.lives("runs", findEpoch, 3, 1)
	at = s.lives("forgotten", at, 3, 1)
	s.learn(at, true)
	s.learn(at+goneMs-1, true)
	if n := len(s.findings); n != 2 {
		t.Fatalf("%d findings before a day is over", n)
	}
	s.learn(at+goneMs, true)
	s.expect("runs/0/busy OPEN HIGH 3/3", "forgotten/0/busy OPEN HIGH 3/3", "forgotten/0/busy OPEN HIGH 3/3 final")
}

// TestFinderWaitsForAMissingInterval: the last interval does not end a job of which an older one is under way.
func TestFinderWaitsForAMissingInterval(t *testing.T) {
	s := newFinds(t)
	s.over("1", findEpoch+4*findT)
	for _, n := range []int64{0, 1, 3} {
		s.put(loadOf("1", findEpoch+n*findT, findT, 1))
	}
	if s.states["1/0"].Ended {
		t.Error("it ended without its third interval")
	}
	s.put(loadOf("1", findEpoch+2*findT, findT, 1))
	if !s.states["1/0"].Ended || s.counts.Late != 0 || s.counts.Summarized != 4 {
		t.Errorf("%+v, ended: %t", s.counts, s.states["1/0"].Ended)
	}
}

// TestFinderWaitsForAnyGap: after its last interval, a job waits for any gap among its last 64 intervals, however long
// the gap is. Older gaps are ignored.
func TestFinderWaitsForAnyGap(t *testing.T) {
	for _, c := range []struct {
		before, missing, after int
		ends                   bool
	}{
		{3, 0, 1, true},
		{3, 1, 1, false},
		{3, 62, 1, false},
		{3, 63, 1, false},
		{3, 64, 1, false},
		{3, 65, 1, false},
		{3, 500, 1, false},
		{70, 63, 1, false},
		{70, 64, 1, false},
		{3, 1, 62, false},
		{3, 1, 63, false},
		{3, 1, 64, true},
		{3, 500, 63, false},
		{3, 500, 64, true},
	} {
		s := newFinds(t)
		s.over("1", findEpoch+int64(c.before+c.missing+c.after)*findT)
		at := s.lives("1", findEpoch, c.before, 1)
		s.restart() // what came stays known
		s.lives("1", at+int64(c.missing)*findT, c.after, 1)
		if got := s.states["1/0"].Ended; got != c.ends {
			t.Errorf("%d intervals, %d missing, %d more: ended is %t", c.before, c.missing, c.after, got)
		}
	}
}

// TestJobThatRunsAgain: a jobs file without the job for one reading ends it. Once topic jobs names it again its next
// summary begins it anew, also where its successor replays what was late before.
func TestJobThatRunsAgain(t *testing.T) {
	s := newFinds(t)
	s.over("1", findEpoch+4*findT)
	at := s.lives("1", findEpoch, 4, 1)
	at = s.lives("1", at, 2, 1)
	at = s.lives("2", at, 1, 0)
	s.jobs[schemas.JobKey{JobID: "1"}] = &schemas.Job{JobID: "1", State: schemas.StatePending}
	at = s.lives("1", at, 1, 1)
	s.jobs[schemas.JobKey{JobID: "1"}] = &schemas.Job{JobID: "1", State: schemas.StateRunning}
	s.last.Hold = 0
	s.restart() // a replay takes none of the late ones
	at = s.lives("1", at, 2, 1)
	s.restart()
	clear(s.jobs)
	at = s.lives("1", at, 2, 1)
	s.expect("1/0/busy OPEN HIGH 3/3", "1/0/busy OPEN HIGH 4/4 final", "1/0/busy OPEN HIGH 3/3")
	if want := []string{"findings 1/0/busy", "find-state 1/0"}; !slices.Equal(s.deleted, want) {
		t.Errorf("deleted %v, want %v", s.deleted, want)
	}
	if s.counts.Late != 3 || s.counts.Summarized != 9 || s.states["1/0"].Ended {
		t.Errorf("%+v", s.counts)
	}
	s.over("1", at)
	if s.learn(at, true); !s.findings[3].Final || s.findings[3].Evaluated != 4 {
		t.Errorf("its second end is %+v", s.findings[3])
	}
}

// TestNamesakeBeginsAnew: a job gets the id of an earlier job, whether or not find has read the earlier job's end. The
// rules begin anew for it, and findings of the earlier job are final. Further summaries of the earlier job count as
// late, also for a successor.
func TestNamesakeBeginsAnew(t *testing.T) {
	key := schemas.JobKey{JobID: "1"}
	for name, ended := range map[string]bool{"it ended": true, "its end was not read": false} {
		t.Run(name, func(t *testing.T) {
			s := newFinds(t)
			tell := func(state string, startMs int64, endMs *int64) {
				s.jobs[key] = &schemas.Job{JobID: "1", State: state, Start: &startMs, End: endMs}
			}
			tell(schemas.StateRunning, findEpoch, nil)
			at := s.lives("1", findEpoch, 4, 1)
			if ended {
				tell(schemas.StateCompleted, findEpoch, new(at+3*findT))
				s.learn(at, true)
				s.learn(at+4*findT+endPatienceMs, true)
			}
			second := at + 5*findT
			tell(schemas.StateRunning, second, nil)
			s.learn(second, false)
			s.lives("1", at, 1, 1) // of the first, which is late if that has ended
			s.restart()
			s.lives("1", second, 2, 0)
			s.lives("1", at+findT, 1, 1)
			s.last.Hold = 0
			s.restart() // a replay takes none of the first one's
			s.lives("1", at+2*findT, 1, 1)
			at = s.lives("1", second+2*findT, 6, 1)
			tell(schemas.StateCompleted, second, new(at))
			s.learn(at, true)
			first, late := "1/0/busy OPEN HIGH 4/4 final", int64(3)
			if !ended {
				first, late = "1/0/busy OPEN HIGH 5/5 final", 2
			}
			s.expect("1/0/busy OPEN HIGH 3/3", first, "1/0/busy OPEN HIGH 6/8 final")
			for i, f := range s.findings {
				if want := []int64{findEpoch, second}[i/2]; f.JobStart == nil || *f.JobStart != want {
					t.Errorf("finding %d is of the job of %v, want %d", i, f.JobStart, want)
				}
			}
			if s.counts.Late != late || s.counts.Summarized != 12+3-late {
				t.Errorf("%+v", s.counts)
			}
		})
	}
}

// TestNamesakeWithoutSummaries: a job ends although a namesake has its record, and nothing more comes of either.
func TestNamesakeWithoutSummaries(t *testing.T) {
	s := newFinds(t)
	at := s.lives("1", findEpoch, 4, 1)
	s.learn(at, true)
	s.jobs[schemas.JobKey{JobID: "1"}] = &schemas.Job{
		JobID: "1", State: schemas.StateRunning, Start: new(at + 5*findT),
	}
	s.learn(at+6*findT, true)
	s.learn(at+6*findT+endPatienceMs, true)
	s.expect("1/0/busy OPEN HIGH 3/3", "1/0/busy OPEN HIGH 4/4 final")
}

// TestFinderForgets: a job without findings leaves after 64 intervals, one with findings later, with them.
func TestFinderForgets(t *testing.T) {
	s := newFinds(t)
	s.over("calm", findEpoch+3*findT)
	s.over("busy", findEpoch+3*findT)
	s.lives("calm", findEpoch, 3, 0)
	s.lives("busy", findEpoch, 3, 1)
	ticks := func(fromMs, toMs, step int64) {
		for at := fromMs; at < toMs; at += step {
			s.put(loadOf(schemas.JobSystem, at, findT, 1))
		}
	}
	ticks(findEpoch+3*findT, findEpoch+leaveIntervals*findT+endPatienceMs, sweepEveryMs)
	if len(s.deleted) > 0 {
		t.Fatalf("%v left early", s.deleted)
	}
	ticks(findEpoch+leaveIntervals*findT+endPatienceMs, findEpoch+findingsKeptMs, sweepEveryMs)
	if want := []string{"find-state calm/0"}; !slices.Equal(s.deleted, want) {
		t.Fatalf("%v left, want %v", s.deleted, want)
	}
	s.restart()
	ticks(findEpoch+findingsKeptMs, findEpoch+findingsKeptMs+5*sweepEveryMs, sweepEveryMs)
	want := []string{"find-state calm/0", "findings busy/0/busy", "find-state busy/0"}
	if !slices.Equal(s.deleted, want) {
		t.Errorf("%v left, want %v", s.deleted, want)
	}
	if n := len(s.f.jobs) + len(s.f.ended); n != 0 || len(s.states) != 0 {
		t.Errorf("%d jobs and %d states are left", n, len(s.states))
	}
}

// TestFinderTrustsNoAppendTime: one process with a clock that is years ahead commits summaries. No finding is old by
// that, and jobs are saved and forgotten afterwards as before.
func TestFinderTrustsNoAppendTime(t *testing.T) {
	s := newFinds(t)
	s.over("1", findEpoch+3*findT)
	s.lives("1", findEpoch, 3, 1)
	s.lives("silent", findEpoch, 3, 0)
	s.aheadMs = 20 * findingsKeptMs
	at := s.lives("2", findEpoch+3*findT, 2, 0)
	s.aheadMs = 0
	if len(s.deleted) > 0 {
		t.Fatalf("%v left", s.deleted)
	}
	for range 20 {
		s.put(loadOf(schemas.JobSystem, at, findT, 0))
		at += findT
	}
	if s.states["silent/0"].Offset != 5 {
		t.Errorf("the silent job is saved up to %d", s.states["silent/0"].Offset)
	}
	s.put(loadOf(schemas.JobSystem, findEpoch+findingsKeptMs+10*findT, findT, 0))
	if want := []string{"findings 1/0/busy", "find-state 1/0"}; !slices.Equal(s.deleted, want) {
		t.Errorf("%v left, want %v", s.deleted, want)
	}
}

// TestFinderHoldsLittle: a successor reads ten minutes of each job at most, also of a job that is silent since.
func TestFinderHoldsLittle(t *testing.T) {
	s := newFinds(t)
	s.lives("silent", findEpoch, 3, 0)
	at, most := int64(findEpoch), int64(0)
	perInterval := int64(4)
	for range 3 * stateEveryMs / findT {
		for _, job := range []string{"1", "2", "3", schemas.JobSystem} {
			s.put(loadOf(job, at, findT, 0))
		}
		at += findT
		most = max(most, s.last.Position-s.last.Hold)
	}
	if bound := (stateEveryMs/findT + 1 + sweepEveryMs/findT) * perInterval; most > bound {
		t.Errorf("%d records are read again, more than %d", most, bound)
	}
	if most < stateEveryMs/findT*perInterval/2 {
		t.Errorf("%d records are read again: FindStates are written all the time", most)
	}
	if s.states["silent/0"].Offset != 2 {
		t.Errorf("the silent job is saved up to %d", s.states["silent/0"].Offset)
	}
}

// TestFinderLearnsSeldom: the jobs that run are looked through once a second, and those that ended never.
func TestFinderLearnsSeldom(t *testing.T) {
	s := newFinds(t)
	s.over("1", findEpoch+3*findT)
	s.over("2", findEpoch+9*findT)
	s.lives("1", findEpoch, 3, 1)
	s.lives("2", findEpoch, 3, 1)
	for range 2 {
		var asked []string
		s.f.known = func(key schemas.JobKey) *schemas.Job { asked = append(asked, key.JobID); return s.jobs[key] }
		if s.learn(findEpoch, true); !slices.Equal(asked, []string{"2"}) {
			t.Errorf("asked for jobs %q", asked)
		}
		s.restart()
	}
	now := time.UnixMilli(findEpoch)
	for i, want := range []bool{true, false, true} {
		if got := s.f.learns(now); got != want {
			t.Errorf("time %d: learns %v", i, got)
		}
		now = now.Add(processors.LearnEvery/2 + time.Millisecond)
	}
}

// TestFinderEndsManyJobs: thousands of jobs that ended while no find ran end in several transactions.
func TestFinderEndsManyJobs(t *testing.T) {
	s := newFinds(t)
	const jobs, most = 2500, manyStates
	for n := range jobs {
		s.put(loadOf(fmt.Sprint(n), findEpoch, findT, 0))
		s.over(fmt.Sprint(n), findEpoch+findT)
	}
	ended := []int{}
	for range 4 {
		fx := s.learn(findEpoch, true)
		ended = append(ended, len(fx.Outputs))
	}
	if want := []int{most, most, jobs - 2*most, 0}; !slices.Equal(ended, want) {
		t.Errorf("ended %v, want %v", ended, want)
	}
}

// TestNewsAreFrozen: what topic jobs tells is committed at once. A successor that does not know it decides alike.
func TestNewsAreFrozen(t *testing.T) {
	s := newFinds(t)
	user := func(name string) {
		s.jobs[schemas.JobKey{JobID: "1"}] = &schemas.Job{JobID: "1", User: name, State: schemas.StateRunning}
	}
	user("alice")
	at := s.lives("1", findEpoch, 3, 1)
	user("bob")
	if fx := s.learn(at, true); len(fx.Outputs) != 1 {
		t.Errorf("news make %v, want a FindState", fx.Outputs)
	}
	if fx := s.learn(at, true); len(fx.Outputs) != 0 {
		t.Errorf("no news make %v", fx.Outputs)
	}
	s.put(loadOf("1", at, findT, 0))
	clear(s.jobs)
	s.restart()
	s.lives("1", at+findT, 20, 0)
	var users []string
	for _, f := range s.findings {
		users = append(users, f.State+" "+strings.TrimRight(strings.Fields(f.Hint)[1], ":"))
	}
	if want := []string{"OPEN alice", "OPEN bob", "CLOSED bob"}; !slices.Equal(users, want) {
		t.Errorf("findings %q, want %q", users, want)
	}
}

// TestRuleThatChanged: its findings are deleted, and it begins anew. What becomes due in a replay is written after it.
func TestRuleThatChanged(t *testing.T) {
	s := newFinds(t)
	at := s.lives("1", findEpoch, 6, 1) // three more than the last FindState has
	s.set = busyRules(t, "share: 0.5", "share: 0.6")
	s.restart()
	if n := s.f.open[schemas.ClassHigh]; n != 0 {
		t.Errorf("%d findings are open by the old rule", n)
	}
	s.lives("1", at, 1, 1)
	if want := []string{"findings 1/0/busy"}; !slices.Equal(s.deleted, want) {
		t.Errorf("deleted %v, want %v", s.deleted, want)
	}
	s.expect("1/0/busy OPEN HIGH 3/3", "1/0/busy OPEN HIGH 3/3")
	if s.findings[1].RuleHash == s.findings[0].RuleHash {
		t.Error("the second finding is by the old rule")
	}
}

// TestRuleThatChangedBeforeTheEnd: the old finding's tombstone goes before the new one, also where the next entry of
// the log comes after both.
func TestRuleThatChangedBeforeTheEnd(t *testing.T) {
	s := newFinds(t)
	at := s.lives("1", findEpoch, 6, 1)
	s.set = busyRules(t, "share: 0.5", "share: 0.6")
	s.restart()
	s.over("1", at)
	fx := s.learn(at, true)
	if len(fx.Outputs) != 3 || len(s.deleted) != 1 {
		t.Fatalf("%d outputs, deleted %v", len(fx.Outputs), s.deleted)
	}
	if _, first := fx.Outputs[0].(fold.Tombstone); !first {
		t.Errorf("the first is a %T", fx.Outputs[0])
	}
	if s.put(loadOf("2", at, findT, 0)); len(s.deleted) != 1 {
		t.Errorf("deleted %v", s.deleted)
	}
}

// TestSleepKeepsWhatIsDue: where only one job may be awake, those with findings that a replay made due stay awake.
func TestSleepKeepsWhatIsDue(t *testing.T) {
	s := newFinds(t)
	s.mostAwake = 1
	at := int64(findEpoch)
	for range 6 {
		s.put(loadOf("1", at, findT, 1), loadOf("2", at, findT, 1))
		at += findT
	}
	s.set = busyRules(t, "share: 0.5", "share: 0.6")
	s.restart()
	s.put(loadOf("1", at, findT, 1), loadOf("2", at, findT, 1))
	s.expect("1/0/busy OPEN HIGH 3/3", "2/0/busy OPEN HIGH 3/3", "1/0/busy OPEN HIGH 3/3", "2/0/busy OPEN HIGH 3/3")
	if n := len(s.f.awake); n != 2 {
		t.Errorf("%d jobs are awake", n)
	}
	s.put(loadOf("1", at+findT, findT, 1))
	if n := len(s.f.awake); n != 2 {
		t.Errorf("%d jobs are awake before another wakes", n)
	}
	s.put(loadOf("3", at+findT, findT, 1))
	if n := len(s.f.awake); n != 1 {
		t.Errorf("%d jobs are awake once nothing is due", n)
	}
}

// TestStatesOfAnotherLog: without a Progress the fold begins at the log's start. What the topics have of jobs that ran
// is deleted, as their findings would stay open for ever. Final findings stay as long as any.
func TestStatesOfAnotherLog(t *testing.T) {
	s := newFinds(t)
	s.over("over", findEpoch+3*findT)
	at := s.lives("over", findEpoch, 3, 1)
	s.lives("1", findEpoch, 3, 1)
	s.lives("2", findEpoch, 3, 1)
	s.last, s.log, s.findings, s.counts = nil, nil, nil, schemas.ProgressCounts{}
	s.restart()
	if n := s.f.open[schemas.ClassHigh]; n != 0 {
		t.Errorf("%d findings are open", n)
	}
	s.lives("2", findEpoch, 3, 1)
	s.expect("2/0/busy OPEN HIGH 3/3")
	want := []string{"findings 1/0/busy", "find-state 1/0", "findings 2/0/busy", "find-state 2/0"}
	if !slices.Equal(s.deleted, want) {
		t.Errorf("deleted %v, want %v", s.deleted, want)
	}
	if len(s.states) != 2 || s.states["2/0"] == nil || s.states["over/0"] == nil {
		t.Errorf("states of %v", slices.Collect(maps.Keys(s.states)))
	}
	s.restart()
	if s.lives("over", at, 2, 1); s.counts.Late != 2 {
		t.Errorf("%+v", s.counts)
	}
	s.over("2", at)
	s.learn(at, true)
	for n := range int64(2) {
		s.lives(schemas.JobSystem, at+findingsKeptMs+n*findT, 1, 0)
	}
	want = append(want, "findings 2/0/busy", "find-state 2/0", "findings over/0/busy", "find-state over/0")
	if !slices.Equal(s.deleted, want) {
		t.Errorf("deleted %v, want %v", s.deleted, want)
	}
}

// TestNewerState: an older weir does not begin a job anew behind a newer one's back.
func TestNewerState(t *testing.T) {
	s := newFinds(t)
	s.lives("1", findEpoch, 3, 1)
	good := s.states["1/0"]
	bad := *good
	bad.State = []byte(`{"version":2}`)
	states := slices.Values([]*schemas.FindState{&bad})
	_, err := newFinder(foldtest.Cluster, s.set, typesOf(nil), false, s.f.known, s.last, states)
	if !errors.Is(err, errNewerState) {
		t.Errorf("a newer state: %v", err)
	}
}

// TestSpoiledState: one job whose state cannot be read begins anew, and does not stop its partition. What it had found
// does not stay open.
func TestSpoiledState(t *testing.T) {
	const watch = `{"version":1,"rules":{"busy":{"hash":"h","class":"HIGH"}},"watch":"/w=="}`
	for _, state := range []string{"", "rubbish", "{}", watch} {
		s := newFinds(t)
		at := s.lives("1", findEpoch, 3, 1)
		s.lives("2", findEpoch, 3, 1)
		s.states["1/0"].State = []byte(state)
		s.restart()
		if s.f.faults != 1 || s.f.fault == nil {
			t.Errorf("%q: %d faults, the last is %v", state, s.f.faults, s.f.fault)
		}
		s.lives("2", at, 1, 0)
		s.lives("1", at, 3, 1)
		s.expect("1/0/busy OPEN HIGH 3/3", "2/0/busy OPEN HIGH 3/3", "1/0/busy OPEN HIGH 3/3")
		if want := []string{"findings 1/0/busy"}; !slices.Equal(s.deleted, want) {
			t.Errorf("%q: deleted %v, want %v", state, s.deleted, want)
		}
	}
}

// TestWindow compares it with a set of all intervals.
func TestWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		var w window
		seen, newest := map[int64]bool{}, int64(0)
		for range 300 {
			at := max(0, newest+r.Int64N(12)-8) * findT
			if r.IntN(40) == 0 {
				at += 70 * findT
			}
			want := !seen[at]
			if at <= (newest-64)*findT {
				continue
			}
			if got := w.add(at, findT); got != want {
				t.Fatalf("%d behind %d is new: %v, want %v", at, newest*findT, got, want)
			}
			text, err := json.Marshal(w)
			if err = cmp.Or(err, json.Unmarshal(text, &w)); err != nil {
				t.Fatal(err)
			}
			seen[at], newest = true, max(newest, at/findT)
			first, whole := newest, true
			for at := range seen {
				first = min(first, at/findT)
			}
			for n := max(first, newest-63); n <= newest; n++ {
				whole = whole && seen[n*findT]
			}
			if got := w.isWhole(); got != whole {
				t.Fatalf("the last 64 intervals up to %d are whole: %v, want %v", newest, got, whole)
			}
		}
	}
}

// crashes folds a log as the loop does, and dies before or after commits where dies says so.
func (s *finds) crashes(r *rand.Rand, log []fold.Entry, dies func() bool) {
	s.t.Helper()
	for {
		s.restart()
		a, start := fold.OpenAccount(func(*schemas.Progress) fold.Fold { return s.f }, s.last, 0)
		if s.last != nil {
			s.replayed += s.last.Position - start
		}
		i, _ := slices.BinarySearchFunc(log, start, func(e fold.Entry, o int64) int { return cmp.Compare(e.Offset, o) })
		for alive := true; alive; {
			if i == len(log) && a.Position == a.From && !a.HasNews() {
				return
			}
			for range min(1+r.IntN(8), len(log)-i) {
				a.Add(log[i])
				i++
			}
			if !a.Replays() {
				a.Take(s.f.learn(0, func() int64 { return fold.Never }))
			}
			if !a.HasNews() && r.IntN(6) > 0 && i < len(log) {
				continue
			}
			if alive = !dies(); !alive {
				break
			}
			for _, o := range a.Outputs {
				s.keep(o)
			}
			s.last = a.Progress()
			if err := s.last.Validate(); err != nil {
				s.t.Fatal(err)
			}
			s.counts = s.last.Counts
			a.Committed()
			alive = !dies()
		}
	}
}

// findLog is some jobs' summaries: out of order, twice, late, hours apart, and records that are none.
func findLog(t *testing.T, r *rand.Rand, jobs map[schemas.JobKey]*schemas.Job) (log []fold.Entry) {
	t.Helper()
	length, intervals := findT, 120
	if r.IntN(2) == 0 { // a window of 64 intervals is shorter than ten minutes
		length, intervals = 5000, 400
	}
	put := func(start int64, value []byte) {
		log = append(log, fold.Entry{Offset: int64(2 * len(log)), AppendedMs: start + 2*length, Value: value})
	}
	for n := range 6 {
		end := findEpoch + int64(intervals/3+r.IntN(intervals))*length
		if job := fmt.Sprint(n); n < 5 {
			jobs[schemas.JobKey{JobID: job}] = &schemas.Job{JobID: job, State: schemas.StateFailed, End: &end}
		}
	}
	// Chance alone makes nothing late in some logs: job "over" ends after four intervals, and has one more.
	end := findEpoch + 4*length
	jobs[schemas.JobKey{JobID: "over"}] = &schemas.Job{JobID: "over", State: schemas.StateFailed, End: &end}
	at := int64(findEpoch)
	for i := range intervals {
		if i < 4 || i == intervals/4 {
			put(at, foldtest.Encode(t, loadOf("over", at, length, 1)))
		}
		at += length
		if i == intervals/2 {
			at += stateEveryMs * int64(r.IntN(3))
		}
		for n := range 6 {
			load := []float64{0.6, 1, 1, 0}[(i/8+n)%4]
			start := at - length*int64(max(0, r.IntN(12)-9))
			value := foldtest.Encode(t, loadOf(fmt.Sprint(n), start, length, load))
			for range 1 + max(0, r.IntN(20)-18) {
				put(at, value)
			}
		}
		put(at, foldtest.Encode(t, loadOf(schemas.JobSystem, at, length, 1)))
		if r.IntN(20) == 0 {
			put(at, []byte("rubbish"))
		}
	}
	return log
}

// TestFinderSurvivesCrashes: however often the process dies, the findings are the same to the byte, in the same order,
// and every record is counted once.
func TestFinderSurvivesCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	seed := foldtest.NewSeed()
	replays, findings := int64(0), 0
	var counts schemas.ProgressCounts
	for n := range uint64(kafkatest.Cases(4, 2)) {
		r := rand.New(rand.NewPCG(seed+n, 9))
		steady := newFinds(t)
		log := findLog(t, r, steady.jobs)
		steady.crashes(r, log, func() bool { return false })
		if all := foldtest.Fates(steady.counts); all != int64(len(log)) {
			t.Fatalf("seed %d: %d records have a fate, of %d: %+v", seed+n, all, len(log), steady.counts)
		}
		findings += len(steady.findings)
		counts.Add(steady.counts)
		for range kafkatest.Cases(3, 1) {
			crashed := newFinds(t)
			crashed.jobs, crashed.mostAwake = steady.jobs, 1+r.IntN(6)
			crashed.crashes(r, log, func() bool { return r.IntN(12) == 0 })
			if got, want := crashed.said(), steady.said(); !slices.Equal(got, want) {
				t.Fatalf("seed %d: findings\n%s\nwant\n%s", seed+n, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for i := range steady.findings {
				got, want := foldtest.Encode(t, crashed.findings[i]), foldtest.Encode(t, steady.findings[i])
				if !bytes.Equal(got, want) {
					t.Fatalf("seed %d: finding %d is %+v, want %+v", seed+n, i, crashed.findings[i], steady.findings[i])
				}
			}
			if crashed.counts != steady.counts {
				t.Fatalf("seed %d: counts %+v, want %+v", seed+n, crashed.counts, steady.counts)
			}
			replays += crashed.replayed
		}
	}
	if replays == 0 || findings == 0 || counts.Late == 0 || counts.Duplicate == 0 {
		t.Errorf("%d records to replay, %d findings, %+v: the test proves nothing", replays, findings, counts)
	}
}

// typesOf returns node types that stay as they are.
func typesOf(types *nodetypes.Types) func() *nodetypes.Types {
	return func() *nodetypes.Types { return types }
}
