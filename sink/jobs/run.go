package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

const lockWait = 10 * time.Second // for readers, who may hold the lock for long

// Run keeps the jobs of topic jobs in the archive until ctx ends, as sink.Follower does. So it never loses a job that
// the topic still has.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics) {
	newFollower(cfg, log, metrics).Run(ctx)
}

func newFollower(cfg config.Config, log *slog.Logger, metrics *Metrics) *sink.Follower[key, Row] {
	f := sink.NewFollower[key, Row](cfg, log, schemas.TopicJobs, jobsDir)
	s := store{dir: cfg.Sink.Dir, topic: f.Topic}
	f.Write, f.Pending, f.Failures = s.write, metrics.pending, metrics.failures
	f.Position = func(r *Row) *int64 { return &r.Position }
	f.Date = (*Row).date
	f.Row = func(record schemas.Record, offset int64) (k key, row Row, over bool, err error) {
		j, is := record.(*schemas.Job)
		if !is {
			return k, row, false, fmt.Errorf("%w: a %T does not belong here", schemas.ErrInvalid, record)
		}
		row, over = rowOf(cfg.Cluster, j, offset)
		return row.key(), row, over, nil
	}
	return f
}
