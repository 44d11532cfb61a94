package topicstest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// Brokers is a broker with the topics of an installation, and with one partition of job-summary.
type Brokers struct {
	Config config.Config
	cl     *kgo.Client
}

// NewBrokers starts a broker. The archive of the configuration is in dir.
func NewBrokers(t testing.TB, dir string) *Brokers {
	t.Helper()
	broker := kafkatest.Broker(t)
	cfg := config.Default()
	cfg.Kafka.Brokers, cfg.Sink.Dir, cfg.Partitions.JobSummary = broker.ListenAddrs(), dir, 1
	kafkatest.CreateTopics(t, broker, cfg)
	return &Brokers{cfg, kafkatest.Client(t, cfg.Kafka.Brokers)}
}

// Put writes a record.
func (b *Brokers) Put(t testing.TB, topic string, key []byte, r schemas.Record) {
	t.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	b.Raw(t, topic, key, value)
}

// Raw writes a value that need not be a record.
func (b *Brokers) Raw(t testing.TB, topic string, key, value []byte) {
	t.Helper()
	record := &kgo.Record{Topic: b.Config.Prefix + topic, Key: key, Value: value}
	if err := b.cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// Summaries writes summaries by the keys of their jobs.
func (b *Brokers) Summaries(t testing.TB, all []*schemas.JobSummary) {
	t.Helper()
	for _, s := range all {
		b.Put(t, schemas.TopicJobSummary, schemas.JobKey{JobID: s.JobID, Restart: s.Restart}.Key(), s)
	}
}
