package quantile

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkCertify compares with Reduce of the same column in one run, each at its best.
func BenchmarkCertify(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var room Joiner
	for _, n := range []int{16, 112, 256, 800, 4000, 150_000} {
		column, scratch := shapes[0].column(r, n), make([]float64, n)
		for _, budget := range []Budget{Large, Quick, Small} {
			b.Run(fmt.Sprintf("%d/%d/%d", n, budget.Bytes, budget.Ranks), func(b *testing.B) {
				b.ReportAllocs()
				certify, reduce := time.Hour, time.Hour
				for b.Loop() {
					copy(scratch, column)
					start := time.Now()
					room.Certify(scratch, budget)
					certify = min(certify, time.Since(start))
					copy(scratch, column)
					start = time.Now()
					Reduce(scratch)
					reduce = min(reduce, time.Since(start))
				}
				b.ReportMetric(float64(certify.Nanoseconds())/float64(n), "ns/value")
				b.ReportMetric(float64((certify-reduce).Nanoseconds())/float64(n), "ns/value-more")
			})
		}
	}
}
