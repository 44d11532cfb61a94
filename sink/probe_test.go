package sink

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// Each fault of a file system has its message, and nothing stays behind.
func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*prober)
		note, fault string
	}{
		"all there": {func(*prober) {}, "", ""},
		"no hard links": {
			func(p *prober) { p.link = func(string, string) error { return syscall.EPERM } },
			"", "the file system has no hard links: choose another sink.dir",
		},
		"two file systems": {
			func(p *prober) { p.link = func(string, string) error { return syscall.EXDEV } },
			"are on different file systems, so nothing is compacted: put both on one", "",
		},
		"no flock": {
			func(p *prober) { p.lock = func(string) (*Lock, error) { return nil, fmt.Errorf("x: %w", ErrNoLocks) } },
			"the file system has no flock(2), so nothing may be compacted here: on Lustre, mount with -o flock", "",
		},
		"flock of one process": {
			func(p *prober) { p.beside = func(string) error { return nil } },
			"grants one flock(2) to two processes", "",
		},
		"no second process": {
			func(p *prober) { p.beside = func(string) error { return errors.New("no such file") } },
			"its locks could not be tried from a second process: no such file", "",
		},
		"no exchange": {
			func(p *prober) { p.exchange = func(string, string) error { return syscall.EINVAL } },
			"cannot exchange two directories. A compaction renames twice", "",
		},
		"exchange refused": {
			func(p *prober) { p.exchange = func(string, string) error { return syscall.EACCES } },
			"", "exchanging two directories of sink.dir: permission denied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := newArchive(dir, "t", nil)
			if err := a.open(); err != nil {
				t.Fatal(err)
			}
			p := newProber(t.Context(), dir, func(path string) error {
				lock, err := TakeLock(t.Context(), path, true, 0)
				if err == nil {
					lock.Unlock()
				}
				return err
			})
			c.change(p)
			notes, err := p.probe()
			if text := strings.Join(notes, "\n"); !strings.Contains(text, c.note) || (c.note == "") != (text == "") {
				t.Errorf("notes %q", notes)
			}
			if (c.fault == "") != (err == nil) || !strings.Contains(fmt.Sprint(err), c.fault) {
				t.Errorf("error %v", err)
			}
			for _, d := range []string{p.dir, p.stage, p.root} {
				if entries, _ := os.ReadDir(d); d != p.dir && len(entries) > 0 || len(entries) > 2 {
					t.Errorf("left in %s: %v", d, entries)
				}
			}
		})
	}
}
