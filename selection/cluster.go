package selection

import "slices"

// clusters groups columns by single linkage at each threshold: a column joins the clusters of all columns that it
// depends on. Clusters are ordered by their first columns, and columns keep their order within a cluster. Thresholds
// must ascend.
func clusters(columns [][]float64, bounds []int, thresholds []float64) [][][]int {
	trees := make([]tree, len(thresholds))
	for i := range trees {
		trees[i] = newTree(len(columns))
	}
	if slices.Min(thresholds) < 1 {
		newCorrelator(columns, bounds).pairs(func(a, b int, r, n float64) {
			for i, threshold := range thresholds {
				if !significant(r, n, threshold) {
					return // larger thresholds fail too
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

// tree holds the parent of each column. The first column of a cluster is its own parent.
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
