package view

import (
	"cmp"
	"math"
	"slices"
)

func newBin() *binBuild {
	bin := &binBuild{lows: map[string]int64{}, highs: map[string]int64{}}
	bin.Bin = emptyBin()
	return bin
}

// emptyBin returns a bin in which nothing was measured.
func emptyBin() Bin {
	nan := math.NaN()
	bin := Bin{Mean: nan, D5Min: nan, D5Max: nan, D5Mean: nan}
	for k := range bin.Low {
		bin.Low[k], bin.High[k] = nan, nan
	}
	return bin
}

func (bin *binBuild) join(o *binBuild) {
	bin.Intervals += o.Intervals
	bin.Measured += o.Measured
	bin.Complete += o.Complete
	bin.Expected += o.Expected
	bin.Reported += o.Reported
	bin.Hourly = bin.Hourly || o.Hourly
	bin.add(o.mean, o.count)
	bin.medians.add(o.medians.mean, o.medians.count)
	if o.Measured > 0 {
		bin.widen(&o.Low, &o.High, o.D5Min)
		bin.widen(&o.Low, &o.High, o.D5Max)
	}
	for node, n := range o.lows {
		bin.lows[node] += n
	}
	for node, n := range o.highs {
		bin.highs[node] += n
	}
}

// widen extends the envelope by further deciles.
func (bin *Bin) widen(low, high *[11]float64, d5 float64) {
	for k := range low {
		bin.Low[k], bin.High[k] = least(bin.Low[k], low[k]), most(bin.High[k], high[k])
	}
	bin.D5Min, bin.D5Max = least(bin.D5Min, d5), most(bin.D5Max, d5)
}

// least returns the smaller of two numbers. NaN does not count.
func least(a, b float64) float64 {
	if math.IsNaN(a) || b < a {
		return b
	}
	return a
}

func most(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// nodeCounts returns the nodes, the most intervals first.
func nodeCounts(of map[string]int64) (all []NodeCount) {
	for node, n := range of {
		all = append(all, NodeCount{node, n})
	}
	slices.SortFunc(all, func(a, b NodeCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Node,
			b.Node))
	})
	return all
}
