package machine

import (
	"cmp"
	"slices"
	"time"
)

// Cores has core-hours. A core is a logical CPU.
type Cores struct {
	Machine *float64 // all there are; nil: the configuration does not tell
	Seen    float64  // measured
	Busy    float64
	Wasted  float64 // idle, although a job held them
	Free    float64 // no job held them
	NotSeen *float64
}

// Day is what cores did on a UTC date.
type Day struct {
	Date string
	Cores
}

// Shares are busy, wasted, free and not seen, which add up to 1. Without a configured machine, not seen is 0 and the
// others are shares of what was measured. ok is false where there is nothing at all.
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

// cores adds up the hours: all of them, and by date. A date has no number of what was not seen, since the first and the
// last one may be cut.
func cores(in *Input) (all Cores, days []Day) {
	var sum hours
	byDate := map[string]*hours{}
	for _, h := range in.Hours {
		date := time.UnixMilli(h.StartMs).UTC().Format(time.DateOnly)
		if byDate[date] == nil {
			byDate[date] = &hours{}
		}
		sum.add(h)
		byDate[date].add(h)
	}
	all = sum.cores(in.IdleThreads)
	if in.MachineHour > 0 {
		machine := in.MachineHour * float64(in.ToMs-in.FromMs) / 3.6e6
		notSeen := max(0, machine-all.Seen)
		all.Machine, all.NotSeen = &machine, &notSeen
	}
	for date, h := range byDate {
		days = append(days, Day{date, h.cores(in.IdleThreads)})
	}
	slices.SortFunc(days, func(a, b Day) int { return cmp.Compare(a.Date, b.Date) })
	return all, days
}

// hours are sums of what the machine's cores did, and of those that no job held.
type hours struct{ system, systemIdle, rest, restIdle float64 }

func (s *hours) add(h Hour) {
	if h.Rest {
		s.rest += h.Hours
		s.restIdle += h.IdleCoreHours
		return
	}
	s.system += h.Hours
	s.systemIdle += h.IdleCoreHours
}

// cores splits what jobs held into busy and wasted. Threads that are idle by design are no waste.
func (s *hours) cores(idleThreads float64) Cores {
	held := max(0, s.system-s.rest)
	c := Cores{Seen: s.system, Free: s.system - held}
	if held > 0 {
		idle := min(held, max(0, s.systemIdle-s.restIdle)) / held
		c.Busy = held * min(1, (1-idle)/(1-idleThreads))
		c.Wasted = held - c.Busy
	}
	return c
}
