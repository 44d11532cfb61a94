package topics

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// Findings calls fn with the last record of each finding of topic findings. An installation may lack the topic. Other
// records are passed over.
func (r *Reader) Findings(ctx context.Context, fn func(*schemas.Finding)) error {
	last := map[string][]byte{}
	err := r.All(ctx, r.Config.Prefix+schemas.TopicFindings, func(r *kgo.Record) error {
		if delete(last, string(r.Key)); len(r.Value) > 0 {
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
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if v, err := schemas.Unmarshal(last[key]); err == nil {
			if f, is := v.(*schemas.Finding); is {
				fn(f)
			}
		}
	}
	return nil
}

// Jobs returns the last record of each job.
func (r *Reader) Jobs(ctx context.Context) (map[schemas.JobKey]*schemas.Job, error) {
	return r.jobs(ctx, func(*kgo.Record) bool { return true })
}

// jobs returns the last record of each job, of the records that want accepts.
func (r *Reader) jobs(ctx context.Context, want func(*kgo.Record) bool) (map[schemas.JobKey]*schemas.Job, error) {
	last := map[string][]byte{}
	err := r.All(ctx, r.Config.Prefix+schemas.TopicJobs, func(r *kgo.Record) error {
		if delete(last, string(r.Key)); len(r.Value) > 0 && want(r) { // the value of a tombstone is empty
			last[string(r.Key)] = r.Value
		}
		return nil
	})
	known := map[schemas.JobKey]*schemas.Job{}
	for _, value := range last {
		if v, err := schemas.Unmarshal(value); err == nil {
			if j, is := v.(*schemas.Job); is {
				known[j.Identity()] = j
			}
		}
	}
	return known, err
}
