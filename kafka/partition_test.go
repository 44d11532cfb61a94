package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// TestSettledBounds asks where a topic ends while a transaction is open. The answer holds its records, and comes when
// it has ended.
func TestSettledBounds(t *testing.T) {
	c := installed(t)
	writer := kafkatest.Client(t, c.Kafka.Brokers, kgo.TransactionalID("x"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	adm := kadm.NewClient(kafkatest.Client(t, c.Kafka.Brokers))
	if err := writer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := writer.ProduceSync(t.Context(), said(0, "a"), said(1, "b")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := SettledBounds(t.Context(), adm, "t", 0); !errors.Is(err, ErrOpenTransaction) {
		t.Fatalf("an open transaction: %v", err)
	}
	bounds := make(chan map[int32]Range)
	go func() {
		b, err := SettledBounds(t.Context(), adm, "t", time.Minute)
		if err != nil {
			t.Error(err)
		}
		bounds <- b
	}()
	select {
	case b := <-bounds:
		t.Errorf("the transaction is open, but the answer is %v", b)
	case <-time.After(100 * time.Millisecond):
	}
	if err := writer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	for p, r := range <-bounds {
		if r.From != 0 || r.To < 1 {
			t.Errorf("partition %d: %+v does not hold the record", p, r)
		}
	}
	if _, err := SettledBounds(t.Context(), adm, "another", 0); err == nil {
		t.Error("bounds of a topic that does not exist")
	}
}
