package source

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// errVmstat is returned if /proc/vmstat contains none of the counters.
var errVmstat = errors.New("no pswpin, pswpout, pgfault, pgmajfault")

// Counters that are read from /proc/vmstat. pagingNames lists their names in this order, the kernel's.
const (
	pagesIn = iota
	pagesOut
	faults
	majorFaults
)

var pagingNames = []string{"\npswpin ", "\npswpout ", "\npgfault ", "\npgmajfault "}

func paging() source {
	return source{"paging", schemas.ScopeNode, "/proc/vmstat", []metric{
		{"swap_in", "B/s", Rate, "pswpin * page size / s"},
		{"swap_out", "B/s", Rate, "pswpout * page size / s"},
		{"swap_pages", "1/s", Rate, "(pswpin + pswpout) / s"},
		{"node_page_faults", "1/s", Rate, "pgfault / s: minor and major, of all processes"},
		{"node_page_faults_major", "1/s", Rate, "pgmajfault / s: those that waited for a disk"},
	}, openPaging}
}

// pagingHead is the number of bytes of /proc/vmstat that are read: a little more than the kernel prints up to the
// counters. A read beyond a page of text makes the kernel sum all its counters over all CPUs a second time.
const pagingHead = 3 << 10

func openPaging(cfg config.Agent, _ *slog.Logger) (probe, error) {
	file, err := openKernelFile(filepath.Join(cfg.ProcPath, "vmstat"))
	if err != nil {
		return probe{}, err
	}
	head := true
	read := func(into reading, _ Vitals) (reading, error) {
		into = only(into)
		if head {
			n, _ := file.file.ReadAt(file.buffer[:pagingHead], 0) // missing fields are read below
			into[0], _ = parsePaging(into[0], file.buffer[:n])
			if head = !slices.Contains(into[0], unread); head {
				return into, nil
			}
		}
		data, err := file.read()
		if err != nil {
			return nil, err
		}
		if into[0], err = parsePaging(into[0], data); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.path, err)
		}
		return into, nil
	}
	return probe{read: read, form: formPaging(float64(os.Getpagesize())), close: file.close}, nil
}

// parsePaging reads four lines of /proc/vmstat, in 5 µs without an allocation. procfs has no reader of this file.
func parsePaging(row []uint64, data []byte) ([]uint64, error) {
	row = numbersOf(row, data, "", pagingNames)
	for _, v := range row {
		if v != unread {
			return row, nil
		}
	}
	return row, errVmstat
}

// formPaging forms the rates on a machine with pages of this size. A kernel without swap does not count it.
func formPaging(page float64) func(from, to []uint64, elapsed time.Duration, out []float64) {
	return func(from, to []uint64, elapsed time.Duration, out []float64) {
		in := perSecond(from[pagesIn], to[pagesIn], elapsed)
		gone := perSecond(from[pagesOut], to[pagesOut], elapsed)
		out[0], out[1], out[2] = page*in, page*gone, in+gone
		out[3] = perSecond(from[faults], to[faults], elapsed)
		out[4] = perSecond(from[majorFaults], to[majorFaults], elapsed)
	}
}
