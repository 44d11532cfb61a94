// Package compact makes one file for each partition and date of the archive, out of the many that sinks write.
//
// It makes the new files of a date in .stage/, reads them back, and exchanges two directories in one step, under the
// archive's lock. The old directory stays for an hour. plan.go decides, without a disk; the rest carries it out.
package compact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/weirhpc/weir/sink"
)

// memoryLimit keeps the heap below 96 MB, whatever the number of inputs: near it, garbage is collected earlier.
const memoryLimit = 88 << 20

// keepFor is how long the old files of a date are kept. Readers on NFS may have them open.
const keepFor = time.Hour

var (
	// errBusy is returned while another compaction of this archive runs.
	errBusy = errors.New("another compaction runs")
	// ErrNoArchive is returned if there is no archive.
	ErrNoArchive = errors.New("there is no archive")
	// errFailed is returned when a date could not be compacted, or something in the stage is not clear.
	errFailed = errors.New("not all dates were compacted")

	// errDiffers is returned when a written file differs from its inputs.
	errDiffers = errors.New("the compacted file differs from its inputs")
)

// Options select the dates to compact, and configure the run.
type Options struct {
	Dir, Topic string
	Dates      []string      // empty: all that are due
	Wait       time.Duration // for readers to let go of a date
	// Report is called with each date when it is done, and held dates too.
	Report func(Date)
	// Progress is called while files are merged.
	Progress func(date string, partition int32, rows int64)
}

// States of a date in a report.
const (
	Compacted = "compacted"
	unchanged = "unchanged"
	waits     = "waits"
	Failed    = "failed"
)

// Date reports the outcome for a date.
type Date struct {
	Date        string  `json:"date"`
	State       string  `json:"state"`
	Generation  int64   `json:"generation,omitempty"`
	FilesBefore int     `json:"files_before"`
	FilesAfter  int     `json:"files_after"`
	Rows        int64   `json:"rows"`
	BytesBefore int64   `json:"bytes_before"`
	BytesAfter  int64   `json:"bytes_after"`
	Seconds     float64 `json:"seconds"`
	Reason      string  `json:"reason,omitempty"`
}

// Run compacts all dates that are due. First it finishes or undoes the work of an earlier run, and deletes old files
// that have been kept for an hour. If a date fails, Run continues with the others, and returns errFailed.
func Run(ctx context.Context, o Options) error {
	return newCompactor(o).run(ctx)
}

// compactor is one run. The functions are fields so that tests can make them wrong.
type compactor struct {
	Options
	disk
	now     func() time.Time
	keepFor time.Duration

	decide  func(staged int64, dateExists bool, date []entry) verdict
	carried func(old, date []entry) []string
	spent   func(old, date []entry) (names, rest []string)
	due     func(files []sink.File, staged map[string]bool, now time.Time, again int) []task
	again   int
	late    func(c *compactor, t task, stage string) error
	rolled  func(c *compactor, made, date string) error
	same    func(read, written tally) bool
	take    func(ctx context.Context, path string, exclusive bool, wait time.Duration) (*sink.Lock, error)
	begin   func(there *rollupsFooter, topic string, generation int64) (bool, map[string]bool, error)
}

func newCompactor(o Options) *compactor {
	if o.Report == nil {
		o.Report = func(Date) {}
	}
	if o.Progress == nil {
		o.Progress = func(string, int32, int64) {}
	}
	return &compactor{
		Options: o, disk: disk{dir: o.Dir, topic: o.Topic}, now: time.Now, keepFor: keepFor,
		decide: decide, carried: carried, spent: spent, due: due, again: lateFiles, late: (*compactor).linkOthers,
		same: func(read, written tally) bool { return read == written },
		take: sink.TakeLock, begin: begin, rolled: (*compactor).publishRollups,
	}
}

func (c *compactor) run(ctx context.Context) error {
	if before := debug.SetMemoryLimit(-1); before > memoryLimit {
		debug.SetMemoryLimit(memoryLimit)
		defer debug.SetMemoryLimit(before)
	}
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return fmt.Errorf("finding sink.dir: %w", err)
	}
	c.dir = dir
	if _, err := os.Stat(c.summaries()); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w in %s: set sink.dir, or --dir, to the sink's directory", ErrNoArchive, dir)
	}
	if err := os.MkdirAll(c.stage(), 0o755); err != nil {
		return fmt.Errorf("making .stage in sink.dir: %w", err)
	}
	sink.Inherit(c.stage())
	mine, err := c.alone(ctx)
	if err != nil {
		return err
	}
	defer mine.Unlock()
	lacking, err := c.rebuildAll(ctx)
	if err != nil {
		return err
	}
	failed, err := c.recover(ctx)
	if err != nil {
		return err
	}
	failed = failed || lacking
	files, err := sink.Files(c.summaries(), c.topic)
	if err != nil {
		return err
	}
	staged, err := c.stagedDates()
	if err != nil {
		return err
	}
	left := slices.Clone(c.Dates)
	for _, t := range c.due(files, staged, c.now(), c.again) {
		if len(c.Dates) > 0 && !slices.Contains(c.Dates, t.date) {
			continue
		}
		left = slices.DeleteFunc(left, func(date string) bool { return date == t.date })
		if err := c.one(ctx, t); err != nil {
			if ctx.Err() != nil || errors.Is(err, errStop) {
				return cmp.Or(ctx.Err(), err)
			}
			failed = true
		}
	}
	for _, date := range left {
		c.Report(Date{Date: date, State: unchanged, Reason: "it is compacted already, or has no files of the sink"})
	}
	if failed {
		return errFailed
	}
	return nil
}

const noLocksRemedy = "readers and sinks could not be kept out: on Lustre, mount with -o flock"

// alone takes the lock that compactions have among themselves, and checks that the file system's locks exclude.
func (c *compactor) alone(ctx context.Context) (*sink.Lock, error) {
	path := filepath.Join(c.stage(), "lock")
	mine, err := c.take(ctx, path, true, 0)
	switch {
	case errors.Is(err, sink.ErrLocked):
		return nil, fmt.Errorf("%w: %s is locked", errBusy, path)
	case errors.Is(err, sink.ErrNoLocks):
		return nil, fmt.Errorf("%w: %s", err, noLocksRemedy)
	case err != nil:
		return nil, err
	}
	second, err := c.take(ctx, path, true, 0)
	if err == nil {
		second.Unlock()
		mine.Unlock()
		return nil, fmt.Errorf("%s: %w: it grants one lock twice: %s", path, sink.ErrNoLocks, noLocksRemedy)
	}
	if !errors.Is(err, sink.ErrLocked) {
		mine.Unlock()
		return nil, err
	}
	return mine, nil
}

// stagedDates returns the dates with a directory in the stage.
func (c *compactor) stagedDates() (map[string]bool, error) {
	entries, err := os.ReadDir(c.stage())
	if err != nil {
		return nil, fmt.Errorf("listing the stage: %w", err)
	}
	dates := map[string]bool{}
	for _, e := range entries {
		if date, _, ok := parseStaged(e.Name()); ok {
			dates[date] = true
		}
	}
	return dates, nil
}
