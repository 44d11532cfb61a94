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
	"strings"
	"time"

	"github.com/weirhpc/weir/sink"
)

// ErrWrong is returned by Verify when something in the archive is wrong.
var ErrWrong = errors.New("the archive has faults")

// DateStats are the numbers of a date.
type DateStats struct {
	Date        string `json:"date"`
	Small       int    `json:"small_files"`
	Compacted   int    `json:"compacted_files"`
	Generation  int64  `json:"generation"`
	Rows        int64  `json:"rows"`
	Bytes       int64  `json:"bytes"`
	Undecodable int64  `json:"undecodable"`
	Gaps        int    `json:"gaps"`
	Damaged     int    `json:"damaged_files"`
	Rollups     int64  `json:"rollups"`
	RollupBytes int64  `json:"rollup_bytes"`
	Jobs        int64  `json:"jobs"`
	JobBytes    int64  `json:"job_bytes"`

	Findings     int64 `json:"findings"`
	FindingBytes int64 `json:"finding_bytes"`
}

// Stats returns the numbers of each date, oldest first. It reads footers alone.
func Stats(ctx context.Context, dir, topic string) (all []DateStats, err error) {
	files, err := survey(ctx, dir, topic)
	if err != nil {
		return nil, err
	}
	byDate := map[string]*DateStats{}
	for _, f := range files {
		s := byDate[f.Date]
		if s == nil {
			s = &DateStats{Date: f.Date}
			byDate[f.Date] = s
		}
		s.Bytes += sizeOf(f.Path)
		switch {
		case f.Fault != nil:
			s.Damaged++
		case f.Compacted:
			s.Compacted++
			s.Generation = max(s.Generation, f.Footer.Compacted.Generation)
		default:
			s.Small++
		}
		s.Rows += f.Footer.Rows
		s.Undecodable += f.Footer.UndecodableCount
		if f.Fault == nil {
			for _, r := range f.Footer.Ranges() {
				if r.Gap {
					s.Gaps++
				}
			}
		}
	}
	rolled, err := RollupDates(dir)
	if err != nil {
		return nil, err
	}
	for _, date := range rolled {
		if byDate[date] == nil { // its files were deleted
			byDate[date] = &DateStats{Date: date}
		}
		s := byDate[date]
		s.RollupBytes = sizeOf(rollupsPath(dir, date))
		if f, err := footerOfRollups(rollupsPath(dir, date)); err != nil || f == nil {
			s.Damaged++
		} else {
			s.Rollups = f.rows
		}
	}
	if err := statBeside(dir, byDate); err != nil {
		return nil, err
	}
	for _, date := range slices.Sorted(maps.Keys(byDate)) {
		all = append(all, *byDate[date])
	}
	return all, nil
}

// RollupDates returns the dates with a directory for rollups.
func RollupDates(dir string) (dates []string, err error) {
	found, err := filepath.Glob(filepath.Dir(rollupsPath(dir, "*")))
	for _, path := range found {
		date := strings.TrimPrefix(filepath.Base(path), stagePrefix)
		if _, no := time.Parse(time.DateOnly, date); no == nil && sizeOf(rollupsPath(dir, date)) > 0 {
			dates = append(dates, date)
		}
	}
	return dates, err
}

// survey returns the files of the archive with their footers.
func survey(ctx context.Context, dir, topic string) (files []sink.File, err error) {
	root := filepath.Dir(sink.DatePath(dir, ""))
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: set sink.dir, or --dir, to the sink's directory", ErrNoArchive, dir)
	}
	err = sink.Reading(ctx, dir, func() error { files, err = sink.Files(root, topic); return err })
	return files, err
}

// Verified is the result of Verify for a date.
type Verified struct {
	Date    string   `json:"date"`
	Files   int      `json:"files"`
	Rows    int64    `json:"rows"`
	Rollups int64    `json:"rollups"`
	Jobs    int64    `json:"jobs"`
	Faults  []string `json:"faults"`

	Findings int64 `json:"findings"`

	small []sink.File // its files that are not compacted
}

// Verify reads all files of the given dates, or of all dates, and compares them with their footers, their order and the
// chain. It reports each date, and returns ErrWrong if one is faulty. It locks a date only while it reads it.
func Verify(ctx context.Context, dir, topic string, dates []string, report func(Verified)) error {
	files, err := survey(ctx, dir, topic)
	if err != nil {
		return err
	}
	holes := sink.Holes(files)
	wrong := false
	var all []string
	for _, f := range files {
		if len(dates) == 0 || slices.Contains(dates, f.Date) {
			all = append(all, f.Date)
		}
	}
	rolled, err := RollupDates(dir)
	if err != nil {
		return err
	}
	beside, err := datesBeside(dir)
	if err != nil {
		return err
	}
	for _, date := range append(rolled, beside...) {
		if len(dates) == 0 || slices.Contains(dates, date) {
			all = append(all, date)
		}
	}
	slices.Sort(all)
	for _, date := range dates {
		if !slices.Contains(all, date) {
			wrong = true
			report(Verified{Date: date, Faults: []string{"it has no files: nothing was verified"}})
		}
	}
	if holes[""] != nil {
		wrong = true
		report(Verified{Faults: []string{holes[""].Error()}})
	}
	for _, date := range slices.Compact(all) {
		v := Verified{Date: date, Faults: []string{}}
		if holes[date] != nil {
			v.Faults = append(v.Faults, holes[date].Error())
		}
		if err := sink.Reading(ctx, dir, func() error {
			v.readBeside(dir)
			return v.read(ctx, dir, topic)
		}); err != nil {
			return err
		}
		wrong = wrong || len(v.Faults) > 0
		report(v)
	}
	if wrong {
		return ErrWrong
	}
	return nil
}

// read reads all files of the date. Its error ends the verification; a fault of a file does not.
func (v *Verified) read(ctx context.Context, dir, topic string) error {
	files, err := sink.FilesIn(sink.DatePath(dir, v.Date), topic, v.Date)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // then only the rollups are left
		return err
	}
	compacted := int64(0) // rows
	known := true         // the rows of all files
	for _, f := range files {
		if f.Fault != nil {
			v.Faults, known = append(v.Faults, f.Fault.Error()), false
			continue
		}
		held, err := readBack(ctx, f.Path)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.Files, v.Rows = v.Files+1, v.Rows+held.rows
		if f.Compacted {
			compacted += f.Footer.Rows
		} else {
			v.small = append(v.small, f)
		}
		switch c := f.Footer.Compacted; {
		case err != nil:
			v.Faults = append(v.Faults, err.Error())
		case held.rows != f.Footer.Rows || c != nil && held.hash != c.Hash:
			v.Faults = append(v.Faults, f.Path+": its rows are not those that were written: bring it back from a copy")
		}
	}
	if !known {
		return nil
	}
	return v.readRollups(ctx, dir, topic, generation(files), compacted)
}

// readRollups reads the date's rollups. They contain each row of its compacted files once. A crash may have left the
// rollups of the next generation without its files.
func (v *Verified) readRollups(ctx context.Context, dir, topic string, generation, rows int64) error {
	path := rollupsPath(dir, v.Date)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && generation == 0 {
		return nil
	}
	f, err := readRollups(ctx, path)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	v.Rollups = f.rows
	if err == nil && v.Files > 0 {
		next, _ := afterRollups(generation+1, &f, v.small)
		_, _, err = begin(&f, topic, next)
	}
	switch {
	case err != nil:
		v.Faults = append(v.Faults, err.Error())
	case generation > 0 && f.generation == generation && f.intervals-f.deleted != rows:
		v.Faults = append(v.Faults, fmt.Sprintf("%s: %d rows of summaries, and the compacted files have %d: "+
			"bring both back from the same copy", path, f.intervals-f.deleted, rows))
	}
	return nil
}
