package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNoLustre is returned if no Lustre file system is mounted.
	errNoLustre = errors.New("no Lustre file system is mounted")
	// errLlite is returned if the statistics of a mount are not in Lustre's format.
	errLlite = errors.New("not the statistics of a Lustre mount")
	// errDebugfs is returned if the agent may not enter debugfs.
	errDebugfs = errors.New("only root may enter debugfs: let the agent's group in, with " +
		"mount -o remount,mode=0710,gid=GROUP /sys/kernel/debug, or give the agent CAP_DAC_READ_SEARCH")
)

func lustre() source {
	origin := "/proc/fs/lustre/llite/*/stats or /sys/kernel/debug/lustre/llite/*/stats"
	return source{"lustre", schemas.ScopeNode, origin, []metric{
		{"lustre_read_bw", "B/s", Rate, "sum of read_bytes, over all mounts"},
		{"lustre_write_bw", "B/s", Rate, "sum of write_bytes"},
		{"lustre_read_ops", "1/s", Rate, "samples of read_bytes: calls that read"},
		{"lustre_write_ops", "1/s", Rate, "samples of write_bytes: calls that write"},
		{"lustre_open", "1/s", Rate, "samples of open"},
		{"lustre_close", "1/s", Rate, "samples of close"},
		{"lustre_getattr", "1/s", Rate, "samples of getattr"},
	}, openLustre}
}

// Numbers of a mount in a row, in the order of the metrics.
const (
	lliteRead = iota
	lliteWrite
	lliteReadOps
	lliteWriteOps
	lliteOpen
	lliteClose
	lliteGetattr
	lliteNumbers
)

// mount is a mounted file system with its open statistics.
type mount struct {
	file *os.File
	seen [lliteNumbers]bool // Lustre has written a line with the number
}

// openLustre reads the operations of this node's processes on each Lustre file system. The statistics are the client's
// own: no server is asked for them.
func openLustre(cfg config.Agent, _ *slog.Logger) (probe, error) {
	roots := []string{
		filepath.Join(cfg.ProcPath, "fs/lustre/llite"),
		filepath.Join(cfg.SysPath, "kernel/debug/lustre/llite"),
	}
	listed := filepath.Join(cfg.SysPath, "fs/lustre/llite")
	mounts := devices[*mount]{
		list: func() ([]string, error) { return lustreMounts(roots, listed) },
		open: func(name string) (*mount, error) {
			file, err := os.Open(name)
			return &mount{file: file}, err
		},
		close: func(m *mount) { _ = m.file.Close() }, // it was only read
	}
	if err := mounts.look(); err != nil {
		return probe{}, err
	}
	buffer := make([]byte, 8<<10)
	read := func(into reading, v Vitals) (reading, error) {
		all, err := mounts.now(v.BoundaryMs)
		if err != nil {
			return nil, err
		}
		// The previous counts of a mount that came or went are unknown, so the sum of the interval is unknown too.
		into = only(into)
		row := append(into[0], mounts.set)
		for i, m := range all {
			var data []byte
			if data, buffer, err = readAt0(m.file, buffer); err == nil {
				row, err = parseLlite(row, data, &m.seen)
			}
			if err != nil {
				return nil, mounts.lost(fmt.Errorf("reading %s: %w", mounts.names[i], err))
			}
		}
		into[0] = row
		return into, nil
	}
	return probe{read: read, form: formLustre, close: mounts.release}, nil
}

// lustreMounts returns the files of statistics below the first of the roots that contains any. listed is a directory
// that everyone may read. It distinguishes a node without Lustre from an agent without the right to read.
func lustreMounts(roots []string, listed string) (files []string, err error) {
	for _, root := range roots {
		names, rootErr := entries(root)
		for _, name := range names {
			file := filepath.Join(root, name, "stats")
			if _, err := os.Stat(file); err == nil {
				files = append(files, file)
			}
		}
		if len(files) > 0 {
			return files, nil
		}
		if errors.Is(rootErr, fs.ErrPermission) {
			err = fmt.Errorf("%s: %w", root, errDebugfs)
		}
	}
	if mounted, _ := entries(listed); len(mounted) > 0 && err != nil {
		return nil, err
	}
	return nil, errNoLustre
}

// parseLlite appends the numbers of a mount to a row. Lustre writes a line once its event has happened, so a number
// without a line is 0. A number that had a line before and lacks one now is missing, because the file was cut or
// cleared.
func parseLlite(row []uint64, data []byte, seen *[lliteNumbers]bool) ([]uint64, error) {
	if !bytes.HasPrefix(data, []byte("snapshot_time")) || data[len(data)-1] != '\n' {
		return row, fmt.Errorf("%w: %.80q", errLlite, data)
	}
	var found [lliteNumbers]bool
	var n [lliteNumbers]uint64
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		name, rest, _ := bytes.Cut(line, []byte{' '})
		var opsAt int
		bytesAt := -1
		switch string(name) { // does not allocate
		case "read_bytes":
			bytesAt, opsAt = lliteRead, lliteReadOps
		case "write_bytes":
			bytesAt, opsAt = lliteWrite, lliteWriteOps
		case "open":
			opsAt = lliteOpen
		case "close":
			opsAt = lliteClose
		case "getattr":
			opsAt = lliteGetattr
		default:
			continue
		}
		samples, sum, ok := parseSamples(rest)
		if !ok || bytesAt >= 0 && sum == unread {
			return row, fmt.Errorf("%w: %.80q", errLlite, line)
		}
		n[opsAt], found[opsAt] = samples, true
		if bytesAt >= 0 {
			n[bytesAt], found[bytesAt] = sum, true
		}
	}
	for k := range n {
		if seen[k] && !found[k] {
			n[k] = unread
		}
		seen[k] = seen[k] || found[k]
	}
	return append(row, n[:]...), nil
}

// parseSamples reads the rest of a line after its name: the number of samples, their unit, and for some names the
// least, the greatest and the sum. The sum is unread if the line has none.
//
//	12 samples [bytes] 4096 1048576 8392704
func parseSamples(text []byte) (samples, sum uint64, ok bool) {
	samples, text, ok = number(bytes.TrimLeft(text, " "))
	text, isSamples := bytes.CutPrefix(text, []byte(" samples ["))
	_, text, hasUnit := bytes.Cut(text, []byte{']'})
	if !ok || !isSamples || !hasUnit || samples == unread {
		return 0, unread, false
	}
	for range 3 { // least, greatest, sum
		if sum, text, ok = number(bytes.TrimLeft(text, " ")); !ok {
			return samples, unread, true
		}
	}
	return samples, sum, true
}

// formLustre sums the operations on all mounts.
func formLustre(from, to []uint64, elapsed time.Duration, out []float64) {
	if from[0] != to[0] || elapsed <= 0 {
		return // not the same mounts
	}
	var sum [lliteNumbers]float64
	for i := 1; i+lliteNumbers <= len(to); i += lliteNumbers {
		for k := range sum {
			sum[k] += growth(from[i+k], to[i+k])
		}
	}
	for k := range sum {
		out[k] = sum[k] / elapsed.Seconds()
	}
}
