package discover

import "math"

// linkage joins units, which are subtrees over the leaves, in pairs by the least average value between them. It uses
// the chain of nearest neighbours (Murtagh 1983), which takes time and memory of the square of the units. It overwrites
// w, the square of values between the units. Value i, j of w has the sides size[i] and size[j]. It returns the joins as
// pairs: number k made number len(size)+k.
func linkage(w []float32, size []int) [][2]int {
	n := len(size)
	weight := make([]float64, n)
	name := make([]int, n) // number of the cluster in each row
	active := make([]int, n)
	for i := range n {
		weight[i], name[i], active[i] = float64(size[i]), i, i
	}
	where := append([]int(nil), active...) // place of each row in active
	drop := func(row int) {
		last := active[len(active)-1]
		active[where[row]], where[last] = last, where[row]
		active = active[:len(active)-1]
	}
	var joins [][2]int
	var chain []int
	for len(active) > 1 {
		if len(chain) == 0 {
			chain = append(chain, active[0])
		}
		a := chain[len(chain)-1]
		b, least := -1, float32(math.Inf(1))
		row := w[a*n : a*n+n]
		if len(chain) > 1 {
			b = chain[len(chain)-2]
			least = row[b]
		}
		for _, c := range active {
			if c != a && (row[c] < least || b < 0) {
				b, least = c, row[c]
			}
		}
		if len(chain) < 2 || b != chain[len(chain)-2] {
			chain = append(chain, b)
			continue
		}
		chain = chain[:len(chain)-2]
		joins = append(joins, [2]int{name[a], name[b]})
		drop(b)
		name[a] = n + len(joins) - 1
		share := weight[a] / (weight[a] + weight[b])
		other := w[b*n : b*n+n]
		for _, c := range active {
			if c != a {
				x := float32(share*float64(row[c]) + (1-share)*float64(other[c]))
				row[c], w[c*n+a] = x, x
			}
		}
		weight[a] += weight[b]
	}
	return joins
}

// link returns the binary tree over single leaves.
func link(w []float32, n int) *tree {
	size := make([]int, n)
	for i := range size {
		size[i] = 1
	}
	joins := linkage(w, size)
	t := &tree{leaves: n}
	t.grow(n + max(1, len(joins)))
	for k, join := range joins {
		t.hang(join[0], n+k)
		t.hang(join[1], n+k)
	}
	t.root = n + max(0, len(joins)-1)
	t.arrange()
	return t
}

// relink joins the leaf switches of a tree, and the leaves that hang elsewhere, anew. The mean of all values between
// two leaf switches has less noise than a single value.
func (t *tree) relink(w []float32, n int) *tree {
	var units [][]int
	var of []int // the switch that the unit is, or its leaf
	for _, v := range t.switches() {
		whole := true
		for _, c := range t.children[v] {
			whole = whole && c < t.leaves
		}
		if whole {
			units, of = append(units, t.below(v)), append(of, v)
			continue
		}
		for _, c := range t.children[v] {
			if c < t.leaves {
				units, of = append(units, []int{c}), append(of, c)
			}
		}
	}
	m := len(units)
	if m < 2 {
		return t
	}
	means := meanBetween(w, n, units)
	size := make([]int, m)
	for i, u := range units {
		size[i] = len(u)
	}
	fresh := &tree{leaves: n}
	fresh.grow(n + 2*m)
	number := make([]int, m, 2*m)
	next := n
	for i, v := range of {
		number[i] = v
		if v >= n {
			number[i] = next
			for _, leaf := range units[i] {
				fresh.hang(leaf, next)
			}
			next++
		}
	}
	for _, join := range linkage(means, size) {
		fresh.hang(number[join[0]], next)
		fresh.hang(number[join[1]], next)
		number = append(number, next)
		next++
	}
	fresh.root = next - 1
	fresh.arrange()
	return fresh
}

func meanBetween(w []float32, n int, units [][]int) []float32 {
	m := len(units)
	means := make([]float32, m*m)
	unit := make([]int, n)
	for i, u := range units {
		for _, a := range u {
			unit[a] = i
		}
	}
	sums := make([]float64, m)
	for i, u := range units {
		clear(sums)
		for _, a := range u {
			for b, x := range w[a*n : a*n+n] {
				sums[unit[b]] += float64(x)
			}
		}
		for j := range m {
			if i != j {
				means[i*m+j] = float32(sums[j] / float64(len(u)*len(units[j])))
			}
		}
	}
	return means
}
