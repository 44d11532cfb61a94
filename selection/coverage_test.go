package selection

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// mixed is a table of metrics that are mixtures of a few hidden processes, each with noise of its own. Twins are copies
// of the metric before in another unit.
func mixed(seed uint64, rows, metrics, hidden int, noise float64, twins bool) *Table {
	r := rand.New(rand.NewPCG(seed, 0))
	of := make([][]float64, hidden)
	for k := range of {
		of[k] = make([]float64, rows)
		for i := range of[k] {
			of[k][i] = r.NormFloat64()
			if i > 0 {
				of[k][i] += .6 * of[k][i-1]
			}
		}
	}
	t := &Table{Start: make([]int64, rows)}
	for i := range t.Start {
		t.Start[i] = int64(i) * 1000
	}
	for j := range metrics {
		x := make([]float64, rows)
		a, b, w := of[j%hidden], of[r.IntN(hidden)], r.Float64()
		for i := range x {
			x[i] = 100 + 10*(a[i]+w*b[i]+noise*r.NormFloat64())
			if twins && j%2 == 1 {
				x[i] = 1024 * t.Metrics[j-1].Columns[0].Values[i]
			}
		}
		t.Metrics = append(t.Metrics, Metric{Name: fmt.Sprintf("m%04d", j), Columns: []Column{{Values: x}}})
	}
	return t
}

func designOf(t *testing.T, table *Table) *Design {
	t.Helper()
	d, err := Prepare(table, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// regress fits y on columns of some rows, by QR, and returns the prediction of all rows.
func regress(x [][]float64, y []float64, rows []int) []float64 {
	a := mat.NewDense(len(rows), len(x)+1, nil)
	b := mat.NewVecDense(len(rows), nil)
	for i, row := range rows {
		a.Set(i, 0, 1)
		for j := range x {
			a.Set(i, j+1, x[j][row])
		}
		b.SetVec(i, y[row])
	}
	var qr mat.QR
	qr.Factorize(a)
	var c mat.VecDense
	if err := qr.SolveVecTo(&c, false, b); err != nil {
		panic(err)
	}
	out := make([]float64, len(y))
	for i := range out {
		out[i] = c.AtVec(0)
		for j := range x {
			out[i] += c.AtVec(j+1) * x[j][i]
		}
	}
	return out
}

func all(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// residuals is what regressions on the chosen columns leave of each column.
func residuals(x [][]float64, chosen []int) (left [][]float64) {
	var on [][]float64
	for _, j := range chosen {
		on = append(on, x[j])
	}
	for _, y := range x {
		p := regress(on, y, all(len(y)))
		e := make([]float64, len(y))
		for i := range e {
			e[i] = y[i] - p[i]
		}
		left = append(left, e)
	}
	return left
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i] / float64(len(a))
	}
	return sum
}

func columnsOf(d *Design) (x [][]float64) {
	for j := range d.Metrics {
		x = append(x, d.Terms[d.Metrics[j].Terms[0]].X)
	}
	return x
}

// TestCoverIsGreedy computes each step anew: residuals by QR, and from them the sums of squares of their covariances.
func TestCoverIsGreedy(t *testing.T) {
	d := designOf(t, mixed(1, 300, 14, 6, .4, false))
	x := columnsOf(d)
	got := Cover(d, []int{3}, 2, 6)
	chosen := []int{3}
	for step := range 6 {
		left := residuals(x, chosen)
		best, most := -1, 0.0
		for j := range x {
			if slices.Contains(chosen, j) {
				continue
			}
			sum := 0.0
			for i := range x {
				sum += square(dot(left[i], left[j]))
			}
			if gain := sum / dot(left[j], left[j]); gain > most {
				best, most = j, gain
			}
		}
		if want := d.Metrics[best].Name; got.Added[step] != want {
			t.Fatalf("step %d added %s, want %s", step, got.Added[step], want)
		}
		chosen = append(chosen, best)
	}
}

// TestCoveredOnHeldOutBlocks computes R² of each dropped metric by a regression for each fold.
func TestCoveredOnHeldOutBlocks(t *testing.T) {
	d := designOf(t, mixed(2, 400, 14, 6, .4, false))
	x := columnsOf(d)
	got := coveredBy(d, []int{9, 3, 5, 3})
	bounds := foldBounds(d.Bounds, len(d.Rows))
	if len(bounds) != 7 || len(got.R2) != 11 {
		t.Fatalf("%d folds and %d dropped metrics, want 6 and 11", len(bounds)-1, len(got.R2))
	}
	for j := range x {
		if j == 3 || j == 5 || j == 9 {
			continue
		}
		lost := 0.0
		for f := range 6 {
			var train []int
			for i := range x[j] {
				if i < bounds[f] || i >= bounds[f+1] {
					train = append(train, i)
				}
			}
			p := regress([][]float64{x[3], x[5], x[9]}, x[j], train)
			for i := bounds[f]; i < bounds[f+1]; i++ {
				lost += square(x[j][i] - p[i])
			}
		}
		name := d.Metrics[j].Name
		if want := 1 - lost/float64(len(x[j])); math.Abs(got.R2[name]-want) > 1e-5 {
			t.Errorf("%s: R² %v, want %v", name, got.R2[name], want)
		}
		nearest := slices.MaxFunc([]int{3, 5, 9}, func(a, b int) int {
			if math.Abs(dot(x[j], x[a])) < math.Abs(dot(x[j], x[b])) {
				return -1
			}
			return 1
		})
		if got.Representative[name] != d.Metrics[nearest].Name || math.Abs(got.R[name]-dot(x[j], x[nearest])) > 1e-9 {
			t.Errorf("%s: represented by %s with %v, want %s with %v", name, got.Representative[name], got.R[name],
				d.Metrics[nearest].Name, dot(x[j], x[nearest]))
		}
	}
}

// TestCoverReachesItsTarget holds the promise of the tier: each dropped metric is known as well as asked for.
func TestCoverReachesItsTarget(t *testing.T) {
	d := designOf(t, mixed(3, 600, 60, 7, .3, true))
	for _, target := range []float64{.3, .9, .99} {
		c := Cover(d, []int{1}, target, 0)
		for name, r2 := range c.R2 {
			if r2 < target {
				t.Errorf("target %g: %s has R² %g", target, name, r2)
			}
		}
		if len(c.Added)+1+len(c.R2) != 60 || len(c.R2) < 30 {
			t.Errorf("target %g: added %d, dropped %d of 60; one of each pair of twins is enough", target,
				len(c.Added), len(c.R2))
		}
	}
	if c := Cover(d, nil, .9, 3); len(c.Added) != 3 || len(c.R2) != 57 {
		t.Errorf("a budget of 3 added %d and dropped %d", len(c.Added), len(c.R2))
	}
	if c := coveredBy(d, nil); len(c.R2) != 60 || len(c.Representative) != 0 {
		t.Errorf("nothing kept: %d dropped, %d represented", len(c.R2), len(c.Representative))
	}
}

// TestCoverOfStars takes more metrics than the residual matrix is made of. Twins stand for each other.
func TestCoverOfStars(t *testing.T) {
	d := designOf(t, mixed(4, 300, 2*coverDirect, 40, .05, true))
	c := Cover(d, []int{7}, .8, 0)
	for name, r2 := range c.R2 {
		if r2 < .8 {
			t.Errorf("%s has R² %g", name, r2)
		}
	}
	if n := len(c.Added) + 1 + len(c.R2); n != 2*coverDirect {
		t.Errorf("%d metrics are kept or dropped, want %d", n, 2*coverDirect)
	}
	if len(c.Added) > 200 {
		t.Errorf("%d metrics cover 40 hidden processes", len(c.Added))
	}
	again := Cover(d, []int{7}, .8, 0)
	if !slices.Equal(c.Added, again.Added) {
		t.Error("the same design gives another choice")
	}
}

// TestCoverOfFewRows has more metrics than rows: nothing shows that one can be known from others.
func TestCoverOfFewRows(t *testing.T) {
	d := designOf(t, mixed(5, 50, 120, 120, 1, false))
	c := Cover(d, nil, .9, 0)
	for name, r2 := range c.R2 {
		if r2 < .9 || math.IsNaN(r2) {
			t.Errorf("%s is dropped with R² %g", name, r2)
		}
	}
}

// Of more than 1,000 metrics too, each dropped one has the R² that was asked for, from 32 kept ones. Two runs keep the
// same.
func TestCoverWide(t *testing.T) {
	d := designOf(t, mixed(3, 600, coverDirect+200, 40, .1, false))
	c := Cover(d, nil, .9, 0)
	if len(c.Added) < coverNear || len(c.Added) > len(d.Metrics)/4 {
		t.Errorf("%d of %d metrics kept", len(c.Added), len(d.Metrics))
	}
	if len(c.Added)+len(c.R2) != len(d.Metrics) {
		t.Errorf("%d kept and %d dropped of %d", len(c.Added), len(c.R2), len(d.Metrics))
	}
	for name, r2 := range c.R2 {
		if !(r2 >= .9) || c.Representative[name] == "" {
			t.Errorf("%s: R² %.3f from those kept, represented by %q", name, r2, c.Representative[name])
		}
	}
	if again := Cover(d, nil, .9, 0); !slices.Equal(again.Added, c.Added) {
		t.Error("another run keeps others")
	}
}
