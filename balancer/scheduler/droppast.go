package scheduler

import (
	"hash/maphash"
	"maps"
	"os"
	"strings"
	"syscall"
)

// pastFiles are the files of jobs that ended too long ago for any interval, in a few bytes each. After a busy day they
// are nearly all files of the directory.
type pastFiles struct {
	seed  maphash.Seed
	files map[uint64]pastFile // by the hash of the name
}

// pastFile recognizes a file that has not changed since the last read.
type pastFile struct {
	stamp uint64 // hash of the file's metadata
	ended uint32 // of an end: the second after it
	scan  uint32 // the last scan that found it
}

func newPastFiles() pastFiles { return pastFiles{maphash.MakeSeed(), map[uint64]pastFile{}} }

func (p *pastFiles) key(name string) uint64 { return maphash.String(p.seed, name) }

func (p *pastFiles) stamp(info os.FileInfo) uint64 {
	seen := struct{ device, file, size, ms uint64 }{
		size: uint64(info.Size()), ms: uint64(info.ModTime().UnixNano()),
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		seen.device, seen.file = s.Dev, s.Ino
	}
	return maphash.Comparable(p.seed, seen)
}

func (p *pastFiles) add(name string, f *dropFile, scan int) {
	ended := uint32(0)
	if strings.HasSuffix(name, ".end") && f.job.End != nil {
		ended = uint32(*f.job.End/1000) + 1
	}
	p.files[p.key(name)] = pastFile{p.stamp(f.info), ended, uint32(scan)}
}

// has reports whether a file is past and unchanged. It forgets a changed file.
func (p *pastFiles) has(name string, info os.FileInfo, scan int) bool {
	key := p.key(name)
	f, there := p.files[key]
	if !there || f.stamp != p.stamp(info) {
		delete(p.files, key)
		return false
	}
	f.scan = uint32(scan)
	p.files[key] = f
	return true
}

func (p *pastFiles) knows(name string) bool { _, there := p.files[p.key(name)]; return there }

// endOf returns the time of an end that is past.
func (p *pastFiles) endOf(name string) (ms int64, past bool) {
	f, past := p.files[p.key(name)]
	return int64(f.ended) * 1000, past
}

func (p *pastFiles) drop(name string) { delete(p.files, p.key(name)) }

// keep forgets files that a scan did not find.
func (p *pastFiles) keep(scan int) {
	maps.DeleteFunc(p.files, func(_ uint64, f pastFile) bool { return f.scan != uint32(scan) })
}
