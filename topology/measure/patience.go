package measure

import (
	"cmp"
	"slices"
	"time"
)

const (
	// A member may hold up the others for this part of the longest measurement in all, and for leastHeld anyway.
	heldPart  = 10
	leastHeld = time.Minute

	// onePart is the part of that which a member may use up in one round. It holds up a partner in each round, who is
	// not to be given up for it.
	onePart = 8

	// onePair is the part that one pair may use up in all: it may be measured often, or with long transfers.
	onePair = 2

	// usualPairs is of how many pairs the usual time is known at least.
	usualPairs = 256
)

// patience bounds how long members are waited for. A member is late by the time that it takes more than half of the
// pairs do. Whoever is late for too long in all is given up. So one member cannot stop the measurement, whatever limits
// it claims to have.
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

// wait returns how long a pair is waited for. Its own limits may want more time than is usual, within bounds.
func (p *patience) wait(own, usual time.Duration) time.Duration {
	return min(own, usual+p.most/onePart)
}

// blame counts a round, and returns who has been late for too long now.
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
