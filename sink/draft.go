package sink

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// Memory of a row in a draft, in bytes: the row, the metric that it points into, and its deciles.
const (
	rowBytes         = 1038
	listBytes        = 120 // lo, hi or order_statistics
	certifiedBytes   = 80
	pairBytes        = 32 // a knot or an atom, in the metric and in the row
	undecodableBytes = 400
	maxReasonBytes   = 300
)

// quietPeriod is how long a draft without rows and undecodable records stays open. Its file only saves a later start
// from reading the same records again.
const quietPeriod = time.Hour

// unread is the position of a partition whose offsets are not known yet.
const unread = -1

// item is a record of the topic as the archive sees it: rows, or the reason why there are none, or a transaction
// marker. A record that is none of the three has no rows in this stream.
type item[R any] struct {
	offset int64
	marker bool
	rows   []R
	start  int64 // interval_start of all rows
	bytes  int64 // memory of the rows, an estimate
	// fold adds the record to the rows of a draft, in place of rows. state is what it keeps with them. It returns the
	// memory that is added.
	fold   func(rows []R, state *any) ([]R, int64)
	reason string // not empty: undecodable
	newer  bool   // undecodable because this program does not know the schema
	date   string // UTC, of the interval; of the broker's timestamp if there are no rows
}

// has reports whether there are rows.
func (it *item[R]) has() bool { return len(it.rows) > 0 || it.fold != nil }

// shortened returns the item with a reason of bounded length.
func (it item[R]) shortened() item[R] {
	it.reason = it.reason[:min(len(it.reason), maxReasonBytes)]
	return it
}

// decode makes an item of a record of job-summary.
func decode(cluster string, r *kgo.Record) item[schemas.Row] {
	it := item[schemas.Row]{offset: r.Offset}
	if r.Attrs.IsControl() {
		it.marker = true
		return it
	}
	record, err := schemas.Unmarshal(r.Value)
	summary, ok := record.(*schemas.JobSummary)
	switch {
	case err != nil:
		it.reason, it.newer = err.Error(), errors.Is(err, schemas.ErrUnknownSchema)
	case !ok:
		it.reason = fmt.Sprintf("a %T is not a JobSummary", record)
	case summary.Cluster != cluster:
		it.reason = fmt.Sprintf("of cluster %s, not %s", summary.Cluster, cluster)
	default:
		it.rows, it.start, it.date = summary.Rows(), summary.IntervalStart, dateOf(summary.IntervalStart)
		for i := range it.rows {
			it.bytes += memory(&it.rows[i])
		}
		return it
	}
	it.date = dateOf(r.Timestamp.UnixMilli())
	return it.shortened()
}

// dateOf returns the UTC date of a time in Unix milliseconds, or the first of 1970 for an impossible time.
func dateOf(ms int64) string {
	const year2100 = 4102444800000
	if ms < 0 || ms > year2100 {
		ms = 0
	}
	return time.UnixMilli(ms).UTC().Format(time.DateOnly)
}

// draft is the next file of one partition, in memory. It is pure: times are passed in, and the caller writes the file.
type draft[R any] struct {
	id       int32
	start    int64 // start of the file in the chain
	next     int64 // behind everything that was added
	previous string

	// date is the date of the first record that is not a marker, so it follows from start and the log alone. Two sinks
	// with the same start choose the same directory, and meet at link(2).
	date        string
	rows        []R
	folded      any   // what the items' fold keeps with the rows
	first, last int64 // interval_start of the rows
	undecodable []Undecodable
	badCount    int64
	bytes       int64     // estimate
	since       time.Time // when the first record came, or the first that is not a marker if there is one
}

func newDraft[R any](id int32, t tail) *draft[R] {
	return &draft[R]{id: id, start: t.next, next: t.next, previous: t.date}
}

// empty reports whether there is nothing to write. Markers alone make no file until they rest.
func (p *draft[R]) empty() bool { return p.date == "" }

// markersAlone reports whether the draft contains only markers, behind an earlier file.
func (p *draft[R]) markersAlone() bool { return p.empty() && p.previous != "" && p.start < p.next }

// rests reports whether the draft has contained only markers for so long that its position must be kept.
func (p *draft[R]) rests(now time.Time) bool {
	return p.markersAlone() && !now.Before(p.since.Add(quietPeriod))
}

// ends reports whether the file must end before the item. A file holds rows of one date only.
func (p *draft[R]) ends(it item[R]) bool {
	return !p.empty() && it.has() && it.date != p.date
}

// add adds an item. If the file ends before it, the caller must already have written the file.
func (p *draft[R]) add(it item[R], now time.Time) {
	if it.offset < p.next {
		return // added before
	}
	p.next = it.offset + 1
	if it.marker {
		if p.since.IsZero() {
			p.since = now
		}
		return
	}
	if p.empty() {
		p.date, p.since = it.date, now
	}
	if it.reason != "" {
		if p.badCount++; len(p.undecodable) < maxUndecodable {
			p.undecodable = append(p.undecodable, Undecodable{it.offset, it.reason})
			p.bytes += undecodableBytes
		}
		return
	}
	if !it.has() {
		return
	}
	if len(p.rows) == 0 {
		p.first, p.last = it.start, it.start
	}
	p.first, p.last = min(p.first, it.start), max(p.last, it.start)
	if it.fold != nil {
		rows, more := it.fold(p.rows, &p.folded)
		p.rows, p.bytes = rows, p.bytes+more
		return
	}
	p.rows = append(p.rows, it.rows...)
	p.bytes += it.bytes
}

func memory(r *schemas.Row) int64 {
	n := rowBytes
	if r.Lo != nil {
		n += 2 * listBytes
	}
	if r.Eps != nil {
		n += certifiedBytes + listBytes + pairBytes*(len(r.KnotValues)+len(r.AtomValues))
	}
	return int64(n)
}

// deadline returns the time at which the file has been open for a whole period. A file that holds only a position waits
// for longer.
func (p *draft[R]) deadline(period time.Duration) time.Time {
	if len(p.rows) == 0 && p.badCount == 0 {
		period = max(period, quietPeriod)
	}
	return p.since.Add(period)
}

// due reports whether the file must be written now.
func (p *draft[R]) due(now time.Time, period time.Duration) bool {
	return !p.empty() && !now.Before(p.deadline(period))
}

// footer describes the file as it would be written now.
func (p *draft[R]) footer(topic string) Footer {
	return Footer{
		Topic: topic, Partition: p.id, Start: p.start, Next: p.next, Rows: int64(len(p.rows)),
		FirstInterval: p.first, LastInterval: p.last,
		Undecodable: p.undecodable, UndecodableCount: p.badCount, PreviousDate: p.previous,
	}
}

// passMarker moves the position to the end of an empty log if a single offset lies between. No summary had it: behind a
// summary lies at least the marker of its transaction.
func (p *draft[R]) passMarker(logStart, logEnd int64) {
	if p.previous != "" && p.next+1 == logStart && logStart == logEnd {
		p.next = logEnd
	}
}

// place checks the position against the offsets of the topic, [logStart, logEnd). A chain that has not begun begins at
// logStart. same means that the topic is known to be the archived one: then nobody made it anew.
func (p *draft[R]) place(logStart, logEnd int64, same bool) error {
	begun := p.previous != "" || !p.empty()
	switch {
	case p.next == unread, p.next < logStart && !begun:
		p.start, p.next = logStart, logStart
	case p.next < logStart:
		return fmt.Errorf("%w: partition %d is archived up to %d, the topic begins at %d: nobody can tell any more "+
			"whether the %d offsets between were summaries, or only markers and records of aborted transactions; "+
			"accept the loss with `weir sink accept-gap %d`",
			errOvertaken, p.id, p.next, logStart, logStart-p.next, p.id)
	case p.next > logEnd && same:
		return fmt.Errorf("%w: partition %d is archived up to %d, and ends at %d: leave the archive as it is; "+
			"what is written up to there is not archived again", errEndLost, p.id, p.next, logEnd)
	case p.next > logEnd:
		return fmt.Errorf("%w: partition %d is archived up to %d, the topic ends at %d: "+
			"it was made anew, or is another cluster's; "+
			"choose another sink.dir, or move the old archive away", errBeyondEnd, p.id, p.next, logEnd)
	}
	return nil
}
