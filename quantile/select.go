package quantile

import (
	"math/bits"
	"slices"
)

// selectRanks moves the values that belong at ranks to their places. No greater value is before them, and no lesser one
// after them. Ranks count from 0 and ascend. No value may be NaN. It allocates nothing.
//
// It is a quickselect for many ranks at once (Chambers 1971), without a branch that depends on a value. Mispredicted
// branches are nearly all of the cost of a textbook quickselect. BenchmarkSelect shows the ratio to slices.Sort. If the
// compiler turns a partition back into a branch, it falls from 15 times to 5.
func selectRanks(v []float64, ranks []int) { selectFrom(v, ranks, 0, depthOf(v)) }

// depthOf is the largest number of consecutive partitions in a column.
func depthOf(v []float64) int { return 2 * bits.Len(uint(len(v))) }

// selectFrom is selectRanks for a part v of the column that begins at rank base. depth limits further partitions. Once
// it is used up, the pivots count as bad, which only a column made for that purpose causes, and a sort takes over.
func selectFrom(v []float64, ranks []int, base, depth int) {
	for len(ranks) > 0 {
		n := len(v)
		if n <= 16 {
			sort16(v)
			return
		}
		if depth == 0 {
			slices.Sort(v)
			return
		}
		depth--
		var p float64
		if len(ranks) > 8 {
			p = middle(v) // any pivot is near to some rank
		} else {
			p = pivot(v, ranks[len(ranks)/2]-base)
		}
		less, end := partition(v, p)
		left, _ := slices.BinarySearch(ranks, base+less)
		right, _ := slices.BinarySearch(ranks, base+end)
		selectFrom(v[:less], ranks[:left], base, depth)
		v, ranks, base = v[end:], ranks[right:], base+end
	}
}

// partition brings the values below a pivot to the front, less of them. Up to end follow values equal to it, in place.
func partition(v []float64, p float64) (less, end int) {
	less = partitionLess(v, p)
	end = less
	if less < len(v)/16 {
		end += partitionUpTo(v[less:], p) // likely a run of ties; also why every round makes progress
	}
	return less, end
}

// sortValues is selectRanks of all ranks.
func sortValues(v []float64, depth int) {
	for len(v) > 16 {
		if depth == 0 {
			slices.Sort(v)
			return
		}
		depth--
		less, end := partition(v, middle(v))
		sortValues(v[:less], depth)
		v = v[end:]
	}
	sort16(v)
}

// middle is approximately the median of at least 16 values: the median of a sample.
func middle(v []float64) float64 {
	if len(v) > 256 {
		return pivot(v, len(v)/2)
	}
	// The median of five, by min and max of integers of the same order: sort16 would take a third of the time.
	step := len(v) / 5
	a, b, c := key(v[step/2]), key(v[step+step/2]), key(v[2*step+step/2])
	d, e := key(v[3*step+step/2]), key(v[4*step+step/2])
	f, g := max(min(a, b), min(c, d)), min(max(a, b), max(c, d)) // neither the least nor the greatest of four
	return unkey(max(min(f, g), min(max(f, g), e)))
}

// pivot is the value of an evenly spaced sample that comes nearest to rank of v.
func pivot(v []float64, rank int) float64 {
	var sample [16]float64
	for i := range sample {
		sample[i] = v[(2*i+1)*len(v)/(2*len(sample))]
	}
	sort16(sample[:])
	return sample[rank*len(sample)/len(v)]
}

// partitionLess brings the values below p to the front and returns their number. It is Lomuto's partition with an index
// that the result of the comparison advances.
func partitionLess(v []float64, p float64) int {
	i := 0
	for j, x := range v {
		v[j] = v[i]
		v[i] = x
		less := 0
		if x < p {
			less = 1
		}
		i += less
	}
	return i
}

// partitionUpTo is partitionLess for values of at most p.
func partitionUpTo(v []float64, p float64) int {
	i := 0
	for j, x := range v {
		v[j] = v[i]
		v[i] = x
		upTo := 0
		if x <= p {
			upTo = 1
		}
		i += upTo
	}
	return i
}
