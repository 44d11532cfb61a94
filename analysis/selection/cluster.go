package selection

// clusters are groups of columns by single link: a column joins the cluster of each column that it depends on. They are
// in the order of their first columns, and so are the columns in each.
func clusters(columns [][]float64, bounds []int, threshold float64) [][]int {
	parent := make([]int, len(columns))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	if threshold < 1 {
		newCorrelator(columns, bounds).pairs(func(a, b int, r, n float64) {
			if !significant(r, n, threshold) {
				return
			}
			if a, b = root(a), root(b); a != b {
				parent[max(a, b)] = min(a, b)
			}
		})
	}
	var out [][]int
	at := make([]int, len(columns))
	for i := range columns {
		r := root(i)
		if r == i {
			at[i] = len(out)
			out = append(out, nil)
		}
		out[at[r]] = append(out[at[r]], i)
	}
	return out
}
