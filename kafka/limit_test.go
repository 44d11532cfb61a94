package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// TestLongRequestReservesNothing: four bytes that announce a request cost the embedded broker no memory. A request that
// is longer than any client's ends its connection. Requests of many megabytes are taken.
func TestLongRequestReservesNothing(t *testing.T) {
	b, err := StartEmbedded(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	send := func(size uint32) net.Conn {
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, size)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		send(maxRequestBytes)
	}
	for range 3 {
		conn := send(1<<32 - 1)
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // nothing wraps it
			t.Errorf("a request of 4 GiB: %v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d MiB were reserved", grown>>20)
	}
	cl := kafkatest.Client(t, []string{b.Addr()}, kgo.DefaultProduceTopic("t"),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1_000_000),
		kgo.ProducerLinger(200*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 8, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for p := range int32(8) { // a request has the batches of several partitions
		records = append(records, &kgo.Record{Partition: p, Value: make([]byte, 900_000)})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Error(err)
	}
}
