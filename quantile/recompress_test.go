package quantile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A recompressed summary is nearly as good as one for which the sum was looked at at every corner, and no jump is lost.
// Its brackets hold, and are nearly as narrow. The union of 60 shares has more corners than twice Large's ranks.
func TestRecompressKeepsJumps(t *testing.T) {
	const more = 1.5 / 1024 // of all values, for what lies between the corners that it looks at
	for i, p := range slices.Concat(populations, harderPopulations) {
		for try := range cases(4, 40) {
			r := rand.New(rand.NewPCG(uint64(i), uint64(try)))
			shares := p.shares(r, 30_000+r.IntN(90_000), 60)
			summaries, _ := summarise(shares, Large)
			joined, _ := Recompress(summaries, Large)
			everyCorner, _ := Recompress(summaries, Budget{Large.Bytes, 1 << 20})
			e, _ := Merge([]Summary{joined})
			fine, _ := Merge([]Summary{everyCorner})
			truth := newTruth(shares)
			width, fineWidth := 0.0, 0.0
			for k := range N {
				if d := truth.deciles[k]; d < e.Lo[k] || d > e.Hi[k] {
					t.Errorf("%s, n=%d: D%d is %v, outside of [%v, %v]", p.name, e.Count, k, d, e.Lo[k], e.Hi[k])
				}
				width += truth.width(e.Lo[k], e.Hi[k]) / N
				fineWidth += truth.width(fine.Lo[k], fine.Hi[k]) / N
			}
			if joined.Eps > everyCorner.Eps+more*float64(e.Count) || e.RankError > fine.RankError+2*more ||
				width > fineWidth+2*more {
				t.Errorf("%s, n=%d: of all values eps is %.2f %%, the rank error %.2f %% and a bracket %.2f %%, "+
					"with every corner %.2f, %.2f and %.2f %%", p.name, e.Count,
					100*joined.Eps/float64(e.Count), 100*e.RankError, 100*width,
					100*everyCorner.Eps/float64(e.Count), 100*fine.RankError, 100*fineWidth)
			}
		}
	}
}

// A curve of one value has one point.
func TestRecompressOfOneValue(t *testing.T) {
	one := Summary{Count: 1, Eps: 0.5, Knots: []Knot{{3, 1}}}
	if err := one.Check(); err != nil {
		t.Fatal(err)
	}
	joined, ok := Recompress([]Summary{one}, Large)
	if want := []Knot{{3, 1}}; !ok || joined.Check() != nil || !slices.Equal(joined.Knots, want) {
		t.Errorf("%+v", joined)
	}
	same, _ := Recompress([]Summary{one, one, one}, Large)
	if e, ok := Merge([]Summary{same}); !ok || same.Check() != nil || !e.Exact || e.Deciles[5] != 3 {
		t.Errorf("%+v of %+v", e, same)
	}
}

// BenchmarkRecompress compares with a Merge of the same shares in one run, each at its best.
func BenchmarkRecompress(b *testing.B) {
	for _, p := range populations {
		if p.name != "normal" && p.name != "idle at zero" || p.family == mixed {
			continue
		}
		for _, shares := range []int{8, 60, 360} {
			r := rand.New(rand.NewPCG(1, 1))
			summaries, _ := summarise(p.shares(r, 2000*shares, shares), Large)
			for _, budget := range []Budget{{512, 2048}, Quick} {
				b.Run(fmt.Sprintf("%s/%d/%d", p.name, shares, budget.Ranks), func(b *testing.B) {
					merge, recompress := time.Hour, time.Hour
					for b.Loop() {
						start := time.Now()
						Recompress(summaries, budget)
						middle := time.Now()
						Merge(summaries)
						recompress, merge = min(recompress, middle.Sub(start)), min(merge, time.Since(middle))
					}
					b.ReportMetric(float64(recompress.Microseconds()), "us")
					b.ReportMetric(recompress.Seconds()/merge.Seconds(), "x_merge")
				})
			}
		}
	}
}

// Eps of a merged curve counts the rounding of its ranks too: no value's first or last rank is missed by more.
func TestEpsOfAMergeHoldsForEveryValue(t *testing.T) {
	r := random(t)
	curves := 0
	for range cases(600, 20_000) {
		name, shares := split(r)
		joined, ok := Recompress(certifyAll(r, shares, nil), Budget{Small.Bytes, []int{32, 256, 2048}[r.IntN(3)]})
		if !ok || len(joined.Atoms) > 0 {
			continue
		}
		curves++
		column := slices.Sorted(slices.Values(slices.Concat(shares...)))
		sh := newShare(&joined, new([]Knot))
		for i, v := range column {
			if i > 0 && v == column[i-1] {
				continue
			}
			first, _ := slices.BinarySearch(column, v)
			last := (&truth{sorted: column}).upTo(v)
			st := sh.at(v) // half a rank below the curve, but for its ends
			if below, above := float64(st.below)/unit+0.5, float64(st.above)/unit+0.5; first > 0 &&
				math.Abs(below-float64(first+1)) > joined.Eps+1e-5 ||
				last < len(column) && math.Abs(above-float64(last)) > joined.Eps+1e-5 {
				t.Fatalf("%s, n=%d: %v has ranks %d to %d, the curve %v to %v, eps %v",
					name, len(column), v, first+1, last, below, above, joined.Eps)
			}
		}
	}
	if curves < 20 {
		t.Errorf("%d merged curves", curves)
	}
}
