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

// roller makes the rollups of a date, while its files are merged.
type roller struct {
	c    *compactor
	t    task
	base bool // the date's rollups are a part of the new ones
	// before is the lineage of the generation before.
	before  string
	has     map[string]bool // small files that are already in the existing rollups
	deleted int64           // rows in the existing rollups that the date's directory no longer contains
	next    map[int32]int64 // end of the files in the new rollups
	parts   []string        // of partitions
}

// roll returns the roller of a task.
func (c *compactor) roll(t task) (*roller, error) {
	there, err := footerOfRollups(rollupsPath(c.dir, t.date))
	if err != nil {
		return nil, err
	}
	base, has, err := c.begin(there, c.topic, t.generation)
	if err == nil {
		small := slices.Concat(slices.Collect(maps.Values(t.inputs))...)
		small = slices.DeleteFunc(small, func(f sink.File) bool { return f.Compacted })
		err = interrupted(there, t.generation, small)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rollupsPath(c.dir, t.date), err)
	}
	r := &roller{c: c, t: t, base: base, has: has, deleted: deletedRows(t, there), next: nextOf(t, there)}
	switch {
	case !base || there == nil:
	case there.generation == t.generation: // a run that died made them
		r.before = there.before
	default:
		r.before = there.lineage()
	}
	return r, nil
}

// fresh reports whether the rollups lack a file's rows.
func (r *roller) fresh(f sink.File) bool { return !f.Compacted && !r.has[f.Name] }

// part begins the rollups of a partition.
func (r *roller) part(partition int32) (*rollupWriter, error) {
	path := filepath.Join(r.c.stage(), fmt.Sprintf("%srollups-%s-%d", runPrefix, r.t.date, partition))
	r.parts = append(r.parts, path)
	var w *rollupWriter
	err := r.c.Do(sink.ActCreate, path, func() (err error) { w, err = newRollupWriter(path); return err })
	if err != nil {
		return nil, fmt.Errorf("making rollups: %w", err)
	}
	return w, nil
}

// write joins the rollups of all partitions with the existing ones. It returns the path of the new file, durable and
// read back.
func (r *roller) write(ctx context.Context, as fs.FileInfo) (path string, err error) {
	paths := r.parts
	if r.base {
		paths = append([]string{rollupsPath(r.c.dir, r.t.date)}, paths...)
	}
	var from []*rollupReader
	defer func() {
		for _, in := range from {
			err = errors.Join(err, in.close())
		}
	}()
	for _, p := range paths {
		in, err := newRollupReader(p, nil)
		if err != nil {
			return "", err
		}
		from = append(from, in)
	}
	path = filepath.Join(r.c.stage(), runPrefix+"rollups-"+r.t.date)
	var w *rollupWriter
	err = r.c.Do(sink.ActCreate, path, func() (err error) { w, err = newRollupWriter(path); return err })
	if err != nil {
		return "", fmt.Errorf("making rollups: %w", err)
	}
	err = joinRollups(ctx, from, w.add)
	f := rollupsFooter{
		topic: r.c.topic, generation: r.t.generation, inputs: r.inputs(), before: r.before,
		deleted: r.deleted, next: r.next,
	}
	closed := w.close(f, func() error { return r.c.Do(sink.ActSync, path, w.file.Sync) })
	inputs := slices.Concat(slices.Collect(maps.Values(r.t.inputs))...)
	if err := cmp.Or(err, closed, owned(path, as), readableAs(path, inputs...)); err != nil {
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	if err := r.c.makeHome(r.t.date, as); err != nil {
		return "", err
	}
	read, err := readRollups(ctx, path)
	if err == nil && read.rollupTally != w.tally {
		err = fmt.Errorf("%w: %s", errDiffers, path)
	}
	return path, err
}

// inputs returns the names of the generation's small files, in order.
func (r *roller) inputs() (names []string) {
	for name := range r.has {
		names = append(names, name)
	}
	for _, of := range r.t.inputs {
		for _, f := range of {
			if r.fresh(f) {
				names = append(names, f.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// makeHome makes the directory of a date's rollups, durably.
func (c *compactor) makeHome(date string, as fs.FileInfo) error {
	dir := filepath.Dir(rollupsPath(c.dir, date))
	for _, d := range []string{filepath.Dir(dir), dir} {
		if _, err := os.Stat(d); err == nil {
			continue
		}
		if err := c.Do(sink.ActMakeDir, d, func() error { return os.Mkdir(d, as.Mode().Perm()) }); err != nil {
			return fmt.Errorf("making a directory for rollups: %w", err)
		}
		if err := like(d, as); err != nil {
			return fmt.Errorf("making a directory for rollups: %w", err)
		}
	}
	return cmp.Or(c.SyncDir(c.dir), c.SyncDir(filepath.Dir(dir))) // a run that made them may have died before
}

// publishRollups puts the rollups at their place, durably. The caller holds the lock, and exchanges the date next.
func (c *compactor) publishRollups(made, date string) error {
	path := rollupsPath(c.dir, date)
	if err := c.Rename(made, path); err != nil {
		return fmt.Errorf("publishing rollups: %w", err)
	}
	return c.SyncDir(filepath.Dir(path))
}
