package compact

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/sink"
)

// TestRightsComeFromTheDate: users who may read the small files of a date may read the compacted files, and nobody else
// may. The umask of the compaction has no effect on this. This test is not parallel: a process has one umask.
func TestRightsComeFromTheDate(t *testing.T) {
	for _, umask := range []int{0o077, 0}[:kafkatest.Cases(2, 1)] {
		dir := t.TempDir()
		paths, _ := smallFiles(t, dir, 2, newMachine(true))
		for _, path := range paths {
			if err := os.Chmod(path, 0o640); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(sink.DatePath(dir, testDate), 0o750); err != nil {
			t.Fatal(err)
		}
		before := unix.Umask(umask)
		compactTest(t, dir, 2)
		unix.Umask(before)
		made, err := filepath.Glob(filepath.Join(sink.DatePath(dir, testDate), "*"))
		if err != nil || len(made) != 1 {
			t.Fatal(made, err)
		}
		rollups := rollupsPath(dir, testDate)
		for path, want := range map[string]fs.FileMode{
			made[0]: 0o640, rollups: 0o640, filepath.Dir(made[0]): 0o750, filepath.Dir(rollups): 0o750,
		} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != want {
				t.Errorf("umask %o: %s has the rights %o, want %o", umask, path, info.Mode().Perm(), want)
			}
		}
	}
}
