package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/totals"
)

// Ask says what of a job is loaded.
type Ask struct {
	Dir      string   // the archive; empty: sink.dir
	Topic    bool     // brokers are asked for what the archive does not have yet
	Metrics  []string // nil: those shown by default; AllMetrics: all
	From, To time.Time
	MaxBins  int   // 0: view.MaxBins
	Restart  int32 // -1: the last
}

// AllMetrics asks for every metric that there is.
const AllMetrics = "all"

var (
	// ErrNoJob is returned for a job that neither the archive nor the topics have.
	ErrNoJob = errors.New("no such job")
	// ErrNoInterval is returned, with the job, where no interval of a job is there yet.
	ErrNoInterval = errors.New("the job has no interval")
)

// Where returns which archive is read, and whether brokers are asked too. They are not for a directory that somebody
// names, and not where none is configured and the archive is there.
func Where(cfg config.Config, dir string) (archive string, topic bool) {
	if dir != "" {
		return dir, false
	}
	return cfg.Sink.Dir, len(cfg.Kafka.Brokers) > 0
}

// hourlyFrom is how many intervals a job has at least whose compacted dates are read by the hour.
const hourlyFrom = 20_000

// loader loads one life of a job.
type loader struct {
	cfg   config.Config
	ask   Ask
	set   *rules.Set
	types *rules.Types
	topic *reader // nil: no broker is asked

	job      *view.Job
	key      schemas.JobKey
	known    bool // whether a scheduler's record is there
	unsure   bool // which restart is meant: the last one that has rows
	start    *time.Time
	end      time.Time // now, if it runs
	hourly   bool
	totals   []totals.Total
	final    bool // the totals are there, and nothing is to come
	shown    map[string]bool
	reads    map[string]bool // metrics that rules name
	build    *view.Builder
	shares   map[string][]quantile.Summary
	watched  map[int64]*rules.Interval
	archived int    // rows of the archive
	recent   int    // summaries of the topic
	pair     *pair  // for a correlation, which wants nothing else
	looked   func() // is called once the end of the archive is known: a test writes more then
}

// Load returns a life of a job: the archive first, then the topic past its end. The metrics are those that are asked
// for, and without them those that a report shows.
func Load(ctx context.Context, cfg config.Config, set *rules.Set, jobID string, a Ask) (*view.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*readTimeout)
	defer cancel()
	l, err := newLoader(ctx, cfg, set, jobID, a)
	if err != nil {
		return nil, err
	}
	defer l.close()
	return l.load(ctx)
}

// newLoader returns a loader once a broker has answered, if brokers are asked. The caller closes it.
func newLoader(ctx context.Context, cfg config.Config, set *rules.Set, jobID string, a Ask) (*loader, error) {
	if a.Dir != "" {
		cfg.Sink.Dir = a.Dir
	}
	types, err := rules.NewTypes(cfg.Machine)
	if err != nil {
		return nil, err
	}
	if set == nil {
		set = &rules.Set{}
	}
	l := &loader{
		cfg: cfg, ask: a, set: set, types: types, key: schemas.JobKey{JobID: jobID}, job: &view.Job{},
		shares: map[string][]quantile.Summary{}, watched: map[int64]*rules.Interval{}, reads: map[string]bool{},
		looked: func() {},
	}
	for i := range set.Rules {
		for _, m := range set.Rules[i].Reads() {
			l.reads[m] = true
		}
	}
	if a.Topic {
		l.topic, err = open(ctx, cfg)
	}
	return l, err
}

func (l *loader) close() {
	if l.topic != nil {
		l.topic.close()
	}
}

func (l *loader) load(ctx context.Context) (*view.Job, error) {
	if err := l.lives(ctx); err != nil {
		return nil, err
	}
	from, err := l.positions()
	if err != nil {
		return nil, err
	}
	l.looked()
	if err := sink.Reading(ctx, l.cfg.Sink.Dir, func() error { return l.fromArchive(ctx) }); err != nil {
		return nil, err
	}
	if l.topic != nil {
		if err := l.fromTopic(ctx, from); err != nil {
			return nil, err
		}
	}
	if l.build == nil && !l.known {
		return nil, fmt.Errorf("%w: %s is not in %s; `weir jobs` lists those that are known", ErrNoJob, l.key.JobID,
			l.places())
	}
	j := l.job
	j.Type = l.types.Of(j.Nodes)
	if l.build == nil || !l.build.Into(j) {
		return j, fmt.Errorf("%w yet that was measured: %s is %s", ErrNoInterval, j.JobID,
			cmp.Or(strings.ToLower(j.State), "not known to the scheduler"))
	}
	if j.Start == nil || *j.Start <= 0 {
		j.Start = &j.FirstMs
	}
	j.From = l.source()
	l.merge()
	return j, l.judge(ctx)
}

// places names where a job was looked for.
func (l *loader) places() string {
	if l.topic == nil {
		return "the archive " + l.cfg.Sink.Dir
	}
	return fmt.Sprintf("the archive %s, topic %s%s or topic %[2]s%s", l.cfg.Sink.Dir, l.cfg.Prefix, schemas.TopicJobs,
		schemas.TopicJobSummary)
}

func (l *loader) source() string {
	switch {
	case l.recent == 0:
		return "archive"
	case l.archived == 0:
		return "topic"
	}
	return "archive and topic"
}

// fromArchive reads the totals, hours and rows of the archive. The caller holds its lock.
func (l *loader) fromArchive(ctx context.Context) error {
	dir := l.cfg.Sink.Dir
	if _, err := os.Stat(filepath.Dir(sink.DatePath(dir, ""))); err != nil {
		return nil //nolint:nilerr // there is no archive, or it is not seen from here
	}
	if err := l.findTotals(ctx); err != nil {
		return err
	}
	first, last := l.dates()
	q := archive.Query{First: first, Last: last, Job: l.key.JobID}
	long, err := l.isLong(ctx, q)
	if err != nil {
		return err
	}
	l.hourly = long
	hours := archive.Hours{Has: map[string]map[string]bool{}}
	if long { // only dates without rollups are read by the interval
		if hours, err = l.hours(ctx, first, last, nil); err != nil {
			return err
		}
		q.File = func(date, name string) bool {
			has, rolled := hours.Has[date]
			return !rolled || isSmall(name) && !has[name]
		}
	}
	x, err := archive.Open(ctx, dir, q)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := l.begin(x, hours); err != nil || l.build == nil {
		return err
	}
	if !long {
		if hours, err = l.hours(ctx, first, last, l.shown); err != nil {
			return err
		}
	}
	for i := range hours.Of {
		l.addHour(&hours.Of[i])
	}
	return x.Rows(ctx, l.key, func(w archive.Wanted) archive.Columns {
		switch {
		case l.shown[w.Metric] && !l.final && isSmall(w.File) && !hours.Has[w.Date][w.File]:
			return archive.Certified
		case l.shown[w.Metric] || l.reads[w.Metric]:
			return archive.Plain
		}
		return archive.Bare // other metrics tell which intervals there are
	}, func(rows []schemas.Row) error {
		for i := range rows {
			l.add(&rows[i])
		}
		l.archived += len(rows)
		return nil
	})
}

// isSmall reports whether a file is not compacted, by its name.
func isSmall(name string) bool {
	rest := strings.TrimSuffix(name, ".parquet")
	return !strings.HasPrefix(rest[strings.LastIndexByte(rest, '-')+1:], "c")
}

// dates returns the dates that are read. Those outside the picture are left out where no total is made of them.
func (l *loader) dates() (first, last string) {
	if l.known {
		first, last = archive.Dates([]archive.Life{{Restart: l.key.Restart, Start: l.start, End: l.end}}, time.Now())
	}
	if !l.ask.From.IsZero() && l.final {
		first = max(first, l.ask.From.UTC().Format(time.DateOnly))
	}
	if !l.ask.To.IsZero() && l.final {
		if to := l.ask.To.UTC().Format(time.DateOnly); last == "" || to < last {
			last = to
		}
	}
	return first, last
}

// isLong reports whether the picture would have too many intervals to read each of them.
func (l *loader) isLong(ctx context.Context, q archive.Query) (bool, error) {
	from, to := l.span()
	if l.pair != nil {
		return false, nil
	}
	if l.start != nil && to.Sub(from) < hourlyFrom*time.Second {
		return false, nil
	}
	if q.Last != "" {
		q.First = q.Last
	} else {
		q.First = max(q.First, l.end.Add(-36*time.Hour).UTC().Format(time.DateOnly))
	}
	x, err := archive.Open(ctx, l.cfg.Sink.Dir, q)
	if err != nil {
		return false, err
	}
	defer x.Close()
	_, _, intervalMs, err := x.Extent(l.key)
	if err != nil {
		return false, err
	}
	if intervalMs == 0 {
		intervalMs = l.cfg.Interval.Milliseconds()
	}
	return to.Sub(from).Milliseconds()/intervalMs > hourlyFrom, nil
}

// span returns what the picture shows: the life, or the part of it that is asked for. Without a start it is a year.
func (l *loader) span() (from, to time.Time) {
	from, to = l.end.AddDate(-1, 0, 0), l.end
	if l.start != nil {
		from = *l.start
	}
	if l.ask.From.After(from) {
		from = l.ask.From
	}
	if !l.ask.To.IsZero() && l.ask.To.Before(to) {
		to = l.ask.To
	}
	return from, to
}

// hours reads the rollups of the shown metrics; of all if shown is nil.
func (l *loader) hours(ctx context.Context, first, last string, shown map[string]bool) (archive.Hours, error) {
	return archive.HoursOf(ctx, l.cfg.Sink.Dir, first, last, l.key, func(m string) (rows, certified bool) {
		return shown == nil || shown[m], !l.hourly || !l.final
	})
}

// begin chooses the metrics that are shown, and how wide a bin is.
func (l *loader) begin(x *archive.Index, hours archive.Hours) error {
	if keys := x.Jobs(); l.unsure && len(keys) > 0 {
		l.key = keys[len(keys)-1]
		l.job.Restart = l.key.Restart
	}
	names := x.Metrics(l.key)
	firstMs, lastMs, intervalMs, err := x.Extent(l.key)
	if err != nil {
		return err
	}
	for i := range hours.Of {
		h := &hours.Of[i]
		if h.Metric != nil {
			names = append(names, *h.Metric)
		}
		if firstMs == 0 || h.Start < firstMs {
			firstMs = h.Start
		}
		lastMs = max(lastMs, h.End)
		if h.Intervals > 0 && intervalMs == 0 {
			intervalMs = (h.End - h.Start) / h.Intervals
		}
	}
	if lastMs == 0 {
		return nil
	}
	if l.hourly {
		intervalMs = time.Hour.Milliseconds()
	}
	l.choose(names)
	l.draw(firstMs, lastMs, intervalMs)
	return nil
}

// choose sets the metrics that are shown, of those that there are.
func (l *loader) choose(names []string) {
	l.shown = map[string]bool{}
	switch {
	case slices.Contains(l.ask.Metrics, AllMetrics):
	case len(l.ask.Metrics) > 0:
		names = l.ask.Metrics
	default:
		names = view.Shown(names)
	}
	for _, n := range names {
		l.shown[n] = true
	}
}

// draw makes the builder. The bins begin where the picture does, and are as narrow as there may be bins.
func (l *loader) draw(firstMs, lastMs, intervalMs int64) {
	lastMs = max(lastMs, min(l.end.UnixMilli(), lastMs+10*intervalMs)) // the topic goes on behind the archive
	var fromMs, toMs int64
	if !l.ask.From.IsZero() {
		fromMs = l.ask.From.UnixMilli()
		firstMs = max(firstMs, fromMs)
	}
	if !l.ask.To.IsZero() {
		toMs = l.ask.To.UnixMilli()
		lastMs = min(lastMs, toMs)
	}
	if l.hourly {
		firstMs -= firstMs % intervalMs
	}
	bins := int64(cmp.Or(l.ask.MaxBins, view.MaxBins))
	n := (lastMs - firstMs + intervalMs - 1) / max(1, intervalMs)
	l.build = view.NewBuilder(firstMs, max(1, intervalMs)*max(1, (n+bins-1)/bins), int(bins))
	l.build.Between(fromMs, toMs)
}

// sane reports whether a row is of an interval that may be: the archive is read as it is.
func sane(r *schemas.Row) bool {
	const far = 1 << 43 // the year 2248
	return r.IntervalMs > 0 && r.IntervalMs <= 366*24*3_600_000 && r.IntervalStart >= 0 && r.IntervalStart < far
}

// add takes a row of an interval.
func (l *loader) add(r *schemas.Row) {
	if !sane(r) {
		return
	}
	name := ""
	if r.Metric != nil {
		name = *r.Metric
	}
	if l.job.Cluster == "" {
		l.job.Cluster = r.Cluster
	}
	l.build.Row(r, l.shown[name])
	if l.pair != nil {
		l.pair.add(r, name)
		return
	}
	if c := r.Certified(); c != nil && l.shown[name] && !l.final && r.Count != nil {
		if s := summaryOf(*r.Count, c); s.Check() == nil {
			l.shares[name] = append(l.shares[name], s)
		}
	}
	if l.hourly || len(l.set.Rules) == 0 {
		return
	}
	iv := l.watched[r.IntervalStart]
	if iv == nil {
		iv = &rules.Interval{
			StartMs: r.IntervalStart, LengthMs: r.IntervalMs, Expected: r.NodesExpected, Reported: r.NodesReported,
		}
		l.watched[r.IntervalStart] = iv
	}
	if l.reads[name] {
		var one rules.Interval
		rules.FromRows([]schemas.Row{*r}, false, &one)
		iv.Metrics = append(iv.Metrics, one.Metrics...)
	}
}

func summaryOf(count int64, c *schemas.Certified) quantile.Summary {
	s := quantile.Summary{Count: count, Eps: c.Eps, Order: c.OrderStatistics}
	for _, k := range c.Knots {
		s.Knots = append(s.Knots, quantile.Knot(k))
	}
	for _, a := range c.Atoms {
		s.Atoms = append(s.Atoms, quantile.Atom(a))
	}
	return s
}

// addHour takes a rollup: for the picture of a long job, and its certified summary for the totals of any.
func (l *loader) addHour(h *compact.Rollup) {
	if h.Metric != nil && l.shown[*h.Metric] {
		if s, ok := h.Summary(); ok {
			l.shares[*h.Metric] = append(l.shares[*h.Metric], s)
		}
	}
	if !l.hourly {
		return
	}
	l.archived++
	if l.job.Cluster == "" {
		l.job.Cluster = h.Cluster
	}
	r := schemas.Row{
		IntervalStart: h.Hour, IntervalMs: h.End - h.Start, Metric: h.Metric, Unit: h.Unit, Scope: h.Scope,
		Count: &h.Count, Mean: h.Mean, RankError: h.RankError, Lo: h.Lo, Hi: h.Hi,
		D0: h.D0, D1: h.D1, D2: h.D2, D3: h.D3, D4: h.D4, D5: h.D5, D6: h.D6, D7: h.D7, D8: h.D8, D9: h.D9, D10: h.D10,
	}
	l.build.Hour(&r, view.Sums{
		StartMs: h.Start, EndMs: h.End, Intervals: h.Intervals, Measured: h.IntervalsMeasured,
		Expected: h.NodesExpectedSum, Reported: h.NodesReportedSum,
		Lows: nodeCounts(h.LowNodes, h.LowCounts), Highs: nodeCounts(h.HighNodes, h.HighCounts),
	}, h.Metric != nil && l.shown[*h.Metric])
}

func nodeCounts(nodes []string, counts []int64) (all []view.NodeCount) {
	for i := range min(len(nodes), len(counts)) {
		all = append(all, view.NodeCount{Node: nodes[i], Count: counts[i]})
	}
	return all
}
