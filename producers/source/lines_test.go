package source

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

func siteMetrics() []config.SiteMetric {
	return []config.SiteMetric{
		{Name: "wear", Unit: "1", Scope: schemas.ScopeNode, Kind: "ratio"},
		{Name: "written", Unit: "B/s", Scope: schemas.ScopeNode, Kind: "rate"},
		{Name: "heat", Unit: "degC", Scope: schemas.ScopeCore, Kind: "gauge"},
		{Name: "fan", Unit: "1/s", Scope: schemas.ScopeGPU, Kind: "gauge"},
	}
}

// floats returns the values of a reading, without their stamps.
func floats(r reading) [][]float64 {
	all := make([][]float64, len(r))
	for i := range r {
		for _, bits := range r[i][min(1, len(r[i])):] {
			all[i] = append(all[i], math.Float64frombits(bits))
		}
	}
	return all
}

func TestParseLines(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		text             string
		node, core, gpu  [][]float64
		garbled, unknown int
	}{
		"all": {
			text: "# of the site\n\nwear 0.25\nwritten\t1e3\nheat 0 40.5\n heat  2   41 \nfan 1 30\n",
			node: [][]float64{{0.25, 1000}}, core: [][]float64{{40.5}, nil, {41}}, gpu: [][]float64{nil, {30}},
		},
		"empty":                 {node: [][]float64{{nan, nan}}},
		"line ends of DOS":      {text: "wear 1\r\nheat 0 5\r\n", node: [][]float64{{1, nan}}, core: [][]float64{{5}}},
		"cut off":               {text: "wear 0.5\nwritten 12", node: [][]float64{{0.5, nan}}, garbled: 1},
		"later counts":          {text: "wear 1\nwear 2\n", node: [][]float64{{2, nan}}},
		"missing":               {text: "wear nan\nwritten inf\n", node: [][]float64{{nan, nan}}},
		"too large":             {text: "wear 1e999\n", node: [][]float64{{nan, nan}}},
		"undeclared":            {text: "other 1\nwear 3\nthird 2 3\n", node: [][]float64{{3, nan}}, unknown: 2},
		"no value":              {text: "wear\nwritten \n", node: [][]float64{{nan, nan}}, garbled: 2},
		"no number of a core":   {text: "heat 40\nheat x 40\nheat 1x 4\n", node: [][]float64{{nan, nan}}, garbled: 3},
		"number of a node":      {text: "wear 0 1\n", node: [][]float64{{nan, nan}}, garbled: 1},
		"negative core":         {text: "heat -1 1\n", node: [][]float64{{nan, nan}}, garbled: 1},
		"last core":             {text: "heat 16384 1\nfan 1024 1\n", node: [][]float64{{nan, nan}}, garbled: 2},
		"number of many digits": {text: "heat 99999999999999999999 1\n", node: [][]float64{{nan, nan}}, garbled: 1},
		"words":                 {text: "wear 1 x\nwear one\n", node: [][]float64{{nan, nan}}, garbled: 2},
		"binary":                {text: "\x00\x01\x02 \xff\n\x7fELF\n", node: [][]float64{{nan, nan}}, garbled: 2},
		"as Prometheus has it":  {text: "wear{disk=\"0\"} 1\n", node: [][]float64{{nan, nan}}, unknown: 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := declare(siteMetrics())
			if diff := cmp.Diff([]string{"core", "gpu", "node"}, d.scopes); diff != "" {
				t.Fatal(diff)
			}
			r, _ := d.parseLines(nil, []byte("wear 9\nheat 3 9\nfan 0 9\n"), 1)
			r, f := d.parseLines(r, []byte(c.text), 7) // into the storage of another text
			for i, want := range [][][]float64{c.core, c.gpu, c.node} {
				got := floats(r[i])
				for len(want) < len(got) {
					want = append(want, nil)
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", d.scopes[i], diff)
				}
			}
			if f.garbled != c.garbled || f.undeclared != c.unknown {
				t.Errorf("%+v, want %d garbled and %d undeclared", f, c.garbled, c.unknown)
			}
			if r[2][0][0] != 7 {
				t.Errorf("stamp %d", r[2][0][0])
			}
		})
	}
}

// TestFormSite: the second text is 4 s younger than the first.
func TestFormSite(t *testing.T) {
	d := declare(siteMetrics())
	form := func(from, to string) []float64 {
		a, _ := d.parseLines(nil, []byte(from), 1e9)
		b, _ := d.parseLines(nil, []byte(to), 5e9)
		out := []float64{math.NaN(), math.NaN()}
		formSite(d.kinds[2], a[2][0], b[2][0], out)
		return out
	}
	nan := math.NaN()
	for name, c := range map[string]struct {
		from, to string
		want     []float64
	}{
		"growth":        {"wear 0.1\nwritten 1000\n", "wear 0.2\nwritten 3000\n", []float64{0.2, 500}}, // 2000 / 4 s
		"standstill":    {"written 7\n", "written 7\n", []float64{nan, 0}},
		"reset":         {"written 1000\n", "written 10\n", []float64{nan, nan}},
		"new":           {"", "wear 1\nwritten 10\n", []float64{1, nan}},
		"gone":          {"wear 1\nwritten 10\n", "", []float64{nan, nan}},
		"below nothing": {"wear -1\nwritten -4\n", "wear -2\nwritten 4\n", []float64{-2, 2}}, // 8 / 4 s
	} {
		if diff := cmp.Diff(c.want, form(c.from, c.to), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// The same text twice gives no rate: nothing is known of the time between.
	a, _ := d.parseLines(nil, []byte("written 1\n"), 1e9)
	out := []float64{nan, nan}
	if formSite(d.kinds[2], a[2][0], a[2][0], out); !math.IsNaN(out[1]) {
		t.Errorf("a rate of no time: %v", out)
	}
}

func FuzzParseLines(f *testing.F) {
	f.Add("wear 0.25\nwritten 1e3\nheat 0 40.5\nfan 1 30\n", "# x\n\nheat 16383 1\n\x00")
	f.Add(strings.Repeat("heat 1 2\n", 20), "other 1\nwear nan")
	f.Fuzz(func(t *testing.T, before, text string) {
		d := declare(siteMetrics())
		r, _ := d.parseLines(nil, []byte(before), 1)
		r, flaws := d.parseLines(r, []byte(text), 2)
		fresh, again := d.parseLines(nil, []byte(text), 2)
		if flaws != again {
			t.Errorf("%+v and %+v", flaws, again)
		}
		lines := strings.Count(text, "\n") + 1
		if flaws.garbled+flaws.undeclared > lines || flaws.first > lines {
			t.Errorf("%+v of %d lines", flaws, lines)
		}
		for i := range r {
			if len(r[i]) > maxCPUs || len(r[i]) < len(fresh[i]) {
				t.Errorf("%d rows", len(r[i]))
			}
			got := floats(r[i])
			if diff := cmp.Diff(floats(fresh[i]), got[:len(fresh[i])], cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("the storage makes a difference:\n%s", diff)
			}
			for _, row := range got[len(fresh[i]):] {
				if len(row) > 0 {
					t.Errorf("a row of the text before: %v", row)
				}
			}
			for _, row := range got {
				for _, v := range row {
					if math.IsInf(v, 0) {
						t.Error("an infinite value")
					}
				}
			}
		}
	})
}
