package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/retry"
)

// installed returns the configuration for a broker with a topic t of two partitions.
func installed(t *testing.T) config.Config {
	t.Helper()
	return configOf(kafkatest.Broker(t, kfake.SeedTopics(2, "t")))
}

// inMemory is installed for a test in a bubble: its network is in memory, and dial is how a client reaches it.
func inMemory(t *testing.T) (c config.Config, dial kgo.Opt) {
	t.Helper()
	network := &kfake.VirtualNetwork{}
	cluster := kafkatest.Broker(t, kfake.SeedTopics(2, "t"), kfake.Ports(9092), kfake.ListenFn(network.Listen))
	return configOf(cluster), kgo.Dialer(network.DialContext)
}

func configOf(cluster *kfake.Cluster) config.Config {
	c := config.Default()
	c.BackoffCap = 200 * time.Millisecond
	c.Kafka.Brokers = cluster.ListenAddrs()
	return c
}

func owner(t *testing.T, c config.Config, opts ...kgo.Opt) *Producer {
	t.Helper()
	p, err := NewProducer(context.Background(), c, "id", time.Minute,
		append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// said is a record of a partition.
func said(partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: "t", Partition: partition, Value: []byte(value)}
}

// committed returns the values of the topic's first partition, to an owner that has fenced: before, a commit may be on
// its way.
func committed(t *testing.T, c config.Config, p *Producer) []string {
	t.Helper()
	from, to, err := Bounds(t.Context(), p.Admin(), "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	err = ReadPartition(t.Context(), c, "t", 0, from, to, func(r *kgo.Record) error {
		values = append(values, string(r.Value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestFencedProducerCommitsNothing(t *testing.T) {
	c := installed(t)
	older := owner(t, c)
	if err := older.Commit(t.Context(), []*kgo.Record{said(0, "a"), said(1, "b")}); err != nil {
		t.Fatal(err)
	}
	newer := owner(t, c)
	err := older.Commit(t.Context(), []*kgo.Record{said(0, "too late")})
	if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("the fenced owner: %v", err)
	}
	if err := newer.Commit(t.Context(), []*kgo.Record{said(0, "c")}); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, c, owner(t, c)); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("committed: %q", got)
	}
}

// TestLostRecordCommitsNothing: neither flush nor commit of the client reports that a record failed.
func TestLostRecordCommitsNothing(t *testing.T) {
	c := installed(t)
	p := owner(t, c)
	if err := p.Commit(t.Context(), []*kgo.Record{said(0, "a"), said(7, "there is no such partition")}); err == nil {
		t.Error("a record without a partition is no error")
	}
	if got := committed(t, c, owner(t, c)); len(got) > 0 {
		t.Errorf("committed: %q", got)
	}
}

// TestTransactionInHandIsFinished: what would stay open holds up every reader. The commit has two seconds, so the clock
// is fake.
func TestTransactionInHandIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dial := inMemory(t)
		p := owner(t, c, dial)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Commit(ctx, []*kgo.Record{said(0, "a")}); err != nil {
			t.Error(err)
		}
		_, end, err := Bounds(t.Context(), owner(t, c, dial).Admin(), "t", 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		reader := kafkatest.Client(t, c.Kafka.Brokers, append(ReaderOpts(), dial)...)
		err = ReadRanges(t.Context(), reader, "t", map[int32]Range{0: {0, end}}, func(r *kgo.Record) error {
			got = append(got, string(r.Value))
			return nil
		})
		if err != nil || !slices.Equal(got, []string{"a"}) {
			t.Errorf("committed: %q, %v", got, err)
		}
	})
}

// TestFirstTransactionOfAProducerIsCommitted: under the race detector, a client that had only just heard of a topic
// aborted one in a hundred of these, without an error.
func TestFirstTransactionOfAProducerIsCommitted(t *testing.T) {
	t.Parallel()
	const producers = 600
	c := installed(t)
	for range producers {
		p := owner(t, c)
		if err := p.Commit(t.Context(), []*kgo.Record{said(0, "a")}); err != nil {
			t.Error(err)
		}
		p.Close()
	}
	if got := committed(t, c, owner(t, c)); len(got) != producers {
		t.Errorf("%d of %d transactions are committed", len(got), producers)
	}
}

// TestRefusedTopicIsNotOneThatTheClientHas: the client keeps the refusal of a new topic until it has entered the
// partitions, and sends records before. A transaction that ends then is aborted without an error.
func TestRefusedTopicIsNotOneThatTheClientHas(t *testing.T) {
	c := installed(t)
	p := owner(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := p.cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: "late", Value: []byte("a")}
	sent := make(chan error, 1)
	p.cl.Produce(ctx, record, func(_ *kgo.Record, err error) { sent <- err })
	for refusal := error(nil); refusal == nil; _, _, refusal = p.cl.PartitionLeader("late", 0) {
		if !retry.Pause(ctx, time.Millisecond) {
			t.Fatal("the client was not refused")
		}
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if err := p.awaitPartitions(short, []*kgo.Record{record}); err == nil {
		t.Error("a topic without partitions is taken for one that the client has")
	}
	if _, err := p.Admin().CreateTopic(ctx, 1, 1, nil, "late"); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if err := p.awaitPartitions(ctx, []*kgo.Record{record}); err != nil {
		t.Error(err)
	}
}

// TestOwnerThatReadTooLittle: a leader that is cut from its peers gives an old end, even to an owner that fenced. If
// the owner finds the new leader later, nothing that it made of the old end may be committed there.
func TestOwnerThatReadTooLittle(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Broker(t, kfake.NumBrokers(3), kfake.SeedTopics(2, "t"))
	if err := cluster.MoveTopicPartition("t", 0, 0); err != nil {
		t.Fatal(err)
	}
	c := configOf(cluster)
	if err := owner(t, c).Commit(t.Context(), []*kgo.Record{said(0, "one")}); err != nil {
		t.Fatal(err)
	}
	kafkatest.Depose(t, cluster, "t", 0, 1)
	c.Kafka.Brokers = cluster.ListenAddrs()[1:]
	elsewhere := owner(t, c, kgo.MetadataMaxAge(time.Minute))
	if err := elsewhere.Commit(t.Context(), []*kgo.Record{said(0, "two")}); err != nil {
		t.Fatal(err)
	}
	c.Kafka.Brokers = cluster.ListenAddrs()[:1]
	deceived := owner(t, c)
	old := kadm.NewClient(kafkatest.Client(t, cluster.ListenAddrs()[:1]))
	_, end, err := Bounds(t.Context(), old, "t", 0)
	if err != nil || end != 2 {
		t.Fatalf("the deposed leader gives the end %d, %v; want 2: a record and a marker", end, err)
	}
	deceived.Continue("t", 0, end)
	if err := deceived.Commit(t.Context(), []*kgo.Record{said(0, "two again")}); !errors.Is(err, errNotTheEnd) {
		t.Errorf("Commit: %v, want errNotTheEnd", err)
	}
	next := owner(t, c)
	stable := cluster.PartitionInfo("t", 0).LastStableOffset
	next.Continue("t", 0, stable)
	for _, value := range []string{"three", "four"} {
		if err := next.Commit(t.Context(), []*kgo.Record{said(0, value)}); err != nil {
			t.Errorf("Commit behind the end: %v", err)
		}
	}
}

// TestHonestOwnersContinue: owners die between transactions and within them, retention deletes old records, and leaders
// move. The next owner finds the true end each time.
func TestHonestOwnersContinue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(kafkatest.Cases(6, 2)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { honestOwnersContinue(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func honestOwnersContinue(t *testing.T, r *rand.Rand) {
	t.Helper()
	cluster := kafkatest.Broker(t, kfake.NumBrokers(3), kfake.SeedTopics(2, "t"))
	c := configOf(cluster)
	for life := range 25 {
		p := owner(t, c)
		for partition := range int32(2) {
			start, end, err := Bounds(t.Context(), p.Admin(), "t", partition)
			if err != nil {
				t.Fatal(err)
			}
			p.Continue("t", partition, end)
			if r.IntN(4) == 0 && end > start {
				var of kadm.Offsets
				of.AddOffset("t", partition, start+r.Int64N(end-start+1), -1)
				if _, err := p.Admin().DeleteRecords(t.Context(), of); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(4) == 0 {
				if err := cluster.MoveTopicPartition("t", partition, r.Int32N(3)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range r.IntN(4) {
			var records []*kgo.Record
			for range 1 + r.IntN(5) {
				records = append(records, said(r.Int32N(2), fmt.Sprint(life)))
			}
			if err := p.Commit(t.Context(), records); err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
		}
		if r.IntN(2) == 0 { // it dies within a transaction
			if err := p.cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := p.cl.ProduceSync(t.Context(), said(r.Int32N(2), "lost")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
	}
}
