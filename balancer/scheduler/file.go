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
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

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
// restart (0), name, account and queue may stand there too, and nodes may be a hostlist such as n[001-016]. So may
// cores, gpus, time_limit_s, mem_requested_bytes, exclusive, array_job and array_task, and state, which is how the job
// ended. A fault in one job leaves that job out. If a file cannot be read or has another form, the last good one stays
// in force. New nodes and changed cpus of a job count from when the file was read, not for the interval that runs by
// then.
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

// unchanged reports whether a file is still the one that was read, as far as its name, size and time tell.
func unchanged(seen, now os.FileInfo) bool {
	return os.SameFile(now, seen) && now.Size() == seen.Size() && now.ModTime().Equal(seen.ModTime())
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
	if f.seen != nil && unchanged(f.seen, info) {
		return nil // if it was broken, the fault stands
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

// readable replaces what YAML does not accept by U+FFFD, so that it costs one job and not the file. It returns the
// replaced bytes.
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
