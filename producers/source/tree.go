package source

import (
	"bytes"
	"encoding/binary"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxListing = 1 << 20 // bytes of a directory's list: some 20,000 entries
	maxListed  = 4096    // directories that are listed
)

// tree finds the directories that match patterns. It keeps the directories that it lists open, and compares the lists
// in the kernel's own format. So checking an unchanged tree costs one or two system calls for each directory, and no
// memory.
type tree struct {
	root     string
	patterns [][]string
	listings map[string]*listing // by path below the root
	found    []string            // the matches, ascending, as paths below the root
}

// listing is a directory that is listed, or that is not there.
type listing struct {
	fd         int    // -1: it is not there
	path       []byte // with a NUL
	raw, spare []byte
	used       bool // by the last look
}

func newTree(root string, patterns []string) *tree {
	t := &tree{root: root, listings: map[string]*listing{}}
	for _, p := range patterns {
		t.patterns = append(t.patterns, strings.Split(path.Clean(p), "/"))
	}
	return t
}

// refresh looks for changes, and reports whether the matches may have changed.
func (t *tree) refresh() bool {
	changed := len(t.listings) == 0
	for _, l := range t.listings {
		if l.changed() {
			changed = true
		}
	}
	if !changed {
		return false
	}
	t.found = t.found[:0]
	for _, l := range t.listings {
		l.used = false
	}
	for _, p := range t.patterns {
		t.expand("", p)
	}
	for name, l := range t.listings {
		if !l.used {
			l.close()
			delete(t.listings, name)
		}
	}
	slices.Sort(t.found)
	t.found = slices.Compact(t.found)
	return true
}

func (t *tree) close() {
	for _, l := range t.listings {
		l.close()
	}
}

// expand finds the matches of the parts of a pattern below a directory.
func (t *tree) expand(dir string, parts []string) {
	fixed := 0
	for fixed < len(parts) && !strings.ContainsAny(parts[fixed], `*?[\`) {
		fixed++
	}
	dir = path.Join(dir, path.Join(parts[:fixed]...))
	if parts = parts[fixed:]; len(parts) == 0 {
		t.found = append(t.found, dir)
		return
	}
	l := t.listings[dir]
	if l == nil {
		if len(t.listings) == maxListed {
			return
		}
		l = &listing{fd: -1}
		t.listings[dir] = l
		l.open(filepath.Join(t.root, dir))
	} else if l.fd < 0 && !l.used {
		l.open(filepath.Join(t.root, dir))
	}
	l.used = true
	for _, name := range directories(l.raw) {
		if ok, err := path.Match(parts[0], name); ok && err == nil {
			t.expand(path.Join(dir, name), parts[1:])
		}
	}
}

// open opens and reads the directory. A directory that a pattern names may appear later.
func (l *listing) open(dir string) {
	l.path = append([]byte(dir), 0)
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	l.fd = fd
	if l.raw = l.list(l.raw); l.raw == nil {
		l.close()
	}
}

func (l *listing) close() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd) // it was only read
	}
	l.fd, l.raw = -1, l.raw[:0]
}

// changed reads the directory again, and reports whether its entries changed, or the directory came or went. Entries
// are compared with their inodes, so a directory that was removed and created again under its name counts as a change.
func (l *listing) changed() bool {
	if l.fd < 0 { // unix.Faccessat would copy the path
		_, _, e := unix.Syscall(unix.SYS_FACCESSAT, uintptr(atCWD), uintptr(unsafe.Pointer(&l.path[0])), unix.R_OK)
		return e == 0
	}
	was := l.raw
	now := l.list(l.spare)
	if now == nil {
		l.close()
		return true
	}
	l.raw, l.spare = now, was
	return !bytes.Equal(was, now)
}

var atCWD = unix.AT_FDCWD

// list reads the entries into a buffer. It returns nil if the directory is gone, or has too many entries.
func (l *listing) list(buffer []byte) []byte {
	if _, err := unix.Seek(l.fd, 0, 0); err != nil {
		return nil
	}
	for buffer = buffer[:0]; len(buffer) <= maxListing; {
		buffer = slices.Grow(buffer, 4096)
		n, err := unix.ReadDirent(l.fd, buffer[len(buffer):cap(buffer)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil
		case n == 0:
			return buffer
		default:
			buffer = buffer[:len(buffer)+n]
		}
	}
	return nil
}

// directories returns the names of the directories in a buffer that the kernel filled with structs linux_dirent64.
func directories(raw []byte) (names []string) {
	const lengthAt, typeAt, nameAt = 16, 18, 19
	for len(raw) > nameAt {
		size := int(binary.NativeEndian.Uint16(raw[lengthAt:]))
		if size <= nameAt || size > len(raw) {
			return names
		}
		name, _, _ := bytes.Cut(raw[nameAt:size], []byte{0})
		if raw[typeAt] == unix.DT_DIR && string(name) != "." && string(name) != ".." {
			names = append(names, string(name))
		}
		raw = raw[size:]
	}
	return names
}
