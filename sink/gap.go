package sink

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// AcceptGap declares lost what a partition's chain misses: the holes between its files, or, where there are none, what
// retention deleted from the topic before it was archived. It adds an empty file for each, whose footer says so, and the sink can go on.
// The sink should not run meanwhile. It returns ErrNoGap if nothing is missing.
func AcceptGap(ctx context.Context, cfg config.Config, partition int32, log *slog.Logger) error {
	topic := cfg.Prefix + schemas.TopicJobSummary
	a := newArchive(cfg.Sink.Dir, topic, nil)
	if err := a.open(); err != nil {
		return err
	}
	found, oldest, err := chains(a.root, topic)
	if err != nil {
		return err
	}
	links := found[partition]
	if len(links) == 0 {
		return fmt.Errorf("%w: partition %d of %s has no files yet, its chain begins where the topic does", ErrNoGap, partition, topic)
	}
	holes, err := check(links, oldest)
	if err != nil {
		return err
	}
	last := links[len(links)-1]
	if len(holes) == 0 { // only then does it matter where the topic begins: a hole can be accepted while no broker is up
		logStart, err := logStart(ctx, cfg, topic, partition)
		if err != nil {
			return err
		}
		if last.next >= logStart {
			return fmt.Errorf("%w: partition %d of %s is archived up to %d without one, and the topic begins at %d",
				ErrNoGap, partition, topic, last.next, logStart)
		}
		holes = append(holes, hole{last, link{start: logStart}})
	}
	if err := a.syncDir(a.dateDir(last.date)); err != nil {
		return err
	}
	for _, h := range holes {
		f := Footer{Topic: topic, Partition: partition, Start: h.before.next, Next: h.after.start, Gap: true, PreviousDate: h.before.date}
		if err := a.commit(h.before.date, nil, f); err != nil {
			return fmt.Errorf("accepting the gap from %d to %d: %w", f.Start, f.Next, err)
		}
		log.Warn("gap accepted", "topic", topic, "partition", partition, "offset", f.Start, "next", f.Next)
	}
	return nil
}

func logStart(ctx context.Context, cfg config.Config, topic string, partition int32) (int64, error) {
	opts, err := cfg.ClientOpts(ctx)
	if err != nil {
		return 0, err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return 0, fmt.Errorf("making a Kafka client: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := partitions(ctx, adm, topic); err != nil {
		return 0, err
	}
	starts, err := offsets(ctx, adm.ListStartOffsets, topic)
	if err != nil {
		return 0, err
	}
	start, ok := starts[partition]
	if !ok {
		return 0, fmt.Errorf("topic %s has no partition %d", topic, partition)
	}
	return start, nil
}
