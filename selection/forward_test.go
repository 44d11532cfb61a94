package selection

import (
	"math"
	"testing"
)

// The path in products of columns is least squares: after each metric its R² is that of a regression on the rows.
func TestPathIsLeastSquares(t *testing.T) {
	tb := machineLike(5, 60, 600)
	for i := range tb.Metrics { // metrics with two columns and squares: several terms at once
		second := tb.Metrics[(i+7)%len(tb.Metrics)].Columns[0].Values
		tb.Metrics[i].Columns = []Column{{"mean", tb.Metrics[i].Columns[0].Values}, {"d0", second}}
	}
	d, err := Prepare(tb, Options{Quadratic: true, Folds: 6})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Defaults().complete()
	if err != nil {
		t.Fatal(err)
	}
	s := newSearch(d, o, preference{})
	path := s.whole(8)
	if len(path.chosen) != 8 {
		t.Fatalf("%d metrics", len(path.chosen))
	}
	rows := s.rowsOf(s.problems[0])
	var x [][]float64
	var of []int
	last := 0.
	for i, m := range path.chosen {
		for _, term := range d.Metrics[m].Terms {
			x, of = append(x, d.Terms[term].X), append(of, m)
		}
		r := leastSquares(x, d.Y[0], rows, of)
		if gain := r.r2 - last; math.Abs(gain-path.gains[i]) > 5e-3*math.Abs(gain)+1e-3 {
			t.Errorf("step %d: gain %g, and least squares gains %g", i, path.gains[i], gain)
		}
		last = r.r2
	}
}

// Held-out errors of a path are those of the same regression on the rows of the other folds.
func TestFoldPredictsRowsThatItDoesNotSee(t *testing.T) {
	tb := machineLike(6, 60, 600)
	d, err := Prepare(tb, Options{Folds: 6})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Defaults().complete()
	if err != nil {
		t.Fatal(err)
	}
	s := newSearch(d, o, preference{})
	for f, path := range s.folds(s.problems) {
		for range 5 {
			path.next()
		}
		st := path.states[0]
		train, held := rowsIn(d, st.blocks), rowsIn(d, st.held)
		var x [][]float64
		for _, m := range path.chosen {
			x = append(x, d.Terms[d.Metrics[m].Terms[0]].X)
		}
		fit := ridgeFit(x, d.Y[0], train)
		want := 0.
		for _, r := range held {
			e := d.Y[0][r] - fit.predict(x, r)
			want += e * e
		}
		if got := st.errors(nil); math.Abs(got-want) > .02*want {
			t.Errorf("fold %d: squared errors %g, and by regression %g", f, got, want)
		}
	}
}

func rowsIn(d *Design, blocks []int) (rows []int) {
	for _, b := range blocks {
		for r := d.Bounds[b]; r < d.Bounds[b+1]; r++ {
			rows = append(rows, r)
		}
	}
	return rows
}

// A forgotten column is computed anew, and the products are symmetric.
func TestProductsAreThoseOfTheColumns(t *testing.T) {
	d, err := Prepare(machineLike(7, 30, 300), Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := newGram(d)
	p := len(d.Terms)
	for range 2 {
		for _, j := range []int{3, 0, 7} {
			c := g.products(j)
			for i := range p {
				for b := range g.blocks {
					want := 0.
					for r := d.Bounds[b]; r < d.Bounds[b+1]; r++ {
						want += d.Terms[i].X[r] * d.Terms[j].X[r]
					}
					if math.Abs(c[b*p+i]-want) > 1e-9*float64(len(d.Rows)) {
						t.Fatalf("terms %d and %d, block %d: %g, want %g", i, j, b, c[b*p+i], want)
					}
				}
			}
		}
		clear(g.column)
	}
}

func TestPreference(t *testing.T) {
	d := &Design{Metrics: []Group{
		{Name: "a", Source: "dear"}, {Name: "b", Source: "cheap"}, {Name: "c", Source: "dear"},
	}}
	costs := Options{Cost: map[string]float64{"dear": 9, "cheap": 1}}
	for _, c := range []struct {
		name   string
		o      Options
		chosen []int
		want   bool // a before b
	}{
		{"by name", Options{}, nil, true},
		{"by cost", costs, nil, false},
		{"a source that is read costs nothing more", costs, []int{2}, true},
		{"previous before cost", Options{Cost: map[string]float64{"dear": 9}, Previous: []string{"a"}}, nil, true},
		{"keep before previous", Options{Keep: []string{"b"}, Previous: []string{"a"}}, nil, false},
	} {
		if got := newPreference(c.o).before(d, 0, 1, c.chosen); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
