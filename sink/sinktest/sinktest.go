// Package sinktest contains the shared helpers of the tests of the archive's tables of jobs and findings: a broker with
// an archive, and writers that end ahead of a step. Only tests import it.
package sinktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/table"
)

// LockFor is how long a test waits for the archive's lock, on a busy machine.
const LockFor = 90 * time.Second

// ErrCrash is returned by a hook of CrashAt.
var ErrCrash = errors.New("crash")

// Bench is a broker with a table's topic, and an archive.
type Bench struct {
	T      *testing.T
	Config config.Config
	Log    kafkatest.Log

	topic  string
	create func() *kgo.Client // makes the missing topics
	client *kgo.Client
}

// New returns a Bench of the table with this topic.
func New(t *testing.T, topic string) *Bench {
	t.Helper()
	cluster, cfg := kafkatest.Broker(t), config.Default()
	cfg.Kafka.Brokers, cfg.Sink.Dir, cfg.Cluster = cluster.ListenAddrs(), t.TempDir(), "c"
	cfg.BackoffCap = 50 * time.Millisecond
	b := &Bench{T: t, Config: cfg, topic: cfg.Prefix + topic}
	b.create = func() *kgo.Client {
		kafkatest.CreateTopics(t, cluster, cfg)
		return kafkatest.Client(t, cluster.ListenAddrs())
	}
	b.client = b.create()
	return b
}

// Produce writes a record.
func (b *Bench) Produce(key, value []byte) {
	b.T.Helper()
	r := &kgo.Record{Topic: b.topic, Key: key, Value: value}
	if err := b.client.ProduceSync(b.T.Context(), r).FirstErr(); err != nil {
		b.T.Fatal(err)
	}
}

// Recreate deletes the topic, waits until a follower logs that, and makes it anew.
func (b *Bench) Recreate() {
	b.T.Helper()
	if _, err := kadm.NewClient(b.client).DeleteTopic(b.T.Context(), b.topic); err != nil {
		b.T.Fatal(err)
	}
	kafkatest.Eventually(b.T, "word of a topic that is gone", func() bool {
		return b.Log.Count("cannot read a topic of the archive, trying again") > 0
	})
	b.client = b.create()
}

// Follow runs a follower until the returned function ends it.
func Follow[R any](b *Bench, f *table.Follower[R], period time.Duration) (end func()) {
	b.T.Helper()
	f.Patience = time.Minute // the machine may be busy
	f.Period, f.Wait, f.Look = period, time.Millisecond, 20*time.Millisecond
	ctx, cancel := context.WithCancel(b.T.Context())
	ended := make(chan struct{})
	go func() { f.Run(ctx); close(ended) }()
	end = func() { cancel(); <-ended }
	b.T.Cleanup(end)
	return end
}

// NoSync leaves out actions that take a busy disk long: nobody pulls the plug in a test.
func NoSync(action, _ string) error {
	if action == sink.ActSync || action == sink.ActSyncDir {
		return sink.ErrDone
	}
	return nil
}

// CrashAt returns a hook that ends a writer ahead of its nth step, and whether the file of this name was in place then.
func CrashAt(n int, commit string) (hook func(action, path string) error, committed *bool) {
	step := 0
	committed = new(bool)
	return func(action, path string) error {
		if step == n {
			return ErrCrash
		}
		step++
		if action == sink.ActRename && filepath.Base(path) == commit {
			*committed = true
		}
		return NoSync(action, path)
	}, committed
}

// Batches cuts a log into pieces, and shuffles them, some twice: as several sinks read that lag and start again.
func Batches[R any](rnd *rand.Rand, log []R) (all [][]R) {
	for len(log) > 0 {
		n := 1 + rnd.IntN(len(log))
		all = append(all, log[:n])
		if log = log[n:]; rnd.IntN(3) == 0 {
			all = append(all, all[rnd.IntN(len(all))])
		}
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// Peak returns how much the heap grew at most while fn ran.
func Peak(fn func()) (bytes int64) {
	heap := func() int64 {
		of := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(of)
		return int64(of[0].Value.Uint64())
	}
	runtime.GC()
	before, stop, ended := heap(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				bytes = max(bytes, heap()-before)
			}
		}
	}()
	fn()
	close(stop)
	<-ended
	return bytes
}
