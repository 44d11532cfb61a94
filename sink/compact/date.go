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

	"github.com/weirhpc/weir/sink"
)

// one compacts a date, and reports it.
func (c *compactor) one(ctx context.Context, t task) (err error) {
	began := c.now()
	report := Date{Date: t.date, State: Compacted, Generation: t.generation}
	defer func() {
		report.Seconds = c.now().Sub(began).Seconds()
		if err != nil && ctx.Err() == nil {
			report.State, report.Reason = Failed, err.Error()
		}
		if ctx.Err() == nil || err == nil { // an interrupted date stays as it was
			c.Report(report)
		}
	}()
	if t.held != nil {
		if t.waits() {
			report.State, report.Reason = waits, t.held.Error()
			return nil
		}
		return t.held
	}
	info, err := c.usable(t.date)
	if errors.Is(err, errElsewhere) {
		report.State, report.Reason = unchanged, err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	if t, err = c.behindRollups(t); err != nil {
		return err
	}
	report.Generation = t.generation
	stage := c.staged(t.date, t.generation)
	if err := c.make(ctx, t, stage, info, &report); err != nil {
		if !errors.Is(err, errStop) {
			c.giveUp(t, stage)
		}
		return err
	}
	return nil
}

// errStop ends a run at the point of a crash in a test: nothing is cleared up.
var errStop = errors.New("stopped")

// giveUp deletes a stage that was not published. The next run deletes the rest.
func (c *compactor) giveUp(t task, stage string) {
	if date, err := c.list(c.date(t.date), t.date); err == nil && generationOf(date) < t.generation {
		_ = c.discard(stage, t.date, t.generation, date)
	}
	c.removeRuns()
}

// make makes the stage of a date, and publishes it.
func (c *compactor) make(ctx context.Context, t task, stage string, as fs.FileInfo, report *Date) error {
	err := c.Do(sink.ActMakeDir, stage, func() error { return os.Mkdir(stage, as.Mode().Perm()) })
	if err != nil {
		return fmt.Errorf("making a stage: %w", err)
	}
	if err := like(stage, as); err != nil {
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
		if err := cmp.Or(owned(path, as), readableAs(path, t.inputs[p]...)); err != nil {
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
		if err := c.SyncDir(dir); err != nil {
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

// linkOthers links the other files of a date into the stage, besides the inputs: compacted files of partitions without
// late rows, late rows, and users' files.
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
		if err := c.Link(filepath.Join(c.date(t.date), n.Name()), to); err != nil {
			return fmt.Errorf("a file that is not the sink's cannot be kept beside the compacted ones: "+
				"move it away: %w", err)
		}
	}
	return nil
}

// publish puts the rollups in their place, and then the stage in the date's.
func (c *compactor) publish(ctx context.Context, t task, stage, rollups string) error {
	lock, err := c.Exclusive(ctx, c.dir, c.Wait)
	if errors.Is(err, sink.ErrLocked) {
		return fmt.Errorf("readers kept the date for %v, it is tried again at the next run: %w", c.Wait, err)
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	// No sink is inside now. Files that were linked since the stage was made must be there from the first moment on.
	if err := c.late(c, t, stage); err != nil {
		return err
	}
	if err := c.SyncDir(stage); err != nil {
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

// complete makes an exchange durable, and carries over files that came without the lock. They may be a user's. They may
// also contain rows, if the file system's locks do not reach other hosts. The caller holds the lock.
func (c *compactor) complete(stage, date string) error {
	for _, dir := range []string{c.summaries(), c.stage(), stage} {
		if err := c.SyncDir(dir); err != nil {
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
		err := c.Link(filepath.Join(stage, name), filepath.Join(c.date(date), name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("carrying a file over: %w", err)
		}
	}
	return c.SyncDir(c.date(date))
}
