package network

import (
	"container/heap"
	"math"
)

// PathUs returns the latency between two nodes over the links, in microseconds: the shortest path's, plus the base. It
// is NaN if no path of known latencies connects them.
func (n *Network) PathUs(a, b int) float64 {
	if a == b {
		return 0
	}
	return n.Distances(a)[b]
}

// Distances returns the latency between a vertex and each other, in microseconds, as PathUs does.
func (n *Network) Distances(from int) []float64 {
	far := n.shortest(n.neighbours(), from).far
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

// shortestPaths are the shortest paths from one vertex.
type shortestPaths struct {
	far   []float64 // +Inf: there is no path
	via   []end     // the vertex before the last, and the last link
	order []int     // vertices with a path, the nearest first
}

// shortest finds the shortest path to each vertex. A link without a latency is no way.
func (n *Network) shortest(ends [][]end, from int) *shortestPaths {
	s := &shortestPaths{far: make([]float64, len(n.Names)), via: make([]end, len(n.Names))}
	for v := range s.far {
		s.far[v], s.via[v] = math.Inf(1), end{-1, -1}
	}
	s.far[from] = 0
	done := make([]bool, len(n.Names))
	for next := (&frontier{{from, 0}}); next.Len() > 0; {
		at := heap.Pop(next).(reach).vertex
		if done[at] {
			continue
		}
		done[at] = true
		s.order = append(s.order, at)
		for _, e := range ends[at] {
			if d := s.far[at] + n.Links[e.link].LatencyUs; d < s.far[e.vertex] { // false for NaN
				s.far[e.vertex], s.via[e.vertex] = d, end{at, e.link}
				heap.Push(next, reach{e.vertex, d})
			}
		}
	}
	return s
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
