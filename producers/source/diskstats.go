package source

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errDisk is returned if /proc/diskstats is not in the kernel's format.
	errDisk = errors.New("not a line of a disk's counters")
	// errNoDisk is returned if the host has no disk of its own.
	errNoDisk = errors.New("no disk but virtual ones")
)

// Counters of a disk that are summed.
const (
	diskReads = iota
	diskSectorsRead
	diskWrites
	diskSectorsWritten
	diskCounters
)

// A sector of /proc/diskstats is 512 B, regardless of the sectors of the disk.
const sector = 512

func disks() source {
	return source{"disks", schemas.ScopeNode, "/proc/diskstats: whole disks that are not virtual", []metric{
		{"disk_read_bw", "B/s", Rate, "sectors read * 512 B / s"},
		{"disk_write_bw", "B/s", Rate, "sectors written * 512 B / s"},
		{"disk_bytes", "B/s", Rate, "(sectors read + sectors written) * 512 B / s"},
		{"disk_read_ops", "1/s", Rate, "reads completed / s"},
		{"disk_write_ops", "1/s", Rate, "writes completed / s"},
		{"disk_bytes_per_op", "B", ratio, "(sectors read + written) * 512 B / (reads + writes completed)"},
	}, openDisks}
}

// openDisks reads the transfers of the node's disks.
func openDisks(cfg config.Agent, _ *slog.Logger) (probe, error) {
	block := filepath.Join(cfg.SysPath, "block")
	if _, err := os.Stat(block); err != nil {
		return probe{}, fmt.Errorf("telling disks from partitions: %w", err)
	}
	file, err := openKernelFile(filepath.Join(cfg.ProcPath, "diskstats"))
	if err != nil {
		return probe{}, err
	}
	t := newTally(diskCounters, func(name string) bool { return isDisk(block, name) }, grewAll)
	return openTally(file, t, parseDisks, formDisks, disks().metrics, errNoDisk)
}

// isDisk reports whether a block device is a disk that performs transfers itself. Partitions have no entry of their own
// in /sys/block. The devices of virtual/block (loop, ram, zram, dm, md, nbd and others) pass their transfers on to
// other devices, which count them. For an NVMe disk with several paths the paths count (nvme0c0n1), since old kernels
// count nothing for the disk that they form.
func isDisk(block, name string) bool {
	target, err := os.Readlink(filepath.Join(block, name))
	return err == nil && !strings.Contains(target, "/virtual/block/") &&
		!strings.Contains(target, "/virtual/nvme-subsystem/")
}

// parseDisks adds lines such as `8 0 sda 25 3 1003 18 28 1 505 63 0 9 82`: numbers and name of the device, then reads
// completed, reads merged, sectors read, time, and the same of writes. Newer kernels have more fields at the end.
// procfs takes 36 µs and 154 allocations for eight disks (BenchmarkByProcfs), this none.
func parseDisks(t *tally, data []byte) error {
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		data = rest
		_, rest = cutField(line)
		_, rest = cutField(rest)
		name, rest := cutField(rest)
		var fields [7]uint64
		for i := range fields {
			var isNumber bool
			fields[i], rest, isNumber = cutNumber(rest)
			ok = ok && isNumber
		}
		if !ok {
			return fmt.Errorf("%w: %.80q", errDisk, line)
		}
		t.now[diskReads], t.now[diskSectorsRead] = fields[0], fields[2]
		t.now[diskWrites], t.now[diskSectorsWritten] = fields[4], fields[6]
		t.add(name)
	}
	return nil
}

func formDisks(from, to []uint64, elapsed time.Duration, out []float64) {
	if !comparableTallies(from, to) {
		return
	}
	from, to = from[tallySums:], to[tallySums:]
	read := sector * perSecond(from[diskSectorsRead], to[diskSectorsRead], elapsed)
	written := sector * perSecond(from[diskSectorsWritten], to[diskSectorsWritten], elapsed)
	reads := perSecond(from[diskReads], to[diskReads], elapsed)
	writes := perSecond(from[diskWrites], to[diskWrites], elapsed)
	out[0], out[1], out[2], out[3], out[4] = read, written, read+written, reads, writes
	if ops := reads + writes; ops > 0 {
		out[5] = (read + written) / ops
	}
}
