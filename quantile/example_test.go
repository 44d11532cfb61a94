package quantile_test

import (
	"fmt"

	"github.com/weirhpc/weir/quantile"
)

// Where all values are in one place, the deciles are exact.
func ExampleReduce() {
	d := quantile.Reduce([]float64{4, 1, 3, 2, 5})
	fmt.Println(d.Deciles[0], d.Deciles[5], d.Deciles[10], d.Mean)
	// Output: 1 2.5 5 3
}

// Two collectors have the values of one job. Each certifies its share, and merge joins them without the values.
func ExampleMerge() {
	var all []float64
	shares := make([][]float64, 2)
	for i := range 1000 {
		all = append(all, float64(i))
		shares[i%2] = append(shares[i%2], float64(i))
	}
	var summaries []quantile.Summary
	for _, values := range shares {
		_, s := quantile.Certify(values, quantile.Large)
		summaries = append(summaries, s)
	}
	e, ok := quantile.Merge(summaries)
	fmt.Println(ok, e.Deciles[0], e.Deciles[10])
	exact := quantile.Reduce(all).Deciles[5]
	fmt.Println("the exact median lies within the bounds:", e.Lo[5] <= exact && exact <= e.Hi[5])
	// Output:
	// true 0 999
	// the exact median lies within the bounds: true
}
