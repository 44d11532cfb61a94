package selection

import "slices"

// clusters are groups of columns by single link at each threshold: a column joins the cluster of each column that it
// depends on. They are in the order of their first columns, and so are the columns in each. Thresholds ascend.
func clusters(columns [][]float64, bounds []int, thresholds []float64) [][][]int {
	trees := make([]tree, len(thresholds))
	for i := range trees {
		trees[i] = newTree(len(columns))
	}
	if slices.Min(thresholds) < 1 {
		newCorrelator(columns, bounds).pairs(func(a, b int, r, n float64) {
			for i, threshold := range thresholds {
				if !significant(r, n, threshold) {
					return // nor is it above a larger one
				}
				trees[i].join(a, b)
			}
		})
	}
	out := make([][][]int, len(thresholds))
	for i, t := range trees {
		out[i] = t.groups()
	}
	return out
}

// tree has the parent of each column: the first column of a cluster is its own.
type tree []int

func newTree(n int) tree {
	t := make(tree, n)
	for i := range t {
		t[i] = i
	}
	return t
}

func (t tree) root(i int) int {
	for t[i] != i {
		t[i] = t[t[i]]
		i = t[i]
	}
	return i
}

func (t tree) join(a, b int) {
	if a, b = t.root(a), t.root(b); a != b {
		t[max(a, b)] = min(a, b)
	}
}

func (t tree) groups() [][]int {
	var out [][]int
	at := make([]int, len(t))
	for i := range t {
		r := t.root(i)
		if r == i {
			at[i] = len(out)
			out = append(out, nil)
		}
		out[at[r]] = append(out[at[r]], i)
	}
	return out
}
