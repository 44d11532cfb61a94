package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// RunningFile is the file in which `weir up` leaves its configuration, relative to the directory in which it was
// started.
const RunningFile = "weir-data/weir.yaml"

// runningArchive is the archive of `weir up`, relative to the same directory.
const runningArchive = "weir-data/archive"

// Running returns d with the brokers, the prefix, the interval, the machine and find's settings of the RunningFile
// below dir. The path dir is absolute and without symbolic links. The user did not name that file, so it counts only if
// nobody but uid and root can have written it. Files and programs that it names never count. The archive beside it
// does, by the same rule.
func Running(dir string, uid int, d Config) (Config, error) {
	file := filepath.Join(dir, RunningFile)
	if err := trusted(file, uid); err != nil {
		return d, err
	}
	c, err := Load(Source{File: file, Defaults: Default()})
	if err != nil {
		return d, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	for _, b := range c.Kafka.Brokers {
		if host, _, _ := net.SplitHostPort(b); host != "localhost" && !net.ParseIP(host).IsLoopback() {
			return d, fmt.Errorf("its broker %s is not on the loopback interface", b)
		}
	}
	d.Kafka.Brokers, d.Prefix, d.Interval, d.Machine = c.Kafka.Brokers, c.Prefix, c.Interval, c.Machine
	d.Find.Off, d.Find.Possible = c.Find.Off, c.Find.Possible
	if info, err := os.Lstat(filepath.Join(dir, runningArchive)); err == nil && distrust(info, 1, uid) == "" {
		d.Sink.Dir = runningArchive
	}
	// An interval may be too long for the default retentions.
	d.Topics.CountersRetention = max(d.Topics.CountersRetention, 3*Outage*d.Interval)
	d.Topics.SummaryRetention = max(d.Topics.SummaryRetention, Outage*d.Interval)
	return d, nil
}

// trusted returns nil if nobody but uid and root can change the file or put another in its place. It looks from the
// root directory down: an entry of a trusted directory cannot be exchanged afterwards.
func trusted(file string, uid int) error {
	paths := []string{file}
	for p := file; p != filepath.Dir(p); {
		p = filepath.Dir(p)
		paths = append(paths, p)
	}
	for above, p := range slices.Backward(paths) {
		info, err := os.Lstat(p)
		if err != nil {
			return err
		}
		if reason := distrust(info, above, uid); reason != "" {
			return fmt.Errorf("%s %s", p, reason)
		}
	}
	return nil
}

// distrust returns why uid cannot trust a file (above is 0), its directory (1) or a directory above, or "" if it can.
// In a sticky directory such as /tmp others cannot rename files of uid. They can add files, so the file's own directory
// must not be writable, sticky or not.
func distrust(info fs.FileInfo, above, uid int) string {
	mode := info.Mode()
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case mode&fs.ModeSymlink != 0:
		return "is a symbolic link"
	case above == 0 && !mode.IsRegular():
		return "is not a regular file"
	case above > 0 && !mode.IsDir():
		return "is not a directory"
	case !ok:
		return "has an unknown owner"
	case int(stat.Uid) != uid && stat.Uid != 0:
		return fmt.Sprintf("belongs to another user, %d", stat.Uid)
	case above > 1 && mode&fs.ModeSticky != 0:
		return ""
	case mode.Perm()&0o002 != 0:
		return "can be written by everybody"
	case mode.Perm()&0o020 != 0:
		return "can be written by its group"
	}
	return ""
}
