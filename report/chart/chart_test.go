package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden figures")

// TestFigure compares a figure that has everything with the golden one.
func TestFigure(t *testing.T) {
	from := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC).UnixMilli()
	x := Time(from, from+4*hour, 40, 200)
	y := Linear(0, 1, 90, 10).As(func(v float64) string { return string(rune('a' + int(4*v))) })
	nan := math.NaN()
	f := Figure{ID: "f1", Title: "A figure", Desc: "It has everything.", W: 240, H: 130}
	f.Axes(x, y, "time", "share")
	f.Band([]float64{40, 60, 80, 100, 120}, []float64{80, 80, nan, 70}, []float64{30, 20, nan, 20}, "fan0")
	f.Line([]float64{40, 60, 80, 100}, []float64{50, nan, 55, 60.04}, "mid")
	f.Cells([]float64{130, 150, 170, 190}, []float64{20, 30, 40}, func(i, row int) (string, string) {
		return []string{"sev1", ""}[row*i%2], "a cell"
	})
	f.Points([]Point{{X: 150, Y: 60, R: 2.5, Class: "dot", Title: "a dot"}, {X: nan, Y: 1}})
	f.Hatch(160, 180, 50, 80)
	golden(t, "figure.svg", string(f.SVG()))
}

func TestStrip(t *testing.T) {
	f := Figure{ID: "s1", Title: "A strip", W: 1000, H: 10, Strip: true}
	f.Cells([]float64{0, 500, 1000}, []float64{0, 10}, func(int, int) (string, string) { return "sev3", "" })
	golden(t, "strip.svg", string(f.SVG()))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(got))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the figure is no XML: %v", err)
		}
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "><"), strings.Split(got, "><")); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// TestTextsAreEscaped gives every text that may come from elsewhere.
func TestTextsAreEscaped(t *testing.T) {
	const evil = `</title></svg><script>"'&`
	f := Figure{ID: "f", Title: evil, Desc: evil, W: 10, H: 10}
	f.Text(1, 1, "tick", evil)
	f.Points([]Point{{Title: evil}})
	f.Cells([]float64{0, 1}, []float64{0, 1}, func(int, int) (string, string) { return "cell", evil })
	f.Axes(Linear(0, 1, 0, 1), Linear(0, 1, 1, 0).As(func(float64) string { return evil }), evil, evil)
	svg := string(f.SVG())
	if strings.Contains(svg, "<script") || strings.Count(svg, "</svg>") != 1 {
		t.Errorf("a text became an element: %s", svg)
	}
	if n := strings.Count(svg, "&lt;script&gt;"); n < 7 {
		t.Errorf("%d of at least 7 texts are there", n)
	}
}

func texts(ticks []Tick) (all []string) {
	for _, t := range ticks {
		all = append(all, t.Text)
	}
	return all
}

func TestTicks(t *testing.T) {
	at := func(s string) int64 {
		when, err := time.Parse("2006-01-02 15:04:05", s)
		if err != nil {
			t.Fatal(err)
		}
		return when.UnixMilli()
	}
	span := func(from, to string) Scale { return Time(at(from), at(to), 0, 100) }
	for _, tt := range []struct {
		name  string
		scale Scale
		n     int
		want  []string
	}{
		{"percent", Linear(0, 100, 0, 1), 5, []string{"0", "25", "50", "75", "100"}},
		{"fractions", Linear(0, 0.7, 0, 1), 5, []string{"0.0", "0.2", "0.4", "0.6"}},
		{"negative", Linear(-10, 10, 0, 1), 5, []string{"-10", "-5", "0", "5", "10"}},
		{"large", Linear(0, 3e9, 0, 1), 4, []string{"0", "1e+09", "2e+09", "3e+09"}},
		{"one value", Linear(5, 5, 0, 1), 3, []string{"5.0", "7.5", "10.0"}},
		{"nothing", Linear(0, 0, 0, 1), 2, []string{"0", "1"}},
		{"decades", Log(0.1, 1000, 0, 1), 9, []string{"0.1", "1", "10", "100", "1000"}},
		{"a decade", Log(10, 90, 0, 1), 9, []string{"10", "20", "50"}},
		{"many decades", Log(1, 1e12, 0, 1), 4, []string{"1", "10000", "1e+08", "1e+12"}},
		{"a minute", span("2026-11-20 23:59:50", "2026-11-21 00:00:30"), 5, []string{
			"23:59:50", "Nov 21", "00:00:10", "00:00:20", "00:00:30",
		}},
		{"a day", span("2026-11-20 08:00:00", "2026-11-21 08:00:00"), 5, []string{"12:00", "18:00", "Nov 21", "06:00"}},
		{"a month", span("2026-10-01 00:00:00", "2026-11-01 00:00:00"), 5, []string{"Oct 4", "Oct 14", "Oct 24"}},
		{"a year", span("2025-11-15 00:00:00", "2026-11-15 00:00:00"), 5, []string{"Feb 2026", "May", "Aug", "Nov"}},
		{"half a minute since a start", Elapsed(0, 30_000, 0, 1), 4, []string{"0 s", "10 s", "20 s", "30 s"}},
		{"an hour since a start", Elapsed(0, 3_600_000, 0, 1), 5, []string{
			"0 min", "15 min", "30 min", "45 min", "60 min",
		}},
		{"a part of a day", Elapsed(hour, 25*hour, 0, 1), 5, []string{"6 h", "12 h", "18 h", "24 h"}},
		{"a year since a start", Elapsed(0, 365*day, 0, 1), 5, []string{"0 d", "160 d", "320 d"}},
	} {
		if got := texts(tt.scale.Ticks(tt.n)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: ticks %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestScalesClip(t *testing.T) {
	for _, tt := range []struct {
		scale   Scale
		v, want float64
	}{
		{Linear(0, 10, 100, 0), 5, 50},
		{Linear(0, 10, 100, 0), 11, 0},
		{Linear(0, 10, 100, 0), math.Inf(-1), 100},
		{Log(1, 100, 0, 100), 10, 50},
		{Log(1, 100, 0, 100), 0, 0},
		{Log(1, 100, 0, 100), -5, 0},
		{Time(0, 1000, 0, 10), 500, 5},
	} {
		if got := tt.scale.At(tt.v); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%+v at %v is %v, want %v", tt.scale, tt.v, got, tt.want)
		}
	}
	if got := Linear(0, 1, 0, 1).At(math.NaN()); !math.IsNaN(got) {
		t.Errorf("NaN has the position %v", got)
	}
}

// TestPathsDoNotDrift draws a staircase whose steps are no tenths of a unit: its end must lie where it was asked for.
func TestPathsDoNotDrift(t *testing.T) {
	const n = 1000
	xs, low, high := make([]float64, n+1), make([]float64, n), make([]float64, n)
	for i := range xs {
		xs[i] = float64(i) * 0.333
		if i < n {
			low[i], high[i] = 50, float64(i%2)
		}
	}
	f := Figure{ID: "f", W: 400, H: 60}
	f.Band(xs, low, high, "fan0")
	var right float64
	for part := range strings.SplitSeq(strings.ReplaceAll(f.b.String(), "v", " v"), "h") {
		number, _, _ := strings.Cut(part, " ")
		var v float64
		if err := xml.Unmarshal([]byte("<v>"+number+"</v>"), &v); err == nil && v > 0 {
			right += v
		}
	}
	if want := math.Round(xs[n]*10) / 10; math.Abs(right-want) > 0.05 {
		t.Errorf("the steps go %v to the right, want %v", right, want)
	}
	if b := f.b.Bytes(); bytes.Contains(b, []byte("NaN")) {
		t.Errorf("a position is no number: %.200s", b)
	}
}
