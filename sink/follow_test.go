package sink

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestManyRowsDoNotWait: a topic with days of rows does not fill the memory at a start. Where the archive cannot be
// written, they wait for the next period.
func TestManyRowsDoNotWait(t *testing.T) {
	f := NewFollower[string, int64](config.Default(), (&kafkatest.Log{}).Logger(), schemas.TopicJobs, "jobs")
	f.Pending = prometheus.NewGauge(prometheus.GaugeOpts{Name: "pending"})
	f.Failures = prometheus.NewCounter(prometheus.CounterOpts{Name: "failures"})
	f.Position = func(row *int64) *int64 { return row }
	f.Row = func(r schemas.Record, offset int64) (string, int64, bool, error) {
		return r.(*schemas.Job).JobID, offset, true, nil
	}
	var refused error
	var written []int
	f.Write = func(_ context.Context, _ time.Duration, _ string, rows map[string]int64) (map[string]error, error) {
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
