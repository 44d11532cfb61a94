package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// The model answers a question that two processors cannot: the cost of interruptions for an application that is coupled
// over many nodes.

// stall is an interruption of one node, from the beginning of the period.
type stall struct{ from, to time.Duration }

// lost returns how long at least one node is interrupted: the length of the union of the stalls.
func lost(stalls []stall) (total time.Duration) {
	slices.SortFunc(stalls, func(a, b stall) int { return int(a.from - b.from) })
	var end time.Duration
	for _, s := range stalls {
		if s.to <= end {
			continue
		}
		total += s.to - max(s.from, end)
		end = s.to
	}
	return total
}

// evenly returns stalls of the same length, with beginnings spread evenly over a window. With a window of 0 all nodes
// stall at the same instant. late returns each node's own delay, 0 if nil.
func evenly(nodes int, window, length time.Duration, late func() time.Duration) []stall {
	stalls := make([]stall, nodes)
	for i := range stalls {
		from := window * time.Duration(i) / time.Duration(nodes)
		if late != nil {
			from += late()
		}
		stalls[i] = stall{from, from + length}
	}
	return stalls
}

// prediction is the cost of sampling and sending for a coupled application on so many nodes, as a share of the time.
type prediction struct {
	Nodes     int     `json:"nodes"`
	Aligned   float64 `json:"aligned"`   // sampling at the same instant, with the skew that was measured
	Staggered float64 `json:"staggered"` // sampling spread over the period
	Together  float64 `json:"together"`  // sending at the same instant
	Window    float64 `json:"window"`    // sending spread over 0.6 s
	Period    float64 `json:"period"`    // sending spread over the period
}

// predict computes the shares for a sample and a send a second, of the lengths given. skews are measured distances of
// samples from their instant.
func predict(nodes int, sample, send time.Duration, skews []time.Duration, rng *rand.Rand) prediction {
	const period = time.Second
	late := func() time.Duration {
		if len(skews) == 0 {
			return 0
		}
		return skews[rng.IntN(len(skews))]
	}
	share := func(window, length time.Duration, late func() time.Duration) float64 {
		return min(1, float64(lost(evenly(nodes, window, length, late)))/float64(period))
	}
	return prediction{
		Nodes: nodes, Aligned: share(0, sample, late), Staggered: share(period, sample, nil),
		Together: share(0, send, late), Window: share(min(period, sendWindow), send, nil),
		Period: share(period, send, nil),
	}
}

// sendWindow is NWPerf's: all nodes collect and send within it.
const sendWindow = 600 * time.Millisecond
