package sink

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// deposed returns a bench with a partition that is archived beyond the end that broker 0 knows. That broker led it, and
// is cut from its peers. The configuration names nobody else.
func deposed(t *testing.T) (b *bench, heal func()) {
	t.Helper()
	b, rnd := newBench(t, 1), random(t)
	b.cluster = kafkatest.Broker(t, kfake.NumBrokers(3), kfake.SeedTopics(1, testTopic))
	if err := b.cluster.MoveTopicPartition(testTopic, 0, 0); err != nil {
		t.Fatal(err)
	}
	b.cfg.Kafka.Brokers = b.cluster.ListenAddrs()[1:]
	b.connect()
	b.summaries(rnd, 0, 3)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	heal = kafkatest.Depose(t, b.cluster, testTopic, 0, 2)
	b.summaries(rnd, 0, 3)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.cfg.Kafka.Brokers = b.cluster.ListenAddrs()[:1]
	return b, heal
}

// start starts a sink. The returned function waits until something holds, while the sink must not end.
func (b *bench) start() (eventually func(what string, holds func() bool), end func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	s := b.newSink(nil)
	s.period = time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	eventually = func(what string, holds func() bool) {
		b.t.Helper()
		kafkatest.Eventually(b.t, what, func() bool {
			select {
			case err := <-ended:
				b.t.Fatalf("the sink ended: %v", err)
			default:
			}
			return holds()
		})
	}
	return eventually, func() {
		b.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	}
}

// complete reports whether the partition is archived up to its last record, before the marker.
func (b *bench) complete() bool {
	return b.position(0) >= b.cluster.PartitionInfo(testTopic, 0).LastStableOffset-1
}

// noBadAdvice reports advice that abandons a good archive.
func (b *bench) noBadAdvice() {
	b.t.Helper()
	for _, advice := range []string{"made anew", "move", "accept-gap"} {
		if text := b.logged.String(); strings.Contains(text, advice) {
			b.t.Errorf("nothing is wrong with archive and topic, but the sink logs %q: %s", advice, text)
		}
	}
}

// TestDeposedLeader: a broker that is cut from its peers gives a starting sink an old end. Nothing is wrong with
// archive and topic: the sink must go on with the other brokers.
func TestDeposedLeader(t *testing.T) {
	t.Parallel()
	b, _ := deposed(t)
	eventually, end := b.start()
	b.summaries(random(t), 0, 2)
	eventually("the rest in the archive", b.complete)
	end()
	b.check()
	b.noBadAdvice()
}

// TestDeposedLeaderAlone: a sink that reaches nobody else knows nothing for sure. It must wait.
func TestDeposedLeaderAlone(t *testing.T) {
	t.Parallel()
	b, heal := deposed(t)
	var cut atomic.Bool
	cut.Store(true)
	b.cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		if !cut.Load() || b.cluster.CurrentNode() == 0 {
			return nil, nil, false
		}
		b.cluster.KeepControl()
		return nil, errors.New("cut off"), true
	})
	eventually, end := b.start()
	eventually("a line in the log", func() bool { return b.logged.Count(kafka.ErrUnsure.Error()) > 0 })
	b.noBadAdvice()
	if err := AcceptGap(t.Context(), b.cfg, 0, b.logged.Logger()); err == nil || errors.Is(err, errBeyondEnd) {
		t.Errorf("AcceptGap by one broker of three: %v, want no verdict", err)
	}
	cut.Store(false)
	heal()
	b.summaries(random(t), 0, 2)
	eventually("the rest in the archive", b.complete)
	end()
	b.check()
}
