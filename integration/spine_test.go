// Package integration runs weir as a whole and judges what comes out by an oracle that recomputes it from the log.
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
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// TestSpine runs the whole system on simulated nodes while a hostile producer, restarts and second owners do what they
// can, and then asks the oracle: nothing lost, nothing twice, every exact number exact, the archive equal to the topic.
func TestSpine(t *testing.T) {
	s := newSystem(t)
	sinkPart, merge, collect := s.startSink(), s.startMerge(), s.startCollect()
	balance, nodes := s.startBalancer(), s.startNodes()

	s.eventually("the first summaries", func() bool { return len(s.read(schemas.TopicJobSummary)) > 30 })
	for range 10 { // until a successor has had something to fold again
		s.injectFaults()
		for p := range s.cfg.Collectors {
			s.fence(fmt.Sprintf("%scollect-%d", s.cfg.Prefix, p))
			time.Sleep(300 * time.Millisecond)
		}
		if s.replays.Load() > 0 {
			break
		}
	}
	s.fence(s.cfg.Prefix + "merge-0")
	collect.stop()
	collect = s.startCollect()
	time.Sleep(2 * time.Second)
	s.injectFaults()
	second := s.startCollect() // takes some of the partitions
	merge.stop()
	merge = s.startMerge()
	sinkPart.stop()
	sinkPart = s.startSink()
	balance.stop()
	time.Sleep(1500 * time.Millisecond)
	balance = s.startBalancer()
	time.Sleep(4 * time.Second)
	second.stop()
	s.injectFaults()
	time.Sleep(4 * time.Second)

	nodes.stop()
	time.Sleep(3 * s.cfg.Interval) // the Ticks of what the nodes sent last
	balance.stop()
	s.eventually("collect reads to the end", func() bool { return s.lag(schemas.TopicCounters, schemas.TopicProgress) == 0 })
	collect.stop()
	s.eventually("merge reads to the end", func() bool { return s.lag(schemas.TopicPartials, schemas.TopicMergeProgress) == 0 })
	merge.stop()
	sinkPart.stop()
	s.judge()
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
		again(oldest, func(*schemas.CounterBatch) {}),                                                                             // late
		again(last, func(b *schemas.CounterBatch) { b.IntervalStart, b.Node = current, "stranger" }),                              // misrouted: not listed
		again(last, func(b *schemas.CounterBatch) { b.IntervalStart, b.IntervalMs = current/2000*2000, 2000 }),                    // misrouted: another length
		again(last, func(b *schemas.CounterBatch) { b.IntervalStart, b.Node = current, "twin" }),                                  // misrouted
		again(last, func(b *schemas.CounterBatch) { b.IntervalStart, b.Node = current, "twin" }),                                  // duplicate
		again(last, func(b *schemas.CounterBatch) { b.Cluster = "elsewhere" }),                                                    // rejected
		&kgo.Record{Topic: last.Topic, Partition: last.Partition, Key: last.Key, Value: []byte("not a record")},                   // rejected
		&kgo.Record{Topic: last.Topic, Partition: last.Partition, Key: last.Key, Value: last.Value[:len(last.Value)/2]},           // rejected
		&kgo.Record{Topic: s.cfg.Prefix + schemas.TopicPartials, Partition: 1, Value: []byte{0xC3, 0x01, 1, 2, 3, 4, 5, 6, 7, 8}}, // rejected by merge
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

	s.t.Logf("compared: %d NODE, %d EXACT, %d ESTIMATED summaries, %d rows of the archive; %d records summarized, %d late, %d duplicate, "+
		"%d misrouted, %d rejected, %d ended; %d offsets replayed; %d brackets of estimates; %v", methods[schemas.MethodNode], methods[schemas.MethodExact],
		methods[schemas.MethodEstimated], rows, total.summarized, total.late, total.duplicate, total.misrouted, total.rejected, total.ended, s.replays.Load(),
		o.brackets, o.rules)
	for what, n := range map[string]int64{
		"NODE": int64(methods[schemas.MethodNode]), "EXACT": int64(methods[schemas.MethodExact]), "ESTIMATED": int64(methods[schemas.MethodEstimated]),
		"late": total.late, "duplicate": total.duplicate, "misrouted": total.misrouted, "rejected": total.rejected, "ended": total.ended,
		"replayed": s.replays.Load(), "rows": int64(rows), "bracketed": int64(o.brackets),
		ruleEnded: int64(o.rules[ruleEnded]), ruleJobs: int64(o.rules[ruleJobs]), ruleShared: int64(o.rules[ruleShared]),
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
	var from int64
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
		from++
	}
	for p, want := range o.fates {
		c := last[p].Counts
		got := fates{c.Summarized, c.Rejected, c.Late, c.Duplicate, c.Misrouted, c.Ended}
		if got != *want || c.Dropped != 0 || c.Lost != 0 {
			s.t.Errorf("partition %d: fates %+v (dropped %d, lost %d), the oracle says %+v", p, got, c.Dropped, c.Lost, *want)
		}
		total.summarized += want.summarized
		total.rejected += want.rejected
		total.late += want.late
		total.duplicate += want.duplicate
		total.misrouted += want.misrouted
		total.ended += want.ended
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
	err := filepath.WalkDir(filepath.Join(s.cfg.Sink.Dir, "summaries"), func(path string, d fs.DirEntry, err error) error {
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
