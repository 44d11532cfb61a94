package analysis

import (
	"math"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// counting counts the connections that it accepts.
type counting struct {
	net.Listener
	accepted *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

func countConnections(accepted *atomic.Int64) kfake.Opt {
	return kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return counting{l, accepted}, err
	})
}

// TestStatusOpensFewConnections: a status of many partitions must not be a load for the brokers. One client dials the
// address that it was given, and the broker. It may dial again for each of the nine topics that it reads, since a fetch
// that is abandoned ends its connection. The limit leaves room for as many again. A client for each partition would
// open a thousand.
func TestStatusOpensFewConnections(t *testing.T) {
	const partitions, most = 256, 32
	var accepted atomic.Int64
	i := installOn(t, partitions, countConnections(&accepted))
	i.run(says{})
	last := i.starts[len(i.starts)-1]
	for p := range int32(partitions) {
		i.put(schemas.TopicCounters, p, &schemas.Tick{
			IntervalStart: last, IntervalMs: i.cfg.Interval.Milliseconds(),
			Epoch: 1,
		})
		i.put(schemas.TopicProgress, p, &schemas.Progress{
			Position: 1, Closed: &last,
			ClosedIntervalMs: i.cfg.Interval.Milliseconds(),
		})
	}
	before := accepted.Load()
	s, err := ReadStatus(t.Context(), i.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n := accepted.Load() - before; n > most || len(s.Partitions) != partitions+1 {
		t.Errorf("%d connections for %d partitions, want at most %d", n, len(s.Partitions), most)
	}
}

// summaries writes rows of jobs and returns their bytes. The newest interval ended just now.
func (i *installation) summaries(jobs, intervals, metrics int) (bytes uint64) {
	i.t.Helper()
	names := make([]string, metrics)
	for m := range names {
		names[m] = "metric" + strconv.Itoa(m)
	}
	ms := i.cfg.Interval.Milliseconds()
	now := time.Now().UnixMilli() / ms * ms
	for back := intervals; back > 0; back-- {
		start := now - int64(back)*ms
		for job := range jobs {
			job := "job" + strconv.Itoa(job)
			bytes += i.write(schemas.TopicJobSummary, start+ms, summary(job, 0, start, names...), job+"/0")
		}
	}
	if err := i.cl.Flush(i.t.Context()); err != nil {
		i.t.Fatal(err)
	}
	return bytes
}

// write is put with a time and a key, and does not wait. It returns the bytes of the record.
func (i *installation) write(topic string, atMs int64, r schemas.Record, key string) uint64 {
	i.t.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		i.t.Fatal(err)
	}
	record := &kgo.Record{Topic: i.cfg.Prefix + topic, Key: []byte(key), Value: value, Timestamp: time.UnixMilli(atMs)}
	i.cl.Produce(i.t.Context(), record, func(_ *kgo.Record, err error) {
		if err != nil {
			i.t.Error(err)
		}
	})
	return uint64(len(value))
}

// mostAllocated is how many bytes may be allocated for each byte that is read. Reading takes four at most, of client
// and broker, and one more where a fetch is repeated. Decoding every summary takes eight and more in all.
const mostAllocated = 7

// allocated returns how many bytes f allocates, with those of the broker beside it.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestFewSummariesAreDecoded: a record that is passed over costs what the client takes for it, and not its decoding.
func TestFewSummariesAreDecoded(t *testing.T) {
	i := installOn(t, 2)
	i.cfg.Interval = time.Minute // which no load of the machine makes old
	written := i.summaries(400, 12, 50)
	for name, read := range map[string]func(t *testing.T){
		"one job of 400": func(t *testing.T) {
			if rows, _, err := Job(t.Context(), i.cfg, "job7", 12); err != nil || len(rows) != 12*50 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		},
		"the last one of twelve": func(t *testing.T) {
			if rows, err := Jobs(t.Context(), i.cfg); err != nil || len(rows) != 400 || *rows[0].Metrics != 50 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := allocated(func() { read(t) })
			t.Logf("%.1f bytes allocated for each byte read", float64(n)/float64(written))
			if n > mostAllocated*written {
				t.Errorf("%d bytes allocated for %d bytes of summaries", n, written)
			}
		})
	}
}

// TestJobReadsBack: -n asks for intervals, however long ago they were.
func TestJobReadsBack(t *testing.T) {
	i := installOn(t, 2)
	i.summaries(2, 100, 1)
	for n, want := range map[int]int{3: 3, 100: 100, 120: 100} {
		rows, why, err := Job(t.Context(), i.cfg, "job1", n)
		if err != nil || len(rows) != want {
			t.Errorf("-n %d: %d rows, want %d: %v", n, len(rows), want, err)
		}
		if want < n != strings.Contains(why, "100 of 120 intervals") {
			t.Errorf("-n %d: %q", n, why)
		}
	}
}

// TestJobThatEndedLongAgo: what is far back is found too, and where reading ends is said.
func TestJobThatEndedLongAgo(t *testing.T) {
	i := installOn(t, 2)
	ended := time.Now().Add(-40*time.Minute).UnixMilli() / 2000 * 2000
	start := ended - 3*2000
	i.write(schemas.TopicJobs, ended, &schemas.Job{JobID: "known", Start: &start, State: schemas.StateCompleted},
		"known/0")
	for n := range int64(3) {
		for _, job := range []string{"known", "unknown"} {
			i.write(schemas.TopicJobSummary, start+n*2000+2000, summary(job, 0, start+n*2000, "x"), job+"/0")
		}
	}
	i.summaries(1, 3, 1)
	for job, want := range map[string]string{
		"known":   "job known has 3 of 9 intervals: it began at ",
		"unknown": "job unknown has 3 of 9 intervals: topic test.job-summary has no more",
	} {
		rows, fewer, err := Job(t.Context(), i.cfg, job, 9)
		if err != nil || len(rows) != 3 || !strings.HasPrefix(fewer, want) {
			t.Errorf("%s: %d rows, %q, %v", job, len(rows), fewer, err)
		}
		if rows, fewer, err := Job(t.Context(), i.cfg, job, 2); err != nil || len(rows) != 2 || fewer != "" {
			t.Errorf("%s -n 2: %d rows, %q, %v", job, len(rows), fewer, err)
		}
	}
	rows, fewer, err := Job(t.Context(), i.cfg, "typo", math.MaxInt)
	if err != nil || rows != nil || !strings.Contains(fewer, "has no more") {
		t.Errorf("typo: %d rows, %q, %v", len(rows), fewer, err)
	}
}

// TestLateSummaries: n summaries are not the last n intervals where some of a later interval were written before them.
func TestLateSummaries(t *testing.T) {
	h := history{jobID: "j", n: 2}
	take := func(start int64) {
		value, err := schemas.Marshal(summary("j", 1, start))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.add(&kgo.Record{Key: []byte("j/1"), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	take(1000)
	take(2000)
	if h.window(time.UnixMilli(5000)); h.enough() {
		t.Error("intervals that began before the window are taken for the last ones")
	}
	take(3000) // written before both
	if h.window(time.UnixMilli(2000)); !h.enough() {
		t.Error("the last two intervals are there")
	}
	began := int64(2500)
	if h.scheduled(map[schemas.JobKey]*schemas.Job{{JobID: "j"}: {Start: &began}}); h.whole() {
		t.Error("the begin of an earlier restart is taken for that of the last one")
	}
	if h.scheduled(map[schemas.JobKey]*schemas.Job{{JobID: "j", Restart: 1}: {Start: &began}}); !h.whole() {
		t.Error("the job began after what was read")
	}
}
