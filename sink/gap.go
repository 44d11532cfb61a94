package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// AcceptGap declares lost the positions that a partition's chain misses. It takes the first of these that exists:
//   - the holes between its files,
//   - the records that retention deleted from the topic before they were archived,
//   - the record of an unknown schema at which the chain waits.
//
// It adds an empty file for each, and its footer marks the gap. Then the sink can go on. If nothing is missing, it
// returns an error.
func AcceptGap(ctx context.Context, cfg config.Config, partition int32, log *slog.Logger) error {
	topic := cfg.Prefix + schemas.TopicJobSummary
	a := newArchive(cfg.Sink.Dir, topic, nil)
	if _, err := os.Stat(a.root); errors.Is(err, fs.ErrNotExist) {
		dir, _ := filepath.Abs(cfg.Sink.Dir)
		return fmt.Errorf("%w: there is no archive in %s: set sink.dir to the sink's directory", errNoGap, dir)
	}
	if err := a.open(); err != nil {
		return err
	}
	var found map[int32][]link
	var oldest string
	err := a.shared(func() (err error) { found, oldest, err = chains(a.root, topic); return err })
	if err != nil {
		return err
	}
	links := found[partition]
	holes, err := check(links, oldest)
	if err != nil {
		return err
	}
	last := link{start: unread, next: unread} // a chain without files
	if len(links) > 0 {
		if last, err = endOf(links); err != nil {
			return err
		}
	}
	if len(holes) == 0 { // a hole is accepted without the topic, so also while no broker is up
		h, err := missing(ctx, cfg, topic, partition, last)
		if err != nil {
			return err
		}
		holes = append(holes, h)
	}
	if last.date != "" {
		if err := a.SyncDir(a.dateDir(last.date)); err != nil {
			return err
		}
	}
	for _, h := range holes {
		date, f := h.footer(topic, partition)
		if err := a.commit(date, nil, f); err != nil {
			return fmt.Errorf("accepting the gap from %d to %d: %w", f.Start, f.Next, err)
		}
		log.Warn("gap accepted", "topic", topic, "partition", partition, "offset", f.Start, "next", f.Next)
	}
	return nil
}

// missing returns the hole between the end of a chain and the first record of the topic that can be archived.
func missing(ctx context.Context, cfg config.Config, topic string, partition int32, last link) (hole, error) {
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return hole{}, err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return hole{}, fmt.Errorf("making a Kafka client: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	count, _, err := describe(ctx, adm, topic)
	if err != nil {
		return hole{}, err
	}
	if int(partition) >= count {
		return hole{}, fmt.Errorf("%w: topic %s has no partition %d, only 0 to %d", errNoGap, topic, partition, count-1)
	}
	agreed, err := kafka.Agree(ctx, cl, topic, partition) // nobody can take a gap back
	if err != nil {
		return hole{}, fmt.Errorf("nothing is accepted, try again when all brokers run: %w", err)
	}
	id, start, end := agreed.ID, agreed.Partitions[partition].Start, agreed.Partitions[partition].End
	if err := sameTopic(topic, last.topicID, id); err != nil {
		return hole{}, err
	}
	begun := last.next != unread
	switch {
	case begun && last.next < start:
		return hole{last, link{start: start}}, nil
	case begun && last.next > end:
		return hole{}, fmt.Errorf("%w: partition %d of %s is archived up to %d, and the topic ends at %d, %s",
			errBeyondEnd, partition, topic, last.next, end, agreed.Partitions[partition].By())
	case !begun:
		last.next = start
	}
	last.topicID = id
	_, stable, err := kafka.Bounds(ctx, adm, topic, partition)
	if err != nil {
		return hole{}, err
	}
	u, err := nextUnknown(ctx, cfg, partition, last.next, stable)
	switch {
	case err != nil:
		return hole{}, err
	case u != nil:
		return hole{last, link{start: u.Offset + 1, date: dateOf(u.TimestampMs)}}, nil
	case !begun:
		return hole{}, fmt.Errorf("%w: partition %d of %s has no files yet, its chain begins where the topic does",
			errNoGap, partition, topic)
	}
	return hole{}, fmt.Errorf("%w: partition %d of %s is archived up to %d, the topic begins at %d, "+
		"and what follows can be archived: run the sink", errNoGap, partition, topic, last.next, start)
}
