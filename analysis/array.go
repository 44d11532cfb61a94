package analysis

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
)

// ArrayJobs returns the tasks of a job array: the ID of each by its number. It reads the jobs of the archive in dir, if
// there is one, and those of the topic, if it is asked to.
func ArrayJobs(ctx context.Context, cfg config.Config, dir string, topic bool, array string) (map[int64]string, error) {
	tasks := map[int64]string{}
	add := func(of *string, task *int32, id string) {
		if of != nil && task != nil && *of == array {
			tasks[int64(*task)] = strings.Clone(id)
		}
	}
	if dir != "" {
		err := archive.EachJob(ctx, dir, "", "", func(r *jobs.Row) error {
			add(r.ArrayJob, r.ArrayTask, r.JobID)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if !topic {
		return tasks, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.close()
	err = r.all(ctx, cfg.Prefix+schemas.TopicJobs, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		if j, is := v.(*schemas.Job); err == nil && is { // `weir tail` shows those that cannot be read
			add(j.ArrayJob, j.ArrayTask, j.JobID)
		}
		return nil
	})
	return tasks, err
}
