package balancer

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// endedJobs hands the records of jobs to each as a client does: many values share one buffer. Of every 300 jobs one
// runs still. The last ones ended at a time, and each a day's part before.
func endedJobs(tb testing.TB, count int, last time.Time, each func(r *kgo.Record)) {
	tb.Helper()
	const batch = 1000
	for first := 0; first < count; first += batch {
		buffer := make([]byte, 0, 512*batch)
		for i := first; i < min(first+batch, count); i++ {
			at := last.Add(-time.Duration(count-i) * 24 * time.Hour / 1_000_000)
			j := schemas.Job{
				JobID: fmt.Sprint(40_000_000 + i), Name: fmt.Sprintf("a job with a name of usual length %d", i),
				User: fmt.Sprint("user", i%500), Account: "physics", Queue: "batch", State: schemas.StateCompleted,
				Nodes: []string{fmt.Sprint("node-", i%9000), fmt.Sprint("node-", i%9000+1)}, Cpus: []int32{0, 1, 2, 3},
				Submit: new(at.UnixMilli() - 9000), Start: new(at.UnixMilli() - 5000), End: new(at.UnixMilli()),
			}
			if i%300 == 0 {
				j.State, j.End = schemas.StateRunning, nil
			}
			value, err := schemas.MarshalChecked(&j)
			if err != nil {
				tb.Fatal(err)
			}
			from := len(buffer)
			buffer = append(buffer, value...)
			each(&kgo.Record{
				Topic: "t." + schemas.TopicJobs, Key: j.Identity().Key(), Value: buffer[from:len(buffer):len(buffer)],
				Timestamp: at,
			})
		}
	}
}

// heldBytes returns the bytes in use on the heap after garbage collection.
func heldBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// readJobs restores a memory from the records of jobs.
func readJobs(tb testing.TB, count int, now time.Time) *memory {
	tb.Helper()
	m := newMemory(1, now)
	endedJobs(tb, count, now, func(r *kgo.Record) {
		if err := m.apply("t.", r, func(int64) bool { return false }); err != nil {
			tb.Fatal(err)
		}
	})
	return m
}

// TestMemoryOfAStart: an ended job costs some tens of bytes, and one that runs its record. A million a day for three
// days would be gigabytes otherwise.
func TestMemoryOfAStart(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	const count, running = 100_000, 100_000/300 + 1
	now := time.Now()
	before := heldBytes()
	m := readJobs(t, count, now)
	if held, most := int64(heldBytes()-before), int64(100*count+4096*running); held > most {
		t.Errorf("%d bytes are held of %d jobs, want at most %d", held, count, most)
	}
	if len(m.jobs) != running {
		t.Errorf("%d jobs run, want %d", len(m.jobs), running)
	}
	for key, r := range m.jobs {
		var again schemas.Job
		if record, err := schemas.Unmarshal(r.value); err == nil {
			again = *record.(*schemas.Job)
		}
		if diff := cmp.Diff(r.job, again); diff != "" || r.job.Identity() != key {
			t.Fatalf("%v: %s", key, diff)
		}
	}
	if gone := m.expired(now.Add(-24 * time.Hour)); len(gone) != 0 {
		t.Errorf("%d jobs of less than a day leave the topic", len(gone))
	}
	left := count - running
	for left > 0 {
		gone := m.expired(now.Add(time.Minute))
		if len(gone) == 0 || len(gone) > maxExpired {
			t.Fatalf("%d jobs leave the topic in one plan, and %d stay", len(gone), left)
		}
		for _, key := range gone {
			m.over.take(key, nil)
		}
		left -= len(gone)
	}
}

// BenchmarkStart reads the records of a day with a million jobs, and of three such days.
func BenchmarkStart(b *testing.B) {
	for _, count := range []int{1_000_000, 3_000_000} {
		b.Run(fmt.Sprint("jobs=", count), func(b *testing.B) {
			for b.Loop() {
				var peak atomic.Uint64
				ctx, end := context.WithCancel(b.Context())
				var sampling sync.WaitGroup
				sampling.Go(func() {
					var m runtime.MemStats
					for retry.Pause(ctx, 50*time.Millisecond) {
						runtime.ReadMemStats(&m)
						peak.Store(max(peak.Load(), m.HeapAlloc))
					}
				})
				m := readJobs(b, count, time.Now())
				end()
				sampling.Wait()
				b.ReportMetric(float64(peak.Load())/(1<<20), "peak-MiB")
				b.ReportMetric(float64(heldBytes())/(1<<20), "held-MiB")
				runtime.KeepAlive(m)
			}
		})
	}
}

// TestEndedJobsAtAStart: an ended job that a list still names is not written again, unless its record changes. One that
// runs again is no ended job. A record that was deleted is gone.
func TestEndedJobsAtAStart(t *testing.T) {
	now := time.Now()
	m := newMemory(1, now)
	record := func(j scheduler.Job, at time.Time) *kgo.Record {
		r := newJobRecord(j.Job)
		return &kgo.Record{Topic: "t." + schemas.TopicJobs, Key: j.Identity().Key(), Value: r.value, Timestamp: at}
	}
	var listed []scheduler.Job
	for _, id := range []string{"17", "named", "18", "19", "017", "20"} {
		j := job(id, "n")
		j.State, j.Start, j.End = schemas.StateCompleted, new(int64(1000)), new(int64(2000))
		listed = append(listed, j)
	}
	again, deleted := listed[2], listed[3]
	again.State, again.End = schemas.StateRunning, nil
	gone := record(deleted, now)
	gone.Value = nil
	records := []*kgo.Record{
		record(listed[0], now.Add(-time.Hour)), record(listed[1], now.Add(-time.Hour)), record(listed[2], now),
		record(listed[3], now), record(listed[4], now.Add(time.Hour)), record(listed[5], now), record(again, now), gone,
	}
	for _, r := range records {
		if err := m.apply("t.", r, func(int64) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.jobs) != 1 || m.jobs[again.Identity()].job.State != schemas.StateRunning {
		t.Errorf("jobs that go on: %v", m.jobs)
	}
	ids := func(keys []schemas.JobKey) string {
		var ids []string
		for _, key := range keys {
			ids = append(ids, key.JobID)
		}
		slices.Sort(ids)
		return strings.Join(ids, " ")
	}
	// If a record's timestamp is ahead of the clock, the job counts as over since the record was read.
	if over := ids(m.expired(now.Add(time.Minute))); over != "017 17 20 named" {
		t.Errorf("ended: %s", over)
	}
	if over := ids(m.expired(now.Add(-time.Minute))); over != "17 named" {
		t.Errorf("ended an hour ago: %s", over)
	}
	listed[5].Name = "another"
	want := jobRecords([]scheduler.Job{listed[0], listed[1], listed[5]}, nil)
	m.recall(want)
	changes := jobChanges(now.UnixMilli(), m.jobs, want)
	var said []string
	for _, c := range changes {
		said = append(said, c.job.JobID+" "+c.job.State)
	}
	if got := strings.Join(said, ", "); got != "18 COMPLETED, 20 COMPLETED" { // no list names 18
		t.Errorf("changes: %s", got)
	}
	applyJobs(m.jobs, want, changes)
	if over := ids(m.expired(now.Add(time.Minute))); over != "017" {
		t.Errorf("ended, and no list names them: %s", over)
	}
}

// FuzzEndedKeys: a key comes back as it was, however it is kept.
func FuzzEndedKeys(f *testing.F) {
	f.Add("17", int32(0))
	f.Add("017", int32(1<<24))
	f.Add("1099511627776", int32(-1))
	f.Fuzz(func(t *testing.T, id string, restart int32) {
		e, key := newEnded(), schemas.JobKey{JobID: id, Restart: restart}
		e.add(key, 5000, []byte("record"))
		if keys := e.before(6000, 2); len(keys) != 1 || keys[0] != key {
			t.Fatalf("%v became %v", key, keys)
		}
		if e.take(schemas.JobKey{JobID: id + "0", Restart: restart}, []byte("record")) ||
			!e.take(key, []byte("record")) || e.take(key, []byte("record")) {
			t.Fatalf("%v is not there once", key)
		}
	})
}
