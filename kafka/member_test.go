package kafka

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
)

// member joins group g.
func member(
	t *testing.T, c config.Config, instance string,
	own func(ctx context.Context, partition int32) error, opts ...kgo.Opt,
) (stop func() error, ended chan error) {
	t.Helper()
	m := &Member{
		Config: c, Group: "g", Topic: "t", Instance: instance, Brokers: NewBrokers(slog.New(slog.DiscardHandler)),
		Own:     own,
		Waiting: func(err error) { t.Logf("waiting: %v", err) },
		opts:    opts,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(cancel)
	return func() error { cancel(); return <-ended }, ended
}

// TestPartitionsMoveAtOnceWhenAMemberEnds, with a name and without, and not before its work is over. The clock is fake:
// only what waits takes time.
func TestPartitionsMoveAtOnceWhenAMemberEnds(t *testing.T) {
	for _, names := range [][2]string{{"", ""}, {"x", "y"}} {
		t.Run("instance "+names[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, dial := inMemory(t)
				var working, most atomic.Int32
				started := make(chan int32, 10)
				own := func(ctx context.Context, partition int32) error {
					if n := working.Add(1); n > most.Load() {
						most.Store(n)
					}
					defer working.Add(-1)
					started <- partition
					<-ctx.Done()
					time.Sleep(1500 * time.Millisecond) // a transaction in hand
					return nil
				}
				stop, _ := member(t, c, names[0], own, dial)
				<-started
				<-started
				stopNext, _ := member(t, c, names[1], own, dial)
				<-started // one of two
				if err := stop(); err != nil {
					t.Error(err)
				}
				left := time.Now()
				<-started
				if took := time.Since(left); took > session/2 {
					t.Errorf("the successor starts after %v: the member did not leave its group", took)
				}
				if most.Load() > 2 {
					t.Errorf("%d owners of two partitions", most.Load())
				}
				if err := stopNext(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestMemberEndsWithTheErrorOfItsWork(t *testing.T) {
	broken := errors.New("no wait mends this")
	_, ended := member(t, installed(t), "", func(context.Context, int32) error { return broken })
	select {
	case err := <-ended:
		if !errors.Is(err, broken) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(90 * time.Second):
		t.Error("it goes on")
	}
}

// TestMemberWhoseNameIsTakenEnds: of two members under one name the older ends with an error that has the name.
func TestMemberWhoseNameIsTakenEnds(t *testing.T) {
	c := installed(t)
	started := make(chan int32, 10)
	own := func(ctx context.Context, partition int32) error {
		started <- partition
		<-ctx.Done()
		return nil
	}
	_, older := member(t, c, "x", own)
	<-started
	<-started
	_, newer := member(t, c, "x", own)
	select {
	case err := <-older:
		if !errors.Is(err, kerr.FencedInstanceID) {
			t.Errorf("the older ends with %v", err)
		}
	case err := <-newer:
		t.Errorf("the newer ends: %v", err)
	case <-time.After(90 * time.Second):
		t.Error("both go on")
	}
}
