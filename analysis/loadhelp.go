package analysis

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"sync"
)

// each calls fn with 0 to n-1, side by side.
func each(n int, fn func(i int)) {
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range next {
				fn(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
