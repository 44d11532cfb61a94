package latency

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// table is the upper triangle of a small matrix as text, for comparison.
func table(m *Matrix) string {
	var rows []string
	for a := range m.Len() {
		for b := a + 1; b < m.Len(); b++ {
			rows = append(rows, fmt.Sprintf("%s-%s %g", m.Names()[a], m.Names()[b], m.At(a, b)))
		}
	}
	return strings.Join(rows, ", ")
}

// TestReadForms: each form that people write is understood.
func TestReadForms(t *testing.T) {
	const three = "n0-n1 1, n0-n2 2, n1-n2 3"
	const named = "a-b 1, a-c 2, b-c 3"
	for _, c := range []struct{ name, text, want string }{
		{"triangle", "1,2\n3\n", three},
		{"triangle with an empty last line", "1,2\n3\n\n", three},
		{"triangle with the end of a line missing", "1,2\n3", three},
		{"triangle of two nodes", "1.5\n", "n0-n1 1.5"},
		{"triangle of Windows", "\ufeff1,2\r\n3\r\n", three},
		{"triangle with comments", "# by hand\n1,2\n# half\n3\n", three},
		{"triangle with names", "# names: a, b,c\n1,2\n3\n", named},
		{"triangle with gaps", "1,\n-\n", "n0-n1 1, n0-n2 NaN, n1-n2 NaN"},
		{"triangle whose last latency is missing", "1,2\n\n", "n0-n1 1, n0-n2 2, n1-n2 NaN"},
		{"triangle with blanks", "1 2\n3\n", three},
		{"triangle with tabs and a gap", "1\t\n3\n", "n0-n1 1, n0-n2 NaN, n1-n2 3"},
		{"square", "0,1,2\n1,0,3\n2,3,0\n", three},
		{"square with empty diagonal", ",1,2\n1,,3\n2,3,\n", three},
		{"square, upper half only", "-,1,2\n-,-,3\n-,-,-\n", three},
		{"square, lower half only", "-,-,-\n1,-,-\n2,3,-\n", three},
		{"square of two nodes", "0,1\n1,0\n", "n0-n1 1"},
		{"square with a header", "a,b,c\n0,1,2\n1,0,3\n2,3,0\n", named},
		{"square with header and column", "node,a,b,c\na,0,1,2\nb,1,0,3\nc,2,3,0\n", named},
		{"square with an empty corner", ",a,b,c\na,0,1,2\nb,1,0,3\nc,2,3,0\n", named},
		{"square with a column", "a,0,1,2\nb,1,0,3\nc,2,3,0\n", named},
		{"square of two named nodes", "a,0,1\nb,1,0\n", "a-b 1"},
		{"square with quotes", `"","a","b"` + "\n" + `"a",0,1` + "\n" + `"b",1,0`, "a-b 1"},
		{"square with semicolons", "a;b\n0;1\n1;0\n", "a-b 1"},
		{"directions that differ a little", "0,1.02\n0.98,0\n", "n0-n1 1"},
		{"pairs", "a,b,latency_us\na,b,1\na,c,2\nb,c,3\n", named},
		{"pairs in the other direction", "a,b,latency_us\na,b,1\nc,a,2\nc,b,3\n", named},
		{"pairs with repeats", "a,b,latency_us,pass\na,b,9,1\na,b,1,2\nb,a,2,3\n", "a-b 2"},
		{"pairs with failures", "a,b,latency_us\na,b,nan\na,b,4\na,c,-\nb,c,1\n", "a-b 4, a-c NaN, b-c 1"},
		{
			"pairs in the order of a comment", "# names: c,a,b\na,b,latency_us\na,b,1\na,c,2\nb,c,3\n",
			"c-a 2, c-b 3, a-b 1",
		},
	} {
		m, err := Read(strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := table(m); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestReadErrors: each bad input has an error that names the place and what is wrong.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "it has no latency"},
		{"comments alone", "# nothing\n\n", "it has no latency"},
		{"nothing measured", "-,-\n-\n", "it has no latency"},
		{"a letter", "1,2\nx\n", `line 2, column 1: "x" is no latency`},
		{"a letter in the first line", "1,x\n3\n", `line 1, column 2: "x" is no latency`},
		{"zero", "1,0\n3\n", "line 1, column 2: the latency is zero"},
		{"negative", "1,2\n-3\n", "line 2, column 1: the latency -3 is negative"},
		{"infinite", "1,inf\n3\n", "line 1, column 2: the latency inf must be"},
		{"beyond all numbers", "1,1e999\n3\n", "line 1, column 2: the latency 1e999 must be"},
		{"far too small", "1,1e-300\n3\n", "line 1, column 2: the latency 1e-300 must be"},
		{"a short line", "1,2,3\n4\n5\n", "line 2: 1 fields, but 2 nodes follow node 1"},
		{"a long line", "1,2\n3,4,5\n", "line 2: 3 fields, but 1 nodes follow node 1"},
		{"too many lines", "1,2\n3\n4\n", "line 3: more lines than the 2 of the triangle"},
		{"the end is missing", "1,2,3\n4,5\n", "3 lines with latencies must be there"},
		{"one line of a triangle", "1,2,3\n", "line 1 has 3 latencies, so 2 more lines must follow"},
		{"a square without its end", "0,1,2\n1,0,3\n", "the file ends after 2 rows of 3"},
		{"a square with a short row", "0,1,2\n1,0,3\n2,3\n", "line 3: 2 latencies, but the nodes are 3"},
		{"a square with more rows", "0,1\n1,0\n1,0\n", "line 3: more rows than the 2 nodes"},
		{"a diagonal that is not zero", "5,1\n1,0\n", "line 1, column 1: a node's latency to itself"},
		{"asymmetric", "0,1,2\n9,0,3\n2,3,0\n", "line 2, column 1: n0 to n1 takes 1 microseconds, and back 9"},
		{"one node", "a\n0\n", "one node has no latency"},
		{"one node in a square", "node,a\na,0\n", "one node has no latency"},
		{"a name twice", "a,b,a\n0,1,2\n1,0,3\n2,3,0\n", `line 2, column 3: node "a" is there twice`},
		{"a name twice in a column", "a,0,1\na,1,0\n", `node "a" is there twice`},
		{"a name that is no name", "a,b/c\n0,1\n1,0\n", `"b/c" is no name of a node`},
		{"rows in another order", "node,a,b\nb,0,1\na,1,0\n", `so it must begin with this name`},
		{"names alone", "a,b,c\n", "names without latencies"},
		{"pairs alone", "a,b,latency_us\n", "no line has a pair of nodes"},
		{"a pair of one node", "a,b,latency_us\na,a,1\n", `line 2, column 2: a latency of node "a" to itself`},
		{"a pair without latency", "a,b,latency_us\na,b\n", "line 2: 2 fields, but the first line has 3"},
		{"a bad latency of a pair", "a,b,latency_us\na,b,0\n", "line 2, column 3: the latency is zero"},
		{"a bad name of a pair", "a,b,latency_us\na,b c,1\n", `line 2, column 2: "b c" is no name of a node`},
		{"a node beside the comment", "# names: a,b\na,b,latency_us\na,c,1\n", `node "c" is not in the comment`},
		{"names that do not fit", "# names: a,b\n1,2\n3\n", "the names are 2"},
		{"a bad tick", "# tick_us: zero\n1\n", `line 1: tick_us "zero" must be a number`},
		{"too many nodes", strings.Repeat("1,", maxNodes) + "1\n2\n", "more than 16384 nodes"},
		{"a line without end", strings.Repeat("1", maxLine+10), "longer than 16 MiB"},
		{"binary", "\x00\x01\x02\xff", "names without latencies"},
	} {
		m, err := Read(strings.NewReader(c.text))
		if err == nil {
			t.Errorf("%s: no error, but %d nodes", c.name, m.Len())
			continue
		}
		if !errors.Is(err, errFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestReadFileErrors: the error names the file, and a pipe does not block.
func TestReadFileErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(bad, []byte("1,0\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		bad:                          "bad.csv: no matrix of latencies: line 1, column 2",
		dir:                          "must be a regular file",
		filepath.Join(dir, "absent"): "absent: no such file",
	} {
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestAsymmetry: a few pairs that differ much are warned about and become the lower latency. Small differences are
// noise.
func TestAsymmetry(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	const n = 30
	us := make([][]float64, n)
	for a := range us {
		us[a] = make([]float64, n)
		for b := range us {
			if a != b {
				us[a][b] = math.Exp(.02 * draw.NormFloat64())
			}
		}
	}
	us[3][7] = 5
	var text strings.Builder
	for _, row := range us {
		for b, x := range row {
			if b > 0 {
				text.WriteByte(',')
			}
			fmt.Fprint(&text, x)
		}
		text.WriteByte('\n')
	}
	m, err := Read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.At(3, 7); got != us[7][3] {
		t.Errorf("the asymmetric pair is %g, want the lower direction %g", got, us[7][3])
	}
	if want := (us[1][2] + us[2][1]) / 2; m.At(1, 2) != want {
		t.Errorf("a usual pair is %g, want the mean %g", m.At(1, 2), want)
	}
	if math.Abs(m.Noise-.02) > .003 {
		t.Errorf("noise %g, want .02", m.Noise)
	}
	if w := strings.Join(m.Warnings(), "\n"); len(m.Warnings()) != 2 || !strings.Contains(w, "n3 to n7 takes 5") {
		t.Errorf("warnings %q do not name the pair", w)
	}
}

// TestNoiseOfRepeats: repeats of pairs show the noise of one measurement. Outliers move it little.
func TestNoiseOfRepeats(t *testing.T) {
	draw := rand.New(rand.NewPCG(2, 1))
	var text strings.Builder
	text.WriteString("a,b,latency_us\n")
	for pass := range 3 {
		for i := range 300 {
			us := math.Exp(.05 * draw.NormFloat64())
			if draw.Float64() < .05 {
				us *= 3
			}
			fmt.Fprintf(&text, "hub,x%d,%g\n", (i*7+pass)%300, us)
		}
	}
	m, err := Read(strings.NewReader(text.String()))
	if err != nil || math.Abs(m.Noise-.05) > .013 {
		t.Errorf("noise %g, want .05: %v", m.Noise, err)
	}
}

// TestWrite: each form reads back as the same matrix, with its names, gaps, tick and noise.
func TestWrite(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 1))
	for _, nodes := range []int{2, 3, 9} {
		for _, form := range forms() {
			names := make([]string, nodes)
			for i := range names {
				names[i] = fmt.Sprintf("rack-%d", nodes-i)
			}
			m := New(names)
			m.TickUs, m.Noise = .05, .0125
			for a := range nodes {
				for b := a + 1; b < nodes; b++ {
					if a != 1 || b != 2 {
						m.Set(a, b, float64(draw.IntN(1000)+1)/1000)
					}
				}
			}
			var text strings.Builder
			if err := m.Write(&text, form); err != nil {
				t.Fatal(err)
			}
			got, err := Read(strings.NewReader(text.String()))
			if err != nil {
				t.Errorf("%s of %d nodes: %v in\n%s", form, nodes, err, text.String())
				continue
			}
			if table(got) != table(m) || got.TickUs != m.TickUs || got.Noise != m.Noise {
				t.Errorf("%s: %s, want %s", form, table(got), table(m))
			}
		}
	}
	if err := New([]string{"a", "b"}).Write(&strings.Builder{}, "table"); err == nil {
		t.Error("the form table is no error")
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"1,2\n3\n", "a,b\n0,1\n1,0\n", "node,a,b\na,0,1\nb,1,0\n", "a,b,latency_us\na,b,1\n",
		"# names: a,b\n# tick_us: .1\n1\n",
		"a,0,1\nb,1,0\n", "1;2\n;\n", "0 1\n1 0", ",,\n,\n\n", "a,b,latency_us,pass\na,b,1,2\na,b,2,2\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Read(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		names := slices.Clone(m.Names())
		slices.Sort(names)
		if m.Len() < 2 || len(slices.Compact(names)) != m.Len() {
			t.Fatalf("names %q", m.Names())
		}
		for _, us := range m.Values() {
			if !(us >= minUs && us <= maxUs) {
				t.Fatalf("a latency of %g", us)
			}
		}
		var out strings.Builder
		if err := m.Write(&out, triangle); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(strings.NewReader(out.String())); err != nil {
			t.Fatalf("not read back: %v in %q", err, out.String())
		}
	})
}
