package processors

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// TestKnownJobs: what is known serves while the topic is read again. A job that is not there any more is forgotten.
func TestKnownJobs(t *testing.T) {
	k := newKnownJobs()
	take := func(job, state string) {
		t.Helper()
		r := &kgo.Record{Key: schemas.JobKey{JobID: job}.Key()}
		if state != "" {
			r.Value = encode(t, &schemas.Job{JobID: job, State: state})
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
	k.isRead()
	take("3", schemas.StateRunning)
	expect("read", schemas.StateRunning, schemas.StateCompleted, schemas.StateRunning)
	k.begin()
	take("2", schemas.StateRunning)
	expect("read again", schemas.StateRunning, schemas.StateCompleted, schemas.StateRunning)
	take("2", schemas.StateCompleted)
	k.begin() // it failed in the middle
	take("2", schemas.StateCompleted)
	k.isRead()
	expect("read to its end again", "none", schemas.StateCompleted, "none")
	take("2", "")
	expect("a tombstone", "none", "none", "none")
	select {
	case <-k.ready:
	default:
		t.Error("not ready")
	}
}
