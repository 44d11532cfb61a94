package compact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirhpc/weir/sink"
)

// known is what a file holds. Files never change, so the judge reads each of them once.
type known struct {
	file sink.File
	rows []string
}

type fileKey struct {
	inode uint64
	size  int64
	at    time.Time
}

var knownFiles = map[fileKey]known{}

// readOnce reads a file as any reader does.
func readOnce(path string) (known, error) {
	info, err := os.Stat(path)
	if err != nil {
		return known{}, err
	}
	key := fileKey{info.Sys().(*syscall.Stat_t).Ino, info.Size(), info.ModTime()}
	if k, ok := knownFiles[key]; ok {
		return k, nil
	}
	rows, f, err := sink.ReadFile(path)
	if err != nil {
		return known{}, err
	}
	k := known{file: sink.File{
		Name: filepath.Base(path), Partition: f.Partition, Start: f.Start, Compacted: f.Compacted != nil, Footer: f,
	}}
	for _, r := range rows {
		k.rows = append(k.rows, r.Cluster)
	}
	knownFiles[key] = k
	return k, nil
}

// judge holds what a glob reads against what must be there, and the chain against its rules.
func (p *player) judge() error {
	paths, err := filepath.Glob(filepath.Join(p.dir, "summaries", "date=*", "*.parquet"))
	if err != nil {
		return err
	}
	count := map[string]int{}
	var files []sink.File
	inside := map[string][]string{} // the rows of each file of the date
	var bad int64
	gaps := 0
	for _, path := range paths {
		k, err := readOnce(path)
		if err != nil {
			return err
		}
		for _, r := range k.rows {
			count[r]++
		}
		if strings.Contains(path, testDate) {
			inside[filepath.Base(path)] = k.rows
		}
		for _, r := range k.file.Footer.Ranges() {
			if r.Gap {
				gaps++
			}
		}
		bad += k.file.Footer.UndecodableCount
		k.file.Path, k.file.Date = path, strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "date=")
		files = append(files, k.file)
	}
	for _, name := range p.want {
		if count[name] != 1 {
			return fmt.Errorf("row %s is there %d times", name, count[name])
		}
		delete(count, name)
	}
	for _, name := range p.stray {
		if count[name] > 1 {
			return fmt.Errorf("row %s is there %d times", name, count[name])
		}
		delete(count, name)
	}
	if len(count) > 0 {
		return fmt.Errorf("rows that nobody wrote: %v", count)
	}
	for date, err := range sink.Holes(files) {
		return fmt.Errorf("date %q: %w", date, err)
	}
	if bad != partitions || gaps != 1 {
		return fmt.Errorf("%d records are listed as undecodable, not %d; %d gaps, not 1", bad, partitions, gaps)
	}
	if err := p.judgeRollups(files, inside); err != nil {
		return err
	}
	return p.foreign()
}

// knownRollups are the rollups that the judge has read.
var knownRollups = map[fileKey]struct {
	footer rollupsFooter
	atoms  map[float64]int64
}{}

// readRollupsOnce returns a file's footer, and how often each atom is in its summaries.
func readRollupsOnce(path string) (f rollupsFooter, atoms map[float64]int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return f, nil, err
	}
	key := fileKey{info.Sys().(*syscall.Stat_t).Ino, info.Size(), info.ModTime()}
	if k, ok := knownRollups[key]; ok {
		return k.footer, k.atoms, nil
	}
	if f, err = readRollups(context.Background(), path); err != nil {
		return f, nil, err
	}
	all, err := rollupsOf(path)
	if err != nil {
		return f, nil, err
	}
	atoms = map[float64]int64{}
	for _, r := range all {
		for i, v := range r.AtomValues {
			atoms[v] += r.AtomCounts[i]
		}
		if r.Count != r.CertifiedCount || r.Intervals != r.Count {
			return f, nil, fmt.Errorf("a rollup of %d rows has %d values, %d of them certified",
				r.Intervals, r.Count, r.CertifiedCount)
		}
	}
	k := knownRollups[key]
	k.footer, k.atoms = f, atoms
	knownRollups[key] = k
	return f, atoms, nil
}

// rollupsOf returns the rollups of a file.
func rollupsOf(path string) (all []Rollup, err error) {
	r, err := newRollupReader(path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	err = joinRollups(context.Background(), []*rollupReader{r}, func(r *Rollup) error {
		all = append(all, *r)
		return nil
	})
	return all, err
}

// judgeRollups: each row of a compacted file is in the rollups once. Between rollups and exchange, so are the inputs of
// the generation that comes. No other row is.
func (p *player) judgeRollups(files []sink.File, inside map[string][]string) error {
	date := int64(0)
	want := map[float64]int64{}
	for _, f := range files {
		if f.Date == testDate && f.Footer.Compacted != nil {
			date = max(date, f.Footer.Compacted.Generation)
			for _, row := range inside[f.Name] {
				want[atomOf(row)]++
			}
		}
	}
	f, atoms, err := readRollupsOnce(rollupsPath(p.dir, testDate))
	if errors.Is(err, fs.ErrNotExist) && date == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rollups of a date of generation %d: %w", date, err)
	}
	switch f.generation {
	case date:
	case date + 1:
		for _, name := range f.inputs {
			for _, row := range inside[name] {
				want[atomOf(row)]++
			}
		}
	default:
		return fmt.Errorf("rollups of generation %d beside a date of %d", f.generation, date)
	}
	if !maps.Equal(want, atoms) {
		return fmt.Errorf("rollups of generation %d, date of %d: rows %v, want %v", f.generation, date, atoms, want)
	}
	return nil
}

func (p *player) foreign() error {
	for name, text := range p.w.foreign {
		got, err := os.ReadFile(filepath.Join(sink.DatePath(p.dir, testDate), name))
		if err != nil || string(got) != text {
			return fmt.Errorf("a user's file: %q, %w", got, err)
		}
	}
	return nil
}

// leftovers returns the names of all files in the stage, except the locks.
func leftovers(dir string) (names []string, err error) {
	entries, err := os.ReadDir(sink.StagePath(dir))
	for _, e := range entries {
		if e.Name() != "lock" && e.Name() != "turn" {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// end checks that all is done: one compacted file a partition, and nothing left in the stage.
func (p *player) end() error {
	left, err := leftovers(p.dir)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("the stage still has %v", left)
	}
	files, err := sink.FilesIn(sink.DatePath(p.dir, testDate), testTopic, testDate)
	if err != nil {
		return err
	}
	small, compacted := 0, 0
	for _, f := range files {
		if f.Compacted {
			compacted++
		} else {
			small++
		}
	}
	if compacted != partitions || small > 1 {
		return fmt.Errorf("%d compacted and %d small files", compacted, small)
	}
	return nil
}
