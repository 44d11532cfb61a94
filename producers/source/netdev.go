package source

import (
	"bytes"
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
	// errInterface is returned if /proc/net/dev is not in the kernel's format.
	errInterface = errors.New("not a line of an interface's counters")
	// errNoInterface is returned if the host has no physical Ethernet interface.
	errNoInterface = errors.New("no physical Ethernet interface in /sys/class/net")
)

// Counters of an interface that are summed.
const (
	ethReadBytes = iota
	ethReadPackets
	ethReadErrors
	ethReadDrops
	ethWriteBytes
	ethWritePackets
	ethWriteErrors
	ethWriteDrops
	ethCounters
)

func ethernet() source {
	return source{"ethernet", schemas.ScopeNode, "/proc/net/dev, interfaces with a device in /sys/class/net", []metric{
		{"eth_read_bw", "B/s", Rate, "bytes received / s"},
		{"eth_write_bw", "B/s", Rate, "bytes sent / s"},
		{"eth_errors", "1/s", Rate, "(errs received + errs sent) / s"},
		{"eth_drops", "1/s", Rate, "(drop received + drop sent) / s"},
	}, openEthernet}
}

// openEthernet reads the transfers of the Ethernet interfaces that the agent's network namespace contains.
func openEthernet(cfg config.Agent, _ *slog.Logger) (probe, error) {
	class := filepath.Join(cfg.SysPath, "class/net")
	if _, err := os.Stat(class); err != nil {
		return probe{}, fmt.Errorf("telling physical interfaces from virtual ones: %w", err)
	}
	file, err := openKernelFile(filepath.Join(cfg.ProcPath, "net/dev"))
	if err != nil {
		return probe{}, err
	}
	t := newTally(ethCounters, func(name string) bool { return isEthernet(class, name) }, grewInterface)
	return openTally(file, t, parseInterfaces, formEthernet, ethernet().metrics, errNoInterface)
}

// isEthernet reports whether an interface is Ethernet hardware. Bridges, bonds, VLANs, tunnels and the loopback have no
// device: their traffic is counted at the hardware. InfiniBand has counters of its own.
func isEthernet(class, name string) bool {
	if _, err := os.Stat(filepath.Join(class, name, "device")); err != nil {
		return false
	}
	kind, err := os.ReadFile(filepath.Join(class, name, "type"))
	return err == nil && strings.TrimSpace(string(kind)) == "1" // ARPHRD_ETHER
}

// parseInterfaces adds lines such as eth0: 874 10 0 0 0 0 0 0 563 7 0 0 0 0 0 0. They contain eight counters of
// received data, bytes, packets, errs and drop first, and eight of sent data. procfs takes 12 µs and 40 allocations
// for eight interfaces (BenchmarkByProcfs), this none.
func parseInterfaces(t *tally, data []byte) error {
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		data = rest
		if ok && bytes.IndexByte(line, '|') >= 0 {
			continue // the heading
		}
		name, rest, isInterface := bytes.Cut(line, []byte{':'})
		ok = ok && isInterface
		var fields [16]uint64
		for i := range fields {
			var isNumber bool
			fields[i], rest, isNumber = cutNumber(rest)
			ok = ok && isNumber
		}
		if !ok {
			return fmt.Errorf("%w: %.80q", errInterface, line)
		}
		copy(t.now[ethReadBytes:], fields[:4])
		copy(t.now[ethWriteBytes:], fields[8:12])
		t.add(bytes.TrimLeft(name, " "))
	}
	return nil
}

// grewInterface is the growth of an interface's counters. Some old drivers count bytes with 32 bits. A count of bytes
// that went back below 2^32 has wrapped, if the packets went on, and enough of them to carry the bytes. Otherwise the
// driver restarted its counters, and the packets went back as well.
func grewInterface(from, to, by []uint64) bool {
	const wrap, largest = 1 << 32, 1 << 16 // a packet holds 64 KiB at most
	for i := range by {
		by[i] = to[i] - from[i]
		if to[i] >= from[i] {
			continue
		}
		if i != ethReadBytes && i != ethWriteBytes || from[i] >= wrap {
			return false
		}
		by[i] += wrap
		if by[i]/largest > to[i+1]-from[i+1] {
			return false
		}
	}
	return true
}

func formEthernet(from, to []uint64, elapsed time.Duration, out []float64) {
	if !comparableTallies(from, to) {
		return
	}
	from, to = from[tallySums:], to[tallySums:]
	out[0] = perSecond(from[ethReadBytes], to[ethReadBytes], elapsed)
	out[1] = perSecond(from[ethWriteBytes], to[ethWriteBytes], elapsed)
	out[2] = perSecond(from[ethReadErrors], to[ethReadErrors], elapsed) +
		perSecond(from[ethWriteErrors], to[ethWriteErrors], elapsed)
	out[3] = perSecond(from[ethReadDrops], to[ethReadDrops], elapsed) +
		perSecond(from[ethWriteDrops], to[ethWriteDrops], elapsed)
}
