package table

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

func newFollower(cfg config.Config) *Follower[entry] {
	metrics := NewMetrics(prometheus.NewRegistry(), "entries", "Entries that wait.")
	return NewFollower(cfg, (&kafkatest.Log{}).Logger(), metrics, schemas.TopicJobs, entries,
		func(j *schemas.Job, offset int64) (entry, bool) { return entry{JobID: j.JobID, Position: offset}, true })
}

// TestManyRowsDoNotWait: a topic with days of rows does not fill the memory at a start. Where the archive cannot be
// written, they wait for the next period.
func TestManyRowsDoNotWait(t *testing.T) {
	f := newFollower(config.Default())
	var refused error
	var written []int
	f.Write = func(_ context.Context, _ time.Duration, _ string, rows map[Key]entry) (map[string]error, error) {
		written = append(written, len(rows))
		return nil, refused
	}
	next := int64(0)
	take := func(n int) {
		for range n {
			value, err := schemas.Marshal(&schemas.Job{JobID: strconv.FormatInt(next, 10), State: schemas.StateRunning})
			if err != nil {
				t.Fatal(err)
			}
			f.take(&kgo.Record{Offset: next, Value: value})
			next++
		}
		f.flush(t.Context(), time.Now())
	}
	take(mostPending - 1)
	if len(written) > 0 {
		t.Fatalf("%v rows were written before they were due", written)
	}
	if take(1); len(written) != 1 || written[0] != mostPending || len(f.pending) != 0 {
		t.Fatalf("%v rows were written, %d wait", written, len(f.pending))
	}
	refused = errors.New("the disk is full")
	take(mostPending)
	take(1)
	take(1)
	if len(written) != 2 || len(f.pending) != mostPending+2 {
		t.Errorf("%v rows were written, %d wait", written, len(f.pending))
	}
	refused = nil
	f.flush(t.Context(), time.Now().Add(f.Period+time.Second))
	if len(f.pending) != 0 || f.stuck {
		t.Errorf("%d rows wait", len(f.pending))
	}
}

// TestDamagedDatesTakeNoMemory: rows of a date with an unusable file are counted, but not kept in memory. The topic is
// read again for them once the file changes, or after an hour.
func TestDamagedDatesTakeNoMemory(t *testing.T) {
	cfg := config.Default()
	cfg.Sink.Dir = t.TempDir()
	f := newFollower(cfg)
	wait := func(n int64) {
		r := entry{JobID: strconv.FormatInt(n, 10), End: epoch + n%2*dayMs}
		f.pending[entries.Key(&r)] = r
	}
	put := func() {
		if err := os.MkdirAll(filepath.Dir(f.path("2026-11-21")), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.path("2026-11-21"), []byte("damaged"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put()
	time.Sleep(1100 * time.Millisecond) // a file that has just changed may be sound by now
	bad := map[string]error{"2026-11-21": errors.New("damaged")}
	f.Write = func(context.Context, time.Duration, string, map[Key]entry) (map[string]error, error) {
		return bad, nil
	}
	now := time.Now()
	for n := range int64(1000) {
		wait(n)
		f.due = now
		if f.flush(t.Context(), now); len(f.pending) > 0 || !f.due.IsZero() {
			t.Fatalf("%d rows wait, until %v", len(f.pending), f.due)
		}
	}
	if rows := f.count(); rows != 500 {
		t.Errorf("%d rows are counted as missing", rows)
	}
	if f.isAnew(now.Add(anewAfter - time.Second)) {
		t.Error("the topic is read again, and nothing has changed")
	}
	for name, change := range map[string]func(){
		"another file": put,
		"its rights":   func() { _ = os.Chmod(f.path("2026-11-21"), 0o600) },
		"no file":      func() { _ = os.Remove(f.path("2026-11-21")) },
		"an hour":      func() { now = now.Add(anewAfter) },
	} {
		if change(); !f.isAnew(now) {
			t.Errorf("%s: the topic is not read again", name)
		}
		if f.isAnew(now) || f.count() != 0 {
			t.Errorf("%s: it is read again twice, or %d rows are missing", name, f.count())
		}
		put()
		time.Sleep(1100 * time.Millisecond)
		now = now.Add(anewAfter)
		wait(1)
		f.due = now
		f.flush(t.Context(), now)
	}
}
