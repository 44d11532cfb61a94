package selection

import (
	"math/rand/v2"
	"slices"
)

const (
	guardPatience = 4
	// guardMargin is the R² by which a response must beat its shifts. Noise beats the best of 19 shifts in 1 of 20
	// cases. In the study 3 of 180 noise responses did so, by at most .075. Of 40 selections from recorded counters, 38
	// did so by .1.
	guardMargin = .1
)

// shifted returns the best held-out R² that the metrics reach for responses shifted in time. A shift preserves the
// movement of a response and breaks its relation to the metrics, so any R² that remains is chance.
func (s *search) shifted() float64 {
	best := 0.
	for k := 1; k <= s.o.Shifts; k++ {
		var ys [][]float64
		for _, y := range s.d.Y {
			out := make([]float64, len(y))
			for u := range len(s.d.units) - 1 {
				rotate(out[s.d.units[u]:s.d.units[u+1]], y[s.d.units[u]:s.d.units[u+1]], k, s.o.Shifts+1)
			}
			ys = append(ys, out)
		}
		for _, r := range s.curve(s.problemsOf(ys), guardPatience)[1:] {
			best = max(best, r)
		}
	}
	return best
}

// rotate writes y to out, shifted by k parts of its length.
func rotate(out, y []float64, k, parts int) {
	by := k * len(y) / parts
	copy(out[by:], y)
	copy(out[:by], y[len(y)-by:])
}

// frequencies returns the share of complementary halves of the blocks in which each metric is among the first count.
func (s *search) frequencies(count int) []float64 {
	random := rand.New(rand.NewPCG(s.o.Seed, 0x68616c766573)) // "halves"
	times := make([]float64, len(s.d.Metrics))
	for range s.o.Halves {
		var halves [2][]*state
		for _, p := range s.problems {
			order := random.Perm(len(p.blocks))
			for h := range halves {
				from, to := h*len(order)/2, (h+1)*len(order)/2
				var blocks []int
				for _, i := range order[from:to] {
					blocks = append(blocks, p.blocks[i])
				}
				slices.Sort(blocks) // for sums in a fixed order
				halves[h] = append(halves[h], newState(p, blocks, nil))
			}
		}
		for _, states := range halves {
			path := newPath(s.d, s.prefer, states)
			for len(path.chosen) < count && path.next() {
			}
			for _, m := range path.chosen {
				times[m]++
			}
		}
	}
	for m := range times {
		times[m] /= float64(2 * s.o.Halves)
	}
	return times
}
