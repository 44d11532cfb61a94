package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	perf "github.com/hodgesds/perf-utils"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// Second is a second reading of a perf event. perf-utils counts the event beside weir: it opens, starts and reads its
// groups with code of its own.
type Second struct {
	Event string
	CPU   int
	// Theirs is the count of perf-utils. Least is weir's count between two readings within that time, and Most its
	// count between two readings around it.
	Theirs, Least, Most float64
	// InTurns is set if the CPU had too few counters for both. Then each counted a part of the time, and all counts are
	// extrapolated to the whole time.
	InTurns bool
	// Reason is why there is nothing to compare, or nil.
	Reason error
}

var (
	// errExcludes is the reason of events that perf-utils cannot open. It always excludes the hypervisor's share, which
	// PMUs outside the cores cannot do.
	errExcludes = errors.New("perf-utils cannot open events of this PMU")
	// errNoTurn is the reason of events for which the CPU had no counter left.
	errNoTurn = errors.New("the CPU had no counter left for both readings")
)

const (
	// turnsApart is by which factor two counts of different parts of the same time may differ.
	turnsApart = 2
	// turnsFew are counts that mean nothing if they were taken in turns.
	turnsFew = 1000
)

// Agrees reports whether both counted the same, or there is nothing to compare.
func (s Second) Agrees() bool {
	switch {
	case s.Reason != nil:
		return true
	case s.InTurns:
		return s.Theirs >= s.Least/turnsApart-turnsFew && s.Theirs <= s.Most*turnsApart+turnsFew
	}
	return s.Theirs >= s.Least && s.Theirs <= s.Most
}

// String describes the reading in one line.
func (s Second) String() string {
	where := fmt.Sprintf("%s on CPU %d", s.Event, s.CPU)
	if s.Reason != nil {
		return fmt.Sprintf("%s: not compared: %v", where, s.Reason)
	}
	text := fmt.Sprintf("%s: perf-utils counted %.0f, weir %.0f to %.0f", where, s.Theirs, s.Least, s.Most)
	if s.InTurns {
		text += ", in turns"
	}
	if !s.Agrees() {
		text += ": they disagree, please report it"
	}
	return text
}

// SecondReadings counts each group of perf events that an agent with this configuration opens, for a time each: groups
// of the CPUs on the first CPU. It holds no events before it and after it. An error means that there are no events, or
// that the context ended.
func SecondReadings(ctx context.Context, cfg config.Agent, each time.Duration) ([]Second, error) {
	return secondReadings(ctx, linux, perfUtils, cfg, each)
}

// profiler opens a group of perf events of a CPU.
type profiler func(cpu int, attrs []unix.PerfEventAttr) (perf.GroupProfiler, error)

func perfUtils(cpu int, attrs []unix.PerfEventAttr) (perf.GroupProfiler, error) {
	return perf.NewGroupProfiler(-1, cpu, unix.PERF_FLAG_FD_CLOEXEC, attrs...)
}

func secondReadings(
	ctx context.Context, k perfKernel, open profiler, cfg config.Agent, each time.Duration,
) ([]Second, error) {
	if !cfg.Perf {
		return nil, errPerfOff
	}
	cpus, err := onlineCPUs(cfg.ProcPath)
	if err != nil {
		return nil, err
	}
	var all []Second
	form, _ := formAlways(k, perfSoftware().metrics, cfg, cpus[0])
	groups := form.groups
	set := &perfSet{kernel: k, cfg: cfg, log: slog.New(slog.DiscardHandler)}
	if set.locked() {
		all = append(all, Second{Event: "hardware events", CPU: cpus[0], Reason: errYields})
	} else {
		set.choose(cpus)
		groups = append(groups, set.form.groups...)
	}
	for _, g := range groups {
		found, err := secondReading(ctx, k, open, cpus[0], g.events, each)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, c := range set.memory {
		for _, e := range c.events {
			all = append(all, Second{Event: e.name, CPU: c.cpu, Reason: errExcludes})
		}
	}
	if len(all) == 0 {
		return nil, errNoEvents
	}
	return all, nil
}

// secondReading counts the events of a group twice at the same time. An error means that the context ended.
func secondReading(
	ctx context.Context, k perfKernel, open profiler, cpu int, events []event, each time.Duration,
) (all []Second, err error) {
	var both []event
	var attrs []unix.PerfEventAttr
	for _, e := range events {
		if e.pmu != "" {
			all = append(all, Second{Event: e.name, CPU: cpu, Reason: errExcludes})
			continue
		}
		both, attrs = append(both, e), append(attrs, *attrOf(e))
	}
	if len(both) == 0 {
		return all, nil
	}
	rows, theirs, err := countTwice(ctx, k, open, cpu, both, attrs, each)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, e := range both {
		s := Second{Event: e.name, CPU: cpu, Reason: err}
		if err == nil {
			s.compare(rows, theirs, i)
		}
		all = append(all, s)
	}
	return all, nil
}

// countTwice returns four rows of weir and the values of perf-utils, which counted from between the first two rows to
// between the last two.
func countTwice(
	ctx context.Context, k perfKernel, open profiler, cpu int, events []event, attrs []unix.PerfEventAttr,
	each time.Duration,
) (rows [4][]uint64, theirs perf.GroupProfileValue, err error) {
	ours, err := k.openEvents(cpu, events)
	if err != nil {
		return rows, theirs, err
	}
	defer k.closeGroup(&ours)
	other, err := open(cpu, attrs)
	if err != nil {
		return rows, theirs, fmt.Errorf("perf-utils: %w", err)
	}
	defer func() { _ = other.Close() }() // counters hold nothing that could be lost
	buf := make([]byte, 8*(3+len(events)))
	wait := func() error {
		select {
		case <-time.After(each):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i, step := range []func() error{other.Start, wait, other.Stop, nil} {
		if rows[i], err = k.readGroup(nil, &ours, buf); err != nil {
			return rows, theirs, err
		}
		if step == nil {
			break
		}
		if err = step(); err != nil {
			return rows, theirs, fmt.Errorf("perf-utils: %w", err)
		}
	}
	if err = other.Profile(&theirs); err == nil && len(theirs.Values) != len(events) {
		err = errShort
	}
	return rows, theirs, err
}

// compare takes the counts of event i.
func (s *Second) compare(rows [4][]uint64, theirs perf.GroupProfileValue, i int) {
	least, ok1 := scaled(rows[1], rows[2], rowEvents+i)
	most, ok2 := scaled(rows[0], rows[3], rowEvents+i)
	if !ok1 || !ok2 || theirs.TimeRunning == 0 {
		s.Reason = errNoTurn
		return
	}
	s.Least, s.Most = least, most
	s.Theirs = float64(theirs.Values[i]) * (float64(theirs.TimeEnabled) / float64(theirs.TimeRunning))
	s.InTurns = theirs.TimeEnabled != theirs.TimeRunning ||
		rows[3][rowEnabled]-rows[0][rowEnabled] != rows[3][rowRunning]-rows[0][rowRunning]
}
