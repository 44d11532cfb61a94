package derive

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr"

	"github.com/weirhpc/weir/schemas"
)

// batch is a record of four CPUs, two sockets and two GPUs, with metrics of all scopes. NaN is a value that could not
// be read.
func batch() *schemas.CounterBatch {
	nan := math.NaN()
	return &schemas.CounterBatch{
		NodeHeader: schemas.NodeHeader{Cpus: []int32{0, 1, 2, 3}},
		Metrics: []schemas.CounterBatchMetric{
			{Name: "instructions", Unit: "1/s", Scope: schemas.ScopeCore, Values: []float64{8, 6, nan, 4}},
			{Name: "cycles", Unit: "1/s", Scope: schemas.ScopeCore, Values: []float64{4, 0, 2, 8}},
			{Name: "cpu.idle", Unit: "1", Scope: schemas.ScopeCore, Values: []float64{0, 0.5, 1, 0.25}},
			{Name: "mem_bw", Unit: "B/s", Scope: schemas.ScopeNode, Values: []float64{100}},
			{Name: "peak", Unit: "B/s", Scope: schemas.ScopeNode, Values: []float64{400}},
			{Name: "cpu_power", Unit: "W", Scope: schemas.ScopeSocket, Values: []float64{100, 150}},
			{Name: "acc_power", Unit: "W", Scope: schemas.ScopeGPU, Values: []float64{300, nan}},
			{Name: "acc_clock", Unit: "Hz", Scope: schemas.ScopeGPU, Values: []float64{1e9, 2e9}},
			{Name: "job_mem", Unit: "B", Scope: schemas.ScopeJob, Values: []float64{50}},
		},
	}
}

func recorded() map[string]string {
	scopes := map[string]string{}
	for _, m := range batch().Metrics {
		scopes[m.Name] = m.Scope
	}
	return scopes
}

func compiled(t *testing.T, texts ...string) *Set {
	t.Helper()
	var all []Definition
	for _, text := range texts {
		d, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	s, err := Compile(all)
	if err == nil {
		err = s.Resolve(recorded())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestValues: an expression is evaluated CPU by CPU. What is absent, or has no finite value, is NaN.
func TestValues(t *testing.T) {
	nan := math.NaN()
	for expression, want := range map[string][]float64{
		"instructions / cycles":                             {2, nan, nan, 0.5},
		"-instructions + 2 * cycles ** 2":                   {24, -6, nan, 124},
		"cycles == 0 ? 0 : instructions / cycles":           {2, 0, nan, 0.5},
		"1 / cycles > 0.2 ? 1 : 0":                          {1, nan, 1, 0},
		`1 - metric("cpu.idle")`:                            {1, 0.5, 0, 0.75},
		"mem_bw / peak":                                     {0.25},
		"mem_bw / peak * cycles":                            {1, 0, 0.5, 2},
		"cpu_power / peak":                                  {0.25, 0.375},
		"acc_clock / acc_power":                             {1e9 / 300.0, nan},
		"job_mem / mem_bw":                                  {0.5},
		"max(cycles, 3, mem_bw - 96)":                       {4, 4, 4, 8},
		"min(instructions, cycles)":                         {4, 0, nan, 4},
		"sqrt(cycles - 4)":                                  {0, nan, nan, 2},
		"exp(cycles * 1000)":                                {nan, 1, nan, nan},
		"not (cycles > 3 and mem_bw > 10) ? 1 : 2":          {2, 1, 1, 2},
		"cycles < 1 or cycles > 7 ? cycles : -1":            {-1, 0, -1, 8},
		"(cycles > 1) ? (mem_bw > 1 ? 5 : 6) : 7":           {5, 7, 5, 5},
		"round(instructions / 3)":                           {3, 2, nan, 1},
		"instructions * 0 + (cycles > 0 || true ? 3.5 : 1)": {3.5, 3.5, nan, 3.5},
		"cycles > 0 and instructions / cycles > 1 ? 1 : 0":  {1, 0, nan, 0},
		"cycles == 0 or instructions / cycles > 1 ? 1 : 0":  {1, 1, nan, 0},
		"gpu / cycles + absent_elsewhere":                   nil,
	} {
		scopes := recorded()
		scopes["gpu"], scopes["absent_elsewhere"] = schemas.ScopeNode, schemas.ScopeNode
		s, err := Compile([]Definition{{Name: "new", Expr: expression}})
		if err == nil {
			err = s.Resolve(scopes)
		}
		if err != nil {
			t.Error(err)
			continue
		}
		b := batch()
		s.Apply(b)
		m := b.Metrics[len(b.Metrics)-1]
		if want == nil { // cycles is there
			want = []float64{nan, nan, nan, nan}
		}
		if m.Name != "new" || m.Unit != "1" || !slices.EqualFunc(m.Values, want, same) {
			t.Errorf("%s: %+v, want %v", expression, m, want)
		}
		if core := m.Scope == schemas.ScopeCore; core != (len(want) == 4) || len(want) == 2 &&
			m.Scope != schemas.ScopeSocket && m.Scope != schemas.ScopeGPU {
			t.Errorf("%s: scope %s", expression, m.Scope)
		}
		if err := b.Metrics[0].Values[2]; !math.IsNaN(err) || b.Metrics[1].Values[1] != 0 {
			t.Errorf("%s: it changed its inputs", expression)
		}
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// TestDefinitionsInOrder: a later definition may use an earlier one. A record without any input of a metric has no such
// metric.
func TestDefinitionsInOrder(t *testing.T) {
	s := compiled(t, "ipc:core:1=instructions/cycles", "scaled:core:%=100*ipc", "load::=mem_bw/peak")
	b := batch()
	s.Apply(b)
	got := b.Metrics[9:]
	if len(got) != 3 || got[1].Name != "scaled" || got[1].Unit != "%" || got[1].Values[3] != 50 ||
		got[2].Scope != schemas.ScopeNode || got[2].Values[0] != 0.25 {
		t.Errorf("%+v", got)
	}
	only := &schemas.CounterBatch{NodeHeader: b.NodeHeader, Metrics: slices.Clone(b.Metrics[3:5])}
	if s.Apply(only); len(only.Metrics) != 3 || only.Metrics[2].Name != "load" {
		t.Errorf("%+v", only.Metrics)
	}
}

// TestScopesThatRecordsContradict: a record may lack the metrics that say how many sockets or GPUs there are, or name
// different numbers of them. Nothing is guessed.
func TestScopesThatRecordsContradict(t *testing.T) {
	s := compiled(t, "ratio=acc_clock / acc_power", "share=cpu_power / mem_bw")
	b := &schemas.CounterBatch{Metrics: []schemas.CounterBatchMetric{
		{Name: "acc_clock", Scope: schemas.ScopeGPU, Values: []float64{1, 2, 3}},
		{Name: "acc_power", Scope: schemas.ScopeGPU, Values: []float64{1, 2}},
		{Name: "mem_bw", Scope: schemas.ScopeNode, Values: []float64{4}},
	}}
	s.Apply(b)
	if len(b.Metrics) != 4 || b.Metrics[3].Name != "ratio" || len(b.Metrics[3].Values) != 3 ||
		!math.IsNaN(b.Metrics[3].Values[0]) || !math.IsNaN(b.Metrics[3].Values[2]) {
		t.Errorf("%+v", b.Metrics[3:])
	}
}

// TestRefused: each error names the definition, what is wrong and the remedy.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"ipc":                            "NAME[:SCOPE[:UNIT]]=EXPRESSION",
		"a b=cycles":                     "its name must match",
		"x:cpu=cycles":                   "not core, socket, gpu, job or node",
		"x=cycles / cpu_power":           "cycles is of scope core and cpu_power of scope socket",
		"x=acc_power / job_mem":          "acc_power is of scope gpu and job_mem of scope job",
		"x:gpu=cpu_power":                "its scope must be socket",
		"x:core=cpu_power":               "its scope must be socket",
		"x:node=acc_power":               "its scope must be gpu",
		"x:socket=mem_bw":                "needs a metric of scope socket",
		"x:gpu=mem_bw":                   "needs a metric of scope gpu",
		"x=":                             "no expression",
		"x=cycles +":                     "unexpected token",
		"x=cycle":                        `no metric "cycle": did you mean cycles`,
		"x=instr":                        "did you mean instructions",
		"x=zzzzzzzzzz":                   "there are acc_clock, acc_power",
		"x:node=cycles*2":                "its scope must be core",
		"cycles=mem_bw":                  "choose another name",
		"x=1":                            "uses no metric",
		"x=cycles > 2":                   "write (cycles > 2) ? 1 : 0",
		"x=cycles + (cycles > 2)":        "a number is wanted",
		"x=cycles ? 1 : 2":               "true or false is wanted",
		"x=cycles > 1 ? 1 : true":        "both sides",
		"x=cpu.idle":                     `metric("a.name")`,
		"x=metric(cycles)":               `metric("a.name")`,
		"x=sum([cycles])":                "no function",
		"x=cycles in [1, 2] ? 1 : 0":     "there is no operator in",
		"x=let a = cycles; a":            "is not for metrics",
		"x=map(1..1000000000, # * 2)":    "no function",
		"x=cycles ?? 1":                  "no operator",
		"x=abs(cycles, 2)":               "2 arguments",
		"x=max()":                        "arguments",
		`x="text"`:                       "is not for metrics",
		"x=later":                        `no metric "later"`,
		"x=cycles.instructions":          "metric(",
		"x=cycles()":                     "no function",
		"x=$env":                         "no metric",
		"x=" + strings.Repeat("(", 5000): "at most 4096",
		"x=" + strings.Repeat("-", 4000) + "cycles": "nodes",
		"x=cycles" + strings.Repeat("+cycles", 400): "nodes",
	} {
		d, err := Parse(text)
		var s *Set
		if err == nil {
			s, err = Compile([]Definition{d, {Name: "later", Expr: "cycles"}})
		}
		if err == nil {
			err = s.Resolve(recorded())
		}
		if !errors.Is(err, ErrDefinition) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
	if _, err := Compile([]Definition{{Name: "x", Expr: "a"}, {Name: "x", Expr: "b"}}); err == nil {
		t.Error("a definition twice")
	}
}

func TestReadYAML(t *testing.T) {
	all, err := ReadYAML(strings.NewReader(`
metrics:
  - {name: ipc, unit: "1", scope: core, kind: ratio, expr: instructions / cycles}
  - name: load
    expr: mem_bw / peak
`))
	if err != nil || len(all) != 2 || all[0].Kind != "ratio" || all[0].Scope != "core" ||
		all[1].Expr != "mem_bw / peak" {
		t.Errorf("%+v, %v", all, err)
	}
	for text, want := range map[string]string{
		"":                                    "there is none",
		"metrics: []":                         "there is none",
		"metric: []":                          "field metric not found",
		"metrics: [{name: x, expression: y}]": "expression not found",
		"metrics: [{name: x}]":                "no expression",
		"metrics: [{name: x, expr: [1]}]":     "metrics: [{name, unit",
		"\x00":                                "metrics: [{name, unit",
		"a: " + strings.Repeat("x", 1<<20):    "bytes",
	} {
		if _, err := ReadYAML(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}

// TestExprAgrees: random expressions have the values that the library itself computes, one by one, wherever these and
// all parts are finite.
func TestExprAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	functions := []expr.Option{expr.Optimize(false)}
	for _, name := range []string{"sqrt", "log", "log10", "exp"} {
		functions = append(functions, expr.Function(name, func(p ...any) (any, error) {
			return map[string]func(float64) float64{
				"sqrt": math.Sqrt, "log": math.Log, "log10": math.Log10, "exp": math.Exp,
			}[name](p[0].(float64)), nil
		}, new(func(float64) float64)))
	}
	compared := 0
	for range 1000 {
		text := randomNumber(r, 4)
		if !strings.ContainsAny(text, "uvw") {
			continue
		}
		s, err := Compile([]Definition{{Name: "x", Expr: text, Scope: schemas.ScopeCore}})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{Cpus: make([]int32, 8)}}
		for _, name := range []string{"u", "v", "w"} {
			m := schemas.CounterBatchMetric{Name: name, Scope: schemas.ScopeCore}
			for range 8 {
				m.Values = append(m.Values, float64(r.IntN(9)-4)/2)
			}
			b.Metrics = append(b.Metrics, m)
		}
		program, err := expr.Compile(text, append(functions, expr.Env(map[string]any{"u": 0.0, "v": 0.0, "w": 0.0}))...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s.Apply(b)
		for i, got := range b.Metrics[3].Values {
			env := map[string]any{
				"u": b.Metrics[0].Values[i], "v": b.Metrics[1].Values[i], "w": b.Metrics[2].Values[i],
			}
			result, err := expr.Run(program, env)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			want, _ := result.(float64)
			if n, is := result.(int); is {
				want = float64(n)
			}
			switch {
			case math.IsInf(got, 0):
				t.Fatalf("%s of %v: infinite", text, env)
			case math.IsNaN(got):
			case got != want && math.Abs(got-want) > 1e-9*math.Abs(want):
				t.Fatalf("%s of %v: %v, expr has %v", text, env, got, want)
			default:
				compared++
			}
		}
	}
	if compared < 1500 {
		t.Errorf("only %d values were finite", compared)
	}
}

// randomNumber returns an expression that gives a number.
func randomNumber(r *rand.Rand, depth int) string {
	if depth == 0 || r.IntN(5) == 0 {
		return []string{"u", "v", "w", "2.0", "0.5"}[r.IntN(5)]
	}
	a, b := randomNumber(r, depth-1), randomNumber(r, depth-1)
	switch r.IntN(5) {
	case 0:
		return []string{"abs", "ceil", "floor", "sqrt", "log", "exp"}[r.IntN(6)] + "(" + a + ")"
	case 1:
		return []string{"min", "max"}[r.IntN(2)] + "(" + a + ", " + b + ")"
	case 2:
		return "(" + randomTruth(r, depth-1) + " ? " + a + " : " + b + ")"
	}
	return "(" + a + []string{" + ", " - ", " * ", " / ", " ** "}[r.IntN(5)] + b + ")"
}

func randomTruth(r *rand.Rand, depth int) string {
	if depth > 0 && r.IntN(3) == 0 {
		return "(" + randomTruth(r, depth-1) + []string{" and ", " or "}[r.IntN(2)] + randomTruth(r, depth-1) + ")"
	}
	a, b := randomNumber(r, depth), randomNumber(r, depth)
	operator := []string{" < ", " <= ", " > ", " == ", " != "}[r.IntN(5)]
	return []string{"", "not "}[r.IntN(2)] + "(" + a + operator + b + ")"
}

// FuzzCompile: no text makes a panic, an infinite value, or another number of values.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"instructions/cycles", "x", "((", "map(1..9, #)", "a ? b : c", "1e999", `"\x`, "\xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Compile([]Definition{{Name: "x", Expr: text}})
		if err != nil || s.Resolve(recorded()) != nil {
			return
		}
		b := batch()
		s.Apply(b)
		if len(b.Metrics) == 9 {
			return
		}
		m := b.Metrics[9]
		if n := len(m.Values); n != 1 && n != 2 && n != 4 {
			t.Errorf("%q: %d values", text, len(m.Values))
		}
		for _, v := range m.Values {
			if math.IsInf(v, 0) {
				t.Errorf("%q: %v", text, m.Values)
			}
		}
	})
}

// BenchmarkApply computes one metric of two for a node with 48 CPUs and 40 metrics.
func BenchmarkApply(b *testing.B) {
	const cpus = 48
	record := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{Cpus: make([]int32, cpus)}}
	scopes := map[string]string{}
	for i := range 40 {
		name := "m" + string(rune('A'+i))
		record.Metrics = append(record.Metrics, schemas.CounterBatchMetric{
			Name: name, Scope: schemas.ScopeCore, Values: slices.Repeat([]float64{float64(i + 1)}, cpus),
		})
		scopes[name] = schemas.ScopeCore
	}
	s, err := Compile([]Definition{{Name: "x", Expr: "mA / mB > 1 ? mA : mB"}})
	if err == nil {
		err = s.Resolve(scopes)
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		record.Metrics = record.Metrics[:40]
		s.Apply(record)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/cpus, "ns/value")
}
