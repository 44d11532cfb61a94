package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// A producer whose clock is nine seconds ahead does not set the time of its records where the topic asks for the
// broker's. Elsewhere it does.
func TestArrivalIsTheBrokersTime(t *testing.T) {
	arrival, created := "LogAppendTime", "CreateTime"
	for _, c := range []struct {
		kind  string
		off   time.Duration
		wants time.Duration
	}{
		{arrival, 9 * time.Second, 0},
		{arrival, -time.Hour, 0},
		{created, 9 * time.Second, 9 * time.Second},
	} {
		cluster := kafkatest.Broker(t)
		StampArrival(cluster)
		if err := cluster.CreateTopic("t", 1, map[string]string{"message.timestamp.type": c.kind}); err != nil {
			t.Fatal(err)
		}
		cl := kafkatest.Client(t, cluster.ListenAddrs(), kgo.ConsumeTopics("t"),
			kgo.ProducerLinger(50*time.Millisecond))
		before := time.Now()
		var records []*kgo.Record
		for i := range 3 { // in one batch, and the last waited for less time
			records = append(records, &kgo.Record{
				Topic: "t", Value: []byte("v"), Timestamp: before.Add(c.off + time.Duration(i)*time.Millisecond),
			})
		}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		got := 0
		for got < 3 {
			fetches := cl.PollFetches(t.Context())
			for _, e := range fetches.Errors() {
				t.Fatal(e.Err)
			}
			for r := range fetches.RecordsAll() {
				at := r.Timestamp.Add(-c.wants)
				if at.Before(before.Add(-5*time.Millisecond)) || at.After(after.Add(5*time.Millisecond)) {
					t.Errorf("%s, a clock off by %v: record %d has %v, sent between %v and %v",
						c.kind, c.off, got, r.Timestamp, before, after)
				}
				got++
			}
		}
	}
}

// FuzzStampBatch: a producer may send anything. What is no sound batch stays as it is, and a sound one stays sound.
func FuzzStampBatch(f *testing.F) {
	good := make([]byte, batchHeader)
	good[atMagic] = 2
	sum := func(b []byte) uint32 { return crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)) }
	binary.BigEndian.PutUint32(good[atChecksum:], sum(good))
	f.Add(good, int64(1_700_000_000_000))
	f.Add(good[:40], int64(0))
	f.Fuzz(func(t *testing.T, batch []byte, now int64) {
		before := slices.Clone(batch)
		stampBatch(batch, now)
		if slices.Equal(before, batch) {
			return
		}
		if len(before) < batchHeader || sum(before) != binary.BigEndian.Uint32(before[atChecksum:]) {
			t.Error("what is no sound batch was changed")
		}
		if sum(batch) != binary.BigEndian.Uint32(batch[atChecksum:]) {
			t.Error("the checksum is wrong")
		}
		if int64(binary.BigEndian.Uint64(batch[atMaxTime:])) != now {
			t.Error("the latest time is not that of arrival")
		}
	})
}

// Many producers at once, in transactions and not, with each compression: a reader of what is committed gets every
// record, sound, with the broker's time.
func TestArrivalOfManyProducers(t *testing.T) {
	cluster := kafkatest.Broker(t)
	StampArrival(cluster)
	if err := cluster.CreateTopic("t", 2, map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
		t.Fatal(err)
	}
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
		kgo.ZstdCompression(),
	}
	const batches, records = 4, 25
	before := time.Now()
	var producers sync.WaitGroup
	for i, codec := range codecs {
		for _, id := range []string{"", fmt.Sprintf("txn-%d", i)} {
			opts := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic("t")}
			if id != "" {
				opts = append(opts, kgo.TransactionalID(id))
			}
			cl := kafkatest.Client(t, cluster.ListenAddrs(), opts...)
			producers.Go(func() {
				for range batches {
					if err := produceBatch(t.Context(), cl, id != "", records, before.Add(-time.Hour)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	producers.Wait()
	after := time.Now()
	want := len(codecs) * 2 * batches * records
	reader := kafkatest.Client(t, cluster.ListenAddrs(), kgo.ConsumeTopics("t"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for got := 0; got < want; {
		fetches := reader.PollFetches(t.Context())
		for _, e := range fetches.Errors() {
			t.Fatal(e.Err)
		}
		for r := range fetches.RecordsAll() {
			got++
			if r.Timestamp.Before(before.Add(-time.Second)) || r.Timestamp.After(after.Add(time.Millisecond)) {
				t.Fatalf("record %d has %v, sent between %v and %v", got, r.Timestamp, before, after)
			}
		}
	}
}

// produceBatch writes records of one time, and commits them where that is asked for.
func produceBatch(ctx context.Context, cl *kgo.Client, commit bool, records int, at time.Time) error {
	if commit {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
	}
	var all []*kgo.Record
	for i := range records {
		all = append(all, &kgo.Record{Key: []byte{byte(i)}, Value: make([]byte, 100), Timestamp: at})
	}
	err := cl.ProduceSync(ctx, all...).FirstErr()
	if commit {
		err = errors.Join(err, cl.EndTransaction(ctx, kgo.TryCommit))
	}
	return err
}
