package latency

import "context"

// Transfer describes the data that each pair of a round sends.
type Transfer struct {
	Bytes int64 // in one direction; at least one
	Both  bool  // in both directions at the same time, as MPI_Sendrecv does
}

// ThroughputMeasurer measures throughput.
type ThroughputMeasurer interface {
	// Names returns the names of the nodes. Pairs number them.
	Names() []string

	// MeasureThroughput lets the pairs of one round send at the same time. It returns their rates in MB/s, 10^6 bytes a
	// second. A rate is the bytes of one direction over the time until the last of them has arrived. No node is in two
	// pairs. The rate of a pair that could not be measured is NaN, without an error.
	MeasureThroughput(ctx context.Context, round []Pair, transfer Transfer) ([]float64, error)
}
