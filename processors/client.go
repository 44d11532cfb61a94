package processors

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// newProducer returns a producer with a transactional id that names a partition, not a process. So the new owner of a
// partition fences the old one.
func (l *loop) newProducer(ctx context.Context) (*kafka.Producer, error) {
	id := fmt.Sprintf("%s%s-%d", l.cfg.Prefix, l.stage.Name, l.partition)
	byKey := kgo.StickyKeyPartitioner(nil) // as any Kafka client places a key
	keyed := map[string]int{
		l.cfg.Prefix + schemas.TopicJobSummary: l.cfg.Partitions.JobSummary,
		l.cfg.Prefix + schemas.TopicPartials:   l.cfg.Partitions.Partials,
	}
	return kafka.NewProducer(ctx, l.cfg, id, l.patience, kgo.WithHooks(l.brokers), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(placing{byKey, keyed}))
}

// placing places keyed records of some topics by their key, and all others on the partition that they name. It uses the
// configured number of partitions. Partitions that were added since would split windows, and have no reader.
type placing struct {
	byKey kgo.Partitioner
	keyed map[string]int
}

// ForTopic implements kgo.Partitioner.
func (p placing) ForTopic(topic string) kgo.TopicPartitioner {
	return placingTopic{kgo.ManualPartitioner().ForTopic(topic), p.byKey.ForTopic(topic), p.keyed[topic]}
}

// placingTopic places the records of one topic: by the partition that they name, or by their key.
type placingTopic struct {
	manual, byKey kgo.TopicPartitioner
	partitions    int // 0: not by key
}

// RequiresConsistency implements kgo.TopicPartitioner: records wait for a partition without a leader.
func (placingTopic) RequiresConsistency(*kgo.Record) bool { return true }

// Partition implements kgo.TopicPartitioner.
func (p placingTopic) Partition(r *kgo.Record, n int) int {
	if p.partitions > 0 && len(r.Key) > 0 {
		return p.byKey.Partition(r, p.partitions) // if the topic has fewer, the client refuses the record
	}
	return p.manual.Partition(r, n)
}

// FetchWait is how long a broker keeps a fetch while there are no records. It answers at once when some come. An answer
// without records costs it as much as one with a few. A broker that hangs shows 5 s after this. By default the others
// need 9 s to take its place.
const FetchWait = 2 * time.Second

// newConsumer reads one partition from a position of its own, which is in Progress. The group keeps no offsets: it only
// decides who owns the partition.
func (l *loop) newConsumer(ctx context.Context, from int64) (*kgo.Client, error) {
	opts, err := kafka.ClientOpts(ctx, l.cfg)
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(append(opts, kgo.WithHooks(l.brokers),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.stage.Input: {l.partition: kgo.NewOffset().At(from)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),                    // markers take offsets: the position must pass them
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // a position out of range is an error, never a jump
		kgo.KeepRetryableFetchErrors(),              // they are logged when they last
		kgo.FetchMaxWait(FetchWait), kgo.FetchMaxBytes(16<<20), kgo.FetchMaxPartitionBytes(8<<20),
	)...)
}
