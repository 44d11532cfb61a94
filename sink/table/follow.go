package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

const (
	minPause    = time.Second      // between two tries to read the topic
	assignLimit = 10 * time.Second // for the brokers to describe the topic
	drainLimit  = 3 * time.Second  // for the rest of the topic, at the end
	endWait     = 2 * time.Second  // for readers, at the end
	lookEvery   = 10 * time.Second // between looks at the topic's id
)

// mostPending is how many rows wait for a period. At a start there may be days of them.
const mostPending = 50_000

// anewAfter is when rows that were left out are read again, though the file of their date did not change.
const anewAfter = time.Hour

var (
	// errReplaced ends the reading of a topic that was made anew.
	errReplaced = errors.New("the topic was made anew")
	// errAnew ends the reading of a topic, to read it again for rows that were left out.
	errAnew = errors.New("rows that were left out are read again")
)

// Follower keeps a table of the archive up to date with a compacted topic: one goroutine. It reads the topic from its
// beginning at each start, and so never loses a row that is still in the topic.
type Follower[R any] struct {
	Config config.Config
	Log    *slog.Logger
	Topic  string // with its prefix
	// Row returns the row of a record at an offset. It is not ok for a record of which the archive keeps nothing.
	Row func(r schemas.Record, offset int64) (row R, ok bool, err error)
	// Write is Store.Write.
	Write func(
		ctx context.Context, wait time.Duration, topicID string, rows map[Key]R,
	) (bad map[string]error, err error)

	Period   time.Duration // between two writes
	Wait     time.Duration // for readers
	Patience time.Duration // for the rest of the topic, at the end
	Look     time.Duration // between looks at the topic's id

	table   *Table[R]
	metrics *Metrics
	brokers *kafka.Brokers
	topicID string
	next    int64 // the next offset to read
	// pending holds, as a row, the newest record of each key that is not known to be in the archive.
	pending map[Key]R
	due     time.Time // when pending is written; zero if it is empty
	stuck   bool      // the last write left pending as it was
	asked   time.Time // when the topic's id was last looked at

	// left lists the dates with an unusable file. Their rows are not kept in memory: they are still in the topic.
	left map[string]leftOut

	reading, writing retry.Trouble
	told             map[string]bool // faults of files already logged
}

// leftOut is a date that is left out, because its file cannot be used.
type leftOut struct {
	rows  int
	file  fs.FileInfo // as it could not be used; nil if that is not known
	since time.Time
}

// NewFollower returns a Follower with the pauses of a service. row returns the row of a record at an offset; false for
// a record of which the archive keeps nothing.
func NewFollower[T schemas.Record, R any](cfg config.Config, log *slog.Logger, metrics *Metrics, topic string,
	table *Table[R], row func(record T, offset int64) (R, bool),
) *Follower[R] {
	topic = cfg.Prefix + topic
	return &Follower[R]{
		Config: cfg, Log: log.With("topic", topic, "table", table.Name), Topic: topic, table: table, metrics: metrics,
		Period: cfg.FilePeriod(), Wait: lockWait, Patience: drainLimit, Look: lookEvery,
		Write: table.In(cfg.Sink.Dir, topic).Write,
		Row: func(r schemas.Record, offset int64) (none R, ok bool, err error) {
			record, is := r.(T)
			if !is {
				return none, false, fmt.Errorf("%w: a %T does not belong here", schemas.ErrInvalid, r)
			}
			none, ok = row(record, offset)
			return none, ok, nil
		},
		// The sink of summaries logs that brokers are away.
		brokers: kafka.NewBrokers(slog.New(slog.DiscardHandler)),
		pending: map[Key]R{}, left: map[string]leftOut{}, told: map[string]bool{},
	}
}

// Run keeps the table until ctx ends. Then it reads to the topic's end, for at most Patience, and writes the rest.
// Nothing ends it before. It logs trouble and goes on. Several may share a directory.
func (f *Follower[R]) Run(ctx context.Context) {
	// A row may be moving to another date since a sink was killed.
	if err := (Dated{Dir: f.Config.Sink.Dir, Name: f.table.Name}).mend(ctx, f.Wait); err != nil && ctx.Err() == nil {
		f.writing.Worth(err, time.Now())
		f.Log.Warn("cannot write rows to the archive, trying again", "err", err)
	}
	for tries := 1; ctx.Err() == nil; tries++ {
		began := time.Now()
		err := f.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > time.Minute {
			tries = 1
			f.reading.Over()
		}
		switch {
		case errors.Is(err, errReplaced):
			f.Log.Info("a topic was made anew, reading it from the beginning")
		case errors.Is(err, errAnew):
			f.Log.Info("rows of a date were left out, reading the topic again for them")
		case !f.brokers.Away() && f.reading.Worth(err, time.Now()):
			f.Log.Warn("cannot read a topic of the archive, trying again", "err", kafka.Explain(f.Config.Kafka, err))
		}
		f.flush(ctx, time.Now()) // the brokers may stay away, and the topic may be gone
		retry.Pause(ctx, max(minPause, retry.Backoff(tries, f.Config.BackoffCap)))
	}
	f.finish(context.WithoutCancel(ctx))
}

// follow reads the topic from its beginning until ctx ends or something fails.
func (f *Follower[R]) follow(ctx context.Context) error {
	f.next = 0
	cl, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		if err := f.step(ctx, cl); err != nil {
			return err
		}
		now := time.Now()
		if now.Sub(f.asked) >= f.Look {
			if err := f.identify(ctx, cl); err != nil {
				return err
			}
		}
		f.flush(ctx, now)
		if f.isAnew(now) {
			return errAnew
		}
	}
	return nil
}

// isAnew reports whether rows that were left out are to be read again, and forgets them then. That is so if the file of
// their date is another one, or gone, or if an hour is over.
func (f *Follower[R]) isAnew(now time.Time) bool {
	anew := false
	for date, l := range f.left {
		info, err := os.Stat(f.path(date))
		same := err == nil && l.file != nil && sameFile(info, l.file) || err != nil && l.file == nil
		if !same || now.Sub(l.since) >= anewAfter {
			delete(f.left, date)
			f.next, anew = 0, true
		}
	}
	return anew
}

func (f *Follower[R]) path(date string) string {
	return f.table.Path(f.Config.Sink.Dir, date)
}

// sameFile reports whether a file and its rights stayed unchanged between two looks.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && changed(a).Equal(changed(b))
}

// changed returns when a file, its name or its rights were last changed.
func changed(file fs.FileInfo) time.Time {
	if stat, is := file.Sys().(*syscall.Stat_t); is {
		return time.Unix(stat.Ctim.Unix())
	}
	return file.ModTime()
}

// step takes the records of one poll. If the archive cannot be written, and too many rows wait, it polls nothing: the
// topic keeps the records.
func (f *Follower[R]) step(ctx context.Context, cl *kgo.Client) error {
	wait := time.Second
	if f.stuck && len(f.pending) >= mostPending {
		retry.Pause(ctx, wait)
		return nil
	}
	if !f.due.IsZero() {
		wait = min(wait, max(time.Until(f.due), time.Millisecond))
	}
	timed, cancel := context.WithTimeout(ctx, wait)
	fetches := cl.PollFetches(timed)
	cancel()
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return fmt.Errorf("reading %s: %w", f.Topic, e.Err)
		}
	}
	for r := range fetches.RecordsAll() {
		f.take(r)
	}
	f.count()
	return nil
}

// count counts the rows that are not known to be in the archive.
func (f *Follower[R]) count() int {
	rows := len(f.pending)
	for _, l := range f.left {
		rows += l.rows
	}
	f.metrics.pending.Set(float64(rows))
	return rows
}

// take remembers the row of a record. A tombstone is no change: the archive keeps the row.
func (f *Follower[R]) take(r *kgo.Record) {
	f.next = r.Offset + 1
	if r.Attrs.IsControl() || r.Value == nil {
		return
	}
	var row R
	ok := false
	record, err := schemas.Unmarshal(r.Value)
	if err == nil {
		row, ok, err = f.Row(record, r.Offset)
	}
	if err != nil {
		if f.reading.Worth(err, time.Now()) {
			f.Log.Warn("record cannot be used, going on behind it", "offset", r.Offset, "err", err)
		}
		return
	}
	if !ok {
		return
	}
	k := f.table.Key(&row)
	if old, has := f.pending[k]; has && *f.table.Position(&old) >= *f.table.Position(&row) {
		return
	}
	f.pending[k] = row
	if f.due.IsZero() {
		f.due = time.Now().Add(f.Period)
	}
}

// flush writes the pending rows if they are due or too many. If that fails, it tries again a period later.
func (f *Follower[R]) flush(ctx context.Context, now time.Time) {
	full := len(f.pending) >= mostPending && !f.stuck
	if f.due.IsZero() || now.Before(f.due) && !full {
		return
	}
	bad, err := f.Write(ctx, f.Wait, f.topicID, f.pending)
	if ctx.Err() != nil {
		return // it is tried once more at the end
	}
	f.due, f.stuck = time.Now().Add(f.Period), err != nil
	if err != nil {
		f.metrics.failures.Inc()
		if f.writing.Worth(err, now) {
			f.Log.Warn("cannot write rows to the archive, trying again", "err", err)
		}
		return
	}
	if f.writing.Over() {
		f.Log.Info("rows are archived again")
	}
	for _, date := range slices.Sorted(maps.Keys(bad)) {
		f.metrics.failures.Inc()
		if text := bad[date].Error(); !f.told[text] {
			f.told[text] = true
			f.Log.Warn("a file of the archive cannot be used, its date stays as it is", "date", date, "err", bad[date])
		}
	}
	f.leaveOut(bad, now)
	clear(f.pending)
	f.due = time.Time{}
	f.count()
}

// leaveOut notes which dates are left as they are, and how many pending rows each has. Such a file may also contain
// rows with newer versions elsewhere. They have to go once the file is usable again, so the topic is read again for
// them, too.
func (f *Follower[R]) leaveOut(bad map[string]error, now time.Time) {
	rows := map[string]int{}
	if len(bad) > 0 {
		for _, row := range f.pending {
			rows[f.table.Date(&row)]++
		}
	}
	for date := range bad {
		l, has := f.left[date]
		if !has {
			l.since = now
			// A file that changed just now may be sound already.
			if info, err := os.Stat(f.path(date)); err == nil && changed(info).Before(now.Add(-time.Second)) {
				l.file = info
			}
		}
		l.rows += rows[date]
		f.left[date] = l
	}
}

// writeNow writes the pending rows, due or not.
func (f *Follower[R]) writeNow(ctx context.Context) {
	if len(f.pending) > 0 {
		f.due = time.Now()
		f.flush(ctx, f.due)
	}
}

// finish reads the rest of the topic as far as the brokers answer, and writes the pending rows.
func (f *Follower[R]) finish(ctx context.Context) {
	timed, cancel := context.WithTimeout(ctx, f.Patience)
	err := f.drain(timed)
	cancel()
	f.Wait = endWait
	f.writeNow(ctx)
	switch {
	case err != nil:
		f.Log.Warn("ended before the end of the topic, the rest is read at the next start", "err", err)
	case len(f.pending) > 0 || len(f.left) > 0:
		f.Log.Warn("ended before all rows are archived, they are read again at the next start", "rows", len(f.pending))
	}
}

// drain reads the topic up to its present end.
func (f *Follower[R]) drain(ctx context.Context) error {
	if f.brokers.Away() {
		return errors.New("the brokers are away")
	}
	cl, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	_, end, err := f.bounds(ctx, cl)
	if err != nil {
		return err
	}
	for f.next < end {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := f.step(ctx, cl); err != nil {
			return err
		}
	}
	return nil
}
