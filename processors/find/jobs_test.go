package find

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// TestKnownJobs: what is known serves while the topic is read again. A job that is not there any more is forgotten.
func TestKnownJobs(t *testing.T) {
	k := newKnownJobs()
	take := func(job, state string) {
		t.Helper()
		r := &kgo.Record{Key: schemas.JobKey{JobID: job}.Key()}
		if state != "" {
			r.Value = foldtest.Encode(t, &schemas.Job{JobID: job, State: state})
		}
		if err := k.take(r); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, job := range []string{"1", "2", "3"} {
			state := "none"
			if j := k.get(schemas.JobKey{JobID: job}); j != nil {
				state = j.State
			}
			got = append(got, state)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	k.begin()
	take("1", schemas.StateRunning)
	take("2", schemas.StateCompleted)
	expect("not read to its end", "none", "none", "none")
	if k.reaches(0) {
		t.Error("it is ready before the end")
	}
	k.isRead(2)
	take("3", schemas.StateRunning)
	expect("read", schemas.StateRunning, schemas.StateCompleted, schemas.StateRunning)
	k.begin()
	take("2", schemas.StateRunning)
	expect("read again", schemas.StateRunning, schemas.StateCompleted, schemas.StateRunning)
	take("2", schemas.StateCompleted)
	k.begin() // it failed in the middle
	take("2", schemas.StateCompleted)
	if k.reaches(0) {
		t.Error("it is ready while it reads the topic again")
	}
	k.isRead(5)
	expect("read to its end again", "none", schemas.StateCompleted, "none")
	take("2", "")
	expect("a tombstone", "none", "none", "none")
	if !k.reaches(5) || k.reaches(6) {
		t.Errorf("it is read through %d", k.through)
	}
}

// TestNewsOfBeforeAreKnown: a partition that comes from another process waits for what topic jobs has by then. Its
// owner of before may have ended a job by that. If it seemed to run here, its findings would be deleted.
func TestNewsOfBeforeAreKnown(t *testing.T) {
	b, k := newBench(t), newKnownJobs()
	follow := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.follow(ctx, b.Config, (&kafkatest.Log{}).Logger(), kafka.NewBrokers(slog.New(slog.DiscardHandler)))
		}()
		return func() { cancel(); <-done }
	}
	wait := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return k.wait(ctx, b.Admin, b.Config.Prefix+schemas.TopicJobs)
	}
	stop := follow()
	b.tells(&schemas.Job{JobID: "1", State: schemas.StateRunning})
	if err := wait(processors.StartTimeout); err != nil {
		t.Fatal(err)
	}
	stop() // it lags
	b.tells(&schemas.Job{JobID: "1", State: schemas.StateCompleted})
	if err := wait(300 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it does not wait for the news: %v", err)
	}
	defer follow()()
	if err := wait(processors.StartTimeout); err != nil {
		t.Fatal(err)
	}
	if j := k.get(schemas.JobKey{JobID: "1"}); j == nil || j.State != schemas.StateCompleted {
		t.Errorf("it knows %+v", j)
	}
}
