package network

import (
	"container/heap"
	"math"
)

// PathUs returns the latency between two nodes over the links, in microseconds: that of the shortest path, and the
// base. It is NaN where no path with known latencies is.
func (n *Network) PathUs(a, b int) float64 {
	if a == b {
		return 0
	}
	return n.Distances(a)[b]
}

// Distances returns the latency between a vertex and each other, in microseconds, as PathUs does.
func (n *Network) Distances(from int) []float64 {
	far := n.shortest(n.neighbours(), from)
	for v := range far {
		if v != from {
			far[v] += n.BaseUs
		}
		if math.IsInf(far[v], 0) {
			far[v] = math.NaN()
		}
	}
	return far
}

// shortest returns the length of the shortest path to each vertex, +Inf where there is none. A link without a latency
// is no way.
func (n *Network) shortest(ends [][]end, from int) []float64 {
	far := make([]float64, len(n.Names))
	for v := range far {
		far[v] = math.Inf(1)
	}
	far[from] = 0
	next := &frontier{{from, 0}}
	for next.Len() > 0 {
		at := heap.Pop(next).(reach)
		if at.far > far[at.vertex] {
			continue
		}
		for _, e := range ends[at.vertex] {
			if d := at.far + n.Links[e.link].LatencyUs; d < far[e.vertex] { // false for NaN
				far[e.vertex] = d
				heap.Push(next, reach{e.vertex, d})
			}
		}
	}
	return far
}

// reach is a vertex and how far it is.
type reach struct {
	vertex int
	far    float64
}

// frontier is a heap of vertices to go on from, the nearest first.
type frontier []reach

func (f *frontier) Len() int           { return len(*f) }
func (f *frontier) Less(i, j int) bool { return (*f)[i].far < (*f)[j].far }
func (f *frontier) Swap(i, j int)      { (*f)[i], (*f)[j] = (*f)[j], (*f)[i] }

// Push adds a vertex.
func (f *frontier) Push(x any) { *f = append(*f, x.(reach)) }

// Pop takes the last vertex.
func (f *frontier) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}
