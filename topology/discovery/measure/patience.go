package measure

import (
	"cmp"
	"slices"
	"time"
)

const (
	// A member may hold up the others for 1/heldPart of the longest measurement in all, and at least for leastHeld.
	heldPart  = 10
	leastHeld = time.Minute

	// In one round, a member may use up 1/onePart of that time. It holds up a partner in each round, and the partner
	// must not be given up for it.
	onePart = 8

	// One pair may use up 1/onePair of that time in all: it may be measured often, or with long transfers.
	onePair = 2

	// usualPairs is how many of the latest pairs are kept at least. Their median is the usual time.
	usualPairs = 256
)

// patience bounds the wait for members. A member is late by the time that its pair takes beyond the median of the
// latest pairs. A member that is late for too long in all is given up. So one member cannot stop the measurement by
// claiming long limits.
type patience struct {
	most time.Duration // that others wait for one member in all
	held map[string]time.Duration
	with map[[2]string]time.Duration // that a pair was late, as far as it counts
	took []time.Duration             // of the latest pairs
}

// pairTime is how long a pair took.
type pairTime struct {
	a, b string
	took time.Duration
}

func newPatience(longest time.Duration) patience {
	longest = cmp.Or(longest, time.Hour)
	return patience{
		most: max(longest/heldPart, leastHeld),
		held: map[string]time.Duration{}, with: map[[2]string]time.Duration{},
	}
}

// wait returns the longest wait for a pair. The pair's own limits may exceed the usual time, within bounds.
func (p *patience) wait(own, usual time.Duration) time.Duration {
	return min(own, usual+p.most/onePart)
}

// blame counts a round, and returns the members that have now been late for too long.
func (p *patience) blame(round []pairTime) (late []string) {
	for _, pair := range round {
		p.took = append(p.took, pair.took)
	}
	if extra := len(p.took) - max(usualPairs, len(round)); extra > 0 {
		p.took = slices.Delete(p.took, 0, extra)
	}
	if len(p.took) == 0 {
		return nil
	}
	usual := slices.Sorted(slices.Values(p.took))[(len(p.took)-1)/2]
	for _, pair := range round {
		both := [2]string{pair.a, pair.b}
		more := min(pair.took-usual, p.most/onePair-p.with[both])
		if more <= 0 {
			continue
		}
		p.with[both] += more
		for _, name := range both {
			before := p.held[name]
			p.held[name] = before + more
			if before <= p.most && p.held[name] > p.most {
				late = append(late, name)
			}
		}
	}
	return late
}
