package selection

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// The oracle is the method a second time. It computes each correlation by itself, finds clusters by depth-first search,
// and solves each regression anew by the normal equations with 160 bits. It shares no code with the method.

func oracle(t *Table, o LiteralOptions) knownRun {
	want := knownRun{
		Threshold: o.Threshold, Model: "linear", FToRemove: o.FToRemove,
		Constant: []string{}, Clusters: [][]string{}, Representatives: []string{},
	}
	y := t.Responses[0].Values
	var columns [][]float64
	var names []string
	for _, m := range t.Metrics {
		seen := map[float64]bool{}
		x := slices.Clone(m.Columns[0].Values)
		for i, v := range x {
			if math.IsNaN(y[i]) {
				x[i] = math.NaN()
			} else if !math.IsNaN(v) {
				seen[v] = true
			}
		}
		if len(seen) < 2 {
			want.Constant = append(want.Constant, m.Name)
			continue
		}
		columns, names = append(columns, x), append(names, m.Name)
	}
	near := func(a, b int) bool {
		r, n := naive(columns[a], columns[b])
		if o.Threshold >= 1 || n <= 3 {
			return false
		}
		z := math.Atanh(min(1, math.Abs(r))) - math.Atanh(o.Threshold)
		return z*math.Sqrt(float64(n-3)) > 1.6448536269514722
	}
	visited := make([]bool, len(columns))
	var reps []int
	for i := range columns {
		if visited[i] {
			continue
		}
		var members []int
		var visit func(int)
		visit = func(j int) {
			visited[j] = true
			members = append(members, j)
			for k := range columns {
				if !visited[k] && near(j, k) {
					visit(k)
				}
			}
		}
		visit(i)
		slices.Sort(members)
		best, at := -1., 0
		var cluster []string
		for _, m := range members {
			cluster = append(cluster, names[m])
			if r, _ := naive(columns[m], y); math.Abs(r) > best+1e-9 {
				best, at = math.Abs(r), m
			}
		}
		want.Clusters = append(want.Clusters, cluster)
		want.Representatives = append(want.Representatives, names[at])
		reps = append(reps, at)
	}
	oracleRegression(&want, t, names, columns, reps, o)
	return want
}

func naive(x, y []float64) (float64, int) {
	var n, sx, sy, xx, yy, xy float64
	for i := range x {
		if !math.IsNaN(x[i]) && !math.IsNaN(y[i]) {
			n, sx, sy = n+1, sx+x[i], sy+y[i]
		}
	}
	for i := range x {
		if !math.IsNaN(x[i]) && !math.IsNaN(y[i]) {
			a, b := x[i]-sx/n, y[i]-sy/n
			xx, yy, xy = xx+a*a, yy+b*b, xy+a*b
		}
	}
	if xx < 1e-20 || yy < 1e-20 {
		return 0, int(n)
	}
	return xy / math.Sqrt(xx*yy), int(n)
}

func oracleRegression(want *knownRun, t *Table, names []string, columns [][]float64, reps []int, o LiteralOptions) {
	var rows []int
	for i, v := range t.Responses[0].Values {
		ok := !math.IsNaN(v)
		for _, r := range reps {
			ok = ok && !math.IsNaN(columns[r][i])
		}
		if ok {
			rows = append(rows, i)
		}
	}
	want.RowsUsed = len(rows)
	type term struct {
		name, of string
		x        []float64
	}
	var terms []term
	for _, r := range reps {
		var x []float64
		for _, i := range rows {
			x = append(x, columns[r][i])
		}
		terms = append(terms, term{names[r], names[r], x})
	}
	if o.Quadratic {
		want.Model = "quadratic"
		for _, t := range slices.Clone(terms) {
			distinct := map[float64]bool{}
			mean := 0.
			for _, v := range t.x {
				distinct[v] = true
				mean += v / float64(len(t.x))
			}
			if len(distinct) < 3 {
				continue
			}
			square := term{name: t.name + "^2", of: t.of}
			for _, v := range t.x {
				square.x = append(square.x, (v-mean)*(v-mean))
			}
			terms = append(terms, square)
		}
	}
	if len(rows) <= len(terms)+1 {
		want.Error, want.Samples, want.Predictors = tooFewSamples, len(rows), len(terms)
		return
	}
	want.F = map[string]float64{}
	for {
		var x [][]float64
		for _, t := range terms {
			x = append(x, t.x)
		}
		f, r2, ok := normalEquations(x, t.Responses[0].Values, rows)
		if !ok {
			want.Error, want.Samples, want.Predictors = multicollinearity, len(rows), len(terms)
			want.F = nil
			return
		}
		want.R2 = r2
		least := -1
		for j := range f {
			if f[j] < o.FToRemove && (least < 0 || f[j] <= f[least]) {
				least = j
			}
		}
		if least < 0 {
			want.Selected = []string{}
			for j, t := range terms {
				want.F[t.name] = f[j]
				want.Terms = append(want.Terms, t.name)
				if !slices.Contains(want.Selected, t.of) {
					want.Selected = append(want.Selected, t.of)
				}
			}
			slices.SortFunc(want.Selected, func(a, b string) int {
				return slices.Index(want.Representatives, a) - slices.Index(want.Representatives, b)
			})
			want.ReductionDegree = 1 - float64(len(want.Selected))/float64(len(t.Metrics))
			return
		}
		want.Eliminated = append(want.Eliminated, [2]any{terms[least].name, f[least]})
		terms = slices.Delete(terms, least, least+1)
	}
}

// normalEquations solves the normal equations by Gauss and Jordan. F is t², from the inverse.
func normalEquations(x [][]float64, y []float64, rows []int) (f []float64, r2 float64, ok bool) {
	const bits = 160
	num := func(v float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(v) }
	p, n := len(x), len(rows)
	centred := func(values func(i int) float64) []*big.Float {
		sum := num(0)
		out := make([]*big.Float, n)
		for i := range n {
			out[i] = num(values(i))
			sum.Add(sum, out[i])
		}
		sum.Quo(sum, num(float64(n)))
		for i := range out {
			out[i].Sub(out[i], sum)
		}
		return out
	}
	dot := func(a, b []*big.Float) *big.Float {
		sum := num(0)
		for i := range a {
			sum.Add(sum, num(0).Mul(a[i], b[i]))
		}
		return sum
	}
	var c [][]*big.Float
	for j := range p {
		c = append(c, centred(func(i int) float64 { return x[j][i] }))
	}
	c = append(c, centred(func(i int) float64 { return y[rows[i]] }))
	// Each row: Gram matrix, identity, XᵀY.
	g := make([][]*big.Float, p)
	scale := make([]*big.Float, p)
	for j := range p {
		g[j] = make([]*big.Float, 2*p+1)
		scale[j] = dot(c[j], c[j])
		for k := range p {
			g[j][k], g[j][p+k] = dot(c[j], c[k]), num(0)
		}
		g[j][p+j], g[j][2*p] = num(1), dot(c[j], c[p])
	}
	sst := dot(c[p], c[p])
	xy := make([]*big.Float, p)
	for j := range p {
		xy[j] = num(0).Set(g[j][2*p])
	}
	for j := range p {
		share, _ := num(0).Quo(g[j][j], num(0).Add(scale[j], num(1e-300))).Float64()
		if share < 1e-14 {
			return nil, 0, false
		}
		pivot := num(0).Set(g[j][j])
		for k := range g[j] {
			g[j][k].Quo(g[j][k], pivot)
		}
		for i := range p {
			if i == j {
				continue
			}
			by := num(0).Set(g[i][j])
			for k := range g[i] {
				g[i][k].Sub(g[i][k], num(0).Mul(by, g[j][k]))
			}
		}
	}
	sse := num(0).Set(sst)
	for j := range p {
		sse.Sub(sse, num(0).Mul(g[j][2*p], xy[j]))
	}
	variance := num(0).Quo(sse, num(float64(n-p-1)))
	for j := range p {
		v := num(0).Mul(g[j][2*p], g[j][2*p])
		v.Quo(v, num(0).Mul(g[j][p+j], variance))
		value, _ := v.Float64()
		f = append(f, value)
	}
	unexplained, _ := num(0).Quo(sse, sst).Float64()
	if p == 0 {
		unexplained = 1
	}
	return f, 1 - unexplained, true
}

// observed is a table of columns that random numbers make.
func observed(n int, y []float64, columns ...[]float64) *Table {
	t := &Table{Start: make([]int64, n), Responses: []Response{{Name: "y", Values: y}}}
	for i := range t.Start {
		t.Start[i] = int64(i) * 1000
	}
	for j, x := range columns {
		t.Metrics = append(t.Metrics, Metric{Name: fmt.Sprintf("m%02d", j), Columns: []Column{{Values: x}}})
	}
	return t
}

func made(n int, f func(i int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// kinds are tables of the kinds of the known answers, those that are kept back among them.
func kinds(seed uint64) map[string]*Table {
	r := rand.New(rand.NewPCG(seed, 17))
	normal := func(n int) []float64 { return made(n, func(int) float64 { return r.NormFloat64() }) }
	of := func(a []float64, f func(i int, v float64) float64) []float64 {
		return made(len(a), func(i int) float64 { return f(i, a[i]) })
	}
	noise := func(a []float64, by float64) []float64 {
		return of(a, func(_ int, v float64) float64 { return v + by*r.NormFloat64() })
	}
	out := map[string]*Table{}
	{
		a, b := normal(60), normal(60)
		bytes := of(a, func(_ int, v float64) float64 { return math.Round(1e9 + 1e8*v) })
		out["duplicates"] = observed(60, noise(of(a, func(i int, v float64) float64 { return 2*v - b[i] }), .3),
			noise(b, 1e-3), bytes,
			of(bytes, func(_ int, v float64) float64 { return v / 1024 }), slices.Clone(bytes), b,
			of(b, func(_ int, v float64) float64 { return -v }), normal(60), made(60, func(int) float64 { return 5 }))
	}
	{
		a := normal(12)
		out["few samples"] = observed(12, noise(a, .4), a, noise(a, .25), noise(a, .1), normal(12), noise(a, .6))
	}
	{
		a, b := normal(90), normal(90)
		gaps := func(x []float64, share float64) []float64 {
			return of(x, func(_ int, v float64) float64 {
				if r.Float64() < share {
					return math.NaN()
				}
				return v
			})
		}
		y := noise(of(a, func(i int, v float64) float64 { return v + b[i] }), .5)
		out["missing"] = observed(90, gaps(y, .1), gaps(a, .05), gaps(noise(a, .05), .2), gaps(b, .1), noise(b, .02),
			gaps(normal(90), .1), normal(90), gaps(noise(normal(90), .1), .85),
			of(y, func(_ int, v float64) float64 {
				if math.IsNaN(v) {
					return 1
				}
				return 0
			}))
	}
	{
		columns := make([][]float64, 8)
		for j := range columns {
			columns[j] = normal(200)
		}
		out["unrelated"] = observed(200, normal(200), columns...)
	}
	{
		a, b := normal(150), normal(150)
		flag := made(150, func(i int) float64 { return float64(i / 7 % 2) })
		out["squares"] = observed(150, noise(of(a, func(i int, v float64) float64 { return v*v + b[i] + flag[i] }), .5),
			of(a, func(_ int, v float64) float64 { return 2000 + 30*v }), b, flag, normal(150), noise(b, .1))
	}
	{
		level := made(160, func(i int) float64 { return 4 * float64(i/40) })
		shifted := func() []float64 { return noise(level, 1) }
		out["levels"] = observed(160, shifted(), shifted(), shifted(), shifted(), normal(160))
	}
	return out
}

func TestLiteralAgreesWithTheOracle(t *testing.T) {
	var clusters, eliminated, refused int
	for seed := range uint64(4) {
		for kind, table := range kinds(seed) {
			for _, threshold := range []float64{0, .5, .95, .999999, 1} {
				o := LiteralOptions{Threshold: threshold, FToRemove: 2, Quadratic: seed%2 == 1}
				want := oracle(table, o)
				l, err := SelectLiteral(table, 0, o)
				if (err != nil) != (want.Error != "") {
					t.Fatalf("%s, seed %d, threshold %g: %v, want %q", kind, seed, threshold, err, want.Error)
				}
				if l.Eliminated == nil && l.Error == "" || l.Terms == nil && l.Error == "" {
					t.Fatalf("%s: a list is null in JSON", kind)
				}
				compareToOracle(t, fmt.Sprintf("%s, seed %d, threshold %g", kind, seed, threshold), l, want)
				clusters += len(want.Clusters)
				eliminated += len(want.Eliminated)
				if want.Error != "" {
					refused++
				}
			}
		}
	}
	if clusters < 400 || eliminated < 150 || refused < 15 {
		t.Errorf("the tables test too little: %d clusters, %d eliminations, %d refusals", clusters, eliminated, refused)
	}
}

func compareToOracle(t *testing.T, name string, l *Literal, want knownRun) {
	t.Helper()
	for what, pair := range map[string][2]any{
		"constants":       {l.Constant, want.Constant},
		"clusters":        {l.Clusters, want.Clusters},
		"representatives": {l.Representatives, want.Representatives},
		"rows":            {l.RowsUsed, want.RowsUsed},
		"selected":        {append([]string{}, l.Selected...), append([]string{}, want.Selected...)},
		"terms":           {append([]string{}, l.Terms...), append([]string{}, want.Terms...)},
		"error":           {l.Error, want.Error},
		"predictors":      {l.Predictors, want.Predictors},
		"reduction":       {l.ReductionDegree * boolean(l.Error == ""), want.ReductionDegree},
	} {
		if fmt.Sprint(pair[0]) != fmt.Sprint(pair[1]) {
			t.Fatalf("%s: %s: %v, want %v", name, what, pair[0], pair[1])
		}
	}
	if len(l.Eliminated) != len(want.Eliminated) {
		t.Fatalf("%s: eliminated %v, want %v", name, l.Eliminated, want.Eliminated)
	}
	for i, e := range want.Eliminated {
		if g := l.Eliminated[i]; g.Term != e[0] || !near(g.F, e[1].(float64), 1e-6) {
			t.Fatalf("%s: elimination %d is %v, want %v", name, i, g, e)
		}
	}
	for term, f := range want.F {
		if !near(l.F[term], f, 1e-7) {
			t.Fatalf("%s: F of %s is %g, want %g", name, term, l.F[term], f)
		}
	}
	if math.Abs(l.R2-want.R2) > 1e-10 {
		t.Fatalf("%s: R² is %.12f, want %.12f", name, l.R2, want.R2)
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Other units and another order of the columns change nothing but the order of the lists.
func TestLiteralIgnoresUnitsAndOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 17))
	for seed := range uint64(8) {
		for kind, table := range kinds(100 + seed) {
			if kind == "duplicates" {
				continue // the first of equal columns represents them
			}
			y := table.Responses[0].Values
			other := observed(len(y), made(len(y), func(i int) float64 { return 7 - 3e4*y[i] }))
			for _, j := range r.Perm(len(table.Metrics)) {
				m := table.Metrics[j]
				a, b := math.Exp(8*r.NormFloat64()), 1e3*r.NormFloat64()
				if r.IntN(2) == 0 {
					a = -a
				}
				x := made(table.Rows(), func(i int) float64 { return a * (m.Columns[0].Values[i] + b) })
				other.Metrics = append(other.Metrics, Metric{Name: m.Name, Columns: []Column{{Values: x}}})
			}
			for _, threshold := range []float64{.3, .95} {
				o := LiteralOptions{Threshold: threshold, FToRemove: 2, Quadratic: seed%2 == 0}
				l, err := SelectLiteral(table, 0, o)
				k, err2 := SelectLiteral(other, 0, o)
				if (err != nil) != (err2 != nil) {
					t.Fatalf("%s: %v and %v", kind, err, err2)
				}
				sameSet(t, kind+" selected", l.Selected, k.Selected)
				sameSet(t, kind+" representatives", l.Representatives, k.Representatives)
				sameSet(t, kind+" constants", l.Constant, k.Constant)
				for term, f := range l.F {
					if !near(k.F[term], f, 1e-6) {
						t.Errorf("%s: F of %s is %g and %g", kind, term, f, k.F[term])
					}
				}
				if math.Abs(l.R2-k.R2) > 1e-9 {
					t.Errorf("%s: R² is %g and %g", kind, l.R2, k.R2)
				}
			}
		}
	}
}

func sameSet(t *testing.T, what string, a, b []string) {
	t.Helper()
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	if !slices.Equal(a, b) {
		t.Errorf("%s: %v and %v", what, a, b)
	}
}

// FuzzSelectLiteral gives the method tables of any values: it returns a selection that holds together, or says why not.
func FuzzSelectLiteral(f *testing.F) {
	f.Add([]byte("\x05\x03\x00seventeen metrics, and one response of which few values are there"))
	f.Add([]byte{32, 2, 255, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte{9, 4, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 250, 251, 252, 253, 254, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 4 {
			return
		}
		metrics, options := 1+int(raw[0]%12), raw[1]
		o := LiteralOptions{
			Threshold: float64(raw[2]) / 250, FToRemove: 2, Quadratic: options&1 > 0, DropAliased: options&2 > 0,
			PerBlock: options&4 > 0,
		}
		odd := []float64{math.NaN(), math.Inf(1), 1e300, -1e149, 1e-300, 5e-324, 0, 1e16, .1}
		values := make([][]float64, metrics+1)
		for i, b := range raw[3:] {
			v := float64(int8(b)) //nolint:gosec // any value will do
			if b > 245 {
				v = odd[(int(b)+i)%len(odd)]
			}
			values[i%(metrics+1)] = append(values[i%(metrics+1)], v)
		}
		n := len(values[metrics])
		for j := range values {
			values[j] = values[j][:n]
		}
		table := observed(n, values[metrics], values[:metrics]...)
		l, err := SelectLiteral(table, 0, o)
		if err != nil {
			if l != nil && l.Error == "" {
				t.Fatal("refused without a kind")
			}
			return
		}
		share := func(v float64) bool { return v > -1e-9 && v <= 1 }
		if len(l.Terms) != len(l.F) || !share(l.R2) || !share(l.ReductionDegree) {
			t.Fatalf("%+v", l)
		}
		for term, v := range l.F {
			if !(v >= 2*(1-1e-6)) {
				t.Fatalf("%s remains with an F of %g", term, v)
			}
		}
		for _, name := range l.Selected {
			if !slices.Contains(l.Representatives, name) {
				t.Fatalf("%s is selected and represents nothing", name)
			}
		}
		if _, err := json.Marshal(l); err != nil {
			t.Fatal(err)
		}
	})
}
