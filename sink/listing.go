package sink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Files returns the files of a topic's chain below root, by date, with their footers. Users may delete dates meanwhile,
// so missing files are left out.
func Files(root, topic string) ([]File, error) {
	dates, err := listDates(root)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, date := range dates {
		of, err := listFiles(filepath.Join(root, datePrefix+date), topic, date)
		if err != nil {
			return nil, err
		}
		files = append(files, of...)
	}
	if err := readFooters(topic, files); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(files, func(f File) bool { return errors.Is(f.Fault, os.ErrNotExist) }), nil
}

// FilesIn returns the files of a topic's chain in one directory, with their footers.
func FilesIn(dir, topic, date string) ([]File, error) {
	files, err := listFiles(dir, topic, date)
	if err != nil {
		return nil, err
	}
	return files, readFooters(topic, files)
}

// Holes returns the faults of the chains of files, by date. The files are sorted by date. A hole is reported at the
// dates on both sides of it, and overlapping files are reported at the date "".
func Holes(files []File) map[string]error {
	wrong := map[string]error{}
	found, oldest := linksOf(files)
	for _, links := range found {
		holes, err := check(links, oldest)
		if err != nil {
			wrong[""] = err
		}
		for _, h := range holes {
			wrong[h.before.date], wrong[h.after.date] = h.err(), h.err()
		}
	}
	return wrong
}

// File is a file of the archive that is named as one of the chain.
type File struct {
	Path, Date, Name string
	Partition        int32
	Start            int64 // from its name
	Compacted        bool  // from its name
	Footer           Footer
	Fault            error // not nil: the file is damaged, and only its name is known
}

// links returns the stretches of the chain that a file holds.
func (f *File) links() []link {
	if f.Fault != nil {
		return []link{{path: f.Path, date: f.Date, start: f.Start, compacted: f.Compacted, fault: f.Fault}}
	}
	var links []link
	for _, r := range f.Footer.Ranges() {
		links = append(links, link{
			path: f.Path, date: f.Date, start: r.Start, next: r.Next, previous: r.PreviousDate,
			topicID: f.Footer.TopicID, compacted: f.Compacted,
		})
	}
	return links
}

// listFiles returns the files of a date's directory with names of the topic's chain. It reads no footers. Users may
// delete a date meanwhile.
func listFiles(dir, topic, date string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	var files []File
	for _, e := range entries {
		f := File{Path: filepath.Join(dir, e.Name()), Date: date, Name: e.Name()}
		var ok bool
		if f.Partition, f.Start, ok = parseName(topic, f.Name); !ok {
			f.Partition, f.Start, f.Compacted = parseCompacted(topic, f.Name)
		}
		if ok || f.Compacted {
			files = append(files, f)
		}
	}
	return files, nil
}

// readFooters reads the footers of files. A damaged file, or one that is gone, gets a fault.
func readFooters(topic string, files []File) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range files {
		f := &files[i]
		g.Go(func() (err error) {
			f.Footer, err = f.readFooter(topic)
			if errors.Is(err, errDamaged) || errors.Is(err, os.ErrNotExist) {
				f.Fault, err = err, nil
			}
			return err
		})
	}
	return g.Wait()
}

// readFooter reads the footer of a file and compares it with the file's name.
func (f *File) readFooter(topic string) (Footer, error) {
	footer, err := ReadFooter(f.Path)
	if err != nil {
		return Footer{}, err
	}
	name := fileName(footer.Topic, footer.Partition, footer.Start)
	if footer.Compacted != nil {
		name = CompactedName(footer.Topic, footer.Partition, footer.Start)
	}
	if footer.Topic != topic || name != f.Name {
		return Footer{}, fmt.Errorf("%w: %s calls itself %s: give it its name back, or move it away",
			ErrBadFile, f.Path, name)
	}
	return footer, nil
}

// listDates returns the dates below root that have a directory, oldest first.
func listDates(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", root, err)
	}
	var dates []string
	for _, e := range entries {
		date, ok := parseDate(e.Name())
		if !ok {
			continue
		}
		// A date may lie elsewhere, behind a symbolic link.
		if info, err := os.Stat(filepath.Join(root, e.Name())); err == nil && info.IsDir() {
			dates = append(dates, date)
		}
	}
	return dates, nil // ReadDir sorts by name
}
