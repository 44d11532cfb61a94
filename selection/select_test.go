package selection

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func quick() Options {
	o := Defaults()
	o.Halves = 0
	return o
}

func mustSelect(t *testing.T, tb *Table, o Options) *Selection {
	t.Helper()
	s, err := Select(tb, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Selection) names(tier string) (names []string) {
	for _, k := range s.Kept {
		if k.Tier == tier {
			names = append(names, k.Name)
		}
	}
	return names
}

func TestSelectFindsWhatTheResponseFollows(t *testing.T) {
	s := mustSelect(t, machineLike(1, 200, 1500), Defaults())
	if !s.Predictable || s.Score.HeldOut < .85 || s.Shifted > .2 {
		t.Fatalf("predictable %v, score %+v, shifted %g, warnings %q", s.Predictable, s.Score, s.Shifted, s.Warnings)
	}
	kept := s.names(TierResponse)
	if len(kept) < 6 || len(kept) > 11 {
		t.Errorf("%d metrics: %v", len(kept), kept)
	}
	for _, k := range s.Kept {
		var m int
		if _, err := fmt.Sscanf(k.Name, "m%d", &m); err != nil || m%20 > 8 { // 20 factors, of which the first 9 act
			t.Errorf("%s does not follow a factor of the response", k.Name)
		}
		if k.Gain <= 0 || k.F <= 4 || k.Frequency < 0 || k.Frequency > 1 {
			t.Errorf("kept %+v", k)
		}
	}
	if s.Kept[0].Frequency < .8 {
		t.Errorf("the strongest metric was chosen in a share of %g of the halves", s.Kept[0].Frequency)
	}
	if s.Score.InSample < s.Score.HeldOut-.02 || s.Score.Adjusted > s.Score.InSample || s.Score.Low > s.Score.High {
		t.Errorf("score %+v", s.Score)
	}
	if len(s.Kept)+len(s.Dropped)+len(s.Left) != s.Metrics {
		t.Errorf("%d kept, %d dropped, %d left of %d", len(s.Kept), len(s.Dropped), len(s.Left), s.Metrics)
	}
	if want := 1 - float64(len(s.Kept))/200; s.Reduction != want {
		t.Errorf("reduction %g, want %g", s.Reduction, want)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

// The models of a selection predict its response, from raw values.
func TestModelsPredict(t *testing.T) {
	tb := machineLike(2, 100, 1500)
	s := mustSelect(t, tb, quick())
	model := s.Models[0]
	y := tb.Responses[0].Values
	var wrong, all float64
	_, sd := meanSD(y)
	mean, _ := meanSD(y)
	for i := range y {
		p := model.Intercept
		for _, term := range model.Terms {
			m := slices.IndexFunc(tb.Metrics, func(m Metric) bool { return m.Name == term.Metric })
			p += term.Coefficient * term.Scaling.scaled(tb.Metrics[m].Columns[0].Values[i : i+1])[0]
		}
		p = min(max(p, model.Low), model.High)
		wrong += (y[i] - p) * (y[i] - p)
		all += (y[i] - mean) * (y[i] - mean)
	}
	if r2 := 1 - wrong/all; math.Abs(r2-s.Score.InSample) > .01 {
		t.Errorf("the model has R² %g, and in-sample R² is %g", r2, s.Score.InSample)
	}
	if want := math.Log(sd * sd * (1 - s.Score.HeldOut)); math.Abs(model.LogMSE-want) > 1 || model.LogMSESD <= 0 {
		t.Errorf("log MSE %g ± %g, want about %g", model.LogMSE, model.LogMSESD, want)
	}
}

// Noise selects nothing: not in a few rows, not with slow series, and never with exit of an error.
func TestSelectNothingFromNoise(t *testing.T) {
	selected := 0
	for seed := range uint64(20) {
		tb := machineLike(seed, 150, 480)
		y := normal(1000+seed, 480)
		for i := 1; i < len(y); i++ {
			y[i] += []float64{0, .5, .9}[seed%3] * y[i-1]
		}
		tb.Responses[0].Values = y
		s := mustSelect(t, tb, quick())
		if s.Predictable || len(s.Kept) > 0 {
			selected++
			continue
		}
		if len(s.Dropped) != 0 || !strings.Contains(strings.Join(s.Warnings, " "), "do not predict y") {
			t.Errorf("seed %d: %d dropped, warnings %q", seed, len(s.Dropped), s.Warnings)
		}
	}
	if selected > 0 {
		t.Errorf("%d of 20 noise responses are said to be predictable", selected)
	}
}

func TestSelectWarnsOfOneRegime(t *testing.T) {
	n := 480
	slow := func(seed uint64) []float64 {
		x := normal(seed, n)
		for i := 1; i < n; i++ {
			x[i] += .8 * x[i-1]
		}
		return x
	}
	y := normal(1, n)
	columns := map[string][]float64{"follows": slow(2)}
	for i := range y {
		y[i] = y[i]*.3 + columns["follows"][i]
	}
	for k := range 20 {
		columns[fmt.Sprint("other", k)] = slow(uint64(10 + k))
	}
	s := mustSelect(t, table(y, columns), quick())
	if s.Regimes != 1 || !strings.Contains(strings.Join(s.Warnings, "\n"), "one regime") {
		t.Errorf("%d regimes, warnings %q", s.Regimes, s.Warnings)
	}
	for name := range columns { // every third of the time has levels of its own
		for i := range n {
			columns[name][i] += 2 * float64(i*3/n) * float64(len(name)%3-1)
		}
	}
	s = mustSelect(t, table(y, columns), quick())
	if s.Regimes != 3 || strings.Contains(strings.Join(s.Warnings, "\n"), "regime") {
		t.Errorf("%d regimes, warnings %q", s.Regimes, s.Warnings)
	}
}

// jobs is a table of several jobs: each follows one of three metrics, with a sign, a scale and a level of its own.
func jobs(count, rows int) *Table {
	t := &Table{}
	r := rand.New(rand.NewPCG(4, 4))
	n := count * rows
	columns := make([][]float64, 30)
	for k := range columns {
		columns[k] = normal(uint64(100+k), n)
	}
	y := make([]float64, n)
	for j := range count {
		t.Units = append(t.Units, fmt.Sprintf("%d/0", 4711+j))
		scale, level := math.Exp(3*r.NormFloat64()), 1e4*r.Float64()
		for i := j * rows; i < (j+1)*rows; i++ {
			t.Unit = append(t.Unit, int32(j))
			t.Start = append(t.Start, int64(i-j*rows)*5000)
			y[i] = level + scale*(float64(1-2*(j%2))*columns[j%3][i]+.2*r.NormFloat64())
			for k := range columns {
				columns[k][i] += 100 * float64((j*k)%7)
			}
		}
	}
	for k, x := range columns {
		t.Metrics = append(t.Metrics, Metric{Name: fmt.Sprintf("m%02d", k), Columns: []Column{{Values: x}}})
	}
	t.Responses = []Response{{Name: "rate", Values: y}}
	return t
}

// Jobs have metrics in common and coefficients of their own; the loudest does not choose.
func TestSelectForManyJobs(t *testing.T) {
	tb := jobs(9, 120)
	s := mustSelect(t, tb, quick())
	kept := s.names(TierResponse)
	slices.Sort(kept)
	if !s.Joint || !slices.Equal(kept, []string{"m00", "m01", "m02"}) || s.Score.HeldOut < .9 {
		t.Fatalf("joint %v, kept %v, score %+v", s.Joint, kept, s.Score)
	}
	if len(s.Models) != 9 || s.Models[3].Unit != "4714/0" {
		t.Fatalf("%d models", len(s.Models))
	}
	// The model of a job predicts its own level and scale.
	for j, model := range s.Models {
		y := tb.Responses[0].Values[j*120 : (j+1)*120]
		mean, sd := meanSD(y)
		wrong := 0.
		for i := range y {
			p := model.Intercept
			for _, term := range model.Terms {
				m := slices.IndexFunc(tb.Metrics, func(m Metric) bool { return m.Name == term.Metric })
				p += term.Coefficient * term.Scaling.scaled(tb.Metrics[m].Columns[0].Values[j*120+i : j*120+i+1])[0]
			}
			wrong += (y[i] - p) * (y[i] - p) / 120
		}
		if math.Sqrt(wrong) > .5*sd {
			t.Errorf("job %d: error %g of a response %g ± %g", j, math.Sqrt(wrong), mean, sd)
		}
	}
}

// Short jobs share coefficients; many jobs beyond what memory holds are counted.
func TestJobsThatAreShortOrMany(t *testing.T) {
	short := jobs(20, 24)
	for i, u := range short.Unit {
		short.Responses[0].Values[i] = short.Metrics[5].Columns[0].Values[i] + 1000*float64(u)
	}
	s := mustSelect(t, short, quick())
	if s.Joint || !slices.Equal(s.names(TierResponse), []string{"m05"}) || !s.Models[0].Centred {
		t.Errorf("joint %v, kept %v", s.Joint, s.names(TierResponse))
	}
	many := mustSelect(t, jobs(40, 72), quick())
	if !many.Joint || many.Units != mostJoint || many.Out.ShortUnit != 8*72 ||
		!strings.Contains(strings.Join(many.Warnings, " "), "32 of 40 jobs") {
		t.Errorf("%d units, out %+v, warnings %q", many.Units, many.Out, many.Warnings)
	}
}

func TestSelectForSeveralResponses(t *testing.T) {
	tb := machineLike(3, 60, 900)
	other := slices.Clone(tb.Metrics[11].Columns[0].Values)
	for i, e := range normal(5, 900) {
		other[i] += .1 * e
	}
	tb.Responses = append(tb.Responses, Response{Name: "z", Values: other})
	s := mustSelect(t, tb, quick())
	if !slices.Contains(s.names(TierResponse), "m00011") || len(s.Models) != 2 || len(s.Each) != 2 {
		t.Fatalf("kept %v, %d models, each %v", s.names(TierResponse), len(s.Models), s.Each)
	}
	if s.Each[1].Response != "z" || s.Each[1].HeldOut < .9 || s.Models[1].Response != "z" {
		t.Errorf("each %+v", s.Each)
	}
}

// A metric that acts by its square needs --model quadratic; the metric is chosen as a whole.
func TestSelectQuadratic(t *testing.T) {
	n := 600
	x := normal(1, n)
	y := normal(2, n)
	columns := map[string][]float64{"x": x}
	for k := range 5 {
		columns[fmt.Sprint("other", k)] = normal(uint64(10+k), n)
	}
	for i := range y {
		y[i] = x[i]*x[i] + .3*y[i]
	}
	o := quick()
	if s := mustSelect(t, table(y, columns), o); s.Predictable {
		t.Errorf("linear: %+v", s.Score)
	}
	o.Quadratic = true
	s := mustSelect(t, table(y, columns), o)
	if !slices.Equal(s.names(TierResponse), []string{"x"}) || s.Score.HeldOut < .85 || len(s.Models[0].Terms) != 2 {
		t.Errorf("quadratic: kept %v, %+v", s.names(TierResponse), s.Score)
	}
}

// Twins are interchangeable: the list in force, then the cheaper source, then the name decide, not the last digit.
func TestTwinsAreDecidedByPreference(t *testing.T) {
	n := 300
	x := normal(1, n)
	y := normal(2, n)
	twin := make([]float64, n)
	for i := range y {
		y[i] = x[i] + .3*y[i]
		twin[i] = x[i]*1024/3 + 1e-3*math.Sin(float64(i))
	}
	tb := table(y, map[string][]float64{"b": x, "a": twin, "c": normal(3, n)})
	for i := range tb.Metrics {
		tb.Metrics[i].Source = "source-" + tb.Metrics[i].Name
	}
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"name", func(*Options) {}, "a"},
		{"previous", func(o *Options) { o.Previous = []string{"b"} }, "b"},
		{"cost", func(o *Options) { o.Cost = map[string]float64{"source-a": 100, "source-b": 1} }, "b"},
	} {
		o := quick()
		c.change(&o)
		if s := mustSelect(t, tb, o); !slices.Equal(s.names(TierResponse), []string{c.want}) {
			t.Errorf("by %s: kept %v, want %s", c.name, s.names(TierResponse), c.want)
		}
	}
}

// Metrics of different stars that gain the same are decided by preference too.
func TestEqualGainsAreDecidedByPreference(t *testing.T) {
	n := 300
	x, z, noise := normal(1, n), normal(2, n), normal(3, n)
	y := normal(4, n)
	tb := table(y, map[string][]float64{"a": x, "b": z})
	d, err := Prepare(tb, Options{})
	if err != nil {
		t.Fatal(err)
	}
	low, high := .5, 2. // the weight of b with which both are as strong
	for range 60 {
		weight := (low + high) / 2
		for i := range y {
			y[i] = d.Terms[0].X[i] + weight*d.Terms[1].X[i] + .3*noise[i]
		}
		if math.Abs(pearson(d.Terms[0].X, y)) > math.Abs(pearson(d.Terms[1].X, y)) {
			low = weight
		} else {
			high = weight
		}
	}
	for i := range y {
		y[i] += 1e-4 * d.Terms[1].X[i] // b is stronger by a hair
	}
	for _, previous := range []string{"a", "b"} {
		o := quick()
		o.Previous = []string{previous}
		if s := mustSelect(t, tb, o); len(s.Kept) != 2 || s.Kept[0].Name != previous {
			t.Errorf("with %s on the list in force, kept %v", previous, s.names(TierResponse))
		}
	}
}

// Two metrics that swing as the response does explain it at any shift: that is no evidence.
func TestShiftsGuardAgainstCommonSwing(t *testing.T) {
	n := 480
	swing := func(lag float64, seed uint64) []float64 {
		x := normal(seed, n)
		for i := range x {
			x[i] = math.Sin(2*math.Pi*float64(i)/48+lag) + .2*x[i]
		}
		return x
	}
	tb := table(swing(.3, 1), map[string][]float64{"a": swing(0, 2), "b": swing(math.Pi/2, 3), "c": normal(4, n)})
	o := quick()
	if s := mustSelect(t, tb, o); s.Predictable || s.Shifted < .8 {
		t.Errorf("predictable %v, shifted R² %g", s.Predictable, s.Shifted)
	}
	o.Shifts = 0
	if s := mustSelect(t, tb, o); !s.Predictable || s.Shifted != 0 {
		t.Errorf("without the guard: predictable %v, shifted R² %g", s.Predictable, s.Shifted)
	}
}

// Levels that differ from fold to fold can be met by chance. A metric that explains nothing within folds is no
// evidence.
func TestLevelsOfFoldsAreNoEvidence(t *testing.T) {
	n := 480
	x, y := normal(1, n), normal(2, n)
	for i := range x {
		level := 1.5 * math.Sin(float64(2+5*(i*6/n)))
		x[i], y[i] = x[i]*.6+level, y[i]*.6+level
	}
	tb := table(y, map[string][]float64{"x": x, "other": normal(3, n)})
	for i := range tb.Metrics {
		tb.Metrics[i].Kind = "rate"
	}
	o := quick()
	o.Shifts = 0
	s := mustSelect(t, tb, o)
	best := slices.MaxFunc(s.Curve, func(a, b Point) int { return cmp.Compare(a.HeldOut, b.HeldOut) })
	if best.HeldOut < .3 {
		t.Fatalf("the case is not one: %+v", s.Curve)
	}
	if s.Predictable {
		t.Errorf("predictable, folds from %g to %g", s.Score.Low, s.Score.High)
	}
}

// The count of nodes that have a metric is for drift, and no term.
func TestCountsOfNodesAreNoTerms(t *testing.T) {
	x := normal(1, 120)
	tb := table(x, map[string][]float64{"a": x})
	tb.Metrics[0].Columns = []Column{{"mean", normal(2, 120)}, {StatisticNodes, x}}
	d, err := Prepare(tb, Options{})
	if err != nil || len(d.Terms) != 1 || d.Terms[0].Statistic != "mean" {
		t.Errorf("terms %v, error %v", d.Terms, err)
	}
}

// What is in use is never dropped, even where it cannot be judged; without a response the metrics are covered.
func TestKeepAndCoverage(t *testing.T) {
	tb := machineLike(4, 60, 600)
	tb.Metrics = append(tb.Metrics, Metric{Name: "constant", Columns: []Column{{Values: make([]float64, 600)}}})
	o := quick()
	o.Keep = []string{"constant", "m00017", "not in the table"}
	s := mustSelect(t, tb, o)
	if got := s.names(TierInUse); !slices.Equal(got, []string{"constant", "m00017"}) {
		t.Errorf("in use %v", got)
	}
	for _, l := range s.Left {
		if l.Name == "constant" {
			t.Error("a metric in use is also left out")
		}
	}
	tb.Responses = nil
	s = mustSelect(t, tb, o)
	if s.Predictable || len(s.names(TierCoverage)) == 0 || len(s.Models) != 0 {
		t.Errorf("predictable %v, kept %v", s.Predictable, s.Kept)
	}
	for _, d := range s.Dropped {
		if d.R2 < .9 || d.Representative == "" {
			t.Errorf("dropped %+v", d)
		}
	}
	o.Max = 5
	if s = mustSelect(t, tb, o); len(s.Kept) != 5 {
		t.Errorf("%d kept with a budget of 5", len(s.Kept))
	}
}

// The same table gives the same bytes for any order of its metrics and any number of CPUs.
func TestSelectIsDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, tb := range map[string]*Table{"machine": machineLike(5, 150, 900), "jobs": jobs(8, 96)} {
		o := Defaults()
		o.Quadratic, o.Coverage, o.Previous = true, .9, []string{"m00003", "m03"}
		var want []byte
		for k := range 4 {
			runtime.GOMAXPROCS(1 + k%2)
			r := rand.New(rand.NewPCG(uint64(k), 9))
			r.Shuffle(len(tb.Metrics), func(i, j int) { tb.Metrics[i], tb.Metrics[j] = tb.Metrics[j], tb.Metrics[i] })
			got, err := json.Marshal(mustSelect(t, tb, o))
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%s, order %d: another selection:\n%s\n%s", name, k, got, want)
			}
		}
	}
}

// FuzzSelect: any table gives a selection that can be written, or an error. Bytes become values, some of them missing,
// infinite, huge or equal.
func FuzzSelect(f *testing.F) {
	for seed := range byte(4) {
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(i*i)*seed + byte(i>>seed)
		}
		f.Add(data, 3+seed, seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, metrics, units uint8, quadratic bool) {
		columns := int(metrics%12) + 2
		n := min(400, len(data)/columns)
		tb := &Table{Start: make([]int64, n)}
		value := func(k, i int) float64 {
			switch b := data[i*columns+k]; b {
			case 0:
				return math.NaN()
			case 1:
				return math.Inf(1)
			case 2:
				return 1e300
			case 3:
				return 1e-300
			default:
				var eight [8]byte
				copy(eight[:], data[i*columns+k:])
				return float64(b) + float64(binary.LittleEndian.Uint64(eight[:])%1000)/1000
			}
		}
		for u := range units % 9 {
			tb.Units = append(tb.Units, fmt.Sprint(u))
		}
		for i := range n {
			tb.Start[i] = int64(i) * 1000
			if data[i] == 7 {
				tb.Start[i] = 0
			}
			if len(tb.Units) > 0 {
				tb.Unit = append(tb.Unit, int32(i*len(tb.Units)/n))
			}
		}
		for k := range columns {
			x := make([]float64, n)
			for i := range x {
				x[i] = value(k, i)
			}
			if k == 0 {
				tb.Responses = []Response{{Name: "y", Values: x}}
				continue
			}
			tb.Metrics = append(tb.Metrics, Metric{Name: fmt.Sprint(k), Columns: []Column{{Values: x}}})
		}
		o := Defaults()
		o.Quadratic, o.Shifts, o.Halves, o.Coverage = quadratic, 2, 2, .5
		for range 2 { // with and without a response
			s, err := Select(tb, o)
			if err == nil {
				if _, err := json.Marshal(s); err != nil {
					t.Fatal(err)
				}
				if len(s.Kept)+len(s.Dropped)+len(s.Left) > s.Metrics {
					t.Fatalf("%d kept, %d dropped, %d left of %d", len(s.Kept), len(s.Dropped), len(s.Left), s.Metrics)
				}
			}
			tb.Responses = nil
		}
	})
}
