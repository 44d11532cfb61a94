package observations

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/analysis/topics"
)

// defaultDays is the number of days of an archive that are read if no first day is given.
const defaultDays = 30

// skewMetric is the distance of an agent's reading from the boundary, in microseconds.
const skewMetric = agentMetrics + "skew_us"

// Archive reads the table of the archive: a row for each complete interval of each life of a job. Pseudo-jobs
// are left out. If responses are asked for, jobs without any response are not read.
func Archive(ctx context.Context, a Ask) (t *selection.Table, err error) {
	a.defaults()
	err = sink.Reading(ctx, a.Dir, func() error {
		t, err = a.archived(sink.UnderLock(ctx))
		return err
	})
	return t, err
}

func (a *Ask) defaults() {
	if a.Statistics == nil {
		a.Statistics = Statistics()
	}
}

// archived reads the archive. The caller holds its lock.
func (a *Ask) archived(ctx context.Context) (*selection.Table, error) {
	last, err := archive.LastDate(a.Dir)
	if err != nil {
		return nil, err
	}
	if last == "" {
		return nil, fmt.Errorf("%w: %s has no summaries: the archive is named by sink.dir or --dir", errNoRows, a.Dir)
	}
	if a.From.IsZero() {
		if end, err := time.Parse(time.DateOnly, last); err == nil {
			a.From = end.AddDate(0, 0, 1-defaultDays)
		}
	}
	q := archive.Query{First: a.From.UTC().Format(time.DateOnly)}
	if !a.To.IsZero() {
		q.Last = a.To.UTC().Format(time.DateOnly)
	}
	lives, err := a.chosen(ctx, func(fn func(*schemas.Job)) error {
		return archive.EachJob(ctx, a.Dir, q.First, "", func(r *jobs.Row) error { fn(archivedJob(r)); return nil })
	})
	if err != nil {
		return nil, err
	}
	if q.Jobs = lives; len(a.Jobs.IDs) == 1 {
		q.Job = a.Jobs.IDs[0]
	}
	a.report("looking for jobs in the archive %s since %s", a.Dir, q.First)
	x, err := archive.Open(ctx, a.Dir, q)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	o := observe(a)
	keys := slices.DeleteFunc(x.Jobs(), func(k schemas.JobKey) bool { return !a.reads(x, k) })
	if len(keys) == 0 && len(a.Responses) > 0 && len(x.Jobs()) > 0 {
		return nil, fmt.Errorf("%w: no job has metric %.80q since %s: did a job report it? `weir job ID --metrics "+
			"all` "+
			"shows the metrics of a job", errResponse, a.Responses[0], q.First)
	}
	for i, key := range keys {
		a.report("job %s/%d: %d of %d jobs, %d intervals", key.JobID, key.Restart, i+1, len(keys), len(o.rows))
		if err := o.life(ctx, x, key); err != nil {
			return nil, err
		}
	}
	return o.table()
}

// reads reports whether a life of a job is read: with responses, it must have one.
func (a *Ask) reads(x *archive.Index, key schemas.JobKey) bool {
	if !a.Jobs.takes(key.JobID) {
		return false
	}
	if len(a.Responses)+len(a.Given) == 0 {
		return true
	}
	names := x.Metrics(key)
	if slices.ContainsFunc(a.Responses, func(r string) bool { return slices.Contains(names, r) }) {
		return true
	}
	return a.gives(key.JobID, key.Restart)
}

// gives reports whether a file of responses contains values of a life.
func (a *Ask) gives(job string, restart int32) bool {
	is := unitName(job, restart, "")
	return slices.ContainsFunc(a.Given, func(g Given) bool {
		return slices.ContainsFunc(g.Values, func(v selection.ResponseValue) bool {
			return v.JobID == job && selection.UnitName(v.JobID, v.Restart, "") == is
		})
	})
}

func unitName(job string, restart int32, node string) string {
	return selection.UnitName(job, strconv.Itoa(int(restart)), node)
}

// life reads the rows of a life of a job.
func (o *observations) life(ctx context.Context, x *archive.Index, key schemas.JobKey) error {
	name := unitName(key.JobID, key.Restart, "")
	unit := o.unit(name)
	from, to := o.ask.bounds()
	return x.Rows(ctx, key, func(w archive.Wanted) archive.Columns {
		if strings.HasPrefix(w.Metric, agentMetrics) && w.Metric != skewMetric {
			return archive.None
		}
		return archive.Numbers
	}, func(rows []schemas.Row) error {
		for i := range rows {
			r := &rows[i]
			if !archive.Sane(r) || r.IntervalStart < from || r.IntervalStart >= to {
				continue
			}
			o.archivedRow(name, unit, r)
		}
		o.bound()
		return nil
	})
}

// archivedRow takes a metric of an interval.
func (o *observations) archivedRow(name string, unit int32, r *schemas.Row) {
	if archive.MetricOf(r) == skewMetric {
		if worst := r.D10; worst != nil && late(*worst/1000, r.IntervalMs) {
			o.torn[tornKey{name, r.IntervalStart + r.IntervalMs}] = true
		}
		return
	}
	row, is := o.row(unit, r.IntervalStart, r.IntervalMs)
	if !is {
		return
	}
	if r.NodesReported < r.NodesExpected || r.PartsReported < r.Parts {
		o.partial[o.rows[row].rowKey] = true
	}
	if r.Metric == nil || r.Count == nil || *r.Count <= 0 {
		return
	}
	if r.Nodes != nil && *r.Nodes < r.NodesReported {
		o.sampled[*r.Metric]++
	}
	o.metric(row, *r.Metric, r.Nodes, r.Mean, r.D0, r.D5, r.D10)
}

// late reports whether a reading so many milliseconds from its boundary is torn from its interval.
func late(ms float64, intervalMs int64) bool { return math.Abs(ms) > float64(intervalMs)/10 }

// responseStatistics are the statistics of a metric that is a response.
var responseStatistics = []string{"mean"}

// metric sets the requested statistics of a metric.
func (o *observations) metric(row int32, name string, nodes *int32, mean, d0, d5, d10 *float64) {
	statistics := o.ask.Statistics
	if slices.Contains(o.ask.Responses, name) {
		statistics = responseStatistics
	}
	for _, s := range statistics {
		var v *float64
		switch s {
		case "mean":
			v = mean
		case "d0":
			v = d0
		case "d5":
			v = d5
		case "d10":
			v = d10
		case statisticNodes:
			if nodes != nil {
				o.set(row, name, s, float64(*nodes))
			}
		}
		if v != nil {
			o.set(row, name, s, *v)
		}
	}
}

// Counters reads the table of the topic counters: a row for each interval of each node of a job. It goes as far
// back as the topic does. Pseudo-jobs are left out.
func Counters(ctx context.Context, cfg config.Config, a Ask) (*selection.Table, error) {
	a.defaults()
	r, err := topics.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	lives, err := a.chosen(ctx, func(fn func(*schemas.Job)) error {
		known, err := r.Jobs(ctx)
		for _, j := range known {
			fn(j)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	o := observe(&a)
	from, to := a.bounds()
	records := 0
	err = r.Since(ctx, cfg.Prefix+schemas.TopicCounters, a.From, func(record *kgo.Record) error {
		if records++; records%1000 == 0 {
			a.report("%d records of topic %s%s, %d rows", records, cfg.Prefix, schemas.TopicCounters, len(o.rows))
		}
		v, err := schemas.Unmarshal(record.Value)
		if err != nil {
			return nil //nolint:nilerr // `weir tail` shows it
		}
		wanted := func(h *schemas.NodeHeader) bool {
			return a.Jobs.takes(h.JobID) && (lives == nil || lives[h.Job()]) && h.IntervalMs > 0 &&
				h.IntervalStart >= from && h.IntervalStart < to
		}
		switch b := v.(type) {
		case *schemas.CounterBatch:
			if wanted(&b.NodeHeader) {
				o.batch(b)
			}
		case *schemas.NodeSummary:
			if wanted(&b.NodeHeader) {
				o.reduced(b)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.answered()
	return o.table()
}

// node returns the row of a record of a node.
func (o *observations) node(h *schemas.NodeHeader) (int32, bool) {
	name := unitName(h.JobID, h.Restart, h.Node)
	end := h.IntervalStart + h.IntervalMs
	if h.SampledAt > 0 && late(float64(h.SampledAt)/1000-float64(end), h.IntervalMs) {
		o.torn[tornKey{strings.Clone(name), end}] = true
	}
	if _, known := o.units[name]; !known {
		name = strings.Clone(name)
	}
	return o.row(o.unit(name), h.IntervalStart, h.IntervalMs)
}

// batch adds the values that a node measured for a job.
func (o *observations) batch(b *schemas.CounterBatch) {
	row, is := o.node(&b.NodeHeader)
	if !is {
		return
	}
	one := int32(1)
	var values []float64
	for i := range b.Metrics {
		m := &b.Metrics[i]
		values = values[:0]
		sum := 0.0
		for _, v := range m.Values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				values = append(values, v)
				sum += v
			}
		}
		if len(values) == 0 || strings.HasPrefix(m.Name, agentMetrics) {
			continue
		}
		slices.Sort(values)
		n := len(values)
		mean := sum / float64(n)
		o.metric(row, m.Name, &one, &mean, &values[0], &values[(n-1)/2], &values[n-1])
	}
	o.bound()
}

// reduced takes a job that its node reduced.
func (o *observations) reduced(s *schemas.NodeSummary) {
	row, is := o.node(&s.NodeHeader)
	if !is {
		return
	}
	one := int32(1)
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if strings.HasPrefix(m.Name, agentMetrics) || m.Count <= 0 {
			continue
		}
		var d [3]*float64
		if m.Deciles != nil && len(*m.Deciles) == 11 {
			d = [3]*float64{&(*m.Deciles)[0], &(*m.Deciles)[5], &(*m.Deciles)[10]}
		}
		o.metric(row, m.Name, &one, m.Mean, d[0], d[1], d[2])
	}
	o.bound()
}

// answered drops the rows of lives without a response, if any response is asked for.
func (o *observations) answered() {
	if len(o.ask.Responses)+len(o.ask.Given) == 0 {
		return
	}
	has := map[string]bool{} // lives
	life := func(i int) string {
		name, _, _ := strings.Cut(o.names[o.rows[i].unit], " ")
		return name
	}
	for _, name := range o.ask.Responses {
		for i, c := 0, o.columns[columnKey{name, responseStatistics[0]}]; c != nil && i < len(c.values); i++ {
			if !math.IsNaN(c.values[i]) {
				has[life(i)] = true
			}
		}
	}
	for _, g := range o.ask.Given {
		for _, v := range g.Values {
			has[selection.UnitName(v.JobID, v.Restart, "")] = true
		}
	}
	var kept []int
	for i := range o.rows {
		if has[life(i)] {
			kept = append(kept, i)
		}
	}
	o.keep(kept)
}
