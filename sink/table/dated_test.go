package table

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestReplacedFileKeepsItsRights: a file of a date is written anew, by a process with another umask. Its readers may
// still read it. This test is not parallel: a process has one umask.
func TestReplacedFileKeepsItsRights(t *testing.T) {
	const date = "2026-11-21"
	d := Dated{Dir: t.TempDir(), Name: "jobs"}
	lock, err := d.Lock(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	write := func(path, _ string) error { return os.WriteFile(path, nil, 0o644) }
	if err := d.Commit(t.Context(), time.Minute, map[string]bool{date: true}, write); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.Path(date), 0o640); err != nil {
		t.Fatal(err)
	}
	before := syscall.Umask(0o077)
	err = d.Commit(t.Context(), time.Minute, map[string]bool{date: true}, write)
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(d.Path(date)); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has the rights %v, %v", info.Mode(), err)
	}
}
