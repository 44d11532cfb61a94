package totals

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestAsk asks a broker which jobs are final, while collect, merge and the archive get further.
func TestAsk(t *testing.T) {
	cfg := config.Default()
	cfg.Cluster, cfg.Prefix, cfg.Collectors = "c", "test.", 2
	cfg.Partitions = config.Partitions{Routes: 1, Partials: 1, JobSummary: 2}
	cluster := kafkatest.Broker(t)
	cfg.Kafka.Brokers = cluster.ListenAddrs()
	kafkatest.CreateTopics(t, cluster, cfg)
	writer := kafkatest.Client(t, cfg.Kafka.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	put := func(topic string, partition int32, key string, r schemas.Record) {
		t.Helper()
		value, err := schemas.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		record := &kgo.Record{Topic: cfg.Prefix + topic, Partition: partition, Key: []byte(key), Value: value}
		if err := writer.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	closed := func(topic string, partition int32, ms int64) {
		t.Helper()
		put(topic, partition, "k", &schemas.Progress{Position: 1, Closed: &ms, ClosedIntervalMs: 10})
	}
	summary := func(partition int32, key schemas.JobKey) {
		t.Helper()
		put(schemas.TopicJobSummary, partition, key.String(), &schemas.JobSummary{
			Cluster: "c", JobID: key.JobID, Method: schemas.MethodExact,
		})
	}
	cl := kafkatest.Client(t, cfg.Kafka.Brokers, kafka.ReaderOpts()...)
	ask := func(positions map[int32]int64) Frontier {
		t.Helper()
		f, err := Ask(t.Context(), cfg, cl, Archived{Positions: positions})
		if err != nil {
			t.Error(err)
		}
		return f
	}
	a, b := schemas.JobKey{JobID: "a/b"}, schemas.JobKey{JobID: "b", Restart: 2}
	expect := func(name string, f Frontier, through int64, says string, waiting ...schemas.JobKey) {
		t.Helper()
		got := slices.SortedFunc(maps.Keys(f.Waiting), func(a, b schemas.JobKey) int {
			return strings.Compare(a.JobID, b.JobID)
		})
		if f.ThroughMs != through || !strings.Contains(f.Reason, says) || !slices.Equal(got, waiting) {
			t.Errorf("%s: %+v, want %d, %q, %v", name, f, through, says, waiting)
		}
	}
	closed(schemas.TopicProgress, 0, 100)
	expect("a silent collector", ask(nil), nothing, "collect has closed no interval of partition 1")
	closed(schemas.TopicProgress, 1, 100)
	closed(schemas.TopicProgress, 1, 200)
	expect("a silent merge", ask(nil), nothing, "merge has closed no interval of partition 0")
	closed(schemas.TopicMergeProgress, 0, 300)
	expect("nothing to archive", ask(nil), 110, "collect, partition 0")
	summary(0, a)
	summary(0, b)
	summary(1, b)
	expect("nothing archived", ask(nil), 110, "", a, b)
	expect("some archived", ask(map[int32]int64{0: 1}), 110, "", b)
	expect("one partition archived", ask(map[int32]int64{0: 2, 1: 0}), 110, "", b)
	expect("all archived", ask(map[int32]int64{0: 2, 1: 1}), 110, "")
	expect("another topic", ask(map[int32]int64{0: 3, 1: 1}), nothing, "another topic")
	f, err := Ask(t.Context(), cfg, cl, Archived{TopicID: "00"})
	if err != nil {
		t.Fatal(err)
	}
	expect("a topic made again", f, nothing, "deleted and made again")

	// A summary that is committed behind an open transaction counts too.
	open := kafkatest.Client(t, cfg.Kafka.Brokers, kgo.TransactionalID("x"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	aborted := &kgo.Record{Topic: cfg.Prefix + schemas.TopicJobSummary, Partition: 1, Key: []byte("never/0")}
	if err := open.ProduceSync(t.Context(), aborted).FirstErr(); err != nil {
		t.Fatal(err)
	}
	summary(1, a)
	answer := make(chan Frontier)
	go func() { answer <- ask(map[int32]int64{0: 2, 1: 1}) }()
	if err := open.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Error(err)
	}
	expect("behind an open transaction", <-answer, 110, "", a)
}
