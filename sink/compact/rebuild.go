package compact

import (
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

// rebuild makes missing rollups again, as long as the stage contains all of their rows. Rollups of a later generation
// are also made of the previous ones. So only a first generation can be rebuilt.
func (c *compactor) rebuild(ctx context.Context, stage, date string) error {
	if _, err := os.Stat(rollupsPath(c.dir, date)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := c.list(c.date(date), date)
	if errors.Is(err, fs.ErrNotExist) || err == nil && generationOf(entries) != 1 {
		return nil // it is not the old directory of a date that is in place
	}
	if err != nil {
		return err
	}
	as, err := c.usable(date)
	if err != nil {
		return err
	}
	t := task{date: date, generation: 1, inputs: map[int32][]sink.File{}}
	old, err := sink.FilesIn(stage, c.topic, date)
	if err != nil {
		return err
	}
	missing := contentsOf(entries).inputs
	for _, f := range old {
		if f.Fault == nil && missing[f.Name] {
			t.inputs[f.Partition] = append(t.inputs[f.Partition], f)
			delete(missing, f.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: %w: %s lacks %d files that they were made of: bring them back from a copy",
			rollupsPath(c.dir, date), errRollups, stage, len(missing))
	}
	return c.rebuildFrom(ctx, t, as)
}

// rebuildFrom merges the inputs again, and keeps the rollups alone.
func (c *compactor) rebuildFrom(ctx context.Context, t task, as fs.FileInfo) error {
	r := &roller{c: c, t: t, has: map[string]bool{}, next: nextOf(t, nil)}
	for _, p := range slices.Sorted(maps.Keys(t.inputs)) {
		inputs := t.inputs[p]
		slices.SortFunc(inputs, func(a, b sink.File) int { return int(a.Start - b.Start) })
		f := joined(inputs, t.generation)
		path := filepath.Join(c.stage(), fmt.Sprintf("%srebuilt-%s-%d", runPrefix, t.date, p))
		if _, err := c.merge(ctx, r, inputs, path, &f); err != nil {
			return err
		}
		if err := c.Remove(path); err != nil {
			return err
		}
	}
	made, err := r.write(ctx, as)
	if err != nil {
		return err
	}
	lock, err := c.Exclusive(ctx, c.dir, c.Wait)
	if err != nil {
		return fmt.Errorf("publishing rollups: %w", err)
	}
	defer lock.Unlock()
	return c.rolled(c, made, t.date)
}

// rebuildAll rebuilds the rollups of all dates of the stage that lack them. A fault of one leaves its old files.
func (c *compactor) rebuildAll(ctx context.Context) (failed bool, err error) {
	entries, err := os.ReadDir(c.stage())
	if err != nil {
		return false, fmt.Errorf("listing the stage: %w", err)
	}
	for _, e := range entries {
		date, generation, ok := parseStaged(e.Name())
		if !ok || generation != 1 {
			continue
		}
		err := c.rebuild(ctx, filepath.Join(c.stage(), e.Name()), date)
		if ctx.Err() != nil || errors.Is(err, errStop) {
			return true, errors.Join(ctx.Err(), err)
		}
		if err != nil {
			c.Report(Date{Date: date, State: Failed, Generation: 1, Reason: err.Error()})
			failed = true
		}
	}
	return failed, nil
}

// rolledUp returns nil if a date's rollups contain the rows of a generation. Otherwise its old files must stay, because
// nothing else holds their certified summaries.
func (c *compactor) rolledUp(stage, date string, generation int64) error {
	there, err := footerOfRollups(rollupsPath(c.dir, date))
	if err != nil {
		return err
	}
	if there == nil || there.generation < generation {
		return fmt.Errorf("%s: %w: those of generation %d are missing, so %s stays: bring them back from a copy, "+
			"or delete it", rollupsPath(c.dir, date), errRollups, generation, stage)
	}
	return nil
}
