package discover

import (
	"context"
	"errors"
	"math"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/schedule"
)

// Bounds of the loop.
const (
	loopRounds = 3   // fits after the first
	loopTwice  = 2   // measurements of a suspect in each
	loopGaps   = .10 // share of the pairs that may be missing, if they are to be measured again
)

// Loop builds a network, measures the pairs again that do not fit, keeps the lowest latency of each, and builds anew,
// a few times. A disturbance only adds to a latency, so the lowest is the best. Loop changes the matrix. It wants a
// matrix of the measurer's nodes. The error is the measurer's or Build's.
func Loop(ctx context.Context, measurer latency.Measurer, m *latency.Matrix) (Result, error) {
	if len(measurer.Names()) != m.Len() {
		return Result{}, errors.New("the matrix is not of the nodes that can be measured")
	}
	result, err := Build(m)
	for round := 0; round < loopRounds && err == nil; round++ {
		again := result.Suspects
		if round == 0 {
			again = append(again, gaps(m)...)
		}
		if len(again) == 0 {
			break
		}
		changed, err := remeasure(ctx, measurer, m, again)
		if err != nil {
			return Result{}, err
		}
		if !changed {
			break
		}
		if result, err = Build(m); err != nil {
			return Result{}, err
		}
	}
	return result, err
}

// gaps returns the pairs that were not measured, if they are few. A node that never answered is left alone.
func gaps(m *latency.Matrix) []latency.Pair {
	n := m.Len()
	var missing []latency.Pair
	known := make([]int, n)
	for a := range n {
		for b := a + 1; b < n; b++ {
			if us := m.At(a, b); us > 0 {
				known[a]++
				known[b]++
			} else {
				missing = append(missing, latency.Pair{A: a, B: b})
			}
		}
	}
	var found []latency.Pair
	for _, p := range missing {
		if known[p.A] > 0 && known[p.B] > 0 {
			found = append(found, p)
		}
	}
	if float64(len(found)) > loopGaps*float64(n*(n-1)/2) {
		return nil
	}
	return found
}

// remeasure measures pairs again and keeps the lowest latency. It reports whether one got lower.
func remeasure(ctx context.Context, measurer latency.Measurer, m *latency.Matrix, pairs []latency.Pair) (bool, error) {
	changed := false
	rounds := schedule.Disjoint(pairs)
	for range loopTwice {
		for _, round := range rounds {
			found, err := measurer.Measure(ctx, round)
			if err != nil {
				return false, err
			}
			for i, us := range found {
				old := m.At(round[i].A, round[i].B)
				if us > 0 && !math.IsInf(us, 0) && !(us >= old) {
					m.Set(round[i].A, round[i].B, us)
					changed = true
				}
			}
		}
	}
	return changed, nil
}
