package analysis

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// fromArchive reads the totals, hours and rows of the archive. The caller holds its lock.
func (l *loader) fromArchive(ctx context.Context) error {
	dir := l.cfg.Sink.Dir
	if _, err := os.Stat(filepath.Dir(sink.DatePath(dir, ""))); err != nil {
		return nil // there is no archive, or it is not seen from here
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
	switch {
	case l.start == nil: // its rows alone tell when it began
	case q.Last != "":
		q.First = q.Last
	default:
		q.First = max(q.First, l.end.Add(-36*time.Hour).UTC().Format(time.DateOnly))
	}
	x, err := archive.Open(ctx, l.cfg.Sink.Dir, q)
	if err != nil {
		return false, err
	}
	defer x.Close()
	firstMs, _, intervalMs, err := x.Extent(l.key)
	if err != nil {
		return false, err
	}
	if first := time.UnixMilli(firstMs); l.start == nil && firstMs > 0 && first.After(from) {
		from = first
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
