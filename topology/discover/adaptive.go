package discover

import (
	"context"
	"errors"

	"github.com/weirhpc/weir/topology/latency"
)

// AdaptiveOptions are what a caller may know or limit. The zero value is right where nothing is.
type AdaptiveOptions struct {
	Seed   uint64  // of random choices: the same answers to the same seed make the same questions
	TickUs float64 // step of the clock in a latency, in microseconds; 0: not known
	Most   int     // measurements at most; 0: as many as there are pairs
}

// Adaptive returns the tree behind latencies that it asks for in rounds. It measures few pairs of each node.
func Adaptive(ctx context.Context, m latency.Measurer, o AdaptiveOptions) (Result, error) {
	if len(m.Names()) < 2 {
		return Result{}, errFew
	}
	return Result{}, errors.New("not built yet")
}
