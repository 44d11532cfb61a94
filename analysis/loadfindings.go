package analysis

import (
	"context"
	"time"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/schemas"
)

// findings returns the recorded findings of the life, from the archive, or otherwise from the topic.
func (l *loader) findings(ctx context.Context) (all []schemas.Finding, err error) {
	take := func(f *schemas.Finding) {
		if f.Job() == l.key && l.span.has(f.AsOf) {
			all = append(all, *f)
		}
	}
	if l.job.End != nil && !l.job.Running {
		first, last := "", time.UnixMilli(*l.job.End).UTC().Format(time.DateOnly)
		if l.start != nil {
			first = l.start.UTC().Format(time.DateOnly)
		}
		err := archive.EachFinding(ctx, l.cfg.Sink.Dir, first, last, l.key.JobID, func(f *schemas.Finding) error {
			take(f)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if l.topic == nil || len(all) > 0 {
		return all, nil
	}
	return all, l.named.findings(ctx, l.key.JobID, take)
}
