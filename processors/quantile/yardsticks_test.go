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

// decilesOf is a share as PerSyst's collectors send it: how many values, and 11 interpolated deciles.
type decilesOf struct {
	n int
	d [N]float64
}

func newDeciles(sorted []float64) decilesOf {
	s := decilesOf{n: len(sorted)}
	for k := range N {
		s.d[k] = decileOf(sorted, k)
	}
	return s
}

// perSyst is PerSyst's merge (Guillen, Hesse and Brehm, section 4, equations 1 to 6): it recreates every share from its
// deciles, with uniformly random values between them, and takes the deciles of all. Literally, floor(n/10) - 1 values lie
// between two deciles and one less in the first interval, which loses n mod 10 values of each share. Read favourably, the
// numbers are rounded so that each share has its n values again.
func perSyst(r *rand.Rand, shares []decilesOf, literal bool) decilesOf {
	var all []float64
	total := 0
	for _, s := range shares {
		total += s.n
		all = append(all, s.d[0])
		made := 1
		for k := 1; k < N; k++ {
			random := int(math.Round(float64(s.n*k)/10)) - made - 1
			if literal {
				random = s.n/10 - 1
				if k == 1 {
					random--
				}
			}
			for range random {
				all = append(all, s.d[k-1]+r.Float64()*(s.d[k]-s.d[k-1]))
			}
			if literal || random >= 0 {
				all = append(all, s.d[k])
			}
			made += max(random, -1) + 1
		}
	}
	sortAll(all)
	merged := newDeciles(all)
	merged.n = total
	return merged
}

// decileCurve is where v stands in shares whose deciles are joined by straight lines, in ranks.
func decileCurve(shares []decilesOf, v float64, below bool) float64 {
	sum := 0.0
	for _, s := range shares {
		k := 0
		for k < N && (s.d[k] < v || s.d[k] == v && !below) {
			k++
		}
		switch k {
		case 0:
		case N:
			sum += float64(s.n)
		default:
			sum += float64(s.n) * (float64(k-1) + fraction(s.d[k-1], s.d[k], v)) / 10
		}
	}
	return sum
}

// decileInverse inverts decileCurve at n·k/10: PerSyst's merge without chance.
func decileInverse(shares []decilesOf) (result [N]float64) {
	var union []float64
	total := 0
	for _, s := range shares {
		union, total = append(union, s.d[:]...), total+s.n
	}
	sortAll(union)
	union = slices.Compact(union)
	for k := range N {
		target := float64(total) * float64(k) / 10
		i, _ := slices.BinarySearchFunc(union, target, func(v, target float64) int {
			if decileCurve(shares, v, false) < target {
				return -1
			}
			return 1
		})
		i = min(i, len(union)-1)
		result[k] = union[i]
		if i > 0 {
			if low, high := decileCurve(shares, union[i-1], false), decileCurve(shares, union[i], true); target < high {
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
