package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/sinktest"
)

// bench is a broker with the topic of findings, and an archive.
type bench struct{ *sinktest.Bench }

func newBench(t *testing.T) bench {
	t.Helper()
	return bench{sinktest.New(t, schemas.TopicFindings)}
}

func (b bench) finding(f schemas.Finding) {
	b.T.Helper()
	value, err := schemas.MarshalChecked(&f)
	if err != nil {
		b.T.Fatal(err)
	}
	b.Produce(f.Key(), value)
}

// follow runs a follower until the returned function ends it.
func (b bench) follow(period time.Duration) (end func()) {
	b.T.Helper()
	return sinktest.Follow(b.Bench, newFollower(b.Config, b.Log.Logger(), NewMetrics(prometheus.NewRegistry())), period)
}

// archived waits until the archive has these findings, each as JOB RULE TITLE DATE.
func (b bench) archived(want ...string) {
	b.T.Helper()
	var got []string
	defer func() {
		if b.T.Failed() {
			b.T.Logf("the archive has %v\n%s", got, b.Log.String())
		}
	}()
	kafkatest.Eventually(b.T, fmt.Sprint(want), func() bool {
		got = nil
		_ = sink.Reading(b.T.Context(), b.Config.Sink.Dir, func() error {
			for _, r := range slices.SortedFunc(maps.Values(stored(b.T, b.Config.Sink.Dir)),
				func(x, y Row) int { return files.Key(&x).Compare(files.Key(&y)) }) {
				got = append(got, r.JobID+" "+r.Rule+" "+r.Title+" "+r.date())
			}
			return nil
		})
		return slices.Equal(got, want)
	})
}

const soon = 20 * time.Millisecond

// TestRun: final findings get to the archive, others do not. Tombstones change nothing, and rubbish is passed over.
func TestRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	open := final("1", "serial", "open", epoch)
	open.Final = false
	b.finding(open)
	b.finding(final("2", "serial", "done", epoch))
	b.Produce([]byte("rubbish"), []byte("rubbish"))
	job, err := schemas.MarshalChecked(&schemas.Job{JobID: "1", State: schemas.StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	b.Produce([]byte("1/0"), job)
	end := b.follow(soon)
	b.archived("2 serial done 2026-11-20")
	b.finding(final("1", "serial", "over", epoch+dayMs))
	b.archived("1 serial over 2026-11-21", "2 serial done 2026-11-20")
	done := final("2", "serial", "", epoch)
	b.Produce(done.Key(), nil) // the topic forgets it
	b.finding(open)            // and this one is said to be open again
	b.finding(final("3", "serial", "third", epoch))
	b.archived("1 serial over 2026-11-21", "2 serial done 2026-11-20", "3 serial third 2026-11-20")
	end()
	if n := b.Log.Count("record cannot be used, going on behind it"); n != 2 {
		t.Errorf("%d lines about two records that are no findings:\n%s", n, b.Log.String())
	}
	// At the end everything is written, due or not.
	b.finding(final("4", "serial", "last", epoch))
	b.follow(time.Hour)()
	b.archived("1 serial over 2026-11-21", "2 serial done 2026-11-20", "3 serial third 2026-11-20",
		"4 serial last 2026-11-20")
	if strings.Contains(b.Log.String(), "level=WARN msg=\"ended before") {
		t.Error(b.Log.String())
	}
}

// TestTwoSinks read the same topic, and end at different times. Each finding is there once.
func TestTwoSinks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.follow(soon)
	b.follow(soon)
	var want []string
	for i := range 12 {
		b.finding(final(fmt.Sprint(100+i), "serial", "x", epoch+int64(i%2)*dayMs))
		want = append(want, fmt.Sprintf("%d serial x 2026-11-%d", 100+i, 20+i%2))
		if i == 5 {
			first()
		}
	}
	b.archived(want...)
}

// TestRunTopicMadeAnew: a topic that is deleted and made again begins at offset 0. Its records win, and findings that
// only the old one had stay.
func TestRunTopicMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 5 {
		b.finding(final("1", "serial", "before", epoch))
	}
	b.finding(final("2", "serial", "kept", epoch))
	b.follow(soon)
	b.archived("1 serial before 2026-11-20", "2 serial kept 2026-11-20")
	b.Recreate()
	b.finding(final("1", "serial", "after", epoch+dayMs))
	b.archived("1 serial after 2026-11-21", "2 serial kept 2026-11-20")
}

// TestRunTopicMadeAnewMeanwhile: another sink writes while the topic is made anew. Rows of the old topic that could not
// be written yield to records of the new topic, although their offsets are small. Rows without a new record are kept.
func TestRunTopicMadeAnewMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lock, err := storeIn(b.Config.Sink.Dir).Lock(t.Context(), sinktest.LockFor)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		b.finding(final("1", "serial", "before", epoch))
	}
	b.finding(final("2", "serial", "kept", epoch))
	b.follow(soon)
	kafkatest.Eventually(t, "word of the lock", func() bool {
		return b.Log.Count("cannot write rows to the archive, trying again") > 0
	})
	b.Recreate()
	b.finding(final("1", "serial", "after", epoch+dayMs))
	b.Produce([]byte("rubbish"), []byte("rubbish"))
	kafkatest.Eventually(t, "word that the new topic is read", func() bool {
		return b.Log.Count("record cannot be used, going on behind it") > 0
	})
	lock.Unlock()
	b.archived("1 serial after 2026-11-21", "2 serial kept 2026-11-20")
}
