package sink

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

const testTopic = "weir." + schemas.TopicJobSummary

// bench is a broker, a transactional producer and an empty archive.
type bench struct {
	t       *testing.T
	topic   string
	cfg     config.Config
	cluster *kfake.Cluster
	cl      *kgo.Client
	logged  kafkatest.Log
	metrics *Metrics
	want    []schemas.Row // of everything committed
	bad     int64         // undecodable records committed
	serial  int64
}

func newBench(t *testing.T, partitions int32) *bench {
	t.Helper()
	return newBenchOf(t, testTopic, partitions)
}

func newBenchOf(t *testing.T, topic string, partitions int32) *bench {
	t.Helper()
	cluster := kafkatest.Broker(t, kfake.SeedTopics(partitions, topic))
	cfg := config.Default()
	cfg.Partitions.JobSummary, cfg.Collectors = int(partitions), int(partitions)
	cfg.Cluster, cfg.Sink.Dir, cfg.BackoffCap = "c", t.TempDir(), 100*time.Millisecond
	cfg.Kafka.Brokers = cluster.ListenAddrs()
	b := &bench{t: t, topic: topic, cfg: cfg, cluster: cluster, metrics: NewMetrics(prometheus.NewRegistry())}
	b.connect()
	return b
}

// connect gives the bench a new producer.
func (b *bench) connect() {
	b.t.Helper()
	b.cl = kafkatest.Client(b.t, b.cfg.Kafka.Brokers, kgo.TransactionalID("weir.test"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(b.topic))
}

// transaction writes values to a partition, and commits or aborts them.
func (b *bench) transaction(partition int32, commit bool, values ...[]byte) {
	b.t.Helper()
	ctx := b.t.Context()
	if err := b.cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range values {
		if err := b.cl.ProduceSync(ctx, &kgo.Record{Partition: partition, Value: v}).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := b.cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		b.t.Fatal(err)
	}
}

// summaries commits n summaries of intervals around a midnight.
func (b *bench) summaries(rnd *rand.Rand, partition int32, n int) {
	b.t.Helper()
	const midnight = 1795305600000
	var values [][]byte
	for range n {
		b.serial++
		s := randomSummary(rnd, "c", fmt.Sprint("job", b.serial), midnight+(rnd.Int64N(5)-1)*1000)
		b.want = append(b.want, s.Rows()...)
		values = append(values, marshal(b.t, s))
	}
	b.transaction(partition, true, values...)
}

// some commits and aborts a few transactions of every kind.
func (b *bench) some(rnd *rand.Rand) {
	b.t.Helper()
	for range 8 {
		p := rnd.Int32N(2)
		switch rnd.IntN(5) {
		case 0:
			b.transaction(p, false, marshal(b.t, randomSummary(rnd, "c", "aborted", 5000)))
		case 1:
			b.transaction(p, true, []byte("garbage"), marshal(b.t, randomSummary(rnd, "other", "foreign", 5000)))
			b.bad += 2
		default:
			b.summaries(rnd, p, 1+rnd.IntN(3))
		}
	}
}

// drain runs a sink that ends at once, so that it reads to the topic's end.
func (b *bench) drain() error {
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	return b.newSink(nil).run(ctx)
}

// newSink returns a sink that takes its time at the end, on a machine that is busy.
func (b *bench) newSink(before func(action, path string) error) *sink[schemas.Row] {
	s := newSink(b.cfg, summaries(b.cfg), b.logged.Logger(), b.metrics, before)
	s.patience = time.Minute
	return s
}

// check holds the archive against what was committed.
func (b *bench) check() {
	b.t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.cfg.Sink.Dir, "summaries", "date=*", "*.parquet"))
	if err != nil {
		b.t.Fatal(err)
	}
	var got []schemas.Row
	var bad int64
	for _, path := range paths {
		rows, f, err := ReadFile(path)
		if err != nil {
			b.t.Fatal(err)
		}
		sorted := slices.Clone(rows)
		sortRows(sorted)
		if !gocmp.Equal(sorted, rows, equateEmptyRows()) {
			b.t.Errorf("%s is not sorted", path)
		}
		for _, r := range rows {
			if want := "date=" + dateOf(r.IntervalStart); filepath.Base(filepath.Dir(path)) != want {
				b.t.Errorf("%s holds a row of %s", path, want)
			}
		}
		if f.UndecodableCount != int64(len(f.Undecodable)) {
			b.t.Errorf("%s: %d undecodable, %d listed", path, f.UndecodableCount, len(f.Undecodable))
		}
		got, bad = append(got, rows...), bad+f.UndecodableCount
	}
	want := slices.Clone(b.want)
	for _, rows := range [][]schemas.Row{want, got} {
		slices.SortStableFunc(rows, func(x, y schemas.Row) int {
			return cmp.Or(cmp.Compare(x.JobID, y.JobID), CompareNullFirst(x.Metric, y.Metric))
		})
	}
	if diff := gocmp.Diff(want, got, equateEmptyRows()); diff != "" {
		b.t.Fatalf("rows (-want +got):\n%.3000s", diff)
	}
	if bad != b.bad {
		b.t.Errorf("%d undecodable records in the footers, want %d", bad, b.bad)
	}
}

func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func (b *bench) deleteBefore(offset int64) {
	b.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: b.topic, At: offset})
	rs, err := kadm.NewClient(b.cl).DeleteRecords(b.t.Context(), offsets)
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
