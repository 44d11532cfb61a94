package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// compiled compiles an expression over cpu_idle and cpu_user, as a condition or as a number.
func compiled(t testing.TB, text string, life, truth bool) (term, *layout, *Rule, error) {
	t.Helper()
	r := &Rule{Needs: []string{"cpu_idle", "cpu_user"}, Job: life, program: program{
		Uses: []string{"disk_bytes", "mem_used"}, parameters: map[string]float64{"limit": 0.5},
	}}
	l := &layout{inputs: []string{"cpu_idle", "cpu_user", "disk_bytes", "mem_used"}, known: map[string]Known{}}
	for _, k := range catalogue {
		l.known[k.Name] = k
	}
	c := compiler{rule: r, layout: l, metrics: true, life: life}
	if truth {
		of, err := c.truth(text)
		return of, l, r, err
	}
	of, err := c.number(text)
	return of, l, r, err
}

// TestRefusedExpressions: what is no plain arithmetic over known fields is refused, with a caret below the place.
func TestRefusedExpressions(t *testing.T) {
	for text, wanted := range map[string]string{
		`cpu_idle.d5 > `:                 "unexpected token",
		`cpu_idle.d55 > 1`:               "has no field d55",
		`cpu_idl.d5 > 1`:                 "unknown name cpu_idl",
		`clock.d5 > 1`:                   "not in needs",
		`job.foo > 1`:                    "has no field foo",
		`p.foo > 1`:                      "unknown field foo",
		`node.d5 > 1`:                    "has no field d5",
		`cpu_idle > 1`:                   "invalid operation",
		`job.user > 1`:                   "invalid operation",
		`cpu_idle.d5`:                    "expected bool",
		`!(cpu_idle.d5 > 1)`:             "opposite comparison",
		`not (cpu_idle.d5 > 1)`:          "opposite comparison",
		`cpu_idle.d5 > 1 ? true : false`: "bool is not for rules",
		`cpu_idle.d5 in [1, 2]`:          "not for rules",
		`all([1], # > 0)`:                "array is not for rules",
		`len("a") > 0`:                   "unknown name len",
		`job.user contains "a"`:          "texts are for == and != alone",
		`job.user matches "a+"`:          "texts are for == and != alone",
		`job.user < "a"`:                 "texts are for == and != alone",
		`let x = 1; x > 0`:               "not for rules",
		`cpu_idle?.d5 > 1`:               "not for rules",
		`nil == nil`:                     "nil is not for rules",
		`cpu_idle.d5 ** 2 > 1`:           "there is no operator",
		`5 % 2 == 1`:                     "there is no operator",
		`(1..9) == (1..9)`:               "there is no operator ..",
		`above(cpu_idle, "a") > 0`:       "cannot use string",
		`above(cpu_idle) > 0`:            "not enough arguments",
		`above(cpu_idle.d5, 1) > 0`:      "cannot use float64",
		`sum_means("clock") > 0`:         "not in needs or uses",
		`sum_means(job.user) > 0`:        "the arguments are names of metrics",
		`disk_bytes.mean > 0`:            "metric disk_bytes is not in needs",
		`rising(cpu_user)`:               "unknown name rising",
		`quarter(cpu_user, 1).d5 > 0`:    "unknown name quarter",
		`job["us" + "er"] == "a"`:        "is undefined",
		`min(cpu_idle.d5) > 0`:           "not enough arguments",
		`cpu_idle.d5 > 1e999`:            "",
		strings.Repeat("(", 2000) + "1":  "",
		"cpu_idle.d5 > " + strings.Repeat("1+", 400) + "1":    "exceeds maximum allowed nodes",
		"cpu_idle.d5 > " + strings.Repeat("1 + ", 2000) + "1": "at most 4096",
	} {
		_, _, _, err := compiled(t, text, false, true)
		switch {
		case err == nil:
			t.Errorf("%.60q is compiled", text)
		case !strings.Contains(err.Error(), wanted):
			t.Errorf("%.60q: %v, without %q", text, err, wanted)
		case strings.Contains(err.Error(), "rules.") || strings.Contains(err.Error(), "interface"):
			t.Errorf("%.60q: its error names our types: %v", text, err)
		case wanted != "" && !strings.Contains(text, "1 + 1") && wanted != "expected bool" &&
			!strings.HasSuffix(err.Error(), "^"):
			t.Errorf("%.60q: no caret: %v", text, err)
		}
	}
	for text, wanted := range map[string]string{
		`cpu_idle.d5 > 1`:                 "has no field d5",
		`above(cpu_idle, 1) > 0`:          "unknown name above",
		`quarter(cpu_idle, 5).d5 > 0`:     "a quarter is 1, 2, 3 or 4",
		`quarter(cpu_idle, 1).d2 > 0`:     "has no field d2",
		`quarter(cpu_idle, 1) > 0`:        "invalid operation",
		`spread(cpu_idle, job.nodes) > 0`: "cannot use",
	} {
		if _, _, _, err := compiled(t, text, true, true); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%.60q: %v, without %q", text, err, wanted)
		}
	}
}

// TestUnknownIsNeitherTrueNorFalse: a comparison with what is not known is not known, and so is what rests on it.
func TestUnknownIsNeitherTrueNorFalse(t *testing.T) {
	nan := math.NaN()
	f := &frame{in: make([]values, 4), there: []bool{true, true, false, false}}
	for i := range f.in {
		f.in[i] = absent
	}
	f.in[0][atMean], f.in[0][atD0] = 0.7, 0.1
	f.job = [jobNumbers]float64{4, 64, nan, 100, nan, nan, 0}
	for text, want := range map[string]float64{
		"cpu_idle.mean > 0.5": 1, "cpu_idle.mean > 0.8": 0, "cpu_idle.mean < cpu_user.mean": nan,
		"cpu_idle.mean >= cpu_user.mean": nan, "cpu_user.mean != cpu_user.mean": nan, "cpu_user.mean == 1": nan,
		"cpu_user.mean > 0 && cpu_idle.mean > 0.8": 0, "cpu_idle.mean > 0.8 && cpu_user.mean > 0": 0,
		"cpu_user.mean > 0 && cpu_idle.mean > 0.5": nan, "cpu_idle.mean > 0.5 && cpu_user.mean > 0": nan,
		"cpu_user.mean > 0 || cpu_idle.mean > 0.5": 1, "cpu_idle.mean > 0.5 || cpu_user.mean > 0": 1,
		"cpu_user.mean > 0 || cpu_idle.mean > 0.8": nan, "cpu_idle.mean > 0.8 || cpu_user.mean > 0": nan,
		"(cpu_user.mean > 0 ? 1 : 2) > 0": nan, "(cpu_idle.mean > 0.5 ? 1 : cpu_user.mean) > 0": 1,
		"1 / (cpu_idle.d0 - cpu_idle.d0) > 0": nan, "-1 / (cpu_idle.d0 - cpu_idle.d0) < 0": nan,
		"max(cpu_idle.mean, cpu_user.mean) > 0": nan, "min(cpu_idle.mean, cpu_user.mean) < 1": nan,
		"abs(cpu_user.mean) >= 0": nan, "above(cpu_user, 0.5) >= 0": nan, "above(cpu_idle, cpu_user.mean) >= 0": nan,
		`sum_means("disk_bytes", "mem_used") >= 0`: nan, `sum_means("disk_bytes", "cpu_idle") > 0.6`: 1,
		"job.gpus == 0": nan, "job.gpus == 0 || job.cores > 10": 1, `job.state == "COMPLETED"`: nan,
		`job.user != "alice"`: nan, "1e308 * 10 * cpu_idle.mean > 0": nan, "cpu_idle.mean > p.limit": 1,
	} {
		of, _, _, err := compiled(t, text, false, true)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := of(f); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s is %v, not %v", text, got, want)
		}
	}
}

// TestDecilesThatAreEstimatesProveNothing: a rule that names d5 of a split job is not evaluated. lo5 and hi5 prove, and
// what is possible takes the estimate.
func TestDecilesThatAreEstimatesProveNothing(t *testing.T) {
	m := exactly(0.6)
	m.Lo5, m.Hi5 = 0.55, 0.7
	f := &frame{in: make([]values, 4), there: []bool{true, true, false, false}}
	f.in[0], f.in[1] = m.values(), m.values()
	for text, want := range map[string]float64{
		"cpu_idle.d5 > 0.1": math.NaN(), "cpu_idle.d4 > 0.1": 1, "cpu_idle.lo5 > 0.5": 1, "cpu_idle.lo5 > 0.58": 0,
		"cpu_idle.hi5 < 0.65": 0, "cpu_idle.mean > 0.1": 1,
	} {
		of, _, _, err := compiled(t, text, false, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := of(f); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s is %v, not %v", text, got, want)
		}
	}
	f.believe()
	of, _, _, err := compiled(t, "cpu_idle.d5 > 0.1 && cpu_idle.lo5 > 0.58 && cpu_idle.hi5 < 0.65", false, true)
	if err != nil || of(f) != 1 {
		t.Errorf("the estimate is not taken for possible: %v, %v", err, of(f))
	}
}

// exactly is a metric whose values are all the same.
func exactly(v float64) (m Metric) {
	d := make([]float64, decils)
	for i := range d {
		d[i] = v
	}
	m.setDeciles(d)
	m.setLo(d)
	m.setHi(d)
	m.Mean, m.Count, m.PerNode, m.LowNodeMean, m.HighNodeMean = v, 64, 16, v, v
	return m
}

// TestExpressionsAsTheLibrary: our terms and the library's machine agree on random expressions whose numbers are known.
func TestExpressionsAsTheLibrary(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		text := randomTruth(r, 3)
		of, _, _, err := compiled(t, text, false, true)
		if err != nil {
			if strings.Contains(err.Error(), "maximum allowed nodes") {
				continue
			}
			t.Fatalf("%s: %v", text, err)
		}
		idle, user := randomMetric(r), randomMetric(r)
		f := &frame{in: []values{idle.values(), user.values(), absent, absent}, there: []bool{
			true, true, false,
			false,
		}}
		for i := range f.job {
			f.job[i] = float64(1 + r.IntN(9))
		}
		env := map[string]any{
			"cpu_idle": idle, "cpu_user": user, "p": map[string]any{"limit": 0.5},
			"job": jobFields{
				Nodes: f.job[0], Cores: f.job[1], Gpus: f.job[2], DurationS: f.job[3], TimeLimitS: f.job[4],
				MemRequested: f.job[5], SmtIdle: f.job[6],
			},
			"above": func(m Metric, limit float64) float64 { v := m.values(); return above(&v, limit) },
		}
		program, err := expr.Compile(text, expr.Env(env))
		if err != nil {
			t.Fatalf("%s: the library: %v", text, err)
		}
		want, err := expr.Run(program, env)
		if err != nil {
			t.Fatalf("%s: the library: %v", text, err)
		}
		if got := of(f); !math.IsNaN(got) && (got == 1) != want {
			t.Fatalf("seed %d: %s is %v, the library has %v", seed, text, got, want)
		} else if math.IsNaN(got) && !strings.Contains(text, "/") {
			t.Fatalf("seed %d: %s is not known", seed, text)
		}
	}
}

func randomMetric(r *rand.Rand) Metric {
	m := exactly(r.Float64())
	m.Mean, m.D0, m.D10 = r.Float64(), r.Float64(), r.Float64()
	return m
}

func randomNumber(r *rand.Rand, depth int) string {
	if depth == 0 || r.IntN(4) == 0 {
		return []string{
			"cpu_idle.mean", "cpu_user.lo5", "cpu_idle.hi1", "cpu_user.d10", "p.limit", "job.nodes",
			"job.smt_idle", "0.25",
			"3.0", "above(cpu_idle, 0.5)",
		}[r.IntN(10)]
	}
	a, b := randomNumber(r, depth-1), randomNumber(r, depth-1)
	switch r.IntN(6) {
	case 0:
		return fmt.Sprintf("max(%s, %s)", a, b)
	case 1:
		return fmt.Sprintf("(%s ? %s : %s)", randomTruth(r, depth-1), a, b)
	case 2:
		return fmt.Sprintf("-(%s)", a)
	}
	return fmt.Sprintf("(%s %s %s)", a, []string{"+", "-", "*", "/"}[r.IntN(4)], b)
}

func randomTruth(r *rand.Rand, depth int) string {
	if depth <= 0 || r.IntN(3) == 0 {
		ops := []string{"<", "<=", ">", ">=", "==", "!="}
		return fmt.Sprintf("%s %s %s", randomNumber(r, depth-1+1), ops[r.IntN(6)], randomNumber(r, 1))
	}
	return fmt.Sprintf("(%s %s %s)", randomTruth(r, depth-1), []string{"&&", "||"}[r.IntN(2)], randomTruth(r,
		depth-1))
}

// TestValuesAreInTheOrderOfTheNames: what an expression names is what it reads.
func TestValuesAreInTheOrderOfTheNames(t *testing.T) {
	var m Metric
	v := reflect.ValueOf(&m).Elem()
	for i := range v.NumField() {
		v.Field(i).SetFloat(float64(i))
	}
	for i, got := range m.values() {
		if got != float64(i) || metricNames[i] != v.Type().Field(i).Tag.Get("expr") {
			t.Errorf("%s is %v, not %d", metricNames[i], got, i)
		}
	}
	if len(metricNames) != fields || metricNames[atMean] != "mean" ||
		metricNames[atHighNodeMean] != "high_node_mean" ||
		metricNames[atLo0] != "lo0" || metricNames[atHi0] != "hi0" {
		t.Errorf("the places of %v are others", metricNames)
	}
	gpus := 3
	f := &frame{}
	f.facts(&Job{
		Key: schemas.JobKey{JobID: "id"}, User: "user", Account: "account", Queue: "queue", State: "state", Gpus: 2,
		LimitS: 5, MemRequested: 6, Node: config.NodeType{
			CPUs: 8, ThreadsPerCore: 2, Memory: 12, PeakFlops: 80, PeakMemBW: 15, GPUs: &gpus,
		},
	}, 1, 4, 3000)
	want := map[string]float64{
		"nodes": 1, "cores": 4, "gpus": 2, "duration_s": 3, "time_limit_s": 5, "mem_requested": 6, "smt_idle": 0.5,
	}
	for i, name := range jobNames {
		if i < jobNumbers && f.job[i] != want[name] || i >= jobNumbers && f.words[i-jobNumbers] != name {
			t.Errorf("job.%s is another value", name)
		}
	}
	want = map[string]float64{
		"cpus": 8, "threads_per_core": 2, "memory": 12, "peak_flops": 80, "peak_flops_core": 10, "peak_mem_bw": 15,
		"gpus": 3,
	}
	for i, name := range nodeNames {
		if f.node[i] != want[name] {
			t.Errorf("node.%s is %v, not %v", name, f.node[i], want[name])
		}
	}
}

// TestAbove: the proven share of values above a limit.
func TestAbove(t *testing.T) {
	m := exactly(0)
	v := m.values()
	for k := range 11 {
		v[atLo0+k] = float64(k) / 10
	}
	for limit, want := range map[float64]float64{-1: 1, 0: 0.9, 0.05: 0.9, 0.5: 0.4, 0.85: 0.1, 0.9: 0, 2: 0} {
		if got := above(&v, limit); got != want {
			t.Errorf("above %v are %v, not %v", limit, got, want)
		}
	}
}
