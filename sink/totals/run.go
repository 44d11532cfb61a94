package totals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/table"
)

var (
	// errBusy is returned while another run makes totals of this archive.
	errBusy = errors.New("another run makes totals")
	// errFailed is returned when the totals of a date could not be made.
	errFailed = errors.New("not all totals were made")
)

// Options select the totals to make, and configure the run.
type Options struct {
	Dir, Topic string
	Dates      []string // of jobs' ends; empty: all
	// Frontier is called once, with the positions of the archive, and then decides which jobs are final.
	Frontier func(context.Context, Archived) (Frontier, error)
	Interim  bool          // also totals of jobs that ended and are not final
	Wait     time.Duration // for readers to let go of the archive
	// Report is called with each date that was requested, changed, or still has waiting jobs.
	Report func(Date)
	// Progress is called while small files are read.
	Progress func(date string, rows int64)
}

// Archived is how far the archive is.
type Archived struct {
	Positions map[int32]int64 // by partition of job-summary
	TopicID   string
}

// States of a date in a report.
const (
	Written   = "written"
	unchanged = "unchanged"
	Failed    = "failed"
)

// Date reports the outcome for a date.
type Date struct {
	Date    string  `json:"date"`
	State   string  `json:"state"`
	Jobs    int     `json:"jobs"`    // that get totals
	Copied  int     `json:"copied"`  // of these, from the file that was there: their rows have not changed
	Waiting int     `json:"waiting"` // that ended, and are not final
	Rows    int64   `json:"rows"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Reason  string  `json:"reason,omitempty"`
}

// Run makes the totals of all jobs that are final, date by date. A date is left alone if its totals already match their
// sources. If a date fails, Run continues with the others, and returns errFailed.
func Run(ctx context.Context, o Options) error { return newMaker(o).run(ctx) }

// maker is one run.
type maker struct {
	Options
	store    table.Dated
	frontier Frontier
	files    map[string][]sink.File // by date
	known    []string               // dates with files or rollups
	holes    map[string]error
	inputs   map[string]lookedUp

	namesakes namesakes
}

type lookedUp struct {
	compact.Inputs
	err error
}

func newMaker(o Options) *maker {
	if o.Report == nil {
		o.Report = func(Date) {}
	}
	return &maker{Options: o, store: storeIn(o.Dir)}
}

func (m *maker) run(ctx context.Context) error {
	dir, err := filepath.Abs(m.Dir)
	if err != nil {
		return fmt.Errorf("finding sink.dir: %w", err)
	}
	m.Dir, m.store.Dir = dir, dir
	if _, err := os.Stat(filepath.Dir(sink.DatePath(dir, ""))); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w in %s: set sink.dir, or --dir, to the sink's directory", compact.ErrNoArchive, dir)
	}
	mine, err := m.store.Lock(ctx, 0)
	if errors.Is(err, sink.ErrLocked) {
		return errBusy
	}
	if err != nil {
		return err
	}
	defer mine.Unlock()
	m.removeStaged()
	if err := sink.Shared(ctx, dir, m.survey); err != nil {
		return err
	}
	if m.frontier, err = m.Frontier(ctx, m.archived()); err != nil {
		return err
	}
	all, err := jobs.Dates(dir)
	if err != nil {
		return err
	}
	if m.namesakes, err = namesakesIn(dir); err != nil {
		return err
	}
	for _, date := range m.Dates {
		if !slices.Contains(all, date) {
			m.Report(Date{Date: date, State: unchanged, Reason: "no job ended on it, as far as archive/jobs knows"})
		}
	}
	failed := false
	for _, date := range all {
		if len(m.Dates) > 0 && !slices.Contains(m.Dates, date) {
			continue
		}
		if err := m.one(ctx, date); err != nil {
			if ctx.Err() != nil || errors.Is(err, errStop) {
				return cmp.Or(ctx.Err(), err)
			}
			failed = true
		}
	}
	if failed {
		return errFailed
	}
	return nil
}

// errStop ends a run at the point of a crash in a test: nothing is cleared up.
var errStop = errors.New("stopped")

// one makes the totals of a date, and reports it.
func (m *maker) one(ctx context.Context, date string) (err error) {
	began := time.Now()
	report := Date{Date: date, State: unchanged}
	asked := len(m.Dates) > 0
	defer func() {
		report.Seconds = time.Since(began).Seconds()
		if err != nil {
			report.State, report.Reason = Failed, err.Error()
		}
		if ctx.Err() == nil && (asked || report.State != unchanged || report.Waiting > 0 || report.Reason != "") {
			m.Report(report)
		}
	}()
	// A compaction must not replace a date while it is read. Other readers, and sinks, are not kept out.
	err = sink.Shared(ctx, m.Dir, func() error { return m.read(ctx, date, &report) })
	if err != nil || report.State != Written {
		return err
	}
	err = m.store.Replace(ctx, m.Wait, m.staged(date), date)
	if err != nil && !errors.Is(err, errStop) {
		m.removeStaged()
	}
	if errors.Is(err, sink.ErrLocked) {
		return fmt.Errorf("readers kept the archive for %v, it is tried again at the next run: %w", m.Wait, err)
	}
	return err
}

// read writes the totals of a date into the stage, unless the existing file is up to date. The caller holds the lock.
func (m *maker) read(ctx context.Context, date string, report *Date) error {
	p, err := m.plan(date)
	if err != nil { // a compaction may have replaced listed files
		if p, err = m.planAnew(date, m.survey); err != nil {
			return err
		}
	}
	path := Path(m.Dir, date)
	there, rows, err := made(path)
	if err != nil {
		return err
	}
	report.Rows, report.Jobs, report.Waiting, report.Bytes = rows, len(p.jobs), len(p.waiting), sizeOf(path)
	v, lost := m.decide(there, p)
	if v == write {
		if p, err = m.planAnew(date, func() error { return m.relist(p.inputs) }); err != nil {
			return err
		}
		if p.same, err = m.unchanged(there, p, path); err != nil {
			return err
		}
		v, lost = m.decide(there, p)
	}
	switch v {
	case keep:
		report.Reason = "it has rows of " + lost + ", which were deleted: it stays as it is"
	case write:
		report.State = Written
		return m.make(ctx, date, p, report)
	}
	return nil
}

// make writes the totals of a date into the stage.
func (m *maker) make(ctx context.Context, date string, p plan, report *Date) error {
	staged := m.staged(date)
	err := m.store.WriteFile(staged, func(out io.Writer) error {
		w := newWriter(out)
		c, err := newCopier(Path(m.Dir, date), p.same, w.add)
		if err != nil {
			return err
		}
		defer c.stop()
		f := folder{whose: p.whose, out: func(t *Total) error { return cmp.Or(c.before(t), w.add(t)) }}
		s := &compact.Scratch{Prefix: staged + ".run-", Progress: m.Progress}
		err = compact.EachHour(ctx, without(p.inputs, p.same), s, f.add)
		if err := cmp.Or(err, f.flush(), c.before(nil), w.end(p.recipe)); err != nil {
			return err
		}
		report.Rows = w.rows
		return nil
	})
	if err != nil {
		if !errors.Is(err, errStop) {
			_ = os.Remove(staged) // if this fails, the next run deletes the file
		}
		return err
	}
	report.Jobs, report.Copied, report.Bytes = len(p.jobs), len(p.same), sizeOf(staged)
	return nil
}

// stagePrefix begins the names in the stage.
const stagePrefix = dirName + "-"

func (m *maker) staged(name string) string {
	return filepath.Join(sink.StagePath(m.Dir), stagePrefix+name)
}

// removeStaged deletes the files of dead runs in the stage.
func (m *maker) removeStaged() {
	left, err := filepath.Glob(m.staged("*"))
	if err != nil {
		return
	}
	for _, path := range left {
		_ = os.Remove(path) // the next run tries it again
	}
}

func sizeOf(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0 // only a number of the report
}
