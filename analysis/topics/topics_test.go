package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// reading opens a reader of an installation.
func reading(i *topicstest.Installation) *Reader {
	i.T.Helper()
	r, err := Open(i.T.Context(), i.Config)
	if err != nil {
		i.T.Fatal(err)
	}
	i.T.Cleanup(r.Close)
	return r
}

// TestTailNamesTheTopic with or without the prefix, also where a topic of ours begins with it.
func TestTailNamesTheTopic(t *testing.T) {
	for _, c := range []struct{ prefix, given, want string }{
		{"weir.", "counters", "weir.counters"},
		{"weir.", "weir.counters", "weir.counters"},
		{"weir.", "mine", "weir.mine"},
		{"", "counters", "counters"},
		{"", "mine", "mine"},
		{"job-", "job-summary", "job-job-summary"},
		{"job-", "job-job-summary", "job-job-summary"},
		{"job-", "jobs", "job-jobs"},
		{"c", "counters", "ccounters"},
		{"c", "ccounters", "ccounters"},
	} {
		if got := topicName(c.prefix, c.given); got != c.want {
			t.Errorf("with prefix %q, %s is %s, want %s", c.prefix, c.given, got, c.want)
		}
	}
}

// TestTailShowsWhatIsCommitted, from the start where that is asked, in order, until somebody has enough.
func TestTailShowsWhatIsCommitted(t *testing.T) {
	i := topicstest.NewOn(t, 2)
	tx := kafkatest.Client(t, i.Config.Kafka.Brokers, kgo.TransactionalID("t"),
		kgo.DefaultProduceTopic(i.Config.Prefix+schemas.TopicRejects))
	for n, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for k := range 2 {
			value := kgo.StringRecord(fmt.Sprintf("%d%d", n+1, k))
			if err := tx.ProduceSync(t.Context(), value).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	for _, topic := range []string{schemas.TopicRejects, i.Config.Prefix + schemas.TopicRejects} {
		var got []string
		err := Tail(t.Context(), i.Config, topic, true, func(r TailRecord) bool {
			got = append(got, string(r.Value))
			return len(got) < 3
		})
		if diff := cmp.Diff([]string{"10", "11", "30"}, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	// From the end, there is only what comes. It ends without an error where nobody wants more.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- Tail(ctx, i.Config, schemas.TopicRejects, false, func(r TailRecord) bool {
			if cancel(); string(r.Value) != "99" {
				t.Errorf("%s", r.Value)
			}
			return true
		})
	}()
	kafkatest.Eventually(t, "a record that came after the begin", func() bool { // which nothing else shows
		r := &kgo.Record{Topic: i.Config.Prefix + schemas.TopicRejects, Value: []byte("99")}
		if err := i.Client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return ctx.Err() != nil
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := Tail(ctx, i.Config, schemas.TopicRejects, true,
		func(TailRecord) bool { t.Error("shown after the end"); return true }); err != nil {
		t.Error(err)
	}
}

// TestFirstContact: every command names the brokers that do not answer, and ends quietly where nobody waits for it.
func TestFirstContact(t *testing.T) {
	cfg := config.Default()
	cfg.Kafka.Brokers = []string{"127.0.0.1:1"} // a port that no other test is given
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	each := map[string]func(ctx context.Context) error{
		"tail": func(ctx context.Context) error {
			return Tail(ctx, cfg, "jobs", true, func(TailRecord) bool { return true })
		},
		"follow": func(ctx context.Context) error { return Follow(ctx, cfg, func(IntervalLine) bool { return true }) },
		"jobs":   func(ctx context.Context) error { _, err := Jobs(ctx, cfg, everyJob); return err },
		"job":    func(ctx context.Context) error { _, _, err := Job(ctx, cfg, "j", 1); return err },
	}
	for name, call := range each {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := call(t.Context())
			if !errors.Is(err, errUnreachable) || !strings.Contains(err.Error(), cfg.Kafka.Brokers[0]) ||
				!strings.Contains(err.Error(), "weir up") {
				t.Errorf("%v", err)
			}
			if err := call(ended); errors.Is(err, errUnreachable) || err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("of a call that nobody waits for: %v", err)
			}
		})
	}
}

// TestBackReadsEachRecordOnce, in whatever windows, and says whether it came to the topic's begin.
func TestBackReadsEachRecordOnce(t *testing.T) {
	i := topicstest.NewOn(t, 3)
	base := time.Now().Add(-time.Hour).UnixMilli()
	const records = 60
	for n := range int64(records) {
		r := &kgo.Record{
			// partition 2 stays empty
			Topic: i.Config.Prefix + schemas.TopicProgress, Partition: int32(n % 2), Value: fmt.Append(nil, n),
			Timestamp: time.UnixMilli(base + n*1000),
		}
		if err := i.Client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r := reading(i)
	read := func(seed uint64, windows int) (seen map[string]int, begin bool) {
		d := rand.New(rand.NewPCG(seed, 6))
		seen = map[string]int{}
		since := base + records*1000 - d.Int64N(20_000)
		before, edge := int64(1<<62), since
		begin, err := r.Back(t.Context(), i.Config.Prefix+schemas.TopicProgress, time.UnixMilli(since),
			func(r *kgo.Record) error {
				if at := r.Timestamp.UnixMilli(); at < edge || at >= before {
					t.Errorf("seed %d: a record of %d comes in the window from %d to %d", seed, at, edge, before)
				}
				seen[string(r.Value)]++
				return nil
			}, func(since time.Time) (time.Time, bool) {
				if since.UnixMilli() != edge {
					t.Errorf("seed %d: the window began at %d, not %d", seed, since.UnixMilli(), edge)
				}
				before, edge = edge, edge-1-d.Int64N(30_000)
				windows--
				return time.UnixMilli(edge), windows > 0
			})
		if err != nil {
			t.Fatal(err)
		}
		return seen, begin
	}
	for seed := range uint64(8) {
		seen, begin := read(seed, 1000)
		if counts := slices.Collect(maps.Values(seen)); len(seen) != records || slices.Max(counts) > 1 || !begin {
			t.Errorf("seed %d: %d of %d records, %d times at most, begin %v", seed, len(seen), records,
				slices.Max(counts), begin)
		}
		if seen, begin := read(seed, 1); len(seen) > 20 || begin {
			t.Errorf("seed %d: one window has %d records, begin %v", seed, len(seen), begin)
		}
	}
	failed := errors.New("enough")
	_, err := r.Back(t.Context(), i.Config.Prefix+schemas.TopicProgress, time.UnixMilli(0),
		func(*kgo.Record) error { return failed },
		func(since time.Time) (time.Time, bool) { t.Error("another window"); return since, false })
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	// A time before all times is the begin, and one that has not come is the end.
	for since, want := range map[time.Time]int{time.UnixMilli(-5): records, {}: records, time.Now().Add(time.Hour): 0} {
		n := 0
		err := r.Since(t.Context(), i.Config.Prefix+schemas.TopicProgress, since,
			func(*kgo.Record) error { n++; return nil })
		if err != nil || n != want {
			t.Errorf("since %v there are %d, want %d: %v", since, n, want, err)
		}
	}
}

// TestFollowShowsIntervalsInOrder, once each, whatever else is in the topic and whatever comes too late.
func TestFollowShowsIntervalsInOrder(t *testing.T) {
	i := topicstest.New(t)
	i.Config.Interval = 200 * time.Millisecond
	lines := make(chan IntervalLine, 100)
	done := make(chan error, 1)
	go func() {
		done <- Follow(t.Context(), i.Config, func(l IntervalLine) bool {
			lines <- l
			return l.IntervalStart < 9_000_000
		})
	}()
	// Nobody says when it has begun to follow: the first line shows it.
	start := int64(0)
	var first IntervalLine
	kafkatest.Eventually(t, "a line", func() bool {
		start += 100
		i.Put(schemas.TopicJobSummary, 0, topicstest.Summary("early", 0, start))
		select {
		case first = <-lines:
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
	i.Together(schemas.TopicJobSummary, topicstest.Summary("a", 0, 1_001_000, "x"),
		&schemas.Watermark{IntervalMs: 1}, // is not one
		topicstest.Summary("a", 0, 1_000_000, "x", "y"), topicstest.Summary("b", 0, 1_000_000, "x"))
	next := func() (l IntervalLine) {
		kafkatest.Eventually(t, "a further line", func() bool {
			select {
			case l = <-lines:
				return true
			default:
				return false
			}
		})
		return l
	}
	last, seen := first.IntervalStart, map[int64]IntervalLine{}
	for len(seen) < 2 {
		l := next()
		if l.IntervalStart <= last {
			t.Fatalf("%v after %d", l, last)
		}
		if last = l.IntervalStart; l.IntervalStart >= 1_000_000 {
			seen[l.IntervalStart] = l
		}
	}
	if a, b := seen[1_000_000], seen[1_001_000]; a.Metrics != 3 || a.Jobs[schemas.MethodExact] != 2 ||
		a.NodesExpected != 6 || b.Metrics != 1 {
		t.Errorf("%v\n%v", a, b)
	}
	i.Put(schemas.TopicJobSummary, 0, topicstest.Summary("late", 0, 1_000_000, "x")) // its interval has its line
	i.Put(schemas.TopicJobSummary, 0, topicstest.Summary("a", 0, 9_000_000, "x"))
	if l := next(); l.IntervalStart != 9_000_000 || l.Metrics != 1 {
		t.Errorf("%v", l)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTailSaysThatBrokersAreGone: whoever waits for records must not wait for a broker that died.
func TestTailSaysThatBrokersAreGone(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Broker(t, kfake.SeedTopics(1, "weir.jobs"))
	cfg := config.Default()
	cfg.Kafka.Brokers = cluster.ListenAddrs()
	cl := kafkatest.Client(t, cfg.Kafka.Brokers)
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "weir.jobs", Value: []byte("1")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	err := Tail(ctx, cfg, "jobs", true, func(TailRecord) bool { go cluster.Close(); return true })
	if !errors.Is(err, errUnreachable) || !strings.Contains(err.Error(), "weir.jobs") {
		t.Errorf("%v", err)
	}
}

// TestIntervalLineCounts: pseudo-jobs are no jobs, and the whole machine is all the others once more.
func TestIntervalLineCounts(t *testing.T) {
	l := IntervalLine{IntervalStart: 1_700_000_000_000, Jobs: map[string]int{}}
	for i, method := range []string{
		schemas.MethodNode, schemas.MethodExact, schemas.MethodNode,
		schemas.MethodEstimated,
	} {
		s := topicstest.Summary(fmt.Sprint("j", i), 0, 0, "a", "b")
		s.Method = method
		l.add(s)
	}
	l.add(topicstest.Summary(schemas.JobRest, 0, 0, "a"))
	l.add(topicstest.Summary(schemas.JobSystem, 0, 0, "a", "b", "c"))
	at := time.UnixMilli(l.IntervalStart).UTC().Format(time.TimeOnly) + "Z"
	if want := at + "  jobs 2 NODE, 1 EXACT, 1 ESTIMATED  nodes 10/15  metrics 9"; l.String() != want {
		t.Errorf("%q, want %q", l, want)
	}
}

func TestIntervalLine(t *testing.T) {
	l := IntervalLine{Jobs: map[string]int{}}
	l.add(topicstest.Summary("a", 0, 0, "x", "y"))
	l.add(topicstest.Summary(schemas.JobRest, 0, 0, "x"))
	if text := l.String(); !strings.Contains(text, "1 EXACT") || !strings.Contains(text,
		"nodes 4/6") || !strings.Contains(text, "metrics 3") {
		t.Error(text)
	}
}
