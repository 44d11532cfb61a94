package selection

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// regimes makes chunks of 40 rows, in each of which three processes have another level and strength. Each is seen by
// a good metric and a twin. The others are noise or constant.
func regimesOf(seed uint64, chunks int) *Table {
	r := rand.New(rand.NewPCG(seed, 3))
	n := chunks * 40
	process := make([][]float64, 3)
	for p := range process {
		level, gain := 0., 1.
		process[p] = make([]float64, n)
		for i := range n {
			if i%40 == 0 {
				level, gain = r.NormFloat64()/2, math.Exp(.3*r.NormFloat64())
			}
			process[p][i] = level + gain*r.NormFloat64()
		}
	}
	around := func(x []float64, by float64) []float64 {
		return made(n, func(i int) float64 { return x[i] + by*r.NormFloat64() })
	}
	var columns [][]float64
	for _, x := range process {
		columns = append(columns, around(x, .05), around(x, .06))
	}
	for range 14 {
		columns = append(columns, made(n, func(int) float64 { return r.NormFloat64() }))
	}
	columns = append(columns, made(n, func(int) float64 { return .1 }))
	y := made(n, func(i int) float64 {
		return 100 + 5*process[0][i] - 3*process[1][i] + 2*process[2][i] + r.NormFloat64()
	})
	return observed(n, y, columns...)
}

func compareOptions() CompareOptions {
	return CompareOptions{Select: Defaults(), Main: []string{"m00", "m07", "nothing"}}
}

func contender(t *testing.T, c *Comparison, method string) Contender {
	t.Helper()
	i := slices.IndexFunc(c.Contenders, func(k Contender) bool { return k.Method == method })
	if i < 0 {
		t.Fatalf("no contender %s", method)
	}
	return c.Contenders[i]
}

func TestCompareScoresEveryMethod(t *testing.T) {
	table := regimesOf(1, 12)
	c, err := Compare(table, compareOptions())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sweep) != 21 || c.Sweep[1].Threshold != .05 || c.Sweep[20].Threshold != 1 {
		t.Errorf("the sweep has %d thresholds: %+v", len(c.Sweep), c.Sweep)
	}
	if c.Chunks != 12 || c.Train != 6 || c.Metrics != 21 || c.Rows != 480 {
		t.Errorf("%d chunks, %d of which choose, %d metrics, %d rows", c.Chunks, c.Train, c.Metrics, c.Rows)
	}
	literal, forward, main := contender(t, c, "literal"), contender(t, c, "forward"), contender(t, c, "MAIN")
	for _, k := range c.Contenders {
		if len(k.Chunks) != 6 || k.Chunks[0].Chunk != "7" || k.Chunks[5].Rows != 40 {
			t.Errorf("%s is verified on %+v", k.Method, k.Chunks)
		}
		if k.Low.HeldOut > k.Mean.HeldOut || k.Mean.HeldOut > k.High.HeldOut || k.Mean.Adjusted > k.Mean.InSample {
			t.Errorf("%s: mean %+v of %+v to %+v", k.Method, k.Mean, k.Low, k.High)
		}
	}
	if forward.Metrics != 3 || forward.HeldOut < .95 || forward.HeldOut < literal.HeldOut-.02 {
		t.Errorf("forward takes %v with R² %g, literal %v with %g",
			forward.Names, forward.HeldOut, literal.Names, literal.HeldOut)
	}
	if random := contender(t, c, "RAND"); random.Metrics != literal.Metrics || random.HeldOut > literal.HeldOut-.1 {
		t.Errorf("%d random metrics reach %g, %d of the literal method %g",
			random.Metrics, random.HeldOut, literal.Metrics, literal.HeldOut)
	}
	if !slices.Equal(main.Names, []string{"m00", "m07"}) || !strings.Contains(fmt.Sprint(c.Warnings), "nothing") {
		t.Errorf("MAIN is %v, and the warnings are %q", main.Names, c.Warnings)
	}
	// The literal contender is what SelectLiteral makes of the training rows, at the threshold of the best R².
	l, err := SelectLiteral(table.firstRows(240), 0, LiteralOptions{Threshold: c.Threshold, FToRemove: 2})
	if err != nil {
		t.Fatal(err)
	}
	selected := slices.Sorted(slices.Values(l.Selected))
	if !slices.Equal(selected, literal.Names) || math.Abs(l.R2-literal.InSample) > 1e-9 {
		t.Errorf("literal is %v with %g, want %v with %g", literal.Names, literal.InSample, l.Selected, l.R2)
	}
	for _, s := range c.Sweep {
		if s.Refused == "" && s.InSample > literal.InSample {
			t.Errorf("threshold %g has %g, and %g has %g", s.Threshold, s.InSample, c.Threshold, literal.InSample)
		}
	}
}

// The four R² of one chunk, computed here by themselves.
func TestCompareDefinesItsScores(t *testing.T) {
	table := regimesOf(2, 12)
	o := compareOptions()
	o.Main = []string{"m00"}
	c, err := Compare(table, o)
	if err != nil {
		t.Fatal(err)
	}
	line := func(rows int, first int) (slope, intercept float64) {
		x, y := table.Metrics[0].Columns[0].Values[first:first+rows], table.Responses[0].Values[first:first+rows]
		mx, sx := meanSD(x)
		my, sy := meanSD(y)
		r, _ := correlation(x, y)
		slope = r * sy / sx
		return slope, my - slope*mx
	}
	score := func(first int, slope, intercept float64) float64 {
		x, y := table.Metrics[0].Columns[0].Values[first:first+40], table.Responses[0].Values[first:first+40]
		mean, _ := meanSD(y)
		var wrong, all float64
		for i := range x {
			wrong += (y[i] - slope*x[i] - intercept) * (y[i] - slope*x[i] - intercept)
			all += (y[i] - mean) * (y[i] - mean)
		}
		return 1 - wrong/all
	}
	main := contender(t, c, "MAIN")
	for k, v := range main.Chunks {
		first := 240 + 40*k
		slope, intercept := line(40, first)
		inSample := score(first, slope, intercept)
		if math.Abs(v.InSample-inSample) > 1e-9 || math.Abs(v.Adjusted-(1-(1-inSample)*39/38)) > 1e-9 {
			t.Errorf("chunk %s: in-sample %g, adjusted %g, want %g", v.Chunk, v.InSample, v.Adjusted, inSample)
		}
		slope, intercept = line(240, 0)
		if held := score(first, slope, intercept); math.Abs(v.HeldOut-held) > .01 { // ridge shrinks a little
			t.Errorf("chunk %s: held-out %g, want %g", v.Chunk, v.HeldOut, held)
		}
		if v.Refit > inSample || v.Refit < inSample-.2 {
			t.Errorf("chunk %s: refit %g, in-sample %g", v.Chunk, v.Refit, inSample)
		}
	}
}

func TestCompareIgnoresTheOrderOfColumns(t *testing.T) {
	table := regimesOf(3, 12)
	want, err := Compare(table, compareOptions())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 5))
	r.Shuffle(len(table.Metrics), func(i, j int) {
		table.Metrics[i], table.Metrics[j] = table.Metrics[j], table.Metrics[i]
	})
	got, err := Compare(table, compareOptions())
	if err != nil {
		t.Fatal(err)
	}
	a, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("another order of columns gives\n%s\nnot\n%s", b, a)
	}
}

func TestCompareTakesJobsAsChunks(t *testing.T) {
	table := regimesOf(4, 16)
	table.Unit = make([]int32, 640)
	for u := range 16 {
		table.Units = append(table.Units, fmt.Sprintf("%d/0", u))
		for i := range 40 {
			table.Unit[40*u+i] = int32((u + 5) % 16)   //nolint:gosec // 16 of them
			table.Start[40*u+i] += int64(u) * 10000000 // the last rows are of the last job
		}
	}
	c, err := Compare(table, compareOptions())
	if err != nil {
		t.Fatal(err)
	}
	main := contender(t, c, "MAIN")
	if c.Chunks != 16 || c.Train != 8 || main.Chunks[0].Chunk != "13/0" || main.Chunks[7].Chunk != "4/0" {
		t.Errorf("%d chunks, %d choose, verified on %+v", c.Chunks, c.Train, main.Chunks)
	}
}

func TestCompareOfNoise(t *testing.T) {
	table := regimesOf(5, 12)
	r := rand.New(rand.NewPCG(6, 6))
	table.Responses[0].Values = made(480, func(int) float64 { return r.NormFloat64() })
	c, err := Compare(table, compareOptions())
	if err != nil {
		t.Fatal(err)
	}
	if forward := contender(t, c, "forward"); forward.Metrics != 0 || forward.Refused == "" {
		t.Errorf("forward takes %v, and says %q", forward.Names, forward.Refused)
	}
	if literal := contender(t, c, "literal"); literal.Metrics == 0 || literal.InSample <= 0 || literal.HeldOut > .05 {
		t.Errorf("literal takes %v: in-sample %g, held-out %g", literal.Names, literal.InSample, literal.HeldOut)
	}
}

// As many predictors as rows of a chunk: nothing is infinite, and a warning says so.
func TestCompareOfFewRows(t *testing.T) {
	table := regimesOf(6, 12)
	o := compareOptions()
	o.Chunks, o.Train = 40, 30
	o.Main = nil
	for _, m := range table.Metrics {
		o.Main = append(o.Main, m.Name)
	}
	c, err := Compare(table, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(c.Warnings), "MAIN has as many predictors") {
		t.Errorf("the warnings are %q", c.Warnings)
	}
}

func TestCompareRefuses(t *testing.T) {
	few := regimesOf(7, 2)
	silent := regimesOf(7, 12)
	silent.Responses = nil
	flat := regimesOf(7, 12)
	flat.Responses[0].Values = make([]float64, 480)
	absent := regimesOf(7, 12)
	absent.Responses[0].Values = made(480, func(int) float64 { return math.NaN() })
	for _, test := range []struct {
		name, want string
		table      *Table
		options    CompareOptions
	}{
		{"few rows", "a chunk has 6 rows and needs 8 (80 rows, 12 chunks)", few, CompareOptions{}},
		{"no response", "needs a response", silent, CompareOptions{}},
		{"constant response", `response "y" is constant (0) over the 240 rows`, flat, CompareOptions{}},
		{"absent response", "no row has a value of every response (y)", absent, CompareOptions{}},
		{"all choose", "12 of 12 chunks choose", regimesOf(7, 12), CompareOptions{Train: 12}},
		{"one chunk", "1 chunks", regimesOf(7, 12), CompareOptions{Chunks: 1}},
		{"no rows", "no rows", &Table{}, CompareOptions{}},
	} {
		if _, err := Compare(test.table, test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// Values that are missing, infinite, huge or equal reach no score as such.
func TestCompareOfHostileValues(t *testing.T) {
	for seed := range uint64(6) {
		table := regimesOf(seed, 12)
		r := rand.New(rand.NewPCG(seed, 9))
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e149, 5e-324, 0}
		for _, m := range table.Metrics[:6+r.IntN(15)] {
			for range r.IntN(200) {
				m.Columns[0].Values[r.IntN(480)] = odd[r.IntN(len(odd))]
			}
		}
		for i := range table.Metrics[3].Columns[0].Values[:240] { // only in the chunks that verify
			table.Metrics[3].Columns[0].Values[i] = math.NaN()
		}
		for range 20 {
			table.Responses[0].Values[r.IntN(480)] = odd[r.IntN(3)]
		}
		o := compareOptions()
		o.Select.Quadratic = seed%2 == 0
		c, err := Compare(table, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	}
}
