package analysis

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/view"
)

// Numbers of a job that are ranked among its peers.
const (
	rankMedian = "d5"
	rankSpread = "spread"
	rankBusy   = "busy"
)

// peer is a job of the same size class.
type peer struct {
	user, queue bool   // the same as the job's
	hidden      string // its user, if the viewer may not see it
	nodes       []string
}

// A rank among jobs that the viewer may not see needs so many of them, of so many users. Among fewer, it would describe
// single jobs.
const (
	fewestHidden      = 10
	fewestHiddenUsers = 3
)

// LoadPeers ranks a job among the jobs of its user, and among the jobs of its queue. The peers ended within some days
// before its end, and belong to its size class. It reads the archive alone. A rank among few jobs that the viewer may
// not see is left empty.
func LoadPeers(ctx context.Context, cfg config.Config, v Viewer, dir string, j *view.Job, days int) (
	*view.Peers, error,
) {
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		dir = cfg.Sink.Dir
	}
	p := &view.Peers{Days: days}
	if j.Cores == nil {
		return p, nil
	}
	p.SizeClass = view.SizeClass(*j.Cores)
	until := time.Now()
	if j.End != nil && !j.Running {
		until = time.UnixMilli(*j.End)
	}
	from, to := until.AddDate(0, 0, -days).UTC().Format(time.DateOnly), until.UTC().Format(time.DateOnly)
	peers := archive.Timeline[peer]{}
	mine := life{Job: &j.Job}.when()
	err = archive.EachJob(ctx, dir, from, to, func(r *jobs.Row) error {
		key := archive.KeyOf(r)
		if key == j.Identity() && r.Life().Same(mine) || r.Cores == nil || view.SizeClass(*r.Cores) != p.SizeClass {
			return nil
		}
		of := peer{user: r.User == j.User && j.User != "", queue: r.Queue == j.Queue && j.Queue != "", nodes: r.Nodes}
		if !v.May(archive.JobOf(r)) {
			of.hidden = cmp.Or(r.User, "nobody")
		}
		if of.user || of.queue {
			peers.Add(key, r.Life(), of)
		}
		return nil
	})
	if err != nil || len(peers) == 0 {
		return p, err
	}
	ranks, metrics := ranksOf(j), []string{}
	for i := range j.Metrics {
		metrics = append(metrics, j.Metrics[i].Name)
	}
	columns := []string{"job_id", "restart", "metric", "start", "end", "mean", "d1", "d5", "d9"}
	err = archive.EachTotalOf(ctx, dir, from, to, metrics, columns, func(t *totals.Total) error {
		of, is := peers.OfTotal(t)
		if !is || t.Metric == nil {
			return nil
		}
		ranks.count(t, of, types)
		return nil
	})
	ranks.dropFew()
	p.User, p.Queue = ranks.user, ranks.queue
	return p, err
}

// ranked are the ranks of a job among two groups, which have the same numbers in the same order.
type ranked struct {
	user, queue []view.Rank
	hidden      map[*view.Rank]map[string]int // jobs of each user that the viewer may not see
}

// dropFew empties the ranks among few hidden jobs.
func (r *ranked) dropFew() {
	for rank, of := range r.hidden {
		jobs := 0
		for _, n := range of {
			jobs += n
		}
		if jobs < fewestHidden || len(of) < fewestHiddenUsers {
			rank.All, rank.Below = 0, 0
		}
	}
}

// ranksOf returns the ranked numbers of a job, without peers yet.
func ranksOf(j *view.Job) *ranked {
	r := &ranked{hidden: map[*view.Rank]map[string]int{}}
	for i := range j.Metrics {
		m := &j.Metrics[i]
		if !m.Total.Known {
			continue
		}
		r.user = append(r.user, view.Rank{Metric: m.Name, Of: rankMedian, Value: m.Total.D[5]},
			view.Rank{Metric: m.Name, Of: rankSpread, Value: m.Total.D[9] - m.Total.D[1]})
		if m.Name == "cpu_idle" {
			r.user = append(r.user, view.Rank{Metric: m.Name, Of: rankBusy, Value: view.Busy(m.Total.Mean, j.Type)})
		}
	}
	r.queue = slices.Clone(r.user)
	return r
}

// count adds a peer's total of a metric.
func (r *ranked) count(t *totals.Total, of peer, types *nodetypes.Types) {
	for i := range r.user {
		rank := &r.user[i]
		if rank.Metric != *t.Metric {
			continue
		}
		var value float64
		switch {
		case rank.Of == rankMedian && t.D5 != nil:
			value = *t.D5
		case rank.Of == rankSpread && t.D9 != nil && t.D1 != nil:
			value = *t.D9 - *t.D1
		case rank.Of == rankBusy && t.Mean != nil:
			value = view.Busy(*t.Mean, types.Of(of.nodes))
		default:
			continue
		}
		for _, group := range []struct {
			is   bool
			rank *view.Rank
		}{{of.user, rank}, {of.queue, &r.queue[i]}} {
			if !group.is {
				continue
			}
			if of.hidden != "" {
				if r.hidden[group.rank] == nil {
					r.hidden[group.rank] = map[string]int{}
				}
				r.hidden[group.rank][of.hidden]++
			}
			group.rank.All++
			if value < rank.Value {
				group.rank.Below++
			}
		}
	}
}
