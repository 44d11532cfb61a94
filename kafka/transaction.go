package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
)

// Producer writes transactions under one transactional id, which stands for something that has one owner at a time.
//
//  1. Fence makes its producer id. That fences every older owner, and ends the transaction that it left open.
//  2. The owner's reads of its topics are final from then on, until somebody fences it.
//  3. Continue notes the offset at which these reads ended.
//  4. Commit writes all records or none.
//
// After an error only the topics show whether the last transaction was committed. Nothing is tried again on such a
// producer: the owner closes it, waits (see Yield), and begins at 1 with another one.
type Producer struct {
	cl       *kgo.Client
	id       string
	patience time.Duration
	ends     map[place]int64 // see Continue
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// NewProducer returns a producer whose Commit takes patience at most. The broker's timeout of a transaction is twice as
// long, so that both outlast the failover of a broker. A dead owner's transaction ends earlier, when its successor
// fences it. ctx must outlive the transaction in hand, and end before Close.
//
// With topics.wire confluent, its records of public topics get that form. The configuration must then come from
// WithRegistryIDs.
func NewProducer(
	ctx context.Context, cfg config.Config, id string, patience time.Duration, opts ...kgo.Opt,
) (*Producer, error) {
	if cfg.Topics.Wire == config.WireConfluent {
		hook, err := newToConfluent(cfg)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.WithHooks(hook))
	}
	cl, err := newClient(ctx, cfg, append(opts, kgo.TransactionalID(id), kgo.TransactionTimeout(2*patience))...)
	if err != nil {
		return nil, err
	}
	return &Producer{cl, id, patience, map[place]int64{}}, nil
}

// Admin returns the producer's connection for questions about its topics.
func (p *Producer) Admin() *kadm.Client { return kadm.NewClient(p.cl) }

// Agree asks all brokers about partitions of a topic.
func (p *Producer) Agree(ctx context.Context, topic string, partitions ...int32) (Agreed, error) {
	return Agree(ctx, p.cl, topic, partitions...)
}

// errNotTheEnd is returned by Commit when the owner missed records that were committed before.
var errNotTheEnd = errors.New("the read ended too early: the broker that answered may be cut off from its peers")

// Continue notes the offset at which the owner stopped reading a partition that it alone writes. A leader that is cut
// off from its peers reports an old end, even to an owner that has fenced. So the next Commit with a record of that
// partition fails, and writes nothing, unless the record follows at once.
func (p *Producer) Continue(topic string, partition int32, end int64) {
	p.ends[place{topic, partition}] = end
}

// follow compares the offsets of records with the ends that Continue noted. An offset is unknown if the answer to the
// first try was lost.
func (p *Producer) follow(records []*kgo.Record) error {
	for _, r := range records {
		at := place{r.Topic, r.Partition}
		if end, ok := p.ends[at]; ok && r.Offset >= 0 && r.Offset != end {
			return fmt.Errorf("%s-%d: read up to %d, written at %d: %w",
				r.Topic, r.Partition, end, r.Offset, errNotTheEnd)
		}
		delete(p.ends, at)
	}
	return nil
}

// Close ends the producer.
func (p *Producer) Close() { p.cl.Close() }

// Fence fences the older owners of the transactional id.
func (p *Producer) Fence(ctx context.Context) error {
	if _, _, err := p.cl.ProducerID(ctx); err != nil {
		return fmt.Errorf("fencing older owners of transactional id %s: %w", p.id, err)
	}
	return nil
}

// Commit writes records in one transaction, or nothing if there are none. When ctx ends, it spends at most two more
// seconds on finishing. The next owner ends a transaction that is still open then.
func (p *Producer) Commit(ctx context.Context, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	ctx, cancel := outlive(ctx, p.patience)
	defer cancel()
	if err := p.cl.BeginTransaction(); err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	var first firstError
	for _, r := range records {
		p.cl.Produce(ctx, r, first.promise)
	}
	if err := p.cl.Flush(ctx); err != nil {
		return fmt.Errorf("flushing a transaction: %w", err)
	}
	// A failed record makes neither flush nor commit fail: without this check, the transaction would commit without it.
	if err := first.err(); err != nil {
		return err
	}
	if err := p.follow(records); err != nil {
		return err
	}
	if err := p.awaitPartitions(ctx, records); err != nil {
		return err
	}
	if err := p.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("committing a transaction: %w", err)
	}
	return nil
}

// awaitPartitions waits until the client has all partitions of the records in its tables. For a topic that is new to
// it, the client sends the records before it enters their partitions into the transaction. If the transaction ends in
// between, it looks empty to the client, which aborts it and returns no error (franz-go 1.22.2).
func (p *Producer) awaitPartitions(ctx context.Context, records []*kgo.Record) error {
	for _, r := range records {
		for {
			// Its error does not end the wait: until the partitions are there, it belongs to an earlier request.
			if leader, _, _ := p.cl.PartitionLeader(r.Topic, r.Partition); leader >= 0 {
				break
			}
			if !retry.Pause(ctx, time.Millisecond) {
				return fmt.Errorf("waiting for the partitions of %s: %w", r.Topic, ctx.Err())
			}
		}
	}
	return nil
}

// firstError keeps the first error of a transaction's promises, which the client calls from its own goroutines.
type firstError struct {
	mu    sync.Mutex
	first error
}

func (f *firstError) promise(r *kgo.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.first == nil {
		f.first = fmt.Errorf("producing to %s: %w", r.Topic, err)
	}
}

func (f *firstError) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}

// outlive returns a context that ends after limit, or two seconds after ctx. These two seconds are for finishing a
// transaction in hand, since an open one would block every reader. If finishing fails, the process still ends soon.
func outlive(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		if retry.Pause(longer, 2*time.Second) {
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}
