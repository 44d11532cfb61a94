package analysis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/analysis/like"
	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"
)

// LikeAsk says which jobs are compared with one.
type LikeAsk struct {
	Dir, JobID string
	Since      time.Time // of their ends
	Queue      string    // empty: of any queue
	Limit      int       // 0: all
}

// LikeRow is a job with its distance from another one, and what the distance is at least and at most.
type LikeRow struct {
	JobID    string  `json:"job_id"`
	Restart  int32   `json:"restart"`
	User     string  `json:"user"`
	Account  string  `json:"account"`
	Queue    string  `json:"queue"`
	Name     string  `json:"name"`
	Cores    *int64  `json:"cores"`
	Distance float64 `json:"distance"`
	Low      float64 `json:"distance_low"`
	High     float64 `json:"distance_high"`
	Metrics  int     `json:"metrics"` // that both have
}

// liker compares the totals of jobs.
type liker struct {
	names []string
	of    map[schemas.JobKey]*likely
}

// likely is a job that may be like another one.
type likely struct {
	row     *jobs.Row
	metrics []*like.Metric
}

// Like returns the jobs of the archive that are most like one, the nearest first. They ran on the same type of node.
// Ranks are those among the jobs of the queue that is asked for, and otherwise of the job's own.
func Like(ctx context.Context, cfg config.Config, a LikeAsk) ([]LikeRow, error) {
	dir := cmp.Or(a.Dir, cfg.Sink.Dir)
	types, err := rules.NewTypes(cfg.Machine)
	if err != nil {
		return nil, err
	}
	lives, err := archive.Jobs(ctx, dir, a.JobID)
	if err != nil {
		return nil, err
	}
	if len(lives) == 0 {
		return nil, fmt.Errorf("%w that has ended: %s is not in the archive %s", ErrNoJob, a.JobID, dir)
	}
	mine := &lives[len(lives)-1]
	key := schemas.JobKey{JobID: mine.JobID, Restart: mine.Restart}
	date := time.UnixMilli(mine.End).UTC().Format(time.DateOnly)
	own, err := archive.Totals(ctx, dir, date, date, key)
	if err != nil {
		return nil, err
	}
	l := &liker{of: map[schemas.JobKey]*likely{}}
	for i := range own {
		if own[i].Metric != nil && own[i].RankError != nil {
			l.names = append(l.names, *own[i].Metric)
		}
	}
	if l.names = view.Shown(l.names); len(l.names) < like.MinShared {
		return nil, fmt.Errorf("job %s has totals of %d metrics, and a comparison needs %d: `weir archive totals` "+
			"makes them", a.JobID, len(l.names), like.MinShared)
	}
	first := min(a.Since.UTC().Format(time.DateOnly), date)
	if err := l.read(ctx, dir, first, a.Since, key, types.Of(mine.Nodes).Name, types); err != nil {
		return nil, err
	}
	return l.nearest(key, cmp.Or(a.Queue, mine.Queue), a), nil
}

// read reads the jobs on nodes of a type, and their totals.
func (l *liker) read(ctx context.Context, dir, first string, since time.Time, mine schemas.JobKey, nodes string,
	types *rules.Types,
) error {
	err := archive.EachJob(ctx, dir, first, "", func(r *jobs.Row) error {
		key := schemas.JobKey{JobID: r.JobID, Restart: r.Restart}
		if key == mine || r.End >= since.UnixMilli() && types.Of(r.Nodes).Name == nodes {
			row := *r
			row.Nodes, row.Cpus = nil, nil
			l.of[key] = &likely{&row, make([]*like.Metric, len(l.names))}
		}
		return nil
	})
	if err != nil {
		return err
	}
	columns := []string{
		"job_id", "restart", "metric", "rank_error", "lo", "hi", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8",
		"d9", "d10",
	}
	return archive.EachTotalOf(ctx, dir, first, "", l.names, columns, func(t *totals.Total) error {
		of := l.of[schemas.JobKey{JobID: t.JobID, Restart: t.Restart}]
		if of == nil || t.Metric == nil || t.RankError == nil {
			return nil
		}
		var total view.Total
		takeTotal(&total, t)
		if i := slices.Index(l.names, *t.Metric); i >= 0 && !slices.ContainsFunc(total.D[:], math.IsNaN) {
			of.metrics[i] = &like.Metric{D: total.D, Lo: total.Lo, Hi: total.Hi}
		}
		return nil
	})
}

// nearest returns the jobs by their distance from one.
func (l *liker) nearest(key schemas.JobKey, queue string, a LikeAsk) []LikeRow {
	space := make(like.Space, len(l.names))
	for i := range space {
		var values []float64
		for _, of := range l.of {
			if m := of.metrics[i]; m != nil && of.row.Queue == queue {
				values = append(values, m.D[:]...)
			}
		}
		space[i] = like.NewDistribution(values)
	}
	mine := l.of[key]
	signature := space.Sign(nil, mine.metrics)
	var all []LikeRow
	var other like.Signature
	for k, of := range l.of {
		if k == key || a.Queue != "" && of.row.Queue != a.Queue {
			continue
		}
		other = space.Sign(other[:0], of.metrics)
		distance, shared, ok := like.Distance(signature, other)
		if !ok || math.IsNaN(distance) {
			continue
		}
		r := of.row
		all = append(all, LikeRow{
			JobID: r.JobID, Restart: r.Restart, User: r.User, Account: r.Account, Queue: r.Queue, Name: r.Name,
			Cores: r.Cores, Distance: distance, Metrics: shared,
		})
	}
	slices.SortFunc(all, func(a, b LikeRow) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart,
			b.Restart))
	})
	if a.Limit > 0 {
		all = all[:min(len(all), a.Limit)]
	}
	for i := range all {
		of := l.of[schemas.JobKey{JobID: all[i].JobID, Restart: all[i].Restart}]
		all[i].Low, all[i].High = space.Bounds(mine.metrics, of.metrics)
	}
	return all
}
