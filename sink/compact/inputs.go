package compact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// Inputs are the sources of a date's hours: its rollups, and the small files that they lack.
type Inputs struct {
	Date string
	// Lineage names all small files that the hours are made of. It is empty if there are none. A compaction that takes
	// all small files of the date keeps it.
	Lineage string
	// Jobs lists the jobs to read, sorted.
	Jobs []schemas.JobKey
	// Cuts are the times at which an id of Jobs passed to a namesake, in order. An hour with such a time inside is
	// split into pieces, without deciles. The Hour of a piece behind that time is the time itself.
	Cuts map[schemas.JobKey][]int64

	rollups string // empty if there are none
	rolled  string // their lineage
	small   map[int32][]sink.File
	all     map[int32][]sink.File // small or not
	next    map[int32]int64
}

// InputsOf returns the sources of a date's hours, given its files. The caller holds the lock.
func InputsOf(dir, topic, date string, files []sink.File) (Inputs, error) {
	in := Inputs{Date: date, small: map[int32][]sink.File{}, all: map[int32][]sink.File{}, next: map[int32]int64{}}
	for _, f := range files {
		if f.Fault != nil {
			return in, f.Fault
		}
	}
	path := rollupsPath(dir, date)
	there, err := footerOfRollups(path)
	if err != nil {
		return in, err
	}
	has := map[string]bool{}
	if len(files) > 0 && (there != nil || generation(files) > 0) { // otherwise users deleted all but the rollups
		small := slices.DeleteFunc(slices.Clone(files), func(f sink.File) bool { return f.Compacted })
		next, _ := afterRollups(generation(files)+1, there, small)
		if _, has, err = begin(there, topic, next); err == nil {
			err = interrupted(there, next, small)
		}
		if err != nil {
			return in, fmt.Errorf("%s: %w", path, err)
		}
	}
	if there != nil {
		in.rollups, in.rolled, in.Lineage = path, there.lineage(), there.lineage()
	}
	var names []string
	for _, f := range files {
		in.next[f.Partition] = max(in.next[f.Partition], f.Footer.Next)
		in.all[f.Partition] = append(in.all[f.Partition], f)
		if !f.Compacted && !has[f.Name] {
			in.small[f.Partition] = append(in.small[f.Partition], f)
			names = append(names, f.Name)
		}
	}
	for _, by := range []map[int32][]sink.File{in.small, in.all} {
		for _, of := range by {
			slices.SortFunc(of, func(a, b sink.File) int { return cmp.Compare(a.Start, b.Start) })
		}
	}
	if slices.Sort(names); len(names) > 0 {
		in.Lineage = lineageOf(in.Lineage, names)
	}
	return in, nil
}

// Next returns the positions behind the date's files, by partition.
func (in *Inputs) Next() map[int32]int64 { return in.next }

// Since returns the files that came after a date had a lineage and these positions. It is not ok if something else
// changed too, such as by a compaction that took both.
func (in *Inputs) Since(lineage string, next map[int32]int64) (files []sink.File, ok bool) {
	var names []string
	for p, of := range in.small {
		for _, f := range of {
			if f.Start >= next[p] {
				files = append(files, f)
			} else {
				names = append(names, f.Name)
			}
		}
	}
	was := in.rolled
	if slices.Sort(names); len(names) > 0 {
		was = lineageOf(was, names)
	}
	return files, was == lineage
}

// Scratch names intermediate files, and passes on the progress.
type Scratch struct {
	Prefix string // of their paths
	// Progress is called while small files are read. It may be nil.
	Progress func(date string, rows int64)
	made     []string
}

func (s *Scratch) path() string {
	path := fmt.Sprintf("%s%d", s.Prefix, len(s.made))
	s.made = append(s.made, path)
	return path
}

// remove deletes all files in between.
func (s *Scratch) remove() {
	for _, path := range s.made {
		_ = os.Remove(path) // if this fails, the next run deletes the file
	}
}

// open returns the hours of a date, in order. Small files are folded by the code of a compaction, partition by
// partition, so that a compaction changes no bit.
func (in *Inputs) open(ctx context.Context, s *Scratch) (from []*rollupReader, err error) {
	of := &chosen{keys: in.Jobs, cuts: in.cuts()}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeReaders(from))
		}
	}()
	folded := func(files map[int32][]sink.File, of *chosen, cut bool) error {
		for _, p := range slices.Sorted(maps.Keys(files)) {
			path := s.path()
			if err := in.fold(ctx, s, files[p], of, cut, path); err != nil {
				return err
			}
			r, err := newRollupReader(path, nil)
			if err != nil {
				return err
			}
			from = append(from, r)
		}
		return nil
	}
	if in.rollups != "" {
		r, err := newRollupReader(in.rollups, of)
		if err != nil {
			return from, err
		}
		from = append(from, r)
	}
	if err := folded(in.small, of, false); err != nil || len(of.cuts) == 0 {
		return from, err
	}
	some := &chosen{keys: slices.SortedFunc(maps.Keys(of.cuts), CompareJobs), cuts: of.cuts}
	return from, folded(in.all, some, true)
}

// cuts returns the cuts inside hours of the date. A date without files is read from its rollups, which stay whole.
func (in *Inputs) cuts() map[schemas.JobKey][]int64 {
	cuts := map[schemas.JobKey][]int64{}
	for _, k := range in.Jobs {
		for _, at := range in.Cuts[k] {
			date := time.UnixMilli(at).UTC().Format(time.DateOnly)
			if len(in.all) > 0 && at != hourOf(at) && date == in.Date {
				cuts[k] = append(cuts[k], at)
			}
		}
	}
	return cuts
}

func closeReaders(from []*rollupReader) error {
	var faults []error
	for _, r := range from {
		faults = append(faults, r.close())
	}
	return errors.Join(faults...)
}

// Present returns the jobs with hours on the date, sorted. For a date with small files it returns all jobs.
func (in *Inputs) Present() (jobs []schemas.JobKey, err error) {
	if len(in.small) > 0 || in.rollups == "" {
		return in.Jobs, nil
	}
	r, err := newRollupReader(in.rollups, &chosen{keys: in.Jobs})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for {
		hour, err := r.current()
		if err != nil || hour == nil {
			return jobs, err
		}
		if k := (schemas.JobKey{JobID: hour.JobID, Restart: hour.Restart}); len(jobs) == 0 || jobs[len(jobs)-1] != k {
			jobs = append(jobs, k)
		}
		r.read = r.read[1:]
	}
}
