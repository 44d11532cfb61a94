package sink

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLocksOfRootAreTheServices: a lock that root takes first belongs to the owner of the archive, who can take it too.
func TestLocksOfRootAreTheServices(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("LOCKS OF ROOT SKIPPED: only root can try")
	}
	dir := t.TempDir()
	const service = 1234
	if err := os.Chown(dir, service, service); err != nil {
		t.Fatal(err)
	}
	stage := filepath.Join(dir, stageDir)
	if err := os.Mkdir(stage, 0o755); err != nil {
		t.Fatal(err)
	}
	Inherit(stage)
	for _, path := range []string{LockPath(dir), filepath.Join(stage, "lock")} {
		lock, err := TakeLock(t.Context(), path, true, 0)
		if err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
		var is syscall.Stat_t
		if err := syscall.Stat(path, &is); err != nil || is.Uid != service {
			t.Errorf("%s belongs to %d: %v", path, is.Uid, err)
		}
	}
}
