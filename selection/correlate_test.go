package selection

import (
	"math"
	"testing"
)

// A tile's correlations are those of each pair by itself: within one segment, and averaged over several.
func TestTilesAgreeWithPairs(t *testing.T) {
	for seed := range uint64(2) {
		for kind, table := range kinds(50 + seed) {
			var columns [][]float64
			for len(columns) < 150 { // more than a tile
				for _, m := range table.Metrics {
					columns = append(columns, m.Columns[0].Values)
				}
			}
			n := table.Rows()
			for _, bounds := range [][]int{{0, n}, {0, n / 3, n / 2, n - 1, n}} {
				pairs := 0
				newCorrelator(columns, bounds).pairs(func(a, b int, r, count float64) {
					pairs++
					want, wantCount := inSegments(columns[a], columns[b], bounds)
					if math.Abs(r-want) > 1e-9 || count != wantCount && r != 0 {
						t.Fatalf("%s: columns %d and %d, segments %v: r is %g over %g rows, want %g over %g",
							kind, a, b, bounds, r, count, want, wantCount)
					}
				})
				if pairs != len(columns)*(len(columns)-1)/2 {
					t.Errorf("%d pairs of %d columns", pairs, len(columns))
				}
			}
		}
	}
}

// inSegments is the mean of the segments' correlations in Fisher's z, weighted by n−3.
func inSegments(x, y []float64, bounds []int) (r, count float64) {
	if len(bounds) == 2 {
		r, n := correlation(x, y)
		return r, float64(n)
	}
	var z, weight float64
	for s := range len(bounds) - 1 {
		a, b := x[bounds[s]:bounds[s+1]], y[bounds[s]:bounds[s+1]]
		r, n := correlation(a, b)
		if n <= 3 || constant(a) || constant(b) {
			continue
		}
		z += float64(n-3) * math.Atanh(min(1-1e-15, max(-1+1e-15, r)))
		weight += float64(n - 3)
	}
	if weight == 0 {
		return 0, 0
	}
	return math.Tanh(z / weight), weight + 3
}

// Over all rows the shifted levels make correlations. Within blocks there are none.
func TestBlocksSeeNoLevels(t *testing.T) {
	table := kinds(9)["levels"]
	pooled, err := SelectLiteral(table, 0, LiteralOptions{Threshold: .5, FToRemove: 2})
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := SelectLiteral(table, 0, LiteralOptions{Threshold: .5, FToRemove: 2, PerBlock: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(pooled.Clusters) != 2 || len(blocks.Clusters) != 4 {
		t.Errorf("%d clusters over all rows and %d within blocks, want 2 and 4",
			len(pooled.Clusters), len(blocks.Clusters))
	}
}

func TestCorrelationKeepsItsDigits(t *testing.T) {
	x := made(100, func(i int) float64 { return 1e16 + 2*float64(i%7) })
	for name, y := range map[string][]float64{
		"tiny":  made(100, func(i int) float64 { return 1e-300 * float64(i%7) }),
		"huge":  made(100, func(i int) float64 { return -1e149 * float64(i%7) }),
		"small": made(100, func(i int) float64 { return 1e9 + 1e-3*float64(i%7) }),
	} {
		if r, n := correlation(x, y); math.Abs(math.Abs(r)-1) > 1e-7 || n != 100 {
			t.Errorf("%s: r is %g over %d rows", name, r, n)
		}
	}
	if r, n := correlation(x, made(100, func(int) float64 { return .1 })); r != 0 || n != 100 {
		t.Errorf("with a constant r is %g over %d rows", r, n)
	}
	if r, n := correlation([]float64{math.NaN(), 1, 2}, []float64{1, 2, math.Inf(1)}); r != 0 || n != 1 {
		t.Errorf("with one common row r is %g over %d rows", r, n)
	}
}

// The columns that add up to 100 are named, and --drop-aliased leaves the weakest of them out.
func TestLiteralNamesCollinearColumns(t *testing.T) {
	table := kinds(3)["unrelated"]
	m := table.Metrics
	for i := range table.Rows() {
		m[5].Columns[0].Values[i] = 100 - m[1].Columns[0].Values[i] - 2*m[2].Columns[0].Values[i]
	}
	for i := range table.Rows() { // m05 is the strongest of the three, m01 the weakest
		table.Responses[0].Values[i] += m[5].Columns[0].Values[i]
	}
	l, err := SelectLiteral(table, 0, LiteralOptions{Threshold: .95, FToRemove: 2})
	if err == nil || l.Error != multicollinearity || len(l.Collinear) != 3 ||
		l.Collinear[0] != "m01" || l.Collinear[1] != "m02" || l.Collinear[2] != "m05" {
		t.Fatalf("%v, %+v", err, l)
	}
	l, err = SelectLiteral(table, 0, LiteralOptions{Threshold: .95, FToRemove: 2, DropAliased: true})
	if err != nil || len(l.Aliased) != 1 || l.Aliased[0] != "m01" || l.R2 < .5 {
		t.Errorf("%v, aliased %v, R² %g", err, l.Aliased, l.R2)
	}
}

// Of correlations that differ by rounding the first column wins; of terms with equal F the later one goes.
func TestLiteralDecidesTies(t *testing.T) {
	strength := []float64{.5, .9 - 1e-12, .2, .9, .9 - 1e-8}
	for want, members := range map[int][]int{1: {0, 1, 3}, 3: {2, 3, 4}, 0: {0, 2}} {
		if got := representative(members, strength); got != want {
			t.Errorf("column %d represents %v, want %d", got, members, want)
		}
	}
	wave := func(period int) []float64 {
		return made(64, func(i int) float64 { return float64(2*(i/period%2) - 1) })
	}
	a, b, rest := wave(1), wave(2), wave(4)
	y := made(64, func(i int) float64 { return .1*a[i] + .1*b[i] + rest[i] })
	for _, columns := range [][][]float64{{a, b}, {b, a}} {
		l, err := SelectLiteral(observed(64, y, columns...), 0, LiteralOptions{Threshold: .95, FToRemove: 2})
		if err != nil || len(l.Eliminated) != 2 || l.Eliminated[0].Term != "m01" {
			t.Errorf("%v, eliminated %v: want m01 first", err, l.Eliminated)
		}
	}
}
