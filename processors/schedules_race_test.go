//go:build race

package processors

// fewer divides how many random cases there are. The folds have no goroutine. The race detector finds nothing in them,
// and makes them eight times slower. `make test` then runs the full numbers without it.
const fewer = 50
