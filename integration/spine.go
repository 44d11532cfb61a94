// Package integration runs weir as a whole and judges what comes out by an oracle that recomputes it from the log.
//
// Scenarios run on a Cluster that the caller provides. Other tests run on the Kafka that KAFKA_SEEDS names, and without
// it on the embedded broker.
package integration

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"
)

// Spine runs the whole system on simulated nodes, with a hostile producer, restarts and second owners. Then it asks
// the oracle: nothing lost, nothing twice, every exact number exact, the archive equal to the topic.
func Spine(t *testing.T, c Cluster) {
	s := systemOn(t, brokersOf(t, c))
	sinkPart, merge, collect := s.startSink(), s.startMerge(), s.startCollect()
	balance, nodes := s.startBalancer(), s.startNodes()

	s.summarizes()
	s.makeReplays(s.replays.Load)
	s.fence(s.cfg.Prefix + "merge-0")
	collect.stop()
	collect = s.startCollect()
	s.awaitCommits()
	s.injectFaults()
	second := s.startCollect()
	s.eventually("the second collect takes some of the partitions", func() bool { return s.owners("collect") == 2 })
	merge.stop()
	merge = s.startMerge()
	sinkPart.stop()
	sinkPart = s.startSink()
	balance.stop()
	time.Sleep(1500 * time.Millisecond) // intervals end, and nobody plans or closes them
	balance = s.startBalancer()
	s.awaitCommits()
	second.stop()
	s.injectFaults()
	s.awaitCommits()
	s.meetAll()

	nodes.stop()
	s.awaitTicks(s.newest())
	balance.stop()
	s.awaitCollect()
	collect.stop()
	s.awaitMerge()
	merge.stop()
	s.awaitJobs()
	s.endSink(sinkPart)
	s.judge()
}

// awaitJobs waits until the archive has the last end of every job of the topic, and nothing else.
func (s *system) awaitJobs() {
	s.t.Helper()
	var want, got []string
	for _, j := range s.ended() {
		want = append(want, fmt.Sprint(j.JobID, j.Restart, j.User, j.Nodes, *j.Cores, j.State, *j.End))
	}
	s.eventually("the jobs in the archive", func() bool {
		got = nil
		dates, err := jobs.Dates(s.cfg.Sink.Dir)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, date := range dates {
			err := sink.Reading(s.t.Context(), s.cfg.Sink.Dir, func() error {
				return jobs.Each(s.cfg.Sink.Dir, date, func(r *jobs.Row) error {
					got = append(got, fmt.Sprint(r.JobID, r.Restart, r.User, r.Nodes, *r.Cores, r.State, r.End))
					return nil
				})
			})
			if err != nil {
				s.t.Fatal(err)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		return len(want) > 0 && slices.Equal(want, got)
	})
}

// ended returns the last record with an end of each job of the topic.
func (s *system) ended() map[schemas.JobKey]*schemas.Job {
	s.t.Helper()
	ended := map[schemas.JobKey]*schemas.Job{}
	for _, r := range s.read(schemas.TopicJobs) {
		record, err := schemas.Unmarshal(r.Value)
		if j, is := record.(*schemas.Job); err == nil && is && schemas.Over(j.State) && j.End != nil {
			ended[j.Identity()] = j
		}
	}
	return ended
}

// owners is how many members of a stage's group have partitions.
func (s *system) owners(stage string) (n int) {
	s.t.Helper()
	described, err := kadm.NewClient(s.cl).DescribeGroups(s.t.Context(), s.cfg.Prefix+stage)
	if err != nil {
		return 0 // asked while the group moves
	}
	for _, m := range described[s.cfg.Prefix+stage].Members {
		assigned, is := m.Assigned.AsConsumer()
		if is && slices.ContainsFunc(assigned.Topics, func(t kmsg.ConsumerMemberAssignmentTopic) bool {
			return len(t.Partitions) > 0
		}) {
			n++
		}
	}
	return n
}

// makeReplays has records rejected, which is said at once, before their interval is closed. Then it takes partitions
// away by force, until a successor has had something to fold again.
func (s *system) makeReplays(replayed func() int64) {
	s.t.Helper()
	s.eventually("a successor folds something again", func() bool {
		s.injectFaults()
		for p := range s.cfg.Collectors {
			s.fence(fmt.Sprintf("%scollect-%d", s.cfg.Prefix, p))
			time.Sleep(300 * time.Millisecond) // the fences fall into different parts of an interval
		}
		return replayed() > 0
	})
}

// meetAll waits until the run has met what judge wants to have met. Where faults were injected too late to be
// duplicates, it injects more.
func (s *system) meetAll() {
	s.t.Helper()
	injected := time.Now()
	s.eventually("everything that a run must meet", func() bool {
		var c fates
		for _, p := range s.lastProgress(schemas.TopicProgress) {
			c.add(fatesOf(p.Counts))
		}
		if min(c.late, c.duplicate, c.misrouted, c.rejected) == 0 {
			if time.Since(injected) > 3*s.cfg.Interval { // what was injected before has been read and closed
				s.injectFaults()
				injected = time.Now()
			}
			return false
		}
		methods := map[string]bool{}
		for _, r := range s.read(schemas.TopicJobSummary) {
			v, err := schemas.Unmarshal(r.Value)
			if err != nil {
				s.t.Fatal(err)
			}
			methods[v.(*schemas.JobSummary).Method] = true
		}
		return c.ended > 0 && len(methods) == 3
	})
}

// injectFaults writes what a careless or hostile client could: records that are late, there twice, where nobody expects
// them, and not records at all.
func (s *system) injectFaults() {
	s.t.Helper()
	var batches []*kgo.Record
	var newest int64
	for _, r := range s.read(schemas.TopicCounters) {
		v, err := schemas.Unmarshal(r.Value)
		if b, ok := v.(*schemas.CounterBatch); err == nil && ok {
			batches = append(batches, r)
			newest = max(newest, b.IntervalStart)
		}
	}
	slices.SortFunc(batches, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
	again := func(r *kgo.Record, change func(b *schemas.CounterBatch)) *kgo.Record {
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		b := v.(*schemas.CounterBatch)
		change(b)
		value, err := schemas.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		return &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: value}
	}
	oldest, last := batches[0], batches[len(batches)-1]
	current := time.Now().UnixMilli() / s.cfg.Interval.Milliseconds() * s.cfg.Interval.Milliseconds()
	s.injected++
	s.produce(
		// One is late.
		again(oldest, func(*schemas.CounterBatch) {}),
		// Three are misrouted: of a node that no Tick lists, or of another length. The fourth is a duplicate.
		again(last, func(b *schemas.CounterBatch) { b.IntervalStart, b.Node = current, "stranger" }),
		again(last, func(b *schemas.CounterBatch) { b.IntervalStart, b.IntervalMs = current/2000*2000, 2000 }),
		again(last, func(b *schemas.CounterBatch) { b.IntervalStart, b.Node = current, "twin" }),
		again(last, func(b *schemas.CounterBatch) { b.IntervalStart, b.Node = current, "twin" }),
		// Three are rejected, and one more by merge.
		again(last, func(b *schemas.CounterBatch) { b.Cluster = "elsewhere" }),
		&kgo.Record{Topic: last.Topic, Partition: last.Partition, Key: last.Key, Value: []byte("not a record")},
		&kgo.Record{Topic: last.Topic, Partition: last.Partition, Key: last.Key, Value: last.Value[:len(last.Value)/2]},
		&kgo.Record{
			Topic: s.cfg.Prefix + schemas.TopicPartials, Partition: 1,
			Value: []byte{0xC3, 0x01, 1, 2, 3, 4, 5, 6, 7, 8},
		},
	)
}

func windowOf(sum *schemas.JobSummary) window {
	return window{sum.JobID, int(sum.Restart), sum.IntervalStart}
}

// summaries reads all summaries, and the windows that have one. A window that has two fails the test.
func (s *system) summaries() (all []*schemas.JobSummary, seen map[window]bool) {
	s.t.Helper()
	seen = map[window]bool{}
	for _, r := range s.read(schemas.TopicJobSummary) {
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		sum := v.(*schemas.JobSummary)
		all = append(all, sum)
		w := windowOf(sum)
		if seen[w] {
			s.t.Errorf("%+v has two summaries", w)
		}
		seen[w] = true
	}
	return all, seen
}

func (s *system) judge() {
	s.t.Helper()
	o := newOracle(s.t, s.cfg.Cluster, s.read(schemas.TopicCounters))

	methods := map[string]int{}
	summaries, seen := s.summaries()
	for _, sum := range summaries {
		if err := o.check(sum); err != nil {
			s.t.Errorf("%s %+v: %v", sum.Method, windowOf(sum), err)
		}
		methods[sum.Method]++
	}
	for w, e := range o.windows {
		if !seen[w] {
			s.t.Errorf("%+v has no summary: %d parts, %d records", w, e.parts, len(e.records))
		}
	}
	total := s.judgeFates(o)
	s.judgeRejects(o)
	rows := s.judgeArchive(summaries)

	s.t.Logf("compared: %v summaries, %d rows of the archive; fates %+v; %d offsets replayed; "+
		"%d brackets of estimates; %v", methods, rows, total, s.replays.Load(), o.brackets, o.rules)
	for what, n := range map[string]int64{
		"NODE": int64(methods[schemas.MethodNode]), "EXACT": int64(methods[schemas.MethodExact]),
		"ESTIMATED": int64(methods[schemas.MethodEstimated]), "rows": int64(rows), "bracketed": int64(o.brackets),
		"late": total.late, "duplicate": total.duplicate, "misrouted": total.misrouted, "rejected": total.rejected,
		"ended": total.ended, "replayed": s.replays.Load(), ruleEnded: int64(o.rules[ruleEnded]),
		ruleJobs: int64(o.rules[ruleJobs]), ruleShared: int64(o.rules[ruleShared]),
	} {
		if n == 0 {
			s.t.Errorf("nothing was met of %q: the run proves nothing about it", what)
		}
	}
}

// judgeFates compares the running counts of every partition with the oracle's.
func (s *system) judgeFates(o *oracle) (total fates) {
	s.t.Helper()
	last := map[int32]*schemas.Progress{}
	for _, r := range s.read(schemas.TopicProgress) {
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		p := v.(*schemas.Progress)
		if before := last[r.Partition]; before != nil && before.Position != p.From {
			s.t.Errorf("partition %d: progress from %d follows one to %d", r.Partition, p.From, before.Position)
		}
		last[r.Partition] = p
	}
	for p, want := range o.fates {
		c := last[p].Counts
		if got := fatesOf(c); got != *want || c.Dropped != 0 || c.Lost != 0 {
			s.t.Errorf("partition %d: fates %+v (dropped %d, lost %d), the oracle says %+v",
				p, got, c.Dropped, c.Lost, *want)
		}
		total.add(*want)
	}
	return total
}

func (s *system) judgeRejects(o *oracle) {
	s.t.Helper()
	got, partials := map[string]bool{}, 0
	for _, r := range s.read(schemas.TopicRejects) {
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		x := v.(*schemas.Reject)
		if strings.HasSuffix(x.Topic, schemas.TopicPartials) {
			partials++
			continue
		}
		key := fmt.Sprintf("%d/%d", x.Partition, x.Offset)
		if got[key] {
			s.t.Errorf("%s was rejected twice", key)
		}
		got[key] = true
	}
	if diff := cmp.Diff(o.rejects, got); diff != "" {
		s.t.Errorf("rejects: the oracle's (-), the topic's (+)\n%s", diff)
	}
	if partials != s.injected {
		s.t.Errorf("%d rejected partials, %d were injected", partials, s.injected)
	}
}

// judgeArchive compares the archive with the topic, row by row.
func (s *system) judgeArchive(summaries []*schemas.JobSummary) int {
	s.t.Helper()
	text := func(r schemas.Row) string {
		b, err := json.Marshal(r)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(b)
	}
	var want, got []string
	for _, sum := range summaries {
		for _, r := range sum.Rows() {
			want = append(want, text(r))
		}
	}
	err := filepath.WalkDir(filepath.Join(s.cfg.Sink.Dir, "summaries"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if filepath.Ext(path) != ".parquet" {
				s.t.Errorf("%s is left over", path)
				return nil
			}
			rows, _, err := sink.ReadFile(path)
			for _, r := range rows {
				got = append(got, text(r))
			}
			return err
		})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("the topic's rows (-), the archive's (+)\n%.4000s", diff)
	}
	return len(got)
}

// judgeTicks holds the balancers to what they promise: in each partition one Tick for every interval, in order, and the
// same intervals in all partitions.
func (s *system) judgeTicks() {
	s.t.Helper()
	ticks := map[int32][]int64{}
	for _, r := range s.read(schemas.TopicCounters) {
		v, err := schemas.Unmarshal(r.Value)
		if k, ok := v.(*schemas.Tick); err == nil && ok {
			ticks[r.Partition] = append(ticks[r.Partition], k.IntervalStart)
		}
	}
	for p := range int32(s.cfg.Collectors) {
		if !slices.Equal(ticks[p], ticks[0]) {
			s.t.Errorf("partition %d has other Ticks than partition 0: %d, %d", p, ticks[p], ticks[0])
		}
	}
	for i := 1; i < len(ticks[0]); i++ {
		if ticks[0][i] != ticks[0][i-1]+s.cfg.Interval.Milliseconds() {
			s.t.Errorf("the Tick of %d follows that of %d", ticks[0][i], ticks[0][i-1])
		}
	}
}
