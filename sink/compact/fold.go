package compact

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weirhpc/weir/sink"
)

// fold folds the rows of the chosen jobs in files of a partition, and writes their rollups. With cut it folds the hours
// that contain a cut, otherwise the other hours. After a compaction, certified summaries exist only for whole hours. So
// fold does not read them for a cut hour, and its rollups are the same before and after.
func (in *Inputs) fold(
	ctx context.Context, s *Scratch, files []sink.File, of *chosen, cut bool, path string,
) error {
	w, err := newRollupWriter(path)
	if err != nil {
		return fmt.Errorf("making rollups: %w", err)
	}
	f := &smallFolder{in: in, scratch: s, of: of, cut: cut, folder: folder{out: w.add, of: of}}
	f.merger = merger{known: newTexts(), fresh: map[string]bool{}}
	var paths []string
	for _, file := range files {
		paths, f.merger.fresh[file.Path] = append(paths, file.Path), !cut
	}
	err = f.run(ctx, paths)
	closed := w.close(rollupsFooter{}, func() error { return nil })
	if err := cmp.Or(err, closed); err != nil {
		return fmt.Errorf("folding %s: %w", strings.TrimSuffix(files[0].Path, files[0].Name), err)
	}
	return nil
}

// smallFolder folds rows of small files, without a compacted file.
type smallFolder struct {
	merger  merger // opens files
	in      *Inputs
	scratch *Scratch
	of      *chosen
	cut     bool // true: fold the rows of cut hours; false: fold all other rows
	folder  folder
	rows    int64
}

// wants reports whether a row is folded.
func (f *smallFolder) wants(r *row) bool {
	if !f.of.has(r.JobID, r.Restart) {
		return false
	}
	_, cut := f.of.cut(r.JobID, r.Restart, r.IntervalStart)
	return cut == f.cut
}

// run merges files in groups, level by level, and folds the rows at the last level.
func (f *smallFolder) run(ctx context.Context, paths []string) error {
	for ; len(paths) > 0; f.merger.levels++ {
		var outs []string
		for rest := paths; len(rest) > 0; {
			taken, out, err := f.group(ctx, rest, len(paths))
			if err != nil {
				return err
			}
			if rest = rest[taken:]; out != "" {
				outs = append(outs, out)
			}
		}
		if f.merger.levels > 0 {
			for _, path := range paths {
				_ = os.Remove(path)
			}
		}
		paths = outs
	}
	return nil
}

// group merges the first of the files, and returns their number and the path of the merged file. If these are all files
// of the level, it folds their rows instead.
func (f *smallFolder) group(ctx context.Context, paths []string, all int) (taken int, out string, err error) {
	inputs, err := f.merger.open(paths)
	if err != nil {
		return 0, "", err
	}
	write, done := f.write, f.folder.flush
	if len(inputs) < all {
		out = f.scratch.path()
		if write, done, err = f.level(out); err != nil {
			return 0, "", errors.Join(err, closeAll(inputs))
		}
	}
	for _, in := range inputs {
		if file, is := in.(*reader); is {
			file.of = f.of
		}
	}
	merged := merge(ctx, inputs, write, func(*row) error { return nil })
	return len(inputs), out, cmp.Or(merged, done(), closeAll(inputs))
}

// write folds the rows of chosen jobs.
func (f *smallFolder) write(rows []row) (int, error) {
	for i := range rows {
		if !f.wants(&rows[i]) {
			continue
		}
		if err := f.folder.add(&rows[i]); err != nil {
			return i, err
		}
		if f.rows++; f.rows%progressRows == 0 && f.scratch.Progress != nil {
			f.scratch.Progress(f.in.Date, f.rows)
		}
	}
	return len(rows), nil
}

// level returns a function that writes the rows of chosen jobs to a file between two levels of merges, and a function
// that ends the file.
func (f *smallFolder) level(path string) (write func([]row) (int, error), done func() error, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("making a run: %w", err)
	}
	w := &runWriter{out: bufio.NewWriterSize(file, 256<<10), known: f.merger.known}
	write = func(rows []row) (int, error) {
		for i := range rows {
			if !f.wants(&rows[i]) {
				continue
			}
			if _, err := w.Write(rows[i : i+1]); err != nil {
				return i, err
			}
		}
		return len(rows), nil
	}
	return write, func() error { return errors.Join(w.out.Flush(), file.Close()) }, nil
}
