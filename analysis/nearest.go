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

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/view"
)

// LikeAsk selects the jobs that are compared with one.
type LikeAsk struct {
	Dir, JobID string
	Since      time.Time     // of their ends
	Back       time.Duration // in place of Since: so long before the end of the job
	Queue      string        // empty: of any queue
	Limit      int           // 0: all
}

// LikeRow is a job with its distance from another one, and the least and the greatest possible distance.
type LikeRow struct {
	JobID    string  `json:"job_id"`
	Restart  int32   `json:"restart"`
	Start    *int64  `json:"start"`
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
	viewer Viewer
	names  []string
	first  string                    // the date that the archive is read from
	of     archive.Timeline[*likely] // nil: a job that the viewer may not see, since it may be a namesake
	all    []*likely
	mine   *likely // the job that the others are compared with
}

// likely is a job that may be like another one. There are very many.
type likely struct {
	LikeRow
	signature like.Signature // deciles first, and then their ranks
}

// Like returns the jobs of the archive that resemble one job most, the nearest first. They ran on the same type of
// node. Values are ranked among the jobs of the requested queue, or by default among the jobs of the job's own queue.
// Jobs that the viewer may not see are not compared, and do not shift these ranks.
func Like(ctx context.Context, cfg config.Config, v Viewer, a LikeAsk) ([]LikeRow, error) {
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		return nil, err
	}
	sources, err := openOne(ctx, cfg, v, Ask{Dir: a.Dir}, a.JobID)
	if err != nil {
		return nil, err
	}
	dir := sources.cfg.Sink.Dir
	c, err := sources.life(ctx, a.JobID, -1)
	if err == nil && c.record == nil {
		err = fmt.Errorf("%w that has ended: %s is not in the archive %s", ErrNoJob, c.key.JobID, dir)
	}
	if err != nil {
		return nil, err
	}
	mine := *c.record
	if a.Back > 0 {
		a.Since = time.UnixMilli(*mine.End).Add(-a.Back)
	}
	own, err := sources.archivedTotals(ctx, c)
	if err != nil {
		return nil, err
	}
	l := &liker{
		viewer: v,
		of:     archive.Timeline[*likely]{}, first: min(a.Since.UTC().Format(time.DateOnly), archive.DateAt(*mine.End)),
	}
	for i := range own {
		if own[i].Metric != nil && own[i].RankError != nil {
			l.names = append(l.names, *own[i].Metric)
		}
	}
	if l.names = view.Shown(l.names); len(l.names) < like.MinShared {
		return nil, fmt.Errorf("job %s has totals of %d metrics, and a comparison needs %d: `weir archive totals` "+
			"makes them", a.JobID, len(l.names), like.MinShared)
	}
	if err := l.read(ctx, dir, a.Since, mine, types); err != nil {
		return nil, err
	}
	space := l.space(cmp.Or(a.Queue, mine.Queue))
	nearest := l.nearest(a)
	return l.bound(ctx, dir, space, nearest)
}

// read reads the jobs on nodes of a type, and the deciles of their totals.
func (l *liker) read(ctx context.Context, dir string, since time.Time, mine life, types *nodetypes.Types) error {
	nodes := types.Of(mine.Nodes).Name
	err := archive.EachJob(ctx, dir, l.first, "", func(r *jobs.Row) error {
		if !l.viewer.May(archive.JobOf(r)) {
			l.of.Add(archive.KeyOf(r), r.Life(), nil)
			return nil
		}
		own := archive.KeyOf(r) == mine.Identity() && r.Life().Same(mine.when())
		if !own && (r.End < since.UnixMilli() || types.Of(r.Nodes).Name != nodes) {
			return nil
		}
		one := &likely{LikeRow{
			JobID: r.JobID, Restart: r.Restart, Start: r.Start, User: r.User, Account: r.Account, Queue: r.Queue,
			Name: r.Name, Cores: r.Cores,
		}, like.Unsigned(len(l.names))}
		l.of.Add(archive.KeyOf(r), r.Life(), one)
		l.all = append(l.all, one)
		if own {
			l.mine = one
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.totals(ctx, dir, nil, func(of *likely, metric int, t *view.Total) { of.signature.Set(metric, t.D) })
}

// totals calls fn with the deciles of all jobs, metric by metric. Further columns may be their bounds.
func (l *liker) totals(ctx context.Context, dir string, further []string,
	fn func(of *likely, metric int, t *view.Total),
) error {
	columns := append([]string{
		"job_id", "restart", "metric", "start", "end", "rank_error",
		"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10",
	}, further...)
	return archive.EachTotalOf(ctx, dir, l.first, "", l.names, columns, func(t *totals.Total) error {
		if t.Metric == nil || t.RankError == nil {
			return nil
		}
		var total view.Total
		takeTotal(&total, t)
		if i := slices.Index(l.names, *t.Metric); i >= 0 && !slices.ContainsFunc(total.D[:], math.IsNaN) {
			if of, is := l.of.OfTotal(t); is && of != nil {
				fn(of, i, &total)
			}
		}
		return nil
	})
}

// space replaces the deciles of all jobs by their ranks among the jobs of a queue.
func (l *liker) space(queue string) like.Space {
	space := make(like.Space, len(l.names))
	for i := range space {
		var values []float32
		for _, of := range l.all {
			if of.Queue == queue {
				values = append(values, of.signature.Of(i)...)
			}
		}
		space[i] = like.NewDistribution(slices.Clip(values))
	}
	for _, of := range l.all {
		space.Sign(of.signature)
	}
	return space
}

// nearest returns the jobs by their distance from one.
func (l *liker) nearest(a LikeAsk) (all []*likely) {
	for _, of := range l.all {
		if of == l.mine || a.Queue != "" && of.Queue != a.Queue {
			continue
		}
		distance, shared, ok := like.Distance(l.mine.signature, of.signature)
		if !ok || math.IsNaN(distance) {
			continue
		}
		of.Distance, of.Metrics = distance, shared
		all = append(all, of)
	}
	slices.SortStableFunc(all, func(a, b *likely) int { // namesakes stay in the order of their ends
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart,
			b.Restart))
	})
	if a.Limit > 0 {
		all = slices.Clone(all[:min(len(all), a.Limit)])
	}
	return all
}

// bound sets the bounds of the distances of the nearest jobs. It reads the bounds of their deciles alone.
func (l *liker) bound(ctx context.Context, dir string, space like.Space, nearest []*likely) (
	rows []LikeRow, err error,
) {
	metrics := map[*likely][]*like.Metric{l.mine: make([]*like.Metric, len(l.names))}
	for _, of := range nearest {
		metrics[of] = make([]*like.Metric, len(l.names))
	}
	err = l.totals(ctx, dir, []string{"lo", "hi"}, func(of *likely, metric int, t *view.Total) {
		if m := metrics[of]; m != nil {
			m[metric] = &like.Metric{D: t.D, Lo: t.Lo, Hi: t.Hi}
		}
	})
	for _, of := range nearest {
		of.Low, of.High = space.Bounds(metrics[l.mine], metrics[of])
		rows = append(rows, of.LikeRow)
	}
	return rows, err
}
