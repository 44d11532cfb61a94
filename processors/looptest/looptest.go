// Package looptest is for tests of the loop and its stages: a broker of weir's topics, writers of records, and
// questions about committed ones.
package looptest

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// Bench is a broker with the topics of weir, and one collector unless it is made for more.
type Bench struct {
	T      *testing.T
	Broker *kfake.Cluster
	Config config.Config
	Kafka  *kgo.Client // its records name their partition
	Admin  *kadm.Client
	Shown  *prometheus.Registry
}

// New makes the only bench of a test. The test runs beside others, since it waits more than it works.
func New(t *testing.T) *Bench {
	t.Helper()
	t.Parallel()
	return NewOf(t, 1)
}

// NewOf makes a bench with the partitions of so many collectors.
func NewOf(t *testing.T, collectors int) *Bench {
	t.Helper()
	cluster := kafkatest.Broker(t)
	d := config.Default()
	d.Cluster, d.Interval, d.Collectors, d.BackoffCap = foldtest.Cluster, time.Second, collectors, 300*time.Millisecond
	d.Partitions = config.Partitions{Routes: 1, JobSummary: 1, Partials: 1}
	d.Kafka.Brokers = cluster.ListenAddrs()
	cfg, err := config.Load(config.Source{Defaults: d})
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{T: t, Broker: cluster, Config: cfg, Shown: prometheus.NewRegistry()}
	b.Kafka = b.Client()
	b.Admin = kadm.NewClient(b.Kafka)
	b.CreateTopics()
	return b
}

// Client connects as every part of weir does, until the test ends. Records name their partition.
func (b *Bench) Client(further ...kgo.Opt) *kgo.Client {
	b.T.Helper()
	opts, err := kafka.ClientOpts(context.Background(), b.Config)
	if err != nil {
		b.T.Fatal(err)
	}
	opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return kafkatest.Client(b.T, b.Config.Kafka.Brokers, append(opts, further...)...)
}

// CreateTopics creates the topics of weir that the broker lacks.
func (b *Bench) CreateTopics() {
	b.T.Helper()
	kafkatest.CreateTopics(b.T, b.Broker, b.Config)
}

// Put puts values into partition 0 of counters.
func (b *Bench) Put(values ...[]byte) {
	b.T.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: b.Config.Prefix + schemas.TopicCounters, Key: schemas.CollectorKey(0), Value: v}
		if err := b.Kafka.ProduceSync(b.T.Context(), r).FirstErr(); err != nil {
			b.T.Fatal(err)
		}
	}
}

// Interval puts a record of job "whole" and the Tick that closes its interval, ago intervals before now.
func (b *Bench) Interval(ago int64) {
	b.T.Helper()
	start := time.Now().UnixMilli()/foldtest.IntervalMs*foldtest.IntervalMs - ago*foldtest.IntervalMs
	tick := foldtest.Tick(start, false, foldtest.TickJob("whole", 1, "n1"))
	batch := foldtest.Batch("n1", "whole", start, foldtest.IntervalMs, 1)
	b.Put(foldtest.Encode(b.T, batch), foldtest.Encode(b.T, tick))
}

// Read returns the committed records of partition 0 of a topic.
func (b *Bench) Read(topic string) []schemas.Record {
	b.T.Helper()
	topic = b.Config.Prefix + topic
	start, end, err := kafka.Bounds(b.T.Context(), b.Admin, topic, 0)
	if err != nil {
		b.T.Fatal(err)
	}
	var records []schemas.Record
	err = kafka.ReadPartition(b.T.Context(), b.Config, topic, 0, start, end, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		records = append(records, v)
		return err
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return records
}

// Progress returns the last Progress of collect, an empty one at the beginning.
func (b *Bench) Progress() *schemas.Progress {
	b.T.Helper()
	all := b.Read(schemas.TopicProgress)
	if len(all) == 0 {
		return &schemas.Progress{}
	}
	return all[len(all)-1].(*schemas.Progress)
}

// Eventually waits until something holds, and fails the test if it never does.
func (b *Bench) Eventually(what string, holds func() bool) {
	b.T.Helper()
	kafkatest.Eventually(b.T, what, holds)
}

// Summaries reports whether there are n summaries.
func (b *Bench) Summaries(n int) func() bool {
	return func() bool { return len(b.Read(schemas.TopicJobSummary)) == n }
}

// Tried reports whether the owner of the partition started again so often from the last commit.
func (b *Bench) Tried(times float64) func() bool {
	return func() bool { return SeriesOf(b.T, b.Shown, "collect")["weir_loop_restarts_total"] >= times }
}

// Stopped reports whether Progress names all of these reasons why the partition stands still.
func (b *Bench) Stopped(reasons ...string) func() bool {
	return func() bool {
		why := b.Progress().Stopped
		return why != "" && !slices.ContainsFunc(reasons, func(r string) bool { return !strings.Contains(why, r) })
	}
}

// StopOrFail ends a service, and fails the test if the service ends with an error.
func (b *Bench) StopOrFail(stop func() error) {
	b.T.Helper()
	if err := stop(); err != nil {
		b.T.Fatal(err)
	}
}

// PutTo puts values into a partition of a topic.
func (b *Bench) PutTo(topic string, partition int32, values ...[]byte) {
	b.T.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: b.Config.Prefix + topic, Partition: partition, Value: v}
		if err := b.Kafka.ProduceSync(b.T.Context(), r).FirstErr(); err != nil {
			b.T.Fatal(err)
		}
	}
}

// PutKeyed puts a value with a key into partition 0 of a topic.
func (b *Bench) PutKeyed(topic, key string, value []byte) {
	b.T.Helper()
	r := &kgo.Record{Topic: b.Config.Prefix + topic, Key: []byte(key), Value: value}
	if err := b.Kafka.ProduceSync(b.T.Context(), r).FirstErr(); err != nil {
		b.T.Fatal(err)
	}
}

// Requests counts the requests of a kind that the broker gets from now on.
func (b *Bench) Requests(key kmsg.Key) *atomic.Int32 {
	var n atomic.Int32
	b.Broker.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Broker.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// SeriesOf returns the values of a stage's partition 0. Fate and class follow the name.
func SeriesOf(t *testing.T, registry prometheus.Gatherer, stage string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, labels := f.GetName(), map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["stage"] != stage || labels["partition"] != "0" {
				continue
			}
			for _, more := range []string{"fate", "class"} {
				if labels[more] != "" {
					name += " " + labels[more]
				}
			}
			shown[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return shown
}
