package quantile

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/apache/datasketches-go/common"
	"github.com/apache/datasketches-go/kll"
	"github.com/caio/go-tdigest/v4"
)

// What weir's merge is measured against. None of it runs in production.

// quantilesOf is a share as PerSyst's collectors send it: the number of values, and interpolated quantiles. The least
// value is the first of them. There are 11 for deciles, 101 for percentiles.
type quantilesOf struct {
	n int
	q []float64
}

// newQuantiles cuts sorted values into so many parts.
func newQuantiles(sorted []float64, parts int) quantilesOf {
	s := quantilesOf{n: len(sorted), q: make([]float64, parts+1)}
	for k := range s.q {
		s.q[k] = quantileOf(sorted, k, parts)
	}
	return s
}

// deciles of the share, which its quantiles contain.
func (s quantilesOf) deciles() (d [N]float64) {
	for k := range d {
		d[k] = s.q[k*(len(s.q)-1)/(N-1)]
	}
	return d
}

// perSyst is PerSyst's merge (Guillen, Hesse and Brehm, section 4, equations 1 to 6). It recreates every share from its
// quantiles, with uniformly random values between them, and takes the quantiles of all. Literally, floor(n/parts) - 1
// values lie between two quantiles and one less in the first interval. That loses n mod parts values of each share.
// Read favourably, the numbers are rounded so that each share has its n values again.
func perSyst(r *rand.Rand, shares []quantilesOf, literal bool) quantilesOf {
	var all []float64
	total, parts := 0, len(shares[0].q)-1
	for _, s := range shares {
		total += s.n
		all = append(all, s.q[0])
		made := 1
		for k := 1; k <= parts; k++ {
			random := int(math.Round(float64(s.n*k)/float64(parts))) - made - 1
			if literal {
				random = s.n/parts - 1
				if k == 1 {
					random--
				}
			}
			for range random {
				all = append(all, s.q[k-1]+r.Float64()*(s.q[k]-s.q[k-1]))
			}
			if literal || random >= 0 {
				all = append(all, s.q[k])
			}
			made += max(random, -1) + 1
		}
	}
	sortAll(all)
	merged := newQuantiles(all, parts)
	merged.n = total
	return merged
}

// quantileCurve is where v stands in shares whose quantiles are joined by straight lines, in ranks.
func quantileCurve(shares []quantilesOf, v float64, below bool) float64 {
	sum := 0.0
	for _, s := range shares {
		k := 0
		for k < len(s.q) && (s.q[k] < v || s.q[k] == v && !below) {
			k++
		}
		switch k {
		case 0:
		case len(s.q):
			sum += float64(s.n)
		default:
			sum += float64(s.n) * (float64(k-1) + fraction(s.q[k-1], s.q[k], v)) / float64(len(s.q)-1)
		}
	}
	return sum
}

// quantileInverse inverts quantileCurve at n·k/10: PerSyst's merge without chance.
func quantileInverse(shares []quantilesOf) (result [N]float64) {
	var union []float64
	total := 0
	for _, s := range shares {
		union, total = append(union, s.q...), total+s.n
	}
	sortAll(union)
	union = slices.Compact(union)
	for k := range N {
		target := float64(total) * float64(k) / 10
		i, _ := slices.BinarySearchFunc(union, target, func(v, target float64) int {
			if quantileCurve(shares, v, false) < target {
				return -1
			}
			return 1
		})
		i = min(i, len(union)-1)
		result[k] = union[i]
		if i > 0 {
			low, high := quantileCurve(shares, union[i-1], false), quantileCurve(shares, union[i], true)
			if target < high {
				result[k] = lerp(union[i-1], union[i], (target-low)/(high-low))
			}
		}
	}
	return result
}

// tDigest merges digests of the shares.
func tDigest(seed int64, compression float64, shares [][]float64) (result [N]float64, bytes int) {
	make1 := func() *tdigest.TDigest {
		d, err := tdigest.New(tdigest.Compression(compression), tdigest.LocalRandomNumberGenerator(seed))
		if err != nil {
			panic(err)
		}
		return d
	}
	all := make1()
	for _, share := range shares {
		d := make1()
		for _, v := range share {
			if err := d.Add(v); err != nil {
				panic(err)
			}
		}
		if err := d.Compress(); err != nil {
			panic(err)
		}
		encoded, err := d.AsBytes()
		if err != nil {
			panic(err)
		}
		bytes = max(bytes, len(encoded))
		if err := all.Merge(d); err != nil {
			panic(err)
		}
	}
	for k := range N {
		result[k] = all.Quantile(float64(k) / 10)
	}
	return result, bytes
}

// kllSketch merges KLL sketches of the shares. The library draws from a generator that cannot be seeded.
func kllSketch(k uint16, shares [][]float64) (result [N]float64, bytes int) {
	make1 := func() *kll.ItemsSketch[float64] {
		s, err := kll.NewKllItemsSketch(k, 8, common.ItemSketchDoubleComparator(false), common.ItemSketchDoubleSerDe{})
		if err != nil {
			panic(err)
		}
		return s
	}
	all := make1()
	for _, share := range shares {
		s := make1()
		for _, v := range share {
			s.Update(v)
		}
		size, err := s.GetSerializedSizeBytes()
		if err != nil {
			panic(err)
		}
		bytes = max(bytes, size)
		all.Merge(s)
	}
	for k := range N {
		q, err := all.GetQuantile(float64(k)/10, true)
		if err != nil {
			panic(err)
		}
		result[k] = q
	}
	return result, bytes
}
