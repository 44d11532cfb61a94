package sink

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestMakeDirIsDurable: the process that made a directory may have died before it was durable. The next one syncs it.
func TestMakeDirIsDurable(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "date=2026-11-20")
	for range 2 {
		var synced []string
		d := Disk{Before: func(action, path string) error {
			if action == ActSyncDir {
				synced = append(synced, path)
			}
			return nil
		}}
		if err := d.MakeDir(dir); err != nil || !slices.Equal(synced, []string{home}) {
			t.Errorf("%v, synced %v", err, synced)
		}
	}
}

// TestFilesOfRootAreTheServices: what root makes in the archive belongs to the owner of the directory, who can replace
// it.
func TestFilesOfRootAreTheServices(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("FILES OF ROOT SKIPPED: only root can try")
	}
	home := t.TempDir()
	const service = 1234
	if err := os.Chown(home, service, service); err != nil {
		t.Fatal(err)
	}
	dir, file := filepath.Join(home, "dir"), filepath.Join(home, "file")
	var d Disk
	if err := d.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteFile(file, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file} {
		var is syscall.Stat_t
		if err := syscall.Stat(path, &is); err != nil || is.Uid != service {
			t.Errorf("%s belongs to %d: %v", path, is.Uid, err)
		}
	}
}
