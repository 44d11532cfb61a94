package producers

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes the loop that samples. A timer of Go's runtime counts whole milliseconds: it wakes the process twice, and
// up to a millisecond late. This timer is the kernel's own.
type alarm struct {
	file *os.File
	fd   int
}

// newAlarm returns an alarm that no longer waits once ctx ends. The caller closes it.
func newAlarm(ctx context.Context) (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a timer: %w", err)
	}
	a := &alarm{os.NewFile(uintptr(fd), "timer"), fd}
	context.AfterFunc(ctx, func() { _ = a.file.SetReadDeadline(time.Unix(1, 0)) }) // it may be closed already
	return a, nil
}

func (a *alarm) close() { _ = a.file.Close() } // nothing was written

// pause waits for a time. It returns false if the context ended.
func (a *alarm) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	var expirations [8]byte
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	err := unix.TimerfdSettime(a.fd, 0, &at, nil)
	if err == nil {
		_, err = a.file.Read(expirations[:])
	}
	return err == nil && binary.NativeEndian.Uint64(expirations[:]) > 0 && ctx.Err() == nil
}
