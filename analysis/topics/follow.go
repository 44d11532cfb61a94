package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// IntervalLine sums up one interval, over all jobs.
type IntervalLine struct {
	IntervalStart                int64
	Jobs                         map[string]int // by method, without pseudo-jobs
	NodesExpected, NodesReported int32          // over (node, job) pairs, _rest among them
	Metrics                      int            // summaries of one metric, without summaries of the whole machine
}

// String is the line that `weir up` prints.
func (l IntervalLine) String() string {
	return fmt.Sprintf("%s  jobs %d NODE, %d EXACT, %d ESTIMATED  nodes %d/%d  metrics %d",
		view.Clock(l.IntervalStart), l.Jobs[schemas.MethodNode], l.Jobs[schemas.MethodExact],
		l.Jobs[schemas.MethodEstimated], l.NodesReported, l.NodesExpected, l.Metrics)
}

// add counts one summary. It leaves out the summary of the whole machine, which covers all others. The summary of nodes
// without a job adds its nodes, but counts as no job.
func (l *IntervalLine) add(s *schemas.JobSummary) {
	if s.JobID == schemas.JobSystem { // the sum of all others
		return
	}
	l.NodesExpected += s.NodesExpected
	l.NodesReported += s.NodesReported
	l.Metrics += len(s.Metrics)
	if s.JobID != schemas.JobRest {
		l.Jobs[s.Method]++
	}
}

// Follow calls each with a line for every interval, in order. A line is due once no summary of its interval came for a
// moment. Later summaries are only in the topic and in the archive. Follow returns when ctx ends or each returns false.
func Follow(ctx context.Context, cfg config.Config, each func(l IntervalLine) bool) error {
	cl, err := Connect(ctx, cfg, kgo.ConsumeTopics(cfg.Prefix+schemas.TopicJobSummary),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	quiet := min(time.Second, cfg.Interval/2)
	lines, touched := map[int64]*IntervalLine{}, map[int64]time.Time{}
	shown := int64(0)
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, quiet/2)
		fetches := cl.PollFetches(poll)
		cancel()
		if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil // the client is closed, or ctx ended
		}
		for r := range fetches.RecordsAll() {
			v, err := schemas.Unmarshal(r.Value)
			s, ok := v.(*schemas.JobSummary)
			if err != nil || !ok || s.IntervalStart <= shown {
				continue
			}
			if lines[s.IntervalStart] == nil {
				lines[s.IntervalStart] = &IntervalLine{IntervalStart: s.IntervalStart, Jobs: map[string]int{}}
			}
			lines[s.IntervalStart].add(s)
			touched[s.IntervalStart] = time.Now()
		}
		for _, start := range slices.Sorted(maps.Keys(lines)) {
			if time.Since(touched[start]) < quiet {
				break
			}
			if !each(*lines[start]) {
				return nil
			}
			shown = start
			delete(lines, start)
			delete(touched, start)
		}
	}
	return nil
}
