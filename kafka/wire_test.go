package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// known are ids as a registry could have given them, from 1 on.
func known() map[string]uint32 {
	ids := map[string]uint32{}
	for _, topic := range schemas.PublicTopics() {
		for _, s := range schemas.OfTopic(topic) {
			ids[s.Key()] = uint32(len(ids) + 1)
		}
	}
	return ids
}

// created returns a configuration, whose broker has all topics.
func created(t *testing.T, ids map[string]uint32) config.Config {
	t.Helper()
	c := configOf(kafkatest.Broker(t))
	c.Topics.Replication, c.Collectors, c.Partitions = 1, 1, config.Partitions{Routes: 1, JobSummary: 1, Partials: 1}
	create(t, c, ids)
	return c
}

func create(t *testing.T, c config.Config, ids map[string]uint32) {
	t.Helper()
	if err := CreateTopics(t.Context(), kafkatest.Client(t, c.Kafka.Brokers), Topics(c), ids); err != nil {
		t.Fatal(err)
	}
}

// values returns the committed records of a topic: as weir reads them, and as they are.
func values(t *testing.T, c config.Config, topic string) (read, raw []*kgo.Record) {
	t.Helper()
	bare := kafkatest.Client(t, c.Kafka.Brokers, ReaderOpts()...)
	start, end, err := Bounds(t.Context(), kadm.NewClient(bare), topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	translated, err := NewReader(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer translated.Close()
	for cl, into := range map[*kgo.Client]*[]*kgo.Record{bare: &raw, translated: &read} {
		err := ReadRanges(t.Context(), cl, topic, map[int32]Range{0: {start, end}}, func(r *kgo.Record) error {
			*into = append(*into, r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return read, raw
}

// TestBothForms: a topic may hold both forms, as the wire is switched there and back. Weir reads the same bytes from
// both. A registry's tool finds the id of topic schemas. Other topics are as they were.
func TestBothForms(t *testing.T) {
	t.Parallel()
	c := created(t, known())
	value, err := schemas.MarshalChecked(&schemas.Job{JobID: "1", State: schemas.StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(value)
	foreign := append([]byte{0, 0, 0, 0, 9}, value[10:]...) // without the header
	jobs, balance := c.Prefix+schemas.TopicJobs, c.Prefix+schemas.TopicBalance
	for _, wire := range []string{config.WireSingleObject, config.WireConfluent, config.WireSingleObject} {
		c.Topics.Wire = wire
		full, err := WithRegistryIDs(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		var records []*kgo.Record
		for _, r := range []kgo.Record{
			{Topic: jobs, Value: value}, {Topic: balance, Value: value}, {Topic: jobs}, {Topic: jobs, Value: foreign},
		} {
			r.Key = []byte("1/0")
			records = append(records, &r)
		}
		if err := owner(t, full).Commit(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(value, before) {
		t.Error("the producer's caller sees its bytes changed")
	}
	read, raw := values(t, c, jobs)
	id := known()[schemas.OfTopic(schemas.TopicJobs)[2].Key()]
	confluent := append(binary.BigEndian.AppendUint32([]byte{0}, id), value[10:]...)
	for i, want := range [][]byte{value, nil, foreign, confluent, nil, foreign, value, nil, foreign} {
		if !bytes.Equal(raw[i].Value, want) || (want == nil) != (raw[i].Value == nil) {
			t.Errorf("record %d is %x, want %x", i, raw[i].Value, want)
		}
		if i == 3 {
			want = value
			if h := raw[i].Headers; len(h) != 1 || h[0].Key != "weir-schema" || !bytes.Equal(h[0].Value, value[2:10]) {
				t.Errorf("its headers are %v", h)
			}
		} else if len(raw[i].Headers) > 0 {
			t.Errorf("record %d has headers", i)
		}
		if !bytes.Equal(read[i].Value, want) || (want == nil) != (read[i].Value == nil) {
			t.Errorf("record %d is read as %x, want %x", i, read[i].Value, want)
		}
	}
	if len(read) != 9 || len(raw) != 9 {
		t.Errorf("%d and %d records", len(read), len(raw))
	}
	if _, raw := values(t, c, balance); len(raw) != 3 || !bytes.Equal(raw[1].Value, value) || len(raw[1].Headers) > 0 {
		t.Errorf("another topic has %v", raw)
	}
}

// TestForgedForm: who may write a public topic gains nothing by a header. In another topic it means nothing.
func TestForgedForm(t *testing.T) {
	t.Parallel()
	c := created(t, nil)
	cl := kafkatest.Client(t, c.Kafka.Brokers)
	fingerprint := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	for _, topic := range []string{schemas.TopicJobs, schemas.TopicCounters} {
		for _, value := range [][]byte{
			{}, {0}, {0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 1}, {0, 255, 255, 255, 255, 1},
		} {
			for _, header := range [][]byte{nil, {}, fingerprint[:7], fingerprint} {
				r := &kgo.Record{Topic: c.Prefix + topic, Value: value, Headers: []kgo.RecordHeader{
					{Key: "other", Value: fingerprint},
					{Key: schemas.FingerprintHeader, Value: header},
					{Key: schemas.FingerprintHeader, Value: fingerprint},
				}}
				if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	read, raw := values(t, c, c.Prefix+schemas.TopicJobs)
	unknown := 0
	for i := range read {
		_, err := schemas.Unmarshal(read[i].Value)
		switch {
		case errors.Is(err, schemas.ErrUnknownSchema):
			unknown++
		case !errors.Is(err, schemas.ErrNotSingleObject), !bytes.Equal(read[i].Value, raw[i].Value):
			t.Errorf("%x with %v is read as %x: %v", raw[i].Value, raw[i].Headers, read[i].Value, err)
		}
	}
	if unknown != 2 || len(read) != 24 {
		t.Errorf("%d of %d records name an unknown schema", unknown, len(read))
	}
	read, raw = values(t, c, c.Prefix+schemas.TopicCounters)
	for i := range read {
		if !bytes.Equal(read[i].Value, raw[i].Value) {
			t.Errorf("counters: %x is read as %x", raw[i].Value, read[i].Value)
		}
	}
}

// TestMissingIDs: without an id no producer starts, and the remedy is named. An older schema needs none.
func TestMissingIDs(t *testing.T) {
	t.Parallel()
	c := configOf(kafkatest.Broker(t))
	c.Topics.Replication, c.Topics.Wire = 1, config.WireConfluent
	refused := func(what string) {
		t.Helper()
		_, err := WithRegistryIDs(t.Context(), c)
		if !errors.Is(err, ErrTopics) || !strings.Contains(err.Error(), "run `weir topics create` with registry.url") {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := NewProducer(context.Background(), c, "id", time.Minute); !errors.Is(err, ErrTopics) {
			t.Errorf("%s: a producer: %v", what, err)
		}
	}
	refused("without topics")
	create(t, c, nil)
	refused("without ids")
	newest := map[string]uint32{}
	for _, topic := range schemas.PublicTopics() {
		all := schemas.OfTopic(topic)
		create(t, c, newest)
		refused("before " + topic)
		newest[all[len(all)-1].Key()] = 1<<31 - 1
	}
	create(t, c, newest)
	full, err := WithRegistryIDs(t.Context(), c)
	if err != nil || len(full.Topics.RegistryIDs) != len(newest) {
		t.Errorf("%v, %v", full.Topics.RegistryIDs, err)
	}
	create(t, c, nil) // the last record of a key counts
	refused("ids taken away")
	c.Topics.Wire = config.WireSingleObject
	if _, err := WithRegistryIDs(t.Context(), c); err != nil {
		t.Errorf("single-object needs ids: %v", err)
	}
	for _, id := range []string{"0", "", "-1", "x", "2147483648"} {
		r := &kgo.Record{
			Topic: c.Prefix + schemas.TopicSchemas, Key: []byte("odd"),
			Headers: []kgo.RecordHeader{{Key: idHeader, Value: []byte(id)}},
		}
		if err := kafkatest.Client(t, c.Kafka.Brokers).ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		_, err := ReadRegistryIDs(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), "weir topics create") {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

// BenchmarkForms shows what the forms cost a record of typical size.
func BenchmarkForms(b *testing.B) {
	c := config.Default()
	c.Topics.RegistryIDs = known()
	to, err := newToConfluent(c)
	if err != nil {
		b.Fatal(err)
	}
	from := fromConfluent{publicTopics(c.Prefix)}
	written := schemas.OfTopic(schemas.TopicJobSummary)[2]
	fingerprint, err := hex.DecodeString(written.Key())
	if err != nil {
		b.Fatal(err)
	}
	value := slices.Concat([]byte{0xC3, 1}, fingerprint, make([]byte, 4<<10))
	topic := c.Prefix + schemas.TopicJobSummary
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			r := kgo.Record{Topic: topic, Value: value}
			to.OnProduceRecordBuffered(&r)
		}
	})
	r := kgo.Record{Topic: topic, Value: value}
	to.OnProduceRecordBuffered(&r)
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			read := r
			from.OnFetchRecordBuffered(&read)
		}
	})
	b.Run("read single-object", func(b *testing.B) {
		read := kgo.Record{Topic: topic, Value: value}
		for b.Loop() {
			from.OnFetchRecordBuffered(&read)
		}
	})
}
