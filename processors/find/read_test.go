package find

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// TestStatesAreFreed: while jobs are restored, the states they are made of go one by one. Otherwise a start takes twice
// the memory of a running process.
func TestStatesAreFreed(t *testing.T) {
	s := newFinds(t)
	read := newReadStates()
	for _, job := range []string{"a", "b", "c", "d"} {
		s.lives(job, 0, 5, 1)
		read.take(&kgo.Record{Key: []byte(job + "/0"), Value: foldtest.Encode(t, s.states[job+"/0"])})
	}
	var seen []weak.Pointer[schemas.FindState]
	states := func(yield func(*schemas.FindState) bool) {
		for one := range read.all() {
			seen = append(seen, weak.Make(one))
			if !yield(one) {
				return
			}
			runtime.GC()
			for i, earlier := range seen[:len(seen)-1] {
				if earlier.Value() != nil {
					t.Errorf("state %d is in memory after state %d was restored", i, len(seen)-1)
				}
			}
		}
	}
	f, err := newFinder(foldtest.Cluster, s.set, typesOf(nil), false, s.f.known, s.last, states)
	if err != nil || len(f.jobs) != 4 || len(seen) != 4 {
		t.Errorf("%d states, %d jobs: %v", len(seen), len(f.jobs), err)
	}
	runtime.KeepAlive(read)
}

// TestStatesMayTakeLong: a start has little time, but reading the states of many jobs is not part of that.
func TestStatesMayTakeLong(t *testing.T) {
	b := newBench(t)
	begun := make(chan bool, 1)
	s := processors.Stage{
		Name: "find", Input: b.Config.Prefix + schemas.TopicJobSummary,
		Progress: b.Config.Prefix + schemas.TopicFindProgress,
		NewFold: func(ctx context.Context, _ *processors.Partition, _ *schemas.Progress) (fold.Fold, error) {
			_, bounded := ctx.Deadline()
			select {
			case begun <- bounded:
			default:
			}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- processors.Own(ctx, b.Config, (&kafkatest.Log{}).Logger(), b.metrics, s) }()
	if <-begun {
		t.Error("a fold has to be made within some time")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStatesThatDoNotCome: brokers that deliver nothing do not hold a start up without a word.
func TestStatesThatDoNotCome(t *testing.T) {
	b := newBench(t)
	_, stop := b.find()
	b.load("1", time.Now().UnixMilli()/findT*findT-20*findT, 1, 1, 1)
	b.Eventually("the summaries", b.folded(3))
	b.StopOrFail(stop)
	b.Broker.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Broker.KeepControl()
		<-t.Context().Done()
		return nil, nil, false
	})
	of := &processors.Partition{Admin: b.Admin, Log: (&kafkatest.Log{}).Logger()}
	if _, err := states(t.Context(), b.Config, of, nil, 200*time.Millisecond); !errors.Is(err, errNoStates) {
		t.Errorf("%v", err)
	}
	if _, err := states(t.Context(), b.Config, of, nil, time.Nanosecond); !errors.Is(err, errNoStates) {
		t.Errorf("not even where it ends: %v", err)
	}
}
