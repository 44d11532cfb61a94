package selection

// Star is a metric and those that it stands for.
type Star struct {
	Metric  int       // of Design.Metrics
	Members []int     // of Design.Metrics, without Metric itself
	R       []float64 // correlation of each member with Metric: the weakest of its columns
}

// Stars groups metrics: the metric that is strongest with the responses first takes all that depend on it, and so on.
// Metrics of first lead before the others. So each member is close to its own representative, not to a chain.
func Stars(d *Design, threshold float64, first []int) []Star { return nil }
