package source

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Milliseconds between two searches for a source's devices, because drivers are loaded and file systems are mounted at
// any time. A source that lost a device searches sooner, but not in every interval: searching costs more than reading.
const (
	lookEveryMs = 60_000
	lookSoonMs  = 10_000
)

// devices are the objects that a source reads: ports, mounts, sensors. They come and go while the agent runs.
type devices[T any] struct {
	list  func() ([]string, error)     // names of the devices present now
	open  func(name string) (T, error) // if one cannot be opened, none is read
	close func(T)

	names  []string
	all    []T
	set    uint64 // grows whenever the devices change
	gone   bool   // one did not answer since the last look
	lastMs int64  // the boundary of the last look
	err    error  // why there are none now
}

// look searches for devices. Devices that were there before stay open, unless one was gone. It returns the reason if
// there are none.
func (d *devices[T]) look() error {
	found, err := d.list()
	if err == nil && d.err == nil && !d.gone && slices.Equal(found, d.names) {
		return nil
	}
	d.release()
	d.names, d.gone, d.err = found, false, err
	d.set++
	if err != nil {
		return err
	}
	for _, name := range found {
		one, err := d.open(name)
		if err != nil {
			d.release()
			d.err = fmt.Errorf("opening %s: %w", name, err)
			return d.err
		}
		d.all = append(d.all, one)
	}
	return nil
}

// now returns the devices at a boundary. It searches for them first if a search is due.
func (d *devices[T]) now(boundaryMs int64) ([]T, error) {
	if d.lastMs == 0 {
		d.lastMs = boundaryMs // open has just looked
	}
	wait, passed := int64(lookEveryMs), boundaryMs-d.lastMs
	if d.gone || d.err != nil {
		wait = lookSoonMs
	}
	if passed < 0 || passed >= wait {
		d.lastMs = boundaryMs
		_ = d.look() // the next line returns it
	}
	return d.all, d.err
}

// lost takes note of a device that did not answer.
func (d *devices[T]) lost(err error) error {
	d.gone = true
	return err
}

// release closes all devices.
func (d *devices[T]) release() {
	for _, one := range d.all {
		d.close(one)
	}
	d.all = d.all[:0]
}

// kept is a small file of the kernel that stays open. The zero value is a file that is not there.
type kept struct {
	file *os.File
	fd   int
}

func keep(path string) (kept, error) {
	file, err := os.Open(path)
	if err != nil {
		return kept{}, err
	}
	return kept{file, int(file.Fd())}, nil
}

// read returns the current text of the file. The kernel writes a small file anew for a read at 0, and returns all of
// it. os.File would read again to find the end of the file, which doubles the time of a node's many small files.
func (k kept) read(buffer []byte) ([]byte, error) {
	if k.file == nil {
		return nil, os.ErrNotExist
	}
	for {
		n, err := unix.Pread(k.fd, buffer, 0)
		if !errors.Is(err, unix.EINTR) {
			return buffer[:max(n, 0)], err
		}
	}
}

// close closes the file, if there is one.
func (k kept) close() {
	if k.file != nil {
		_ = k.file.Close() // it was only read
	}
}

// numberFile is a kept file of one number.
type numberFile struct {
	kept
	unit uint64 // unit of the number; 0 is 1
	most uint64 // value at which the hardware stops counting; 0 if it does not
}

// errNoNumber is returned for a file that should hold one number.
var errNoNumber = errors.New("not a number")

// openNumber opens a file of one number. It closes the file again if it contains none, because drivers show files for
// quantities that their device does not support.
func openNumber(path string) (numberFile, error) {
	k, err := keep(path)
	if err != nil {
		return numberFile{}, err
	}
	data, err := k.read(make([]byte, 64))
	if err == nil && parseCount(data, 1, 0) == unread {
		err = fmt.Errorf("%w: %.80q", errNoNumber, data)
	}
	if err != nil {
		k.close()
		return numberFile{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return numberFile{kept: k}, nil
}

// number returns the number, or unread for a file that is not there, holds no number, or stopped to count. An error
// means that the device is gone.
func (f numberFile) number(buffer []byte) (uint64, error) {
	if f.file == nil {
		return unread, nil
	}
	data, err := f.read(buffer)
	if err != nil {
		if isGone(err) {
			return unread, err
		}
		return unread, nil // the device reports no number at present
	}
	return parseCount(data, max(f.unit, 1), f.most), nil
}

// parseCount reads a file of one number that counts in units. It is unread for anything else, and for a counter that
// reached the most that its hardware counts to.
func parseCount(data []byte, unit, most uint64) uint64 {
	v, rest, ok := number(data)
	if !ok || len(bytes.TrimSpace(rest)) > 0 || most > 0 && v == most || v > unread/unit {
		return unread
	}
	return v * unit
}

// isGone reports whether the error of a read means that the device is no longer there, most often ENODEV. The passing
// errors are a driver's answers while its device has no value.
func isGone(err error) bool {
	for _, passing := range []error{unix.EAGAIN, unix.EBUSY, unix.EINVAL, unix.EIO, unix.ENODATA, unix.EOPNOTSUPP} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}

// textOf returns the text of a small file, without the white space around it. It is empty if there is no such file.
func textOf(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// entries returns the names in a directory, ascending.
func entries(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	names := make([]string, 0, len(all))
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names, err
}
