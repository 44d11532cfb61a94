package schedule

import (
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// Halves divides groups into two sides of nearly equal size (the partition problem). It reports which groups are on the
// first side. Sizes are not negative. It takes a table of all sums, so it is exact, and fast because sizes count nodes.
// TestHalves pins it on figure 2.21.
func Halves(sizes []int) []bool {
	total := 0
	for _, size := range sizes {
		total += size
	}
	// last[sum] is the group that first made the sum possible, and so the groups before it make the rest.
	last := make([]int, total/2+1)
	for i := range last {
		last[i] = -1
	}
	for i, size := range sizes {
		for sum := total / 2; sum >= size && size > 0; sum-- {
			if last[sum] < 0 && (sum == size || last[sum-size] >= 0 && last[sum-size] < i) {
				last[sum] = i
			}
		}
	}
	first := make([]bool, len(sizes))
	best := total / 2
	for best > 0 && last[best] < 0 {
		best--
	}
	for ; best > 0; best -= sizes[last[best]] {
		first[last[best]] = true
	}
	return first
}

// switchRates measures each switch with all its links in use, one switch after another. Its branches are divided into
// two sides of about the same number of nodes. In a network with cycles, only its own nodes are safe (section 2.3.4).
func (p *throughputProber) switchRates() error {
	for _, s := range p.switches() {
		pairs := p.through(s)
		if len(pairs) == 0 {
			continue
		}
		rates, err := p.measure([][]latency.Pair{pairs})
		if err != nil {
			return err
		}
		p.report.Switches = append(p.report.Switches, SwitchRate{Switch: s, Throughput: rates[0]})
	}
	return nil
}

// through returns pairs of nodes that send their data through a switch.
func (p *throughputProber) through(s int) []latency.Pair {
	var groups [][]int
	seen := map[int]bool{}
	for _, e := range p.ends[s] {
		nodes := p.behind(e.vertex, e.link)
		if slices.ContainsFunc(nodes, func(v int) bool { return seen[v] }) || p.reaches(e.vertex, e.link, s) {
			own, _ := p.nodesOf(s)
			return neighbourPairs(own)
		}
		for _, v := range nodes {
			seen[v] = true
		}
		groups = append(groups, nodes)
	}
	sizes := make([]int, len(groups))
	for i, nodes := range groups {
		sizes[i] = len(nodes)
	}
	var left, right [][]int
	for i, first := range Halves(sizes) {
		if first {
			left = append(left, groups[i])
		} else {
			right = append(right, groups[i])
		}
	}
	return across(inTurn(left), inTurn(right))
}

// reaches reports whether a vertex reaches another without a link.
func (p *throughputProber) reaches(start, link, goal int) bool {
	seen := map[int]bool{start: true}
	queue := []int{start}
	for i := 0; i < len(queue); i++ {
		for _, e := range p.ends[queue[i]] {
			if e.link != link && !seen[e.vertex] {
				seen[e.vertex] = true
				queue = append(queue, e.vertex)
			}
		}
	}
	return seen[goal]
}
