package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// WriteWhole replaces the file of an option in one step, so that nobody opens half of it. A device or a pipe, such as
// /dev/stdout, is written to instead.
func WriteWhole(option, file string, write func(io.Writer) error) (err error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		return writeDevice(option, file, write)
	}
	target := file
	if err == nil {
		if target, err = filepath.EvalSymlinks(file); err != nil { // a link stays a link
			return fmt.Errorf("%s %q: %w", option, file, err)
		}
	}
	// os.CreateTemp would make a file that only its owner may read. The umask decides about this one.
	name := filepath.Join(filepath.Dir(target), fmt.Sprintf(".weir-page-%d-%d", os.Getpid(), time.Now().UnixNano()))
	mode := os.FileMode(0o666)
	if info != nil {
		mode = info.Mode().Perm()
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("%s %q: the file needs a directory that weir may write to: %w", option, file, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(name)
			err = fmt.Errorf("%s %q: %w", option, file, err)
		}
	}()
	if info != nil { // an existing file keeps its mode, whatever the umask
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if err := write(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(name, target)
}

// writeDevice writes to an existing device or pipe.
func writeDevice(option, file string, write func(io.Writer) error) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(write(f), f.Close())
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", option, file, err)
	}
	return nil
}
