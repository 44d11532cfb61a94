package selection

// Covered is a set of kept metrics, and how well each of the others is known from it.
type Covered struct {
	Added          []string           // by greedy column-subset selection, in the order in which they were added
	R2             map[string]float64 // of each dropped metric from all kept ones, on held-out blocks
	Representative map[string]string  // of each dropped metric: the kept one that is closest
	R              map[string]float64 // correlation with it
}

// Cover adds metrics to the kept ones until each dropped metric has at least this R², on held-out blocks, or max metrics
// were added; 0: no limit. Metrics are numbers of Design.Metrics.
func Cover(d *Design, kept []int, target float64, max int) *Covered { return nil }

// Measure is Cover without adding any.
func Measure(d *Design, kept []int) *Covered { return nil }
