// Package topicstest writes records into the topics of an embedded broker, for tests.
package topicstest

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// Installation is a broker with our topics, and the times of six intervals for the records that a test writes.
type Installation struct {
	T      testing.TB
	Config config.Config
	Client *kgo.Client
	Starts []int64 // of the intervals, oldest first
}

// New starts an installation with two partitions of topic counters.
func New(t *testing.T) *Installation {
	t.Helper()
	return NewOn(t, 2)
}

// NewOn starts an installation with this many partitions of topic counters.
func NewOn(t testing.TB, collectors int, opts ...kfake.Opt) *Installation {
	t.Helper()
	cfg := config.Default()
	cfg.Cluster, cfg.Prefix, cfg.Collectors = "c", "test.", collectors
	cfg.Partitions = config.Partitions{Routes: 1, Partials: 1, JobSummary: 1}
	cfg.Grace, cfg.PlanMargin = time.Second, 500*time.Millisecond
	cfg.Sink.Dir = filepath.Join(t.TempDir(), "none")
	cluster := kafkatest.Broker(t, opts...)
	cfg.Kafka.Brokers = cluster.ListenAddrs()
	kafkatest.CreateTopics(t, cluster, cfg)
	i := &Installation{T: t, Config: cfg}
	i.Client = kafkatest.Client(t, cfg.Kafka.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	i.Every(2 * time.Second)
	return i
}

// Every sets the interval, and the starts of the six that are closed.
func (i *Installation) Every(interval time.Duration) {
	i.Config.Interval = interval
	ms := interval.Milliseconds()
	last := time.Now().UnixMilli()/ms*ms - 2*ms
	i.Starts = nil
	for n := range int64(6) {
		i.Starts = append(i.Starts, last-(5-n)*ms)
	}
}

// Put writes a record into a partition.
func (i *Installation) Put(topic string, partition int32, r schemas.Record) {
	i.T.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		i.T.Fatal(err)
	}
	record := &kgo.Record{Topic: i.Config.Prefix + topic, Partition: partition, Key: []byte("k"), Value: value}
	if j, is := r.(*schemas.Job); is {
		record.Key = j.Identity().Key()
	}
	if err := i.Client.ProduceSync(i.T.Context(), record).FirstErr(); err != nil {
		i.T.Fatal(err)
	}
}

// Together puts records in one transaction: a reader of committed records sees all of them at once.
func (i *Installation) Together(topic string, records ...schemas.Record) {
	i.T.Helper()
	tx := kafkatest.Client(i.T, i.Config.Kafka.Brokers, kgo.TransactionalID("together"))
	if err := tx.BeginTransaction(); err != nil {
		i.T.Fatal(err)
	}
	for _, r := range records {
		value, err := schemas.Marshal(r)
		if err != nil {
			i.T.Fatal(err)
		}
		record := &kgo.Record{Topic: i.Config.Prefix + topic, Value: value}
		if err := tx.ProduceSync(i.T.Context(), record).FirstErr(); err != nil {
			i.T.Fatal(err)
		}
	}
	if err := tx.EndTransaction(i.T.Context(), kgo.TryCommit); err != nil {
		i.T.Fatal(err)
	}
}

// Summaries writes rows of jobs and returns their bytes. The newest interval ended just now.
func (i *Installation) Summaries(jobs, intervals, metrics int) (bytes uint64) {
	i.T.Helper()
	names := make([]string, metrics)
	for m := range names {
		names[m] = "metric" + strconv.Itoa(m)
	}
	ms := i.Config.Interval.Milliseconds()
	now := time.Now().UnixMilli() / ms * ms
	for back := intervals; back > 0; back-- {
		start := now - int64(back)*ms
		for job := range jobs {
			job := "job" + strconv.Itoa(job)
			bytes += i.Write(schemas.TopicJobSummary, start+ms, Summary(job, 0, start, names...), job+"/0")
		}
	}
	if err := i.Client.Flush(i.T.Context()); err != nil {
		i.T.Fatal(err)
	}
	return bytes
}

// Write writes a record with a time and a key, and does not wait. It returns the bytes of the record.
func (i *Installation) Write(topic string, atMs int64, r schemas.Record, key string) uint64 {
	i.T.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		i.T.Fatal(err)
	}
	record := &kgo.Record{
		Topic: i.Config.Prefix + topic, Key: []byte(key), Value: value, Timestamp: time.UnixMilli(atMs),
	}
	i.Client.Produce(i.T.Context(), record, func(_ *kgo.Record, err error) {
		if err != nil {
			i.T.Error(err)
		}
	})
	return uint64(len(value))
}

// WriteNow writes a record with its key and the time of now, and waits. A nil record is a tombstone.
func (i *Installation) WriteNow(topic, key string, r schemas.Record) {
	i.T.Helper()
	var value []byte
	if r != nil {
		var err error
		if value, err = schemas.Marshal(r); err != nil {
			i.T.Fatal(err)
		}
	}
	record := &kgo.Record{Topic: i.Config.Prefix + topic, Key: []byte(key), Value: value}
	if err := i.Client.ProduceSync(i.T.Context(), record).FirstErr(); err != nil {
		i.T.Fatal(err)
	}
}

// Summary is a summary of a job in an interval of a second.
func Summary(job string, restart int32, start int64, metrics ...string) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: "c", JobID: job, Restart: restart, IntervalStart: start, IntervalMs: 1000, Method: schemas.MethodExact,
		Parts: 1, PartsReported: 1, NodesExpected: 3, NodesReported: 2,
	}
	for _, m := range metrics {
		s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{Name: m, Unit: "1", Scope: schemas.ScopeNode})
	}
	return s
}
