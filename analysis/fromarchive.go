package analysis

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/table"

	"github.com/weirhpc/weir/report/view"
)

// fromArchive reads the totals, hours and rows of the archive. The caller holds its lock.
func (l *loader) fromArchive(ctx context.Context) error {
	dir := l.cfg.Sink.Dir
	if _, err := os.Stat(filepath.Dir(sink.DatePath(dir, ""))); err != nil {
		return nil // there is no archive, or this machine does not see it
	}
	if err := l.findTotals(ctx); err != nil {
		return err
	}
	first, last := l.dates()
	q := archive.Query{First: first, Last: last, Job: l.key.JobID}
	if err := l.size(ctx, q); err != nil {
		return err
	}
	hours := archive.Hours{Has: map[string]map[string]bool{}}
	if l.long {
		var err error
		if hours, err = l.hours(ctx, first, last, nil); err != nil {
			return err
		}
		l.placed = l.lastOfPeak(&hours)
		q.File = func(date, name string) bool {
			return !l.rolled(&hours, date, name) || !l.unwatched && l.inPart(date) || date == l.placed
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
	if !l.long {
		if hours, err = l.hours(ctx, first, last, l.shown); err != nil {
			return err
		}
	}
	for i := range hours.Of {
		l.addHour(&hours.Of[i])
	}
	if err := l.watchRolled(ctx, x, &hours); err != nil {
		return err
	}
	if err := l.readPlaces(ctx, x, &hours); err != nil {
		return err
	}
	return l.rows(ctx, x, &hours)
}

// rows reads the intervals that are not read by the hour.
func (l *loader) rows(ctx context.Context, x *archive.Index, hours *archive.Hours) error {
	return l.eachRow(ctx, x, func(w archive.Wanted) archive.Columns {
		switch {
		case l.rolled(hours, w.Date, w.File):
			return archive.None
		case l.shown[w.Metric] && !l.final && archive.IsSmall(w.File) && !hours.Has[w.Date][w.File]:
			return archive.Certified
		case l.shown[w.Metric] || (l.reads[w.Metric] || l.tabled(w.Metric)) && l.inPart(w.Date):
			return archive.Plain
		}
		return archive.Bare // other metrics only show which intervals exist
	}, func(r *schemas.Row, metric string) {
		l.add(r, metric)
		l.archived++
	})
}

// eachRow hands the rows of the life on, with the columns that want chooses. Implausible rows and rows of namesakes are
// left out.
func (l *loader) eachRow(ctx context.Context, x *archive.Index, want func(archive.Wanted) archive.Columns,
	fn func(r *schemas.Row, metric string),
) error {
	return x.Rows(ctx, l.key, want, func(rows []schemas.Row) error {
		for i := range rows {
			if r := &rows[i]; archive.Sane(r) && l.span.has(r.IntervalStart) {
				fn(r, archive.MetricOf(r))
			}
		}
		return nil
	})
}

// watchRolled reads the intervals of the requested part that the picture draws from rollups, since rules need
// intervals.
func (l *loader) watchRolled(ctx context.Context, x *archive.Index, hours *archive.Hours) error {
	if l.watcher == nil || l.unwatched {
		return nil
	}
	return l.eachRow(ctx, x, func(w archive.Wanted) archive.Columns {
		switch {
		case !l.rolled(hours, w.Date, w.File) || !l.inPart(w.Date):
			return archive.None
		case l.reads[w.Metric] || l.tabled(w.Metric):
			return archive.Plain
		}
		return archive.Bare
	}, func(r *schemas.Row, metric string) {
		if len(l.job.Nodes) > 1 { // of one node the hours are known
			l.nodeRow(r, metric)
		}
		l.watchRow(r, metric)
		if l.shown[metric] {
			l.build.Places(r)
		}
	})
}

// lastOfPeak returns the last date of the requested part with values of a share of peak, if no rule reads its
// intervals. Its rows give the number of nodes of these values.
func (l *loader) lastOfPeak(hours *archive.Hours) (last string) {
	if !l.hourly || !l.unwatched && len(l.set.Rules) > 0 {
		return ""
	}
	for i := range hours.Of {
		h := &hours.Of[i]
		if date := archive.DateAt(h.Hour); h.Metric != nil && view.OfPeak(*h.Metric) && h.Count > 0 && l.inPart(date) {
			last = max(last, date)
		}
	}
	return last
}

// readPlaces reads the number of nodes of the values of a date. Rollups lack it, and a report needs it for shares of a
// node's peak.
func (l *loader) readPlaces(ctx context.Context, x *archive.Index, hours *archive.Hours) error {
	if l.placed == "" {
		return nil
	}
	return l.eachRow(ctx, x, func(w archive.Wanted) archive.Columns {
		if w.Date == l.placed && l.rolled(hours, w.Date, w.File) && l.shown[w.Metric] && view.OfPeak(w.Metric) {
			return archive.Places
		}
		return archive.None
	}, func(r *schemas.Row, _ string) { l.build.Places(r) })
}

// rolled reports whether a rollup stands for the rows of a file.
func (l *loader) rolled(hours *archive.Hours, date, name string) bool {
	has, is := hours.Has[date]
	return is && l.byHour(date) && (!archive.IsSmall(name) || has[name])
}

// byHour reports whether the rollups of a date are read in place of its intervals, if there are any. This applies if
// the life is too long to read all of its intervals. Intervals of the requested part are still read, unless the part is
// too long too.
func (l *loader) byHour(date string) bool { return l.long && (l.hourly || !l.inPart(date)) }

// inPart reports whether a date contains requested intervals.
func (l *loader) inPart(date string) bool {
	return (l.ask.From.IsZero() || date >= l.ask.From.UTC().Format(time.DateOnly)) &&
		(l.ask.To.IsZero() || date <= l.ask.To.UTC().Format(time.DateOnly))
}

// dates returns the first and the last date to read. Dates outside the picture are left out if no total is made of
// them.
func (l *loader) dates() (first, last string) {
	if l.record != nil {
		first, last = archive.Dates([]table.Life{l.record.when()}, time.Now())
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

// size decides whether the life and its requested part hold too many intervals to read each of them.
func (l *loader) size(ctx context.Context, q archive.Query) error {
	from, to := l.start, l.end
	if from.IsZero() {
		from = to.AddDate(-1, 0, 0) // a year at most, as far as its rows go
	}
	if l.pair != nil || !l.start.IsZero() && to.Sub(from) < hourlyFrom*time.Second {
		return nil
	}
	switch {
	case l.start.IsZero(): // its rows alone show when it began
	case q.Last != "":
		q.First = q.Last
	default:
		q.First = max(q.First, l.end.Add(-36*time.Hour).UTC().Format(time.DateOnly))
	}
	x, err := archive.Open(ctx, l.cfg.Sink.Dir, q)
	if err != nil {
		return err
	}
	defer x.Close()
	l.newest(x)
	firstMs, lastMs, intervalMs, err := l.extent(x)
	if err != nil {
		return err
	}
	if first := time.UnixMilli(firstMs); l.start.IsZero() && firstMs > 0 && first.After(from) {
		from = first
	}
	if last := time.UnixMilli(lastMs); l.record == nil && lastMs > 0 && last.Before(to) {
		to = last // no scheduler reports it as running
	}
	if intervalMs == 0 {
		intervalMs = l.cfg.Interval.Milliseconds()
	}
	l.long = to.Sub(from).Milliseconds()/intervalMs > hourlyFrom
	if l.ask.From.After(from) {
		from = l.ask.From
	}
	if !l.ask.To.IsZero() && l.ask.To.Before(to) {
		to = l.ask.To
	}
	part := to.Sub(from).Milliseconds() / intervalMs
	atOnce := min(part, dayMs/intervalMs) // intervals of one date are held in memory
	l.hourly, l.unwatched = part > hourlyFrom, part > l.mostRules || atOnce > hourlyFrom
	return nil
}

// hours reads the rollups of the shown metrics; of all if shown is nil.
func (l *loader) hours(ctx context.Context, first, last string, shown map[string]bool) (archive.Hours, error) {
	return archive.HoursOf(ctx, l.cfg.Sink.Dir, first, last, l.key, func(m string) (rows, certified bool) {
		return shown == nil || shown[m], !l.hourly || !l.final
	})
}

// begin chooses the metrics that are shown, and how wide a bin is.
func (l *loader) begin(x *archive.Index, hours archive.Hours) error {
	l.newest(x)
	names := x.Metrics(l.key)
	firstMs, lastMs, intervalMs, err := l.extent(x)
	if err != nil {
		return err
	}
	for i := range hours.Of {
		h := &hours.Of[i]
		if !l.span.has(h.Start) {
			continue
		}
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
	l.show(names)
	l.draw(firstMs, lastMs, intervalMs)
	return nil
}

// extent returns when the life's first interval begins, when its last interval ends, and the length of an interval. If
// a namesake shares a date, the intervals of this date may all belong to the namesake.
func (l *loader) extent(x *archive.Index) (firstMs, lastMs, intervalMs int64, err error) {
	firstMs, lastMs, intervalMs, err = x.Extent(l.key)
	if firstMs, lastMs = max(firstMs, l.span.from), min(lastMs, l.span.to); firstMs >= lastMs {
		return 0, 0, 0, err
	}
	return firstMs, lastMs, intervalMs, err
}

// newest chooses the last restart with rows, if the user names none.
func (l *loader) newest(x *archive.Index) {
	if keys := x.Jobs(); l.unsure && len(keys) > 0 && keys[len(keys)-1].Restart > l.key.Restart {
		l.key = keys[len(keys)-1]
		l.job.Restart = l.key.Restart
	}
}
