package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// Hang mounts a file system over a directory that answers no call, until end. It needs root and FUSE, and else skips
// the test.
func Hang(t *testing.T, dir string) (end func()) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		err = syscall.Mount("hung", dir, "fuse", 0,
			fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd()))
	}
	if err != nil {
		t.Skipf("HUNG FILE SYSTEM SKIPPED: NONE CAN BE MOUNTED HERE: %v", err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			if err := errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), fuse.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(end)
	return end
}
