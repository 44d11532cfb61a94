package analysis

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics"
)

// fromTopics reads the jobs that the scheduler knows, the last interval of the running ones, and the findings.
func (l *lister) fromTopics(ctx context.Context, r *topics.Reader) error {
	since, err := l.since("")
	if err != nil {
		return err
	}
	known, err := r.Jobs(ctx, func(*kgo.Record) bool { return true })
	if err != nil {
		return err
	}
	for _, j := range known {
		over := schemas.Over(j.State)
		if l.wanted(j) && (!over || j.End != nil && *j.End >= since.UnixMilli()) {
			l.line(r.Config.Cluster, j)
		}
	}
	now := time.Now()
	oldest, last := topics.Recent(r.Config, now), newestSummaries{}
	_, err = r.Back(ctx, r.Config.Prefix+schemas.TopicJobSummary, now.Add(-3*r.Config.Interval), last.add,
		func(since time.Time) (time.Time, bool) { return oldest, since.After(oldest) })
	if err != nil {
		return err
	}
	for key, s := range last {
		line, is := l.of.At(key, s.IntervalStart)
		if !is || schemas.Over(line.State) {
			continue
		}
		line.Cluster = s.Cluster
		if s.NodesExpected > 0 {
			seen := float64(s.NodesReported) / float64(s.NodesExpected)
			line.Seen = &seen
		}
		for i := range s.Metrics {
			m := &s.Metrics[i]
			var d [11]*float64
			if m.Deciles != nil && len(*m.Deciles) == len(d) {
				for k := range d {
					d[k] = &(*m.Deciles)[k]
				}
			}
			l.numbers(line, m.Name, m.Mean, d)
		}
	}
	return r.Findings(ctx, "", func(f *schemas.Finding) { l.finding(f) })
}

// newestSummaries holds the last summary of each job.
type newestSummaries map[schemas.JobKey]*schemas.JobSummary

func (n newestSummaries) add(r *kgo.Record) error {
	v, err := schemas.Unmarshal(r.Value)
	s, is := v.(*schemas.JobSummary)
	if err != nil || !is {
		return nil //nolint:nilerr // the archive's footers and `weir tail` show it
	}
	key := schemas.JobKey{JobID: s.JobID, Restart: s.Restart}
	if old := n[key]; old == nil || old.IntervalStart <= s.IntervalStart {
		n[key] = s
	}
	return nil
}
