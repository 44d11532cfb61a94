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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/sink"
)

// keepFor is how long the old files of a date are kept. Readers on NFS may have them open.
const keepFor = time.Hour

var (
	// ErrBusy is returned while another compaction of this archive runs.
	ErrBusy = errors.New("another compaction runs")
	// ErrNoArchive is returned where there is no archive.
	ErrNoArchive = errors.New("there is no archive")
	// ErrFailed is returned when a date could not be compacted, or something in the stage is not clear.
	ErrFailed = errors.New("not all dates were compacted")

	// errDiffers is returned when what was written is not what was read.
	errDiffers = errors.New("the compacted file differs from its inputs")
)

// Options say what to compact.
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
	Unchanged = "unchanged"
	Waits     = "waits"
	Failed    = "failed"
)

// Date reports what became of a date.
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

// Run compacts all dates that are due. First it finishes or undoes what an earlier run left, and deletes old files that
// have been kept for an hour. A date that fails does not keep the others: the error is then ErrFailed.
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
		same:  func(read, written tally) bool { return read == written },
		begin: begin, rolled: (*compactor).publishRollups,
	}
}

func (c *compactor) run(ctx context.Context) error {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return fmt.Errorf("finding sink.dir: %w", err)
	}
	c.dir = dir
	if _, err := os.Stat(c.summaries()); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w in %s: set sink.dir to the sink's directory", ErrNoArchive, dir)
	}
	if err := os.MkdirAll(c.stage(), 0o755); err != nil {
		return fmt.Errorf("making .stage in sink.dir: %w", err)
	}
	mine, err := c.alone(ctx)
	if err != nil {
		return err
	}
	defer mine.Unlock()
	failed, err := c.recover(ctx)
	if err != nil {
		return err
	}
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
		c.Report(Date{Date: date, State: Unchanged, Reason: "it is compacted already, or has no files of the sink"})
	}
	if failed {
		return ErrFailed
	}
	return nil
}

// alone takes the lock that compactions have among themselves, and checks that the file system's locks exclude.
func (c *compactor) alone(ctx context.Context) (*sink.Lock, error) {
	path := filepath.Join(c.stage(), "lock")
	mine, err := sink.TakeLock(ctx, path, true, 0)
	switch {
	case errors.Is(err, sink.ErrLocked):
		return nil, fmt.Errorf("%w: %s is locked", ErrBusy, path)
	case errors.Is(err, sink.ErrNoLocks):
		return nil, fmt.Errorf("%w: readers and sinks could not be kept out: on Lustre, mount with -o flock", err)
	case err != nil:
		return nil, err
	}
	second, err := sink.TakeLock(ctx, path, true, 0)
	if err == nil {
		second.Unlock()
		mine.Unlock()
		return nil, fmt.Errorf("%s: %w: it grants one lock twice", path, sink.ErrNoLocks)
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

// one compacts a date, and reports it.
func (c *compactor) one(ctx context.Context, t task) (err error) {
	began := c.now()
	report := Date{Date: t.date, State: Compacted, Generation: t.generation}
	defer func() {
		report.Seconds = c.now().Sub(began).Seconds()
		if err != nil && ctx.Err() == nil {
			report.State, report.Reason = Failed, err.Error()
		}
		if ctx.Err() == nil || report.State == Compacted {
			c.Report(report)
		}
	}()
	if t.held != nil {
		if t.waits() {
			report.State, report.Reason = Waits, t.held.Error()
			return nil
		}
		return t.held
	}
	info, err := c.usable(t.date)
	if errors.Is(err, errElsewhere) {
		report.State, report.Reason = Unchanged, err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	stage := c.staged(t.date, t.generation)
	if err := c.make(ctx, t, stage, info, &report); err != nil {
		if !errors.Is(err, errStop) {
			c.giveUp(t, stage)
		}
		return err
	}
	return nil
}

// errStop ends a run where a test lets it crash: nothing is cleared up.
var errStop = errors.New("stopped")

// giveUp deletes a stage that was not published. The next run deletes what stays.
func (c *compactor) giveUp(t task, stage string) {
	if date, err := c.list(c.date(t.date), t.date); err == nil && generationOf(date) < t.generation {
		_ = c.discard(stage, t.date, t.generation, date)
	}
	c.removeRuns()
}

// make makes the stage of a date, and publishes it.
func (c *compactor) make(ctx context.Context, t task, stage string, as fs.FileInfo, report *Date) error {
	err := c.do(actMakeDir, stage, func() error { return os.Mkdir(stage, as.Mode().Perm()) })
	if err != nil {
		return fmt.Errorf("making a stage: %w", err)
	}
	if err := errors.Join(os.Chmod(stage, as.Mode().Perm()), owned(stage, as)); err != nil {
		return err
	}
	rolls, err := c.roll(t)
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(t.inputs)) {
		f := joined(t.inputs[p], t.generation)
		path := filepath.Join(stage, sink.CompactedName(c.topic, p, f.Start))
		counted, err := c.merge(ctx, rolls, t.inputs[p], path, &f)
		if err != nil {
			return err
		}
		report.FilesBefore += len(t.inputs[p])
		report.FilesAfter++
		report.Rows += counted.rows
		report.BytesAfter += sizeOf(path)
		for _, in := range t.inputs[p] {
			report.BytesBefore += sizeOf(in.Path)
		}
		if err := owned(path, as); err != nil {
			return err
		}
	}
	rollups, err := rolls.write(ctx, as)
	if err != nil {
		return err
	}
	if err := c.late(c, t, stage); err != nil {
		return err
	}
	for _, dir := range []string{stage, c.stage()} {
		if err := c.syncDir(dir); err != nil {
			return err
		}
	}
	return c.publish(ctx, t, stage, rollups)
}

func sizeOf(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0 // only a number of the report
}

// linkOthers links what a date has besides the inputs into the stage: compacted files of partitions without late rows,
// late rows, and users' files.
func (c *compactor) linkOthers(t task, stage string) error {
	names, err := os.ReadDir(c.date(t.date))
	if err != nil {
		return fmt.Errorf("listing a date: %w", err)
	}
	inputs := map[string]bool{}
	for _, of := range t.inputs {
		for _, f := range of {
			inputs[f.Name] = true
		}
	}
	for _, n := range names {
		to := filepath.Join(stage, n.Name())
		if _, err := os.Lstat(to); err == nil || inputs[n.Name()] {
			continue
		}
		if err := c.link(filepath.Join(c.date(t.date), n.Name()), to); err != nil {
			return fmt.Errorf("a file that is not the sink's cannot be kept beside the compacted ones: "+
				"move it away: %w", err)
		}
	}
	return nil
}

// publish puts the rollups in their place, and then the stage in the date's.
func (c *compactor) publish(ctx context.Context, t task, stage, rollups string) error {
	lock, err := c.lock(ctx, c.Wait)
	if errors.Is(err, sink.ErrLocked) {
		return fmt.Errorf("readers kept the date for %v, it is tried again at the next run: %w", c.Wait, err)
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	// No sink is inside now. What one linked since the stage was made must be there from the first moment on.
	if err := c.late(c, t, stage); err != nil {
		return err
	}
	if err := c.syncDir(stage); err != nil {
		return err
	}
	if err := c.rolled(c, rollups, t.date); err != nil {
		return err
	}
	if err := c.exchange(stage, t.date); err != nil {
		return err
	}
	return c.complete(stage, t.date)
}

// complete makes an exchange durable, and carries over what came without the lock. That may be a user's file. On a file
// system whose locks do not reach other hosts, it may be rows. The caller holds the lock.
func (c *compactor) complete(stage, date string) error {
	for _, dir := range []string{c.summaries(), c.stage(), stage} {
		if err := c.syncDir(dir); err != nil {
			return err
		}
	}
	old, err := c.list(stage, date)
	if err != nil {
		return err
	}
	now, err := c.list(c.date(date), date)
	if err != nil {
		return err
	}
	for _, name := range c.carried(old, now) {
		err := c.link(filepath.Join(stage, name), filepath.Join(c.date(date), name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("carrying a file over: %w", err)
		}
	}
	return c.syncDir(c.date(date))
}

// recover finishes or undoes what earlier runs left. It reports whether something stays that nobody knows.
func (c *compactor) recover(ctx context.Context) (unclear bool, err error) {
	c.removeRuns()
	left, err := filepath.Glob(filepath.Join(c.stage(), stagePrefix+"*"))
	if err != nil || len(left) == 0 { // then readers need not let go
		return false, err
	}
	lock, err := c.lock(ctx, c.Wait)
	if err != nil {
		return false, fmt.Errorf("looking at what earlier runs left: %w", err)
	}
	defer lock.Unlock()
	if err := sink.PutBackLocked(c.dir); err != nil {
		return false, err
	}
	if err := c.nameAside(); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(c.stage())
	if err != nil {
		return false, fmt.Errorf("listing the stage: %w", err)
	}
	for _, e := range entries {
		date, generation, ok := parseStaged(e.Name())
		if !ok {
			continue
		}
		if err := c.resume(filepath.Join(c.stage(), e.Name()), date, generation); err != nil {
			if errors.Is(err, errStop) {
				return true, err
			}
			c.Report(Date{Date: date, State: Failed, Generation: generation, Reason: err.Error()})
			unclear = true
		}
	}
	return unclear, nil
}

// nameAside gives the old directory its name in the stage, where a crash came between the last two renames.
func (c *compactor) nameAside() error {
	asides, err := filepath.Glob(sink.AsidePath(c.dir, "*"))
	if err != nil {
		return err
	}
	for _, path := range asides {
		date := strings.TrimPrefix(strings.SplitN(filepath.Base(path), ".", 2)[0], stagePrefix)
		entries, err := c.list(c.date(date), date)
		if err != nil {
			return err
		}
		if err := c.rename(path, c.staged(date, max(1, generationOf(entries)))); err != nil {
			return fmt.Errorf("naming an old directory: %w", err)
		}
	}
	return nil
}

// resume goes on with a directory of the stage.
func (c *compactor) resume(stage, date string, generation int64) error {
	entries, err := c.list(c.date(date), date)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch c.decide(generation, err == nil, entries) {
	case keep:
		return fmt.Errorf("%s is gone, and %s has its files or a copy: put it back, or delete both",
			c.date(date), stage)
	case discard:
		return c.discard(stage, date, generation, entries)
	}
	since, err := changed(stage)
	if err != nil {
		return err
	}
	if err := c.complete(stage, date); err != nil {
		return err
	}
	if c.now().Sub(since) < c.keepFor {
		return nil
	}
	return c.retire(stage, date)
}

// discard deletes a stage that was never published.
func (c *compactor) discard(stage, date string, generation int64, entries []entry) error {
	staged, err := c.list(stage, date)
	if err != nil {
		return err
	}
	names, rest := unpublished(generation, staged, entries)
	return c.empty(stage, names, rest)
}

// retire deletes a date's old directory: what its footers name, and what the date has too.
func (c *compactor) retire(stage, date string) error {
	old, err := c.list(stage, date)
	if err != nil {
		return err
	}
	now, err := c.list(c.date(date), date)
	if err != nil {
		return err
	}
	names, rest := c.spent(old, now)
	return c.empty(stage, names, rest)
}

// empty deletes names in a directory of the stage, and the directory if nothing stays.
func (c *compactor) empty(stage string, names, rest []string) error {
	for _, name := range names {
		if err := c.remove(filepath.Join(stage, name)); err != nil {
			return fmt.Errorf("deleting an old file: %w", err)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s has %d files that the date does not have, such as %s: "+
			"they stay; move them where they belong", stage, len(rest), rest[0])
	}
	if err := c.remove(stage); err != nil {
		return fmt.Errorf("deleting an old directory: %w", err)
	}
	return c.syncDir(c.stage())
}

// removeRuns deletes the files between two levels of merges. Nothing depends on it.
func (c *compactor) removeRuns() {
	runs, err := filepath.Glob(filepath.Join(c.stage(), runPrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range runs {
		_ = os.Remove(path)
	}
}
