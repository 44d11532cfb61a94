package analysis

import (
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

// TestStatusOpensFewConnections: a status of 256 partitions must not be a load for the brokers.
func TestStatusOpensFewConnections(t *testing.T) {
	var accepted atomic.Int64
	i := installOn(t, 256, countConnections(&accepted))
	i.run(says{})
	last := i.starts[len(i.starts)-1]
	for p := range int32(256) {
		i.put(schemas.TopicCounters, p, &schemas.Tick{IntervalStart: last, IntervalMs: i.cfg.Interval.Milliseconds(), Epoch: 1})
		i.put(schemas.TopicProgress, p, &schemas.Progress{Position: 1, Closed: &last, ClosedIntervalMs: i.cfg.Interval.Milliseconds()})
	}
	before := accepted.Load()
	s, err := ReadStatus(t.Context(), i.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n := accepted.Load() - before; n > 6 || len(s.Partitions) != 257 {
		t.Errorf("%d connections for %d partitions, want at most 6", n, len(s.Partitions))
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
			s := summary("job"+strconv.Itoa(job), 0, start, names...)
			value, err := schemas.Marshal(s)
			if err != nil {
				i.t.Fatal(err)
			}
			bytes += uint64(len(value))
			i.cl.Produce(i.t.Context(), &kgo.Record{
				Topic: i.cfg.Prefix + schemas.TopicJobSummary, Key: schemas.JobKey{JobID: s.JobID}.Key(), Value: value,
				Timestamp: time.UnixMilli(start + ms),
			}, func(_ *kgo.Record, err error) {
				if err != nil {
					i.t.Error(err)
				}
			})
		}
	}
	if err := i.cl.Flush(i.t.Context()); err != nil {
		i.t.Fatal(err)
	}
	return bytes
}

// allocated returns how many bytes f allocates, with those of the broker beside it.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestJobDecodesOnlyItsOwn: a record that is passed over costs what the client takes for it, and not its decoding.
func TestJobDecodesOnlyItsOwn(t *testing.T) {
	i := installOn(t, 2)
	written := i.summaries(400, 12, 50)
	n := allocated(func() {
		if rows, _, err := Job(t.Context(), i.cfg, "job7", 12); err != nil || len(rows) != 12*50 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	if t.Logf("%.1f bytes allocated for each byte read", float64(n)/float64(written)); n > 5*written {
		t.Errorf("%d bytes allocated for one job of 400, in %d bytes of summaries", n, written)
	}
}

// TestJobsDecodesFewSummaries: of a job with twelve intervals, the last one is wanted.
func TestJobsDecodesFewSummaries(t *testing.T) {
	i := installOn(t, 2)
	written := i.summaries(400, 12, 50)
	n := allocated(func() {
		if rows, err := Jobs(t.Context(), i.cfg); err != nil || len(rows) != 400 || rows[0].Metrics != 50 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	if t.Logf("%.1f bytes allocated for each byte read", float64(n)/float64(written)); n > 5*written {
		t.Errorf("%d bytes allocated for %d bytes of summaries", n, written)
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
