package kafka

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// TestAgree: a client that knows only a broker that is cut from its peers is given an old end. All brokers together
// know the end.
func TestAgree(t *testing.T) {
	t.Parallel()
	const topic = "t"
	cluster := kafkatest.Broker(t, kfake.NumBrokers(3), kfake.SeedTopics(2, topic))
	for p := range int32(2) {
		if err := cluster.MoveTopicPartition(topic, p, p); err != nil {
			t.Fatal(err)
		}
	}
	write := func() {
		t.Helper()
		cl := kafkatest.Client(t, cluster.ListenAddrs()[1:], kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for p := range int32(2) {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	write()
	if err := cluster.DeleteRecords(topic, 1, 1); err != nil {
		t.Fatal(err)
	}
	cut := kafkatest.Client(t, cluster.ListenAddrs()[:1])
	before, err := Agree(t.Context(), cut, topic)
	if err != nil {
		t.Fatal(err)
	}
	heal := kafkatest.Depose(t, cluster, topic, 0, 2)
	write()

	ends, err := kadm.NewClient(kafkatest.Client(t, cluster.ListenAddrs()[:1])).ListEndOffsets(t.Context(), topic)
	if o, _ := ends.Lookup(topic, 0); err != nil || o.Offset != 2 {
		t.Fatalf("the broker that is cut gives the end %v, %v: want the old one", o, err)
	}
	for range 5 { // the first question goes to any broker
		after, err := Agree(t.Context(), cut, topic)
		if err != nil {
			t.Fatal(err)
		}
		old := before.Partitions[0]
		if p := after.Partitions[0]; p.Leader != 2 || p.Epoch <= old.Epoch || p.Start != 0 || p.End != 3 {
			t.Errorf("the partition that was cut: %+v, before %+v", p, old)
		}
		if p := after.Partitions[1]; p.Leader != 1 || p.Start != 1 || p.End != 3 || after.ID != before.ID {
			t.Errorf("the other partition: %+v, topic %s", p, after.ID)
		}
	}
	one, err := Agree(t.Context(), cut, topic, 1)
	if err != nil || len(one.Partitions) != 1 || one.Partitions[1].End != 3 {
		t.Errorf("one partition: %+v, %v", one, err)
	}
	for name, of := range map[string][]int32{"none": nil, "such": {2}} {
		other := topic
		if of == nil {
			other = "no such topic"
		}
		if a, err := Agree(t.Context(), cut, other, of...); !errors.Is(err, ErrUnsure) {
			t.Errorf("%s: %+v, %v; want ErrUnsure", name, a, err)
		}
	}

	// Who is cut off together with that broker must not believe it.
	own := cluster.ListenAddrs()[0]
	alone := kafkatest.Client(t, cluster.ListenAddrs()[:1],
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != own {
				return nil, errors.New("cut off")
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}))
	if a, err := Agree(t.Context(), alone, topic); !errors.Is(err, ErrUnsure) {
		t.Errorf("one of three answers: %+v, %v; want ErrUnsure", a, err)
	}
	heal()
	if a, err := Agree(t.Context(), cut, topic); err != nil || a.Partitions[0].End != 3 {
		t.Errorf("after the cut: %+v, %v", a, err)
	}
}
