package scheduler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/weirhpc/weir/naming"
)

// maxFileBytes bounds what is read of a job file.
const maxFileBytes = 16 << 20

// errTooLong is returned when a job file is longer than 16 MiB.
var errTooLong = errors.New("longer than 16 MiB")

// FileSource reads jobs from a YAML file, and again whenever it changes:
//
//	jobs:
//	  - id: "4711"
//	    user: ada
//	    nodes: [n001, n002]
//	    cpus: [0, 1, 2, 3]            # on each node; without it: all
//	    start: 2026-01-31T08:00:00Z   # without it: since ever
//	    end: 2026-01-31T09:00:00Z     # without it: not known yet
//
// restart (0), name, account and queue may stand there too, and nodes may be a hostlist such as n[001-016]. A fault in one job
// leaves that job out. A file that cannot be read or is no YAML of this form leaves the last good one in force. A job that gains
// nodes or changes its cpus has the new ones from when the file was read, not for the interval that runs by then.
type FileSource struct {
	path   string
	seen   os.FileInfo // of the file as it was last read; nil where there was none
	good   bool        // jobs were read from it
	jobs   []Job
	faults []Fault // in single jobs
	broken []Fault // of the file as a whole: one or none
}

// NewFileSource returns a source that reads the file at path when it is first asked. The file may come later.
func NewFileSource(path string) *FileSource { return &FileSource{path: path} }

// Jobs implements Source.
func (f *FileSource) Jobs(now time.Time) ([]Job, []Fault) {
	if err := f.refresh(now); err != nil {
		stays := "; the last good file stays in force"
		if !f.good {
			stays = ""
		}
		f.broken = []Fault{{Reason: fmt.Sprintf("reading the job file %s: %v%s", f.path, err, stays), Unread: !f.good}}
	}
	return f.jobs, slices.Concat(f.broken, f.faults)
}

// refresh reads the file if it is not the one that was read last.
func (f *FileSource) refresh(now time.Time) error {
	info, err := os.Stat(f.path)
	if err != nil {
		f.seen = nil
		return naming.Pathless(err)
	}
	if !info.Mode().IsRegular() {
		f.seen = nil
		return errors.New("not a regular file")
	}
	if f.seen != nil && os.SameFile(info, f.seen) && info.Size() == f.seen.Size() && info.ModTime().Equal(f.seen.ModTime()) {
		return nil // also where it was broken: the fault stands
	}
	file, err := os.Open(f.path)
	if err != nil {
		f.seen = nil
		return naming.Pathless(err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		f.seen = nil
		return naming.Pathless(err)
	}
	// The state from before reading is kept: if the file changed meanwhile, it is read again.
	f.seen = info
	jobs, faults, err := parseJobs(text)
	if err != nil {
		return err
	}
	carryHeld(f.jobs, jobs, now.UnixMilli())
	f.jobs, f.faults, f.broken, f.good = jobs, faults, nil, true
	return nil
}
