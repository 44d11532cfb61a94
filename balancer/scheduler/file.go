package scheduler

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
)

// maxFileBytes bounds the part of a job file that is read.
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
// restart (0), name, account and queue are optional, and nodes may be a hostlist such as n[001-016]. Also optional are
// cores, gpus, time_limit_s, mem_requested_bytes, exclusive, array_job and array_task, and state, the outcome of the
// job. A fault in one job leaves that job out. If a file cannot be read or is malformed, the last good one stays in
// force. New nodes and changed cpus of a job count from the time of the read, not for the interval that runs by then.
//
// The file is read in the background, so that a file system that hangs does not hold up the caller. Meanwhile the last
// good file stays in force.
type FileSource struct {
	path string
	lane config.Lane
	seen os.FileInfo // of the file at the last read; nil if there was none; only the lane uses it

	mu     sync.Mutex
	asked  bool
	good   bool // jobs were read from it
	jobs   []Job
	faults []Fault // in single jobs
	broken []Fault // of the file as a whole: one or none
}

// NewFileSource returns a source that reads the file at path when it is first asked. The file may come later.
func NewFileSource(path string) *FileSource { return &FileSource{path: path} }

// fileWait is the longest time that a caller waits for a file that was read before. The balancer publishes its plan
// this much later once, when the file system begins to hang.
const fileWait = 250 * time.Millisecond

// Jobs implements Source. The first call waits for a slow file, since nothing is known yet. A later call returns the
// last known jobs.
func (f *FileSource) Jobs(now time.Time) ([]Job, []Fault) {
	hangs := f.lane.Call(f.patience(), func() { f.refresh(now) })
	f.mu.Lock()
	defer f.mu.Unlock()
	broken := f.broken
	if !hangs.IsZero() && (!f.good || time.Since(hangs) >= config.ReadPatience) {
		broken = f.fault(config.Silent(hangs))
	}
	return f.jobs, slices.Concat(broken, f.faults)
}

func (f *FileSource) patience() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.asked {
		f.asked = true
		return config.ReadPatience
	}
	return fileWait
}

// fault is the reason why the file as a whole cannot be read.
func (f *FileSource) fault(err error) []Fault {
	stays := "; the last good file stays in force"
	if !f.good {
		stays = ""
	}
	return []Fault{{Reason: fmt.Sprintf("reading the job file %s: %v%s", f.path, err, stays), Unread: !f.good}}
}

// unchanged reports whether a file is still the one that was read, judged by its name, size and time.
func unchanged(seen, now os.FileInfo) bool {
	return os.SameFile(now, seen) && now.Size() == seen.Size() && now.ModTime().Equal(seen.ModTime())
}

// refresh reads the jobs if the file has changed since the last read.
func (f *FileSource) refresh(now time.Time) {
	begun := time.Now()
	text, info, err := f.read()
	var jobs []Job
	var faults []Fault
	if err == nil && info != nil {
		jobs, faults, err = parseJobs(text)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		f.broken = f.fault(err)
	case info != nil:
		if late := time.Since(begun); late >= fileWait { // the caller of Jobs did not wait so long
			now = now.Add(late)
		}
		carryHeld(f.jobs, jobs, now.UnixMilli())
		f.jobs, f.faults, f.broken, f.good = jobs, faults, nil, true
	}
}

// read returns the text of the file. The info is nil if the file has not changed since the last read. The fault of that
// read, if any, remains.
func (f *FileSource) read() (text []byte, info os.FileInfo, err error) {
	seen := f.seen
	f.seen = nil
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, naming.Pathless(err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	if info, err = file.Stat(); err != nil {
		return nil, nil, naming.Pathless(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	if seen != nil && unchanged(seen, info) {
		f.seen = seen
		return nil, nil, nil
	}
	if text, err = io.ReadAll(io.LimitReader(file, maxFileBytes+1)); err != nil {
		return nil, nil, naming.Pathless(err)
	}
	// The state from before reading is kept: if the file changed meanwhile, it is read again.
	f.seen = info
	return text, info, nil
}

// badByte is a byte of a job file that YAML does not accept, and its position.
type badByte struct {
	line, column int
	value        byte
}

func (b *badByte) remedy() string {
	if b.value < utf8.RuneSelf {
		return fmt.Sprintf("line %d, column %d: byte 0x%02x is a control character: remove it",
			b.line, b.column, b.value)
	}
	return fmt.Sprintf("line %d, column %d: byte 0x%02x is not UTF-8: save the file as UTF-8",
		b.line, b.column, b.value)
}

// readable replaces bytes that YAML does not accept by U+FFFD, so that they cost one job and not the file. It returns
// the replaced bytes.
func readable(text []byte) ([]byte, []badByte) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return text, nil // UTF-16
	}
	var bad []badByte
	clean := make([]byte, 0, len(text))
	for i, line, column := 0, 1, 1; i < len(text); column++ {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1,
			r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f, r > 0x7f && r < 0xa0 && r != 0x85,
			r == 0xfeff && i > 0, r == 0xfffe, r == 0xffff:
			bad = append(bad, badByte{line, column, text[i]})
			clean = utf8.AppendRune(clean, utf8.RuneError)
		default:
			clean = append(clean, text[i:i+size]...)
		}
		if r == '\n' {
			line, column = line+1, 0
		}
		i += size
	}
	return clean, bad
}

// badIn returns a byte that was replaced in the texts of a job, or nil. The bad bytes must ascend by line.
func badIn(n *yaml.Node, bad []badByte) *badByte {
	if len(bad) == 0 {
		return nil
	}
	if n.Kind == yaml.ScalarNode && strings.ContainsRune(n.Value, utf8.RuneError) {
		i, _ := slices.BinarySearchFunc(bad, n.Line, func(b badByte, line int) int { return cmp.Compare(b.line, line) })
		if i < len(bad) {
			return &bad[i]
		}
	}
	for _, inner := range n.Content {
		if b := badIn(inner, bad); b != nil {
			return b
		}
	}
	return nil
}
