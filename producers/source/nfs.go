package source

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNFS is returned if the statistics of an NFS mount are not in the kernel's format.
	errNFS = errors.New("not the statistics of an NFS mount")
	// errNoNFS is returned when no NFS file system is mounted.
	errNoNFS = errors.New("no NFS file system is mounted")
	// errNFSOps is returned of the metrics that /proc/net/rpc/nfs does not have.
	errNFSOps = errors.New("no mountstats, and /proc/net/rpc/nfs counts no bytes")
)

// Counters of an NFS file system that are summed.
const (
	nfsRead = iota
	nfsWritten
	nfsOps
	nfsCounters
)

func nfs() source {
	return source{"nfs", schemas.ScopeNode, "/proc/self/mountstats; /proc/net/rpc/nfs where that is missing", []metric{
		{"nfs_read_bw", "B/s", Rate, "bytes: field 5, read from servers / s"},
		{"nfs_write_bw", "B/s", Rate, "bytes: field 6, written to servers / s"},
		{"nfs_ops", "1/s", Rate, "per-op statistics: field 1 of all operations / s; or calls of the line rpc / s"},
	}, openNFS}
}

// openNFS reads the transfers of the NFS file systems. The kernel prints numbers that it keeps in memory. It asks no
// server for them, so a dead server cannot hold up the read.
func openNFS(cfg config.Agent, _ *slog.Logger) (probe, error) {
	file, err := openKernelFile(filepath.Join(cfg.ProcPath, "self/mountstats"))
	if err != nil {
		return openRPC(cfg)
	}
	m := &nfsMounts{
		file: file, proc: cfg.ProcPath, ids: map[string][]byte{},
	}
	m.changed, m.unwatch = watchMounts(filepath.Join(cfg.ProcPath, "self/mountinfo"))
	t := newTally(nfsCounters, func(string) bool { return true }, grewAll)
	return openTally(m, t, m.parse, formNFS, nfs().metrics, errNoNFS)
}

// watchMounts returns a function that reports whether the mounts changed since its last call. The kernel signals a
// change on a file that stays open; if that file cannot be watched, the function always reports a change. end closes
// the file.
func watchMounts(mountinfo string) (changed func() bool, end func()) {
	// The file is not os.File: Go's poller would take the news of the kernel.
	fd, err := unix.Open(mountinfo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() bool { return true }, func() {}
	}
	end = func() { _ = unix.Close(fd) } // it was only read
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		return func() bool { return true }, end
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
	changed = func() bool {
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil
	}
	return changed, end
}

// read returns the statistics of all mounts. While there is no mount of NFS and the mounts stay the same it returns
// nothing, and reads nothing.
func (m *nfsMounts) read() ([]byte, error) {
	if m.none = m.none && !m.changed(); m.none { // a change counts until a reading succeeds: the kernel signals it once
		return nil, nil
	}
	return m.file.read()
}

func (m *nfsMounts) name() string { return m.file.path }

func (m *nfsMounts) close() {
	m.file.close()
	m.unwatch()
}

// nfsMounts recognizes the mounts of one file system. They all show the same statistics, which count once. Home
// directories that are mounted one by one are such mounts, although each has a device of its own.
type nfsMounts struct {
	file    *kernelFile // mountstats
	changed func() bool // whether the mounts may have changed since the last call
	unwatch func()
	none    bool // the last reading found no mount of NFS
	proc    string
	ids     map[string][]byte // device number of the file system, by mount
	looked  map[string][]byte // of all mounts now, nil until a reading asks for them
	seen    int               // mounts in this reading

	mount    []byte // the owner of the statistics that follow, such as server:/home mounted on /home
	hasBytes bool   // its bytes were there
	inOps    bool   // its operations follow
}

// parse adds the file systems of /proc/self/mountstats. The statistics of a mount are lines that begin with a tab. It
// allocates nothing in a cycle: procfs makes structs of all mounts and operations, and refuses lines that it does not
// know.
func (m *nfsMounts) parse(t *tally, data []byte) error {
	resets := t.row[tallyResets]
	m.looked, m.seen, m.mount = nil, 0, nil
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			return fmt.Errorf("%w: %.80q", errNFS, line)
		}
		data = rest
		if stat, isStat := bytes.CutPrefix(line, []byte{'\t'}); !isStat {
			if err := m.flush(t); err != nil {
				return err
			}
			m.mount, m.hasBytes, m.inOps, t.now[nfsOps] = nfsMount(line), false, false, 0
		} else if m.mount != nil && !m.statistic(t, stat) {
			return fmt.Errorf("%w: %.80q", errNFS, line)
		}
	}
	if err := m.flush(t); err != nil {
		return err
	}
	m.none = m.seen == 0
	if len(m.ids) > m.seen || t.row[tallyResets] != resets {
		clear(m.ids) // a mount is gone, or is of another file system than before
	}
	return nil
}

// statistic takes a line of the mount's statistics. It returns false if the line is not in the kernel's format.
func (m *nfsMounts) statistic(t *tally, line []byte) bool {
	if fields, isBytes := bytes.CutPrefix(line, []byte("bytes:\t")); isBytes {
		var v [6]uint64
		for i := range v {
			var ok bool
			if v[i], fields, ok = cutNumber(fields); !ok {
				return false
			}
		}
		t.now[nfsRead], t.now[nfsWritten], m.hasBytes = v[4], v[5], true
		return true
	}
	if m.inOps {
		_, fields, ok := bytes.Cut(line, []byte{':'})
		ops, _, isNumber := cutNumber(fields)
		t.now[nfsOps] += ops
		return ok && isNumber
	}
	m.inOps = bytes.HasPrefix(line, []byte("per-op statistics"))
	return true
}

// flush adds the file system of the current mount, since its statistics are complete.
func (m *nfsMounts) flush(t *tally) error {
	if m.mount == nil {
		return nil
	}
	if !m.hasBytes {
		return fmt.Errorf("%w: no bytes of %.80q", errNFS, m.mount)
	}
	m.seen++
	id := m.ids[string(m.mount)]
	if id == nil {
		if m.looked == nil {
			m.looked = nfsDevices(m.proc)
		}
		if id = m.looked[string(m.mount)]; id == nil {
			id = bytes.Clone(m.mount) // it was unmounted in between
		}
		m.ids[string(m.mount)] = id
	}
	t.add(id)
	m.mount = nil
	return nil
}

// nfsMount returns the device and the mount point of a line of mountstats, or nil for a file system that is not NFS.
func nfsMount(line []byte) []byte {
	mount, ok := bytes.CutPrefix(line, []byte("device "))
	mount, kind, isMount := bytes.Cut(mount, []byte(" with fstype "))
	if kind, _ = cutField(kind); !ok || !isMount || !isNFSType(kind) {
		return nil
	}
	return mount
}

func isNFSType(kind []byte) bool { return string(kind) == "nfs" || string(kind) == "nfs4" }

// nfsDevices returns the device number of the file system of each NFS mount, by the mount's name in mountstats. Without
// them each mount counts as a file system of its own. It is called after mounts of NFS have changed.
func nfsDevices(proc string) map[string][]byte {
	ids := map[string][]byte{}
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return ids
	}
	mounts, _ := fs.GetMounts() // none if the file is missing, or a line of it is malformed
	for _, m := range mounts {
		if isNFSType([]byte(m.FSType)) {
			ids[m.Source+" mounted on "+m.MountPoint] = []byte(m.MajorMinorVer)
		}
	}
	return ids
}

func formNFS(from, to []uint64, elapsed time.Duration, out []float64) {
	if !comparableTallies(from, to) {
		return
	}
	from, to = from[tallySums:], to[tallySums:]
	for i := range out {
		out[i] = perSecond(from[i], to[i], elapsed)
	}
}

// openRPC reads the number of calls that the NFS client made. It does not know their bytes.
func openRPC(cfg config.Agent) (probe, error) {
	p, err := openOne(filepath.Join(cfg.ProcPath, "net/rpc/nfs"), parseRPC, formRPC)
	if err != nil {
		return probe{}, fmt.Errorf("%w: %w", errNoNFS, err)
	}
	p.absent = map[string]error{"nfs_read_bw": errNFSOps, "nfs_write_bw": errNFSOps}
	return p, nil
}

// parseRPC reads the number of calls, from a line such as rpc 4329785 0 4338291.
func parseRPC(row []uint64, data []byte) ([]uint64, error) {
	for {
		line, rest, ok := cutLine(data)
		if !ok {
			return row, fmt.Errorf("%w: no line rpc", errNFS)
		}
		data = rest
		if fields, isRPC := bytes.CutPrefix(line, []byte("rpc ")); isRPC {
			calls, _, ok := cutNumber(fields)
			if !ok || calls > math.MaxUint32 {
				return row, fmt.Errorf("%w: %.80q", errNFS, line)
			}
			return append(row[:0], calls), nil
		}
	}
}

// formRPC forms the rate of a counter of 32 bits. A counter that went back has wrapped, if the client could make so
// many calls in the interval. Otherwise the client was loaded anew.
func formRPC(from, to []uint64, elapsed time.Duration, out []float64) {
	const mostPerSecond = 1e6
	calls := float64(uint32(to[0]) - uint32(from[0]))
	if rate := calls / elapsed.Seconds(); elapsed > 0 && (to[0] >= from[0] || rate <= mostPerSecond) {
		out[2] = rate
	}
}
