package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics"
)

// Partition is the state of one partition of a stage, with its owner.
type Partition struct {
	Stage     string `json:"stage"`
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"` // offsets, transaction markers included
	// Held counts the offsets from the first open transaction on, which cannot be read yet.
	Held        int64  `json:"held"`
	ClosedMs    *int64 `json:"closed_interval_start"`
	Owner       string `json:"owner"`        // empty: none
	CommittedMs *int64 `json:"committed_ms"` // when the position was committed, by its owner's clock; null: never
	FirstMs     *int64 `json:"first_ms"`     // when the first record was written; null once a position was committed
	Behind      bool   `json:"behind"`       // records wait, and the last Ticks are not folded
	// Stopped: there is a StopReason, or the partition is behind and owned, and nothing was committed for long.
	Stopped bool `json:"stopped"`
	// StopReason is in the words of the owner. It is empty if the partition goes on, or its owner does not know.
	StopReason string `json:"stop_reason"`
	Replaced   bool   `json:"replaced"` // the topic was made again, and Position is of the old one
	// RejectReason is why the last record of this partition was rejected, as far back as topic rejects was read.
	RejectReason string `json:"reject_reason"`

	waits bool // of find: an old summary is not folded yet
}

// commit is the last Progress of a partition, and when it was committed.
type commit struct {
	*schemas.Progress
	atMs int64
}

// stage adds the partitions of collect, merge or find, and the fates that they counted.
func (s *Status) stage(
	ctx context.Context, from *topics.Reader, stage, input, progress string, counts map[string]int64,
) error {
	input, progress = from.Config.Prefix+input, from.Config.Prefix+progress
	last, err := commits(ctx, from, progress)
	if err != nil {
		return err
	}
	bounds, err := from.Bounds(ctx, input)
	if err != nil {
		return err
	}
	all, err := from.Admin.ListEndOffsets(ctx, input) // open transactions included
	if err != nil {
		return fmt.Errorf("asking where %s ends: %w", input, err)
	}
	first, err := firstUncommitted(ctx, from, input, bounds, last)
	if err != nil {
		return err
	}
	owners, err := ownersOf(ctx, from.Admin, from.Config.Prefix+stage, progress)
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(bounds)) {
		status := Partition{Stage: stage, Partition: p, End: bounds[p].To, Owner: owners[p]}
		if l, ok := last[p]; ok {
			status.Position, status.ClosedMs, status.CommittedMs = l.Position, l.Closed, &l.atMs
			status.StopReason = l.Stopped
			if !kafka.SameTopic(l.TopicID, from.IDs[input]) || l.Position > status.End {
				status.Replaced = replaced(ctx, from, input, p, l.TopicID, l.Position)
			}
			count(counts, l.Counts)
		}
		if at, ok := first[p]; ok {
			status.FirstMs = &at
		}
		status.Lag = max(0, status.End-status.Position)
		if high, ok := all.Lookup(input, p); ok {
			status.Held = max(0, high.Offset-status.End)
		}
		s.Partitions = append(s.Partitions, status)
	}
	return nil
}

// replaced reports whether all brokers together have a topic other than the topic of a position. The first broker may
// be cut off from its peers, and the remedy deletes topics.
func replaced(ctx context.Context, from *topics.Reader, topic string, partition int32, id string, position int64) bool {
	agreed, err := kafka.Agree(ctx, from.Client, topic, partition)
	return err == nil && (!kafka.SameTopic(id, agreed.ID) || position > agreed.Partitions[partition].End)
}

// commits returns the last commit of each partition by a topic of Progress.
func commits(ctx context.Context, from *topics.Reader, topic string) (map[int32]commit, error) {
	last := map[int32]commit{}
	err := from.All(ctx, topic, func(r *kgo.Record) error {
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if p, ok := v.(*schemas.Progress); ok {
				last[r.Partition] = commit{p, r.Timestamp.UnixMilli()}
			}
		}
		return nil
	})
	return last, err
}

// firstUncommitted returns when the first record was written of each partition without a commit.
func firstUncommitted(
	ctx context.Context, from *topics.Reader, topic string, bounds map[int32]kafka.Range, last map[int32]commit,
) (map[int32]int64, error) {
	uncommitted := map[int32]kafka.Range{}
	for p, b := range bounds {
		if _, ok := last[p]; !ok {
			uncommitted[p] = kafka.Range{From: b.From, To: min(b.From+1, b.To)}
		}
	}
	first := map[int32]int64{}
	err := kafka.ReadRanges(ctx, from.Client, topic, uncommitted, func(r *kgo.Record) error {
		first[r.Partition] = r.Timestamp.UnixMilli()
		return nil
	})
	return first, err
}

// count adds the fates of one partition.
func count(counts map[string]int64, c schemas.ProgressCounts) {
	for fate, n := range map[string]int64{
		"summarized": c.Summarized, "rejected": c.Rejected, "late": c.Late, "dropped": c.Dropped,
		"duplicate": c.Duplicate,
		"misrouted": c.Misrouted, "ended": c.Ended, "lost": c.Lost, "outputs": c.Outputs, "clock_ahead": c.ClockAhead,
		"surplus": c.Surplus,
	} {
		counts[fate] += n
	}
}

// ownersOf returns the member of a group that owns each partition of a topic.
func ownersOf(ctx context.Context, adm *kadm.Client, group, topic string) (map[int32]string, error) {
	described, err := adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("describing group %s: %w", group, err)
	}
	owners := map[int32]string{}
	for _, m := range described[group].Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok {
			continue
		}
		// Kafka's hosts begin with a slash, hosts of the embedded broker do not.
		name := m.ClientID + "/" + strings.TrimPrefix(m.ClientHost, "/")
		if m.InstanceID != nil {
			name = *m.InstanceID
		}
		for _, t := range assigned.Topics {
			if t.Topic != topic {
				continue
			}
			for _, p := range t.Partitions {
				owners[p] = name
			}
		}
	}
	return owners, nil
}
