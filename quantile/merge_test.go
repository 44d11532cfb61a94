package quantile

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sameBits compares summaries or estimates by bits, as replicas that write them must agree.
func sameBits[T any](a, b T) bool {
	return cmp.Equal(a, b, cmp.Comparer(func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }))
}

// split is a random population, dealt to shares, some of which may be empty.
func split(r *rand.Rand) (name string, shares [][]float64) {
	n, p := size(r, 4000), 1+r.IntN(12)
	if r.IntN(3) == 0 {
		s := shapes[r.IntN(len(shapes))]
		column := s.column(r, n)
		return s.name, deal(r, column, p)
	}
	population := populations[r.IntN(len(populations))]
	return population.family + ": " + population.name, population.shares(r, n, p)
}

// certifyAll summarises shares, and at times joins some of them as a tree of mergers would.
func certifyAll(r *rand.Rand, shares [][]float64, change func(r *rand.Rand, sorted []float64, s *Summary)) []Summary {
	var summaries []Summary
	budget := []Budget{Small, Large}[r.IntN(2)]
	for _, v := range shares {
		_, s := Certify(slices.Clone(v), budget)
		if change != nil && s.Count > 0 {
			change(r, slices.Sorted(slices.Values(v)), &s)
		}
		summaries = append(summaries, s)
	}
	if len(summaries) > 2 && r.IntN(3) == 0 {
		if s, ok := Recompress(summaries[:2], budget); ok {
			summaries = append(summaries[2:], s)
		}
	}
	return summaries
}

// violations counts deciles that their bracket, or their rank error, does not hold.
func violations(r *rand.Rand, merges int, change func(*rand.Rand, []float64, *Summary)) (bad int, first string) {
	for range merges {
		name, shares := split(r)
		e, ok := Merge(certifyAll(r, shares, change))
		if !ok {
			return merges, name + " has no result"
		}
		t := newTruth(shares)
		for k := range N {
			d, q := t.deciles[k]+0, e.Deciles[k]
			upTo := t.upTo(q)
			below, _ := slices.BinarySearch(t.sorted, q)
			rank := max(1, float64(e.Count)*float64(k)/10)
			off := max(0, rank-float64(upTo), float64(below+1)-rank) / float64(e.Count)
			if e.Lo[k] == e.Hi[k] {
				off = 0
			}
			if d < e.Lo[k] || d > e.Hi[k] || off > e.RankError+1e-12 || q < e.Lo[k] || q > e.Hi[k] ||
				e.Exact && q != d {
				if bad++; first == "" {
					first = fmt.Sprintf("%s: n=%d in %d shares, D%d is %v, estimated %v in [%v, %v], %v off of %v",
						name, e.Count, len(shares), k, d, q, e.Lo[k], e.Hi[k], off*float64(e.Count),
						e.RankError*float64(e.Count))
				}
			}
		}
		if e.Exact != (e.RankError == 0) || e.Complete && !e.Exact {
			return merges,
				fmt.Sprintf("%s: exact %t, complete %t, rank error %v", name, e.Exact, e.Complete, e.RankError)
		}
		if !slices.IsSorted(e.Deciles[:]) || !slices.IsSorted(e.Lo[:]) || !slices.IsSorted(e.Hi[:]) ||
			e.Count != int64(len(t.sorted)) {
			return merges, name + ": out of order"
		}
	}
	return bad, first
}

func TestBracketsHoldTheTruth(t *testing.T) {
	r := random(t)
	if bad, first := violations(r, cases(500, 12_000), nil); bad > 0 {
		t.Errorf("%d deciles outside their brackets, first of %s", bad, first)
	}
}

// wrongSummaries lie a little.
var wrongSummaries = []struct {
	name   string
	change func(r *rand.Rand, sorted []float64, s *Summary)
}{
	{"eps halved", func(_ *rand.Rand, _ []float64, s *Summary) { s.Eps /= 2 }},
	{"no eps", func(_ *rand.Rand, _ []float64, s *Summary) { s.Eps = 0 }},
	{"interpolated deciles as order statistics", func(_ *rand.Rand, sorted []float64, s *Summary) {
		for k := range s.Order {
			s.Order[k] = decileOf(sorted, k)
		}
	}},
	{"ranks one too high", func(_ *rand.Rand, _ []float64, s *Summary) {
		for i := range s.Knots {
			s.Knots[i].Rank++
		}
	}},
	{"two atoms as one", func(_ *rand.Rand, _ []float64, s *Summary) {
		if n := len(s.Atoms); n > 2 {
			s.Atoms[n/2-1].Count += s.Atoms[n/2].Count
			s.Atoms = slices.Delete(s.Atoms, n/2, n/2+1)
		}
	}},
}

// The check that finds nothing must find those, or it would prove nothing. The seed is fixed: a lie may be a rare one.
func TestBracketsFindWrongSummaries(t *testing.T) {
	for _, w := range wrongSummaries {
		r := rand.New(rand.NewPCG(1, 1))
		bad, merges := 0, 0
		for ; bad == 0 && merges < 1000; merges++ {
			bad, _ = violations(r, 1, w.change)
		}
		if bad == 0 {
			t.Errorf("%s: not found out", w.name)
		}
		t.Logf("%s: found in merge %d", w.name, merges)
	}
}

// Eps against its definition, on every value of the column.
func TestEpsHoldsForEveryValue(t *testing.T) {
	r := random(t)
	for i := range cases(300, 3000) {
		s := shapes[r.IntN(len(shapes))]
		n := size(r, 5000)
		if i%30 == 0 {
			s, n = shapes[r.IntN(4)], 50_000+r.IntN(50_000) // Certify looks at one value in some seventy
		}
		column := s.column(r, n)
		_, sum := Certify(slices.Clone(column), []Budget{Small, Large}[r.IntN(2)])
		if err := sum.Check(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(column)
		if len(sum.Atoms) > 0 {
			continue
		}
		sh := newShare(&sum, new([]Knot))
		for i, v := range column {
			if i > 0 && v == column[i-1] {
				continue
			}
			first, _ := slices.BinarySearch(column, v)
			last := (&truth{sorted: column}).upTo(v)
			st := sh.at(v)
			if first > 0 && math.Abs(float64(st.below)/unit+0.5-float64(first+1)) > sum.Eps+1e-5 ||
				last < len(column) && math.Abs(float64(st.above)/unit+0.5-float64(last)) > sum.Eps+1e-5 ||
				int64(last) < st.least || int64(first) > st.most {
				t.Fatalf("%s, n=%d: %v has ranks %d to %d, the curve %v to %v, eps %v, proven %d and %d",
					s.name, len(column), v, first+1, last, float64(st.below)/unit+0.5, float64(st.above)/unit+0.5,
					sum.Eps, st.least, st.most)
			}
		}
	}
}

func TestMergeOfAtomsIsExact(t *testing.T) {
	r := random(t)
	for range cases(500, 20_000) {
		column := shapes[r.IntN(len(shapes))].column(r, size(r, 60))
		if r.IntN(2) == 0 {
			column = shapes[8].column(r, size(r, 5000)) // ten values
		}
		var summaries []Summary
		for _, v := range deal(r, column, 1+r.IntN(6)) {
			_, s := Certify(v, Large)
			summaries = append(summaries, s)
		}
		want := Reduce(slices.Clone(column))
		if len(summaries) > 2 && len(column) > 60 {
			s, _ := Recompress(summaries[:2], Large)
			summaries = append(summaries[2:], s)
		}
		all := true
		for _, s := range summaries {
			all = all && (s.Count == 0 || len(s.Atoms) > 0)
		}
		e, ok := Merge(summaries)
		if all && (!ok || !e.Exact || e.RankError != 0 || !sameBits(e.Deciles, want.Deciles) || e.Lo != e.Deciles ||
			e.Hi != e.Deciles) {
			t.Fatalf("%+v, want %+v", e, want)
		} else if !all && len(column) < 40 {
			t.Fatalf("%d values are not atoms", len(column))
		}
	}
}

func TestMergeIsOrderFree(t *testing.T) {
	r := random(t)
	for range cases(100, 1000) {
		name, shares := split(r)
		summaries := certifyAll(r, shares, nil)
		want, _ := Merge(summaries)
		wantJoined, _ := Recompress(summaries, Small)
		for range 5 {
			r.Shuffle(len(summaries), func(i, j int) { summaries[i], summaries[j] = summaries[j], summaries[i] })
			if got, _ := Merge(summaries); !sameBits(got, want) {
				t.Fatalf("%s: %+v after a shuffle, %+v before", name, got, want)
			}
			if got, _ := Recompress(summaries, Small); !sameBits(got, wantJoined) {
				t.Fatalf("%s: recompressed %+v after a shuffle, %+v before", name, got, wantJoined)
			}
		}
	}
}

// A share alone is given back.
func TestMergeOfOneShare(t *testing.T) {
	r := random(t)
	for _, s := range shapes {
		column := s.column(r, 500)
		d, summary := Certify(column, Large)
		e, ok := Merge([]Summary{summary, {}})
		if !ok || !sameBits(e.Deciles, d.Deciles) {
			t.Errorf("%s: %v, want %v", s.name, e.Deciles, d.Deciles)
		}
	}
	line := Summary{Count: 100, Eps: 100, Knots: []Knot{{1, 1}, {100, 100}}}
	e, _ := Merge([]Summary{line, line})
	for k := 1; k < N-1; k++ {
		// of 1, 1, 2, 2, ...: between ranks 20k and 20k + 1
		if want := 10*float64(k) + 0.25; math.Abs(e.Deciles[k]-want) > 1e-6 {
			t.Errorf("D%d of a line twice is %v, want %v", k, e.Deciles[k], want)
		}
	}
	if _, ok := Merge(nil); ok {
		t.Error("a merge of nothing has a result")
	}
	if _, ok := Recompress([]Summary{{}}, Large); ok {
		t.Error("nothing recompressed has a result")
	}
}

func TestSummaryKeepsItsBudget(t *testing.T) {
	r := random(t)
	for range cases(200, 2000) {
		name, shares := split(r)
		for _, budget := range []Budget{Small, Large, {2000, 1024}} {
			var all []Summary
			for _, v := range shares {
				_, s := Certify(slices.Clone(v), budget)
				all = append(all, s)
			}
			joined, _ := Recompress(all, budget)
			for _, s := range append(all, joined) {
				if err := s.Check(); err != nil {
					t.Fatalf("%s: %v: %+v", name, err, s)
				}
				if got := len(encode(&s)); got != s.Bytes() || got > budget.Bytes && s.Count > 0 {
					t.Fatalf("%s: %d bytes, said to be %d, of at most %d", name, got, s.Bytes(), budget)
				}
			}
		}
	}
}

// encode writes a summary as Avro does; its longs are Go's varints.
func encode(s *Summary) []byte {
	var b []byte
	number := func() { b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) }
	number() // eps
	array := func(n int, item func(i int)) {
		if n > 0 {
			b = binary.AppendVarint(b, int64(n))
			for i := range n {
				number()
				item(i)
			}
		}
		b = append(b, 0)
	}
	array(len(s.Order), func(int) {})
	array(len(s.Knots), func(i int) { b = binary.AppendVarint(b, s.Knots[i].Rank) })
	array(len(s.Atoms), func(i int) { b = binary.AppendVarint(b, s.Atoms[i].Count) })
	return b
}

func TestCheckNamesTheField(t *testing.T) {
	order := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	good := func() Summary {
		return Summary{Count: 100, Eps: 1, Order: slices.Clone(order), Knots: []Knot{{1.5, 5}, {9.5, 85}}}
	}
	atoms := func() Summary { return Summary{Count: 5, Atoms: []Atom{{1, 2}, {2, 3}}} }
	for _, s := range []Summary{good(), atoms(), {}} {
		if err := s.Check(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, c := range []struct {
		field  string
		base   func() Summary
		change func(*Summary)
	}{
		{"count", good, func(s *Summary) { s.Count = -1 }},
		{"count", good, func(s *Summary) { s.Count = math.MaxInt64 }},
		{"count", good, func(s *Summary) { s.Count, s.Eps, s.Knots = 0, 0, nil }},
		{"eps", good, func(s *Summary) { s.Eps = -1 }},
		{"eps", good, func(s *Summary) { s.Eps = math.NaN() }},
		{"eps", good, func(s *Summary) { s.Eps = math.Inf(1) }},
		{"eps", good, func(s *Summary) { s.Eps = 101 }},
		{"order_statistics", good, func(s *Summary) { s.Order[3] = math.NaN() }},
		{"order_statistics", good, func(s *Summary) { s.Order[3] = math.Inf(1) }},
		{"order_statistics", good, func(s *Summary) { s.Order[3] = 0 }},
		{"order_statistics", good, func(s *Summary) { s.Order = s.Order[:10] }},
		{"order_statistics", good, func(s *Summary) { s.Count, s.Knots = 5, nil }}, // one rank with two values
		{"knots", good, func(s *Summary) { s.Order, s.Knots = nil, nil }},
		{"knots", good, func(s *Summary) { s.Order = nil }},
		{"knots", good, func(s *Summary) { s.Knots[0].Value = math.NaN() }},
		{"knots", good, func(s *Summary) { s.Knots[0].Value = 9.9 }},
		{"knots", good, func(s *Summary) { s.Knots[0].Value = 3 }}, // above the order statistic of a higher rank
		{"knots", good, func(s *Summary) { s.Knots[0].Rank = 0 }},
		{"knots", good, func(s *Summary) { s.Knots[0].Rank = 10 }}, // an order statistic's
		{"knots", good, func(s *Summary) { s.Knots[1].Rank = 101 }},
		{"knots", good, func(s *Summary) { s.Knots[1].Rank = 5 }},
		{"atoms", atoms, func(s *Summary) { s.Eps = 1 }},
		{"atoms", atoms, func(s *Summary) { s.Order = order }},
		{"atoms", atoms, func(s *Summary) { s.Knots = []Knot{{1, 1}} }},
		{"atoms", atoms, func(s *Summary) { s.Count = 6 }},
		{"atoms", atoms, func(s *Summary) { s.Count = 4 }},
		{"atoms", atoms, func(s *Summary) { s.Atoms[0].Count = 0 }},
		{"atoms", atoms, func(s *Summary) { s.Atoms[0].Count = math.MaxInt64 }},
		{"atoms", atoms, func(s *Summary) { s.Atoms[1].Value = 1 }},
		{"atoms", atoms, func(s *Summary) { s.Atoms[1].Value = math.Inf(1) }},
	} {
		s := c.base()
		c.change(&s)
		err := s.Check()
		if err == nil || len(err.Error()) <= len(c.field) || err.Error()[:len(c.field)+1] != c.field+":" {
			t.Errorf("%+v: %v, want one of %s", s, err, c.field)
		}
	}
}

// FuzzMerge feeds what passes Check, true or not: no panic, and ascending finite numbers.
func FuzzMerge(f *testing.F) {
	for i := range 8 {
		r := rand.New(rand.NewPCG(uint64(i), 3))
		b := make([]byte, 600)
		for j := range b {
			b[j] = byte(r.IntN(256))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var shares []Summary
		for len(data) > 4 && len(shares) < 5 {
			s := hostile(&data)
			if s.Check() == nil {
				shares = append(shares, s)
			}
		}
		if joined, ok := Recompress(shares, Small); ok {
			if err := joined.Check(); err != nil {
				t.Fatalf("%v: %+v of %+v", err, joined, shares)
			}
			shares = append(shares, joined)
		}
		e, ok := Merge(shares)
		if !ok {
			return
		}
		for _, v := range [][N]float64{e.Deciles, e.Lo, e.Hi} {
			if !slices.IsSorted(v[:]) || !finite(v[0]) || !finite(v[N-1]) {
				t.Fatalf("%+v of %+v", e, shares)
			}
		}
		if !(e.RankError >= 0 && e.RankError <= 1) || e.Exact != (e.RankError == 0) || e.Exact != (e.Lo == e.Hi) {
			t.Fatalf("%+v of %+v", e, shares)
		}
	})
}

// hostile reads a summary whose parts are in order, so that most pass Check, from bytes.
func hostile(data *[]byte) Summary {
	next := func() int {
		if len(*data) == 0 {
			return 0
		}
		b := (*data)[0]
		*data = (*data)[1:]
		return int(b)
	}
	steps := []float64{0, 1, 0x1p-1074, 0x1p-30, 1e300, 1e308, 0.1}
	v := []float64{0, -1, -math.MaxFloat64, 1e-310, 5}[next()%5]
	rise := func() float64 { v = min(v+steps[next()%len(steps)], math.MaxFloat64); return v }
	gap := func() int64 { return []int64{1, 1, 2, 100, 1 << 31}[next()%5] }
	var s Summary
	form, n := next()%3, 2+next()%40
	if form == 0 {
		for range n {
			if a := (Atom{rise(), gap()}); len(s.Atoms) == 0 || a.Value > s.Atoms[len(s.Atoms)-1].Value {
				s.Atoms, s.Count = append(s.Atoms, a), s.Count+a.Count
			}
		}
		return s
	}
	s.Count = 1
	s.Knots = append(s.Knots, Knot{rise(), 1})
	for range n {
		s.Count += gap()
		s.Knots = append(s.Knots, Knot{rise(), s.Count})
	}
	s.Eps = math.Ldexp(float64(s.Count), -next()%64)
	if form == 1 { // the same curve, cut by order statistics
		curve := s.Knots
		s.Knots = nil
		for k := range N {
			i, found := slices.BinarySearchFunc(curve, Rank(k, s.Count), func(c Knot, r int64) int {
				return int(min(max(c.Rank-r, -1), 1))
			})
			s.Order = append(s.Order, curve[i].Value)
			if found {
				curve = slices.Clone(curve)
			}
		}
		for _, c := range curve {
			order := false
			for k := range N {
				order = order || Rank(k, s.Count) == c.Rank
			}
			if !order {
				s.Knots = append(s.Knots, c)
			}
		}
	}
	return s
}

// BenchmarkMerge is the merge of full summaries, brackets included.
func BenchmarkMerge(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, p := range []int{8, 64, 216} {
		var shares []Summary
		for _, v := range populations[9].shares(r, 2000*p, p) {
			_, s := Certify(v, Large)
			shares = append(shares, s)
		}
		b.Run(map[int]string{8: "8", 64: "64", 216: "216"}[p], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Merge(shares)
			}
		})
	}
}
