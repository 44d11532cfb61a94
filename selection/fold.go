package selection

import "math"

const (
	longestPath = 64 // metrics
	patience    = 10 // sizes without a better R² that end a path
	// unpredictable is the held-out R² below which the metrics count as not predicting.
	unpredictable = .05
)

// search is a design with the products of its columns, and one or more problems.
type search struct {
	d        *Design
	g        *gram
	problems []problem
	o        Options
	prefer   preference
	stars    []Star
	regimes  int
	held     []float64 // held-out R² with 0, 1, 2 … metrics
	size     int
	errors   [][]float64 // held out, for each problem and row
}

func newSearch(d *Design, o Options, prefer preference) *search {
	s := &search{d: d, g: newGram(d), o: o, prefer: prefer}
	s.problems = s.problemsOf(d.Y)
	return s
}

// problemsOf returns the problems with other values of the responses, such as values shifted in time.
func (s *search) problemsOf(ys [][]float64) []problem {
	var targets []*target
	for _, y := range ys {
		targets = append(targets, s.g.target(y))
	}
	return s.g.problems(targets, s.o.Folds)
}

// folds returns a path for each fold. It trains on the blocks of the other folds.
func (s *search) folds(problems []problem) []*path {
	count := 0
	for _, p := range problems {
		count = max(count, p.fold[len(p.fold)-1]+1)
	}
	paths := make([]*path, count)
	for f := range paths {
		var states []*state
		for _, p := range problems {
			if train, held := p.without(f); len(train) > 0 && len(held) > 0 {
				states = append(states, newState(p, train, held))
			}
		}
		paths[f] = newPath(s.d, s.prefer, states)
	}
	return paths
}

// longest returns the largest number of metrics that the rows of the smallest problem can carry: four rows for each.
func (s *search) longest(paths []*path) int {
	most := longestPath
	if s.o.Max > 0 {
		most = min(most, s.o.Max)
	}
	for _, p := range paths {
		for _, st := range p.states {
			most = min(most, int(st.n)/4)
		}
	}
	return min(most, len(s.d.Metrics))
}

// curve returns the held-out R² with 0, 1, 2 … metrics, as the mean over problems. Each fold searches its own path from
// the start.
func (s *search) curve(problems []problem, patience int) []float64 {
	paths := s.folds(problems)
	most := s.longest(paths)
	curve := []float64{score(paths)}
	best := 0
	for size := 1; size <= most && size-best <= patience; size++ {
		moved := false
		for _, p := range paths {
			moved = p.next() || moved
		}
		if !moved {
			break
		}
		curve = append(curve, score(paths))
		if curve[size] > curve[best] {
			best = size
		}
	}
	return curve
}

// score returns the R² of the held-out rows of all paths: the mean over problems of 1 − errors/variation.
func score(paths []*path) float64 {
	wrong, all := make(map[problemKey]float64), make(map[problemKey]float64)
	var order []problemKey // for sums in a fixed order
	for _, p := range paths {
		for _, s := range p.states {
			k := problemKey{s.p.response, s.p.unit}
			if _, ok := all[k]; !ok {
				order = append(order, k)
				all[k] = s.p.variation(s.p.blocks)
			}
			wrong[k] += s.errors(nil)
		}
	}
	sum, count := 0., 0.
	for _, k := range order {
		if all[k] > 0 {
			sum, count = sum+1-wrong[k]/all[k], count+1
		}
	}
	if count == 0 {
		return 0
	}
	return sum / count
}

type problemKey struct{ response, unit int }

// size returns the smallest number of metrics with a held-out R² within the tolerance of the best, and that R².
func size(curve []float64, tolerance float64) (int, float64) {
	best := math.Inf(-1)
	for _, r := range curve[1:] {
		best = max(best, r)
	}
	for k := 1; k < len(curve); k++ {
		if curve[k] >= best-tolerance {
			return k, curve[k]
		}
	}
	return 0, curve[0]
}

// whole returns a path of count metrics on all rows.
func (s *search) whole(count int) *path {
	var states []*state
	for _, p := range s.problems {
		states = append(states, newState(p, p.blocks, nil))
	}
	path := newPath(s.d, s.prefer, states)
	for len(path.chosen) < count && path.next() {
	}
	return path
}
