package jobs

import (
	"fmt"
	"maps"
	"os"
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

// bench is a broker with the topic of jobs, and an archive.
type bench struct{ *sinktest.Bench }

func newBench(t *testing.T) bench {
	t.Helper()
	return bench{sinktest.New(t, schemas.TopicJobs)}
}

// job writes a record of a job. It has not ended if end is 0.
func (b bench) job(id, user string, end int64) {
	b.T.Helper()
	j := &schemas.Job{JobID: id, User: user, Nodes: []string{"n1"}, State: schemas.StateRunning, Start: new(epoch - 5)}
	if end != 0 {
		j.End, j.State = &end, schemas.StateTimeout
	}
	value, err := schemas.MarshalChecked(j)
	if err != nil {
		b.T.Fatal(err)
	}
	b.Produce(j.Identity().Key(), value)
}

// follow runs a follower until the returned function ends it.
func (b bench) follow(period time.Duration) (end func()) {
	b.T.Helper()
	return sinktest.Follow(b.Bench, newFollower(b.Config, b.Log.Logger(), NewMetrics(prometheus.NewRegistry())), period)
}

// archived waits until the archive has these jobs, each as ID USER DATE.
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
				got = append(got, r.JobID+" "+r.User+" "+r.date())
			}
			return nil
		})
		return slices.Equal(got, want)
	})
}

const soon = 20 * time.Millisecond

func TestRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.job("1", "ada", 0)
	b.job("2", "eve", epoch)
	b.Produce([]byte("rubbish"), []byte("rubbish"))
	tick, err := schemas.Marshal(&schemas.BalanceState{IntervalMs: 1000})
	if err != nil {
		t.Fatal(err)
	}
	b.Produce([]byte("balance"), tick)
	b.job("2", "eve", epoch+dayMs)
	end := b.follow(soon)
	b.archived("2 eve 2026-11-21")
	b.job("1", "ada", epoch)
	b.archived("1 ada 2026-11-20", "2 eve 2026-11-21")
	b.job("2", "eve", epoch) // its end was another one
	b.archived("1 ada 2026-11-20", "2 eve 2026-11-20")
	b.Produce([]byte("2/0"), nil) // the topic forgets it
	b.job("1", "ada", 0)          // and this one runs again
	b.job("3", "ada", epoch)
	b.archived("1 ada 2026-11-20", "2 eve 2026-11-20", "3 ada 2026-11-20")
	end()
	if n := b.Log.Count("record cannot be used, going on behind it"); n != 2 {
		t.Errorf("%d lines about two records that are no jobs:\n%s", n, b.Log.String())
	}
	// At the end everything is written, due or not.
	b.job("4", "ada", epoch)
	b.follow(time.Hour)()
	b.archived("1 ada 2026-11-20", "2 eve 2026-11-20", "3 ada 2026-11-20", "4 ada 2026-11-20")
	if strings.Contains(b.Log.String(), "level=WARN msg=\"ended before") {
		t.Error(b.Log.String())
	}
}

// TestRunTopicMadeAnew: a topic that is deleted and made again begins at offset 0. Its records win, and jobs that only
// the old one had stay.
func TestRunTopicMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 5 {
		b.job("1", "before", epoch)
	}
	b.job("2", "kept", epoch)
	b.follow(soon)
	b.archived("1 before 2026-11-20", "2 kept 2026-11-20")
	b.Recreate()
	b.job("1", "after", epoch+dayMs)
	b.archived("1 after 2026-11-21", "2 kept 2026-11-20")
}

// TestRunWaitsForWriters: jobs wait while another sink writes, and the log has it once.
func TestRunWaitsForWriters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lock, err := storeIn(b.Config.Sink.Dir).Lock(t.Context(), sinktest.LockFor)
	if err != nil {
		t.Fatal(err)
	}
	end := b.follow(soon)
	b.job("1", "ada", epoch)
	kafkatest.Eventually(t, "word of the lock", func() bool {
		return b.Log.Count("cannot write rows to the archive") > 0
	})
	b.job("2", "ada", epoch)
	lock.Unlock()
	b.archived("1 ada 2026-11-20", "2 ada 2026-11-20")
	kafkatest.Eventually(t, "word of the end", func() bool { return b.Log.Count("rows are archived again") > 0 })
	// A file is damaged: its date stays as it is, and others go on.
	damage(t, Path(b.Config.Sink.Dir, "2026-11-20"))
	b.job("3", "ada", epoch)
	b.job("4", "ada", epoch+dayMs)
	kafkatest.Eventually(t, "the other date", func() bool {
		n, err := Check(b.Config.Sink.Dir, "2026-11-21")
		return err == nil && n == 1
	})
	end()
	for _, line := range []string{
		"a file of the archive cannot be used, its date stays as it is",
		"ended before all rows are archived",
	} {
		if b.Log.Count(line) != 1 {
			t.Errorf("%d times %q in\n%s", b.Log.Count(line), line, b.Log.String())
		}
	}
}

// TestRunBringsBackADate: a damaged file is restored from a copy. Jobs that came meanwhile are added without a restart,
// and a job that moved to another date is not there twice.
func TestRunBringsBackADate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.job("1", "ada", epoch)
	b.job("2", "moves", epoch)
	b.follow(soon)
	b.archived("1 ada 2026-11-20", "2 moves 2026-11-20")
	path := Path(b.Config.Sink.Dir, "2026-11-20")
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage(t, path)
	b.job("2", "moves", epoch+dayMs)
	b.job("3", "ada", epoch)
	b.job("4", "ada", epoch+dayMs)
	kafkatest.Eventually(t, "the other date", func() bool {
		n, err := Check(b.Config.Sink.Dir, "2026-11-21")
		return err == nil && n == 2
	})
	if err := os.WriteFile(path+".copy", sound, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".copy", path); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, "the date as it is now", func() bool {
		n, err := Check(b.Config.Sink.Dir, "2026-11-20")
		rows, found := Find(t.Context(), b.Config.Sink.Dir, "2")
		return err == nil && found == nil && n == 2 && len(rows) == 1
	})
	b.archived("1 ada 2026-11-20", "2 moves 2026-11-21", "3 ada 2026-11-20", "4 ada 2026-11-21")
}
