package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/report/view"
)

// Cores are sums of core-hours, or of GPU-hours. A core is a logical CPU here, as everywhere in weir.
type Cores struct {
	Machine *float64 // of the whole machine; nil: not configured
	Seen    float64  // measured
	Busy    float64
	Wasted  float64 // idle in a job, and not beside a busy thread of the same core
	Free    float64 // held by no job
	NotSeen *float64
}

// of sets the hours of the whole machine, unless they are 0: not configured.
func (c *Cores) of(machine float64) {
	if machine > 0 {
		notSeen := max(0, machine-c.Seen)
		c.Machine, c.NotSeen = &machine, &notSeen
	}
}

// Day is the use of the cores on a UTC date.
type Day struct {
	Date string
	Cores
}

// Shares returns busy, wasted, free and not seen, which add up to 1. Without a configured machine, not seen is 0 and
// the others are shares of the measured hours. ok is false if the sum is 0.
func (c *Cores) Shares() (busy, wasted, free, notSeen float64, ok bool) {
	unseen := 0.0
	if c.NotSeen != nil {
		unseen = *c.NotSeen
	}
	all := c.Busy + c.Wasted + c.Free + unseen
	if all <= 0 {
		return 0, 0, 0, 0, false
	}
	return c.Busy / all, c.Wasted / all, c.Free / all, unseen / all, true
}

// cores adds up the hours in total and by date, of a machine with so many cores or GPUs; 0: not configured. A date gets
// no hours of "not seen", since the span may cut the first and the last date.
func cores(all []Hour, held []Held, machineHas float64, o Options) (total Cores, days []Day) {
	var sum hours
	byDate := map[string]*hours{}
	of := func(ms int64) *hours {
		date := time.UnixMilli(ms).UTC().Format(time.DateOnly)
		if byDate[date] == nil {
			byDate[date] = &hours{}
		}
		return byDate[date]
	}
	for _, h := range all {
		sum.add(h)
		of(h.StartMs).add(h)
	}
	for _, h := range held {
		sum.hold(h)
		of(h.StartMs).hold(h)
	}
	total = sum.cores()
	total.of(machineHas * float64(o.ToMs-o.FromMs) / 3.6e6)
	for date, h := range byDate {
		days = append(days, Day{date, h.cores()})
	}
	slices.SortFunc(days, func(a, b Day) int { return cmp.Compare(a.Date, b.Date) })
	return total, days
}

// hours are sums over all cores of the machine, and over the cores that no job held. Jobs are summed by themselves if
// the threads of their cores are known.
type hours struct {
	system, systemIdle, rest, restIdle float64
	job, jobBusy                       float64
	threads                            bool // a core in some job has several
}

func (s *hours) add(h Hour) {
	if h.Rest {
		s.rest += h.Hours
		s.restIdle += h.IdleCoreHours
		return
	}
	s.system += h.Hours
	s.systemIdle += h.IdleCoreHours
}

func (s *hours) hold(h Held) {
	if h.Threads > 0 && h.Hours > 0 {
		s.job += h.Hours
		s.jobBusy += h.Hours * view.Busy(h.IdleCoreHours/h.Hours, config.NodeType{ThreadsPerCore: h.Threads})
		s.threads = s.threads || h.Threads > 1
	}
}

// cores splits the hours that jobs held into busy and wasted. A thread that idles beside a busy one is no waste. This
// is computed for each job before the sums: over all jobs together, busy cores of one job would make up for idle cores
// of another. The few core-hours outside of such jobs are split in the same proportion.
func (s *hours) cores() Cores {
	held := max(0, s.system-s.rest)
	c := Cores{Seen: s.system, Free: s.system - held}
	if s.threads {
		c.Busy = held * min(1, s.jobBusy/s.job)
	} else {
		c.Busy = held - min(held, max(0, s.systemIdle-s.restIdle))
	}
	c.Wasted = held - c.Busy
	return c
}
