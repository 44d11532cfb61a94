package analysis

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// findings calls fn with the last record of each finding of topic findings: of one job, or of all if jobID is empty. An
// installation may have no such topic. What is no finding is passed over.
func (r *reader) findings(ctx context.Context, jobID string, fn func(*schemas.Finding)) error {
	last := map[string][]byte{}
	err := r.all(ctx, r.cfg.Prefix+schemas.TopicFindings, func(r *kgo.Record) error {
		if delete(last, string(r.Key)); len(r.Value) > 0 && (jobID == "" || isOf(r, jobID)) {
			last[string(r.Key)] = r.Value
		}
		return nil
	})
	switch {
	case errors.Is(err, kafka.ErrNoPartition), errors.Is(err, errNoTopic),
		errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.TopicAuthorizationFailed):
		return nil
	case err != nil:
		return err
	}
	for _, key := range sortedKeys(last) {
		if v, err := schemas.Unmarshal(last[key]); err == nil {
			if f, is := v.(*schemas.Finding); is {
				fn(f)
			}
		}
	}
	return nil
}

// findings returns those on record of the life: the archive's, and otherwise the topic's.
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
