package compact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhpc/weir/sink"
)

// recover finishes or undoes the work of earlier runs. It reports whether it left something unknown.
func (c *compactor) recover(ctx context.Context) (unclear bool, err error) {
	c.removeRuns()
	left, err := filepath.Glob(filepath.Join(c.stage(), stagePrefix+"*"))
	if err != nil || len(left) == 0 { // then readers need not let go
		return false, err
	}
	lock, err := c.Exclusive(ctx, c.dir, c.Wait)
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

// nameAside gives the old directory its name in the stage, after a crash between the last two renames.
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
		if err := c.Rename(path, c.staged(date, max(1, generationOf(entries)))); err != nil {
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
	if err := c.rolledUp(stage, date, generation); err != nil {
		return err
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

// retire deletes a date's old directory: files that the date's footers name, and files that the date contains too.
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
		if err := c.Remove(filepath.Join(stage, name)); err != nil {
			return fmt.Errorf("deleting an old file: %w", err)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s has %d files that the date does not have, such as %s: "+
			"they stay; move them where they belong", stage, len(rest), rest[0])
	}
	if err := c.Remove(stage); err != nil {
		return fmt.Errorf("deleting an old directory: %w", err)
	}
	return c.SyncDir(c.stage())
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
