package source

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	perf "github.com/hodgesds/perf-utils"
	"golang.org/x/sys/unix"
)

// event is a counter of the kernel or of the hardware.
type event struct {
	what what   // the counted quantity, for the formulas
	name string // as the vendor's table or the kernel names it

	kind   uint32 // the number of its PMU
	config uint64

	pmu     string // its PMU below /sys/bus/event_source/devices, if kind and config are looked up there by name
	lacking error  // why they are not
}

// A row of a group begins with two times in nanoseconds: the time for which the group was wanted, and the time for
// which it counted. The counts of its events follow.
const (
	rowEnabled = iota
	rowRunning
	rowEvents
)

// perfKernel is the kernel's interface to perf events. Tests substitute a kernel of their own.
type perfKernel struct {
	open func(attr *unix.PerfEventAttr, cpu, leader int) (fd int, err error)
	// start begins to count a group, all of its events at once.
	start func(leader int) error
	read  func(fd int, into []byte) (int, error)
	close func(fd int) error
}

// linux counts an event of all tasks on one CPU. The GroupProfiler of perf-utils is a second reading of the same events
// (SecondReadings), and not the one of each interval: it allocates in every read, cannot open events outside the cores,
// and its errors have no errno, by which a group that is too large is found.
var linux = perfKernel{
	open: func(attr *unix.PerfEventAttr, cpu, leader int) (int, error) {
		return unix.PerfEventOpen(attr, -1, cpu, leader, unix.PERF_FLAG_FD_CLOEXEC)
	},
	start: func(leader int) error {
		return unix.IoctlSetInt(leader, unix.PERF_EVENT_IOC_ENABLE, unix.PERF_IOC_FLAG_GROUP)
	},
	read:  unix.Read,
	close: unix.Close,
}

// group is the open events of one CPU that the kernel counts at the same time, or not at all. One read gives the counts
// of all. The zero group is closed.
type group struct {
	fds []int // the leader's first

	enabled, running uint64 // at the last reading; 0 before the first
}

// attrOf asks for an event. The leader's format makes one read give the whole group.
func attrOf(e event) *unix.PerfEventAttr {
	attr := &unix.PerfEventAttr{
		Type: e.kind, Config: e.config, Size: perf.EventAttrSize,
		Read_format: unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	if e.pmu == "" { // a PMU outside the cores refuses to exclude anything
		attr.Bits = unix.PerfBitExcludeHv
	}
	return attr
}

// openEvents counts events of one CPU as a group. The leader stays disabled until the group is complete, since an event
// that joins a running group may stay at 0. The difference of two later readings is the count of every event in
// between.
func (k perfKernel) openEvents(cpu int, events []event) (group, error) {
	var g group
	leader := -1
	for _, e := range events {
		attr := attrOf(e)
		if leader < 0 {
			attr.Bits |= unix.PerfBitDisabled
		}
		fd, err := k.open(attr, cpu, leader)
		if err != nil {
			k.closeGroup(&g)
			return group{}, fmt.Errorf("opening perf event %s on CPU %d: %w", e.name, cpu, remedy(err))
		}
		g.fds = append(g.fds, fd)
		leader = g.fds[0]
	}
	if err := k.start(leader); err != nil {
		k.closeGroup(&g)
		return group{}, fmt.Errorf("starting perf events on CPU %d: %w", cpu, err)
	}
	return g, nil
}

func (k perfKernel) closeGroup(g *group) {
	for _, fd := range slices.Backward(g.fds) {
		_ = k.close(fd) // counters hold nothing that could be lost
	}
	*g = group{}
}

// errShort is returned if the kernel gave another number of counts than the group has events.
var errShort = errors.New("the kernel gave another number of counts than the group has events")

// readGroup appends the row of a group to row. It reads into buf, which must be large enough.
func (k perfKernel) readGroup(row []uint64, g *group, buf []byte) ([]uint64, error) {
	n, err := k.read(g.fds[0], buf)
	if err != nil {
		return row, err
	}
	// The number of events, the two times and the counts, each of 8 bytes.
	if n != 8*(3+len(g.fds)) || binary.NativeEndian.Uint64(buf) != uint64(len(g.fds)) {
		return row, errShort
	}
	for at := 8; at < n; at += 8 {
		row = append(row, binary.NativeEndian.Uint64(buf[at:]))
	}
	return row, nil
}

// choose returns the events that the kernel can count as one group on a CPU, and the error for the first event that it
// refuses. It occupies no counter: the events that it tries are never enabled.
func (k perfKernel) choose(cpu int, events []event) (good []event, refused error) {
	var g group
	defer k.closeGroup(&g)
	for _, e := range events {
		leader := -1
		if len(g.fds) > 0 {
			leader = g.fds[0]
		}
		err := e.lacking
		if err == nil {
			var fd int
			attr := attrOf(e)
			attr.Bits |= unix.PerfBitDisabled
			if fd, err = k.open(attr, cpu, leader); err == nil {
				g.fds, good = append(g.fds, fd), append(good, e)
				continue
			}
			err = remedy(err)
		}
		refused = cmp.Or(refused, fmt.Errorf("perf event %s: %w", e.name, err))
	}
	return good, refused
}

// remedy adds advice to an error of perf_event_open(2) that an administrator can remove.
func remedy(err error) error {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return advisedError{fmt.Errorf("%w: give the agent CAP_PERFMON, or set kernel.perf_event_paranoid to 0", err)}
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return advisedError{fmt.Errorf("this host's CPU or hypervisor does not count it (%w)", err)}
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("%w: raise LimitNOFILE of the agent's unit", err)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: another program has reserved the counters", err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: the CPU has too few counters for the group, or lacks the event", err)
	}
	return err
}

// scaled returns the number of times that event i of a row occurred between two readings. If the groups need more
// counters than the CPU has, the kernel counts them in turn, and scaled extrapolates the count to the whole time. It is
// not ok if nothing was counted.
func scaled(from, to []uint64, i int) (float64, bool) {
	enabled, ok1 := grown(from[rowEnabled], to[rowEnabled])
	running, ok2 := grown(from[rowRunning], to[rowRunning])
	count, ok3 := grown(from[i], to[i])
	if !ok1 || !ok2 || !ok3 || running == 0 {
		return 0, false
	}
	return count * (enabled / running), true
}
