package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
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
