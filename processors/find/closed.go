package find

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// closings knows which intervals collect and merge have closed in all of their partitions: no summary of these can
// follow. The partitions of a process share it.
type closings struct {
	cfg config.Config
	log *slog.Logger

	mu      sync.Mutex
	trouble retry.Trouble
	asked   time.Time
	through int64
}

const (
	// closedEvery is how long an answer serves. An older one is true, too: a closed interval stays closed.
	closedEvery = 10 * time.Second
	// closedBack is how many offsets of a partition are read before its end: some commits with their markers.
	closedBack = 20
)

// get returns the newest interval_start that is closed everywhere, or never. While one partition asks, no other waits
// for the answer: its group may want it back. It learns again a second later.
func (c *closings) get(ctx context.Context, adm *kadm.Client) int64 {
	if !c.mu.TryLock() {
		return fold.Never
	}
	defer c.mu.Unlock()
	if !c.asked.IsZero() && time.Since(c.asked) < closedEvery {
		return c.through
	}
	through, err := c.ask(ctx, adm)
	if err != nil {
		if ctx.Err() == nil && c.trouble.Worth(err, time.Now()) {
			c.log.Warn("cannot tell which intervals are closed, jobs without a last interval do not end", "err", err)
		}
		through = fold.Never
	} else {
		c.trouble.Over()
	}
	c.asked, c.through = time.Now(), through
	return through
}

func (c *closings) ask(ctx context.Context, adm *kadm.Client) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	cl, err := kafka.NewReader(ctx, c.cfg)
	if err != nil {
		return fold.Never, err
	}
	defer cl.Close()
	through := int64(fold.None)
	for _, topic := range []string{c.cfg.Prefix + schemas.TopicProgress, c.cfg.Prefix + schemas.TopicMergeProgress} {
		bounds, err := kafka.TopicBounds(ctx, adm, topic)
		if err == nil && len(bounds) == 0 {
			err = fmt.Errorf("%s: %w", topic, kafka.ErrNoPartition)
		}
		if err != nil {
			return fold.Never, err
		}
		for p, r := range bounds {
			bounds[p] = kafka.Range{From: max(r.From, r.To-closedBack), To: r.To}
		}
		last := map[int32]*schemas.Progress{}
		err = kafka.ReadRanges(ctx, cl, topic, bounds, func(r *kgo.Record) error {
			value, err := schemas.Unmarshal(r.Value)
			if p, is := value.(*schemas.Progress); is && err == nil && r.Attrs.IsTransactional() {
				last[r.Partition] = p
			}
			return nil
		})
		if err != nil {
			return fold.Never, err
		}
		through = min(through, closedBy(len(bounds), last))
	}
	return through, nil
}

// closedBy returns the newest interval_start that all partitions have closed, or never.
func closedBy(partitions int, last map[int32]*schemas.Progress) int64 {
	closed := int64(fold.None)
	for p := range int32(partitions) {
		if last[p] == nil || last[p].Closed == nil {
			return fold.Never
		}
		closed = min(closed, *last[p].Closed)
	}
	return closed
}

// horizon is how far a partition is folded, in intervals. The partition may grow all the time: it is enough that the
// fold gets to where its end once was.
type horizon struct {
	folded int64 // the interval_start up to which everything is folded
	closed int64 // that up to which everything lies before end
	end    int64
}

func newHorizon() horizon { return horizon{folded: fold.Never, closed: fold.Never} }

// reach takes the position of the fold.
func (h *horizon) reach(position int64) int64 {
	if position >= h.end {
		h.folded = h.closed
	}
	return h.folded
}

// foldedThrough returns the interval_start up to which everything is folded, or never. The order makes it right: what
// closed an interval is read first, and the end of the partition next. Records of open transactions count there, since
// brokers end a transaction in one partition after the other.
func (c *closings) foldedThrough(ctx context.Context, of *processors.Partition, position int64, h *horizon) int64 {
	folded := h.reach(position)
	closed := c.get(ctx, of.Admin)
	if h.folded < h.closed || closed <= h.closed { // the fold is on its way, or there is nothing new
		return folded
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	topic := c.cfg.Prefix + schemas.TopicJobSummary
	ends, err := of.Admin.ListEndOffsets(ctx, topic)
	if end, ok := ends.Lookup(topic, of.Number); err == nil && ok && end.Err == nil {
		h.closed, h.end = closed, end.Offset
	}
	return h.reach(position)
}
