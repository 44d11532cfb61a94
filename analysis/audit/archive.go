package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// File is one file of the archive, as its footer describes it.
type File struct {
	Path, Date string
	sink.Footer
	fault error // not nil: it cannot be read
}

// List returns the files of a topic in an archive, by partition and in the order of their positions. It leaves out the
// dates before since. Users may delete dates meanwhile. There may be no archive.
func List(dir, topic, since string) (map[int32][]File, error) {
	root := filepath.Join(dir, "summaries")
	dates, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", root, err)
	}
	var all []*File
	for _, d := range dates {
		date, ok := strings.CutPrefix(d.Name(), "date=")
		if !ok || date < since {
			continue
		}
		names, err := os.ReadDir(filepath.Join(root, d.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing %s: %w", d.Name(), err)
		}
		for _, n := range names {
			f := &File{Path: filepath.Join(root, d.Name(), n.Name()), Date: date}
			if f.Topic = topic; f.parseName(n.Name()) {
				all = append(all, f)
			}
		}
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, f := range all {
		g.Go(func() error {
			f.readFooter()
			return nil
		})
	}
	_ = g.Wait() // the fault of a file is kept with that file
	files := map[int32][]File{}
	for _, f := range all {
		if !errors.Is(f.fault, fs.ErrNotExist) {
			files[f.Partition] = append(files[f.Partition], f.links()...)
		}
	}
	for _, of := range files {
		slices.SortFunc(of, func(a, b File) int { return cmp.Compare(a.Start, b.Start) })
	}
	return files, nil
}

// links returns a file's links in its chain. A compacted file is several links if files of other dates lie between.
func (f *File) links() (all []File) {
	if f.Compacted == nil {
		return []File{*f}
	}
	for _, r := range f.Ranges() {
		link := *f
		link.Start, link.Next, link.PreviousDate, link.Gap = r.Start, r.Next, r.PreviousDate, r.Gap
		all = append(all, link)
	}
	return all
}

// parseName reads partition and start from the name of a file. It is not ok for the names of other files.
func (f *File) parseName(name string) (ok bool) {
	rest, ok := strings.CutPrefix(name, f.Topic+"-")
	numbers, parquet := strings.CutSuffix(rest, ".parquet")
	partition, start, two := strings.Cut(numbers, "-")
	p, err := strconv.ParseInt(partition, 10, 32)
	s, fault := strconv.ParseInt(strings.TrimPrefix(start, "c"), 10, 64) // c marks a compacted file
	f.Partition, f.Start, f.Next = int32(p), s, s
	return ok && parquet && two && err == nil && fault == nil
}

// readFooter replaces the fields parsed from the name by the file's footer. A footer that contradicts the name is a
// fault.
func (f *File) readFooter() {
	footer, err := sink.ReadFooter(f.Path)
	switch {
	case err != nil:
		f.fault = err
	case footer.Topic != f.Topic || footer.Partition != f.Partition || footer.Start != f.Start:
		f.fault = errName
	default:
		f.Footer = footer
	}
}

func (f *File) difference(offset *int64, format string, args ...any) Difference {
	return Difference{
		Kind: kindArchive, Topic: f.Topic, Partition: f.Partition, Offset: offset, File: f.Path,
		Text: fmt.Sprintf(format, args...),
	}
}

var errName = errors.New("its name is not that of its footer")

// contiguous reports the holes and overlaps of a partition's files, and the files that cannot be read. oldest is the
// oldest date of the archive: users deleted the dates before it.
func (r *Report) contiguous(files []File, oldest string) {
	differ := func(f *File, format string, args ...any) {
		d := f.difference(&f.Start, format, args...)
		d.Kind = kindChain
		r.differ(d)
	}
	for i := range files {
		f := &files[i]
		if f.fault != nil {
			differ(f, "it cannot be read: %v", f.fault)
			if i+1 < len(files) {
				f.Next = files[i+1].Start // its rows are lost, the chain is not
			}
		}
		if i == 0 {
			continue
		}
		before := &files[i-1]
		switch {
		case f.Start < before.Next:
			differ(f, "it overlaps %s, which reaches to %d", before.Path, before.Next)
		case f.Start > before.Next && f.fault == nil && (f.PreviousDate == "" || f.PreviousDate >= oldest):
			differ(f, "a hole in the chain: offsets %d to %d are in no file", before.Next, f.Start)
		}
	}
}

// listArchive lists the files of the archive, if it is seen from here. A sink may link a file into a date that was
// listed before, and another one into a later date. So a hole must be there three times.
func (a *auditor) listArchive(ctx context.Context) (map[int32][]File, error) {
	if a.o.Partition >= 0 || a.o.NoArchive {
		return nil, nil
	}
	for tries := 1; ; tries++ {
		since := ""
		if !a.o.Since.IsZero() {
			since = a.o.Since.UTC().Format(time.DateOnly)
		}
		files, err := List(a.cfg.Sink.Dir, a.cfg.Prefix+schemas.TopicJobSummary, since)
		if err != nil || tries == 3 {
			return files, err
		}
		var r Report
		for _, of := range files {
			r.contiguous(slices.Clone(of), oldestDate(files))
		}
		if r.Found == 0 || !retry.Pause(ctx, time.Second) {
			return files, nil
		}
	}
}

// oldestDate returns the oldest date of the archive. A date does not count if all its files came late, behind files of
// a later date: users may have deleted it before.
func oldestDate(files map[int32][]File) (oldest string) {
	for _, of := range files {
		late := false // the file before
		for i, f := range of {
			late = f.PreviousDate > f.Date || late && f.PreviousDate == f.Date && of[i-1].Next == f.Start
			if !late && (oldest == "" || f.Date < oldest) {
				oldest = f.Date
			}
		}
	}
	return oldest
}
