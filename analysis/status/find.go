package status

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics"
)

// stageFind is the stage that an installation may do without.
const stageFind = "find"

// find adds the stage find if it has ever committed anything. An installation without find is complete, even if the
// topics of find do not exist yet.
func (s *Status) find(ctx context.Context, from *topics.Reader) error {
	last, err := commits(ctx, from, from.Config.Prefix+schemas.TopicFindProgress)
	if errors.Is(err, kafka.ErrNoPartition) || err == nil && len(last) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	counts := map[string]int64{}
	if err := s.stage(ctx, from, stageFind, schemas.TopicJobSummary, schemas.TopicFindProgress, counts); err != nil {
		return err
	}
	s.Find = counts
	topic := from.Config.Prefix + schemas.TopicJobSummary
	due, err := from.Admin.ListOffsetsAfterMilli(ctx, s.TimeMs-findPatience(from.Config), topic)
	if err != nil {
		return fmt.Errorf("asking what is old in %s: %w", topic, err)
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if d, ok := due.Lookup(topic, p.Partition); p.Stage == stageFind && ok && d.Err == nil {
			p.waits = d.Offset > p.Position
		}
	}
	return nil
}

// findPatience is how long summaries may wait for find, in milliseconds. find closes no intervals: it commits every ten
// seconds while it finds nothing.
func findPatience(cfg config.Config) int64 {
	return (2*cfg.Interval + 2*config.QuietCommit).Milliseconds()
}

// commandOf is the command that runs a stage.
func commandOf(stage string) string {
	if stage == stageFind {
		return "weir find --live"
	}
	return "weir " + stage
}
