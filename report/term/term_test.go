package term

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// hostile is a text that clears a terminal, hides itself, turns its direction, and begins lines of its own.
const hostile = "a\x1b[2J\u009b2J\x7f\u202e\u2066\u200b\r\nsink\tb\U000e0001c\xff"

// TestAPartIsNotJudged: a job of which rules saw a part is not called one without findings.
func TestAPartIsNotJudged(t *testing.T) {
	for _, part := range []bool{false, true} {
		if l := (&view.Job{Part: part, Map: []view.Property{{Rule: "r"}}}).Line(); l.Judged == part {
			t.Errorf("a part %t: judged %t", part, l.Judged)
		}
	}
}

// TestCleanNames: names come from users. Whatever they hold, they drive no terminal and take no more than their cells.
func TestCleanNames(t *testing.T) {
	wide := strings.Repeat("漢", 64)
	heap := "x" + strings.Repeat("\u0301", 1000)
	for name, c := range map[string]struct {
		text  string
		cells int
		want  string
	}{
		"as it is":        {"alice", 8, "alice"},
		"fits exactly":    {"alice", 5, "alice"},
		"too long":        {"alicebob", 5, "alic…"},
		"wide characters": {wide, 8, "漢漢漢…"},
		"half a wide one": {"漢漢", 3, "漢…"},
		"no half of one":  {wide, 4, "漢…"},
		"no room":         {"alice", 0, ""},
		"one cell":        {"alice", 1, "…"},
		"combining marks": {"e\u0301a\u0308", 2, "e\u0301a\u0308"},
		"marks cut":       {"e\u0301abc", 2, "e\u0301…"},
		"heap of marks":   {heap, 8, "x" + strings.Repeat("\u0301", marksOfOne-1)},
		"right to left":   {"\u05d0\u05d1\u05d2", 8, "\u05d0\u05d1\u05d2"},
		"direction":       {"a\u202eb", 8, "a?b"},
		"escape":          {"a\x1b[31mb", 8, "a?[31mb"},
		"line end":        {"a\nb\tc", 8, "a?b?c"},
		"no UTF-8":        {"a\xffb", 8, "a?b"},
		"nothing":         {"", 8, ""},
	} {
		if got := clean(c.text, c.cells); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := (Style{ASCII: true}).clean("Jürgen 漢字 e\u0301", 40); got != "J?rgen ?? e?" {
		t.Errorf("ASCII: %q", got)
	}
	if got := (Style{ASCII: true}).clean(wide, 5); got != "????~" {
		t.Errorf("ASCII, cut: %q", got)
	}
}

// FuzzClean holds what every reader relies on.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"alice", hostile, "漢字", "e\u0301", "\u0301", "👩‍👩‍👧", "🇩🇪🇫🇷", "\u1100\u1161\u11a8"} {
		f.Add(seed, 5)
	}
	f.Fuzz(func(t *testing.T, text string, cells int) {
		cells = cells % 100
		got := clean(text, cells)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q drives a terminal: %q", text, got)
		}
		if w := uniseg.StringWidth(got); w > max(0, cells) {
			t.Errorf("%q takes %d of %d cells: %q", text, w, cells, got)
		}
		for _, r := range (Style{ASCII: true}).clean(text, cells) {
			if r >= 0x80 || r < ' ' {
				t.Errorf("%q is not ASCII: %q", text, r)
			}
		}
	})
}

// TestNumbersAreForPeople: three digits, prefixes from 1 up, and no share that looks like nothing or like all.
func TestNumbersAreForPeople(t *testing.T) {
	s := Style{}
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0.31, "1", "0.31"},
		{0.3149, "1", "0.315"},
		{0, "FLOP/s", "0 F/s"},
		{2.41e9, "FLOP/s", "2.41 GF/s"},
		{999.6e6, "FLOP/s", "1 GF/s"},
		{999.4e6, "FLOP/s", "999 MF/s"},
		{92e9, "B", "92 GB"},
		{-1500, "B/s", "-1.5 kB/s"},
		{0.5, "B/s", "0.5 B/s"},
		{12.34, "1", "12.3"},
		{1234, "1/s", "1.23 k/s"},
		{47, "degC", "47 C"},
		{1e300, "B", "1e+300 B"},
		{1e-9, "1", "1e-09"},
		{math.NaN(), "B", "-"},
		{math.Inf(1), "B", "+Inf B"},
		{1, hostile, "1 a?[2J?2…"},
	} {
		if got := s.value(c.v, c.unit, false); got != c.want {
			t.Errorf("%v %q: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
	for v, want := range map[float64]string{
		0: "0 %", 1e-6: "<0.1 %", 0.0004: "<0.1 %", 0.004: "0.4 %", 0.02: "2 %", 0.994: "99 %", 0.996: "99.6 %",
		0.99999: "99.9 %", 1: "100 %", 1.5: "150 %", -0.2: "-20 %", 1e9: "1e+11 %",
	} {
		if got := percent(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.996: "99.6 %", 0.99999: "99.9 %", 1: "100 %", 0: "0.0 %"} {
		if got := tenths(v); got != want {
			t.Errorf("%v seen: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.0038: "0.4 %", 0.00001: "0.1 %", 0.004: "0.4 %", 0.0041: "0.5 %"} {
		if got := view.Bound(v); got != want {
			t.Errorf("error of %v: %q, want %q, which is no less", v, got, want)
		}
	}
	for v, want := range map[float64]string{
		0: "0:00:00", 3661.9: "1:01:01", 48 * 3600: "48:00:00", -1: "-", 8760 * 3600: "8760:00:00",
	} {
		if got := clock(v); got != want {
			t.Errorf("%v s: %q, want %q", v, got, want)
		}
	}
	for ms, want := range map[int64]string{
		500: "500 ms", 10_000: "10 s", 60_000: "1 min", 90_000: "90 s", 3_600_000: "1 h",
	} {
		if got := span(ms); got != want {
			t.Errorf("%d ms: %q, want %q", ms, got, want)
		}
	}
}

// TestPicturesTellTheTruth: what is not nothing has a bar, and a band stays in its cells, whatever the values.
func TestPicturesTellTheTruth(t *testing.T) {
	for share, want := range map[float64]string{
		0: "    ", 0.001: "|   ", 0.5: "||  ", 1: "||||", 7: "||||", -1: "    ",
	} {
		if got := bar(share, 4); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
	const most = math.MaxFloat64
	s := Style{ASCII: true}
	for want, c := range map[string]struct {
		d         [11]float64
		low, high float64
	}{
		"--------|.": {[11]float64{0, 0, 1, 2, 3, 4, 4, 4, 4, 4.4, 5}, 0, 5},
		"     |    ": {[11]float64{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, 7, 7},
		"    ..--|.": {[11]float64{.4, .6, .7, .7, .8, .8, .8, .8, .8, .8, .95}, 0, 1},
		"          ": {[11]float64{nan, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 1},
		".....|....": {[11]float64{-most, 0, 0, 0, 0, 0, 0, 0, 0, 0, most}, -most, most},
	} {
		if got := s.band(&c.d, c.low, c.high, 10); got != want {
			t.Errorf("%v: %q, want %q", c.d, got, want)
		}
	}
}

// TestSparklineIsTheMedian: a job at 93 % with a short outage in every span is drawn at 93 %, and a change that lasts
// shows.
func TestSparklineIsTheMedian(t *testing.T) {
	j := made()
	m := &j.Metrics[2]
	for i := range m.Bins {
		b := &m.Bins[i]
		b.D5Min, b.D5Max, b.D5Mean = 0, 0.93, 0.93
		if i%4 == 0 {
			b.D5Mean = 0.01
		}
		if i >= len(m.Bins)/2 {
			b.D5Mean = 0.31
		}
	}
	got := columns(j, m, 10)
	if !slices.Equal(got[:5], slices.Repeat([]float64{0.93}, 5)) || !slices.Equal(got[6:], slices.Repeat([]float64{0.31}, 4)) {
		t.Errorf("the medians are %v", got)
	}
	short := without()
	one := dist(short, "ipc", "1", 1, late(1, 1), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	if got := columns(short, &one, 16); len(got) != 1 || got[0] != 1 {
		t.Errorf("a job of one interval has %v", got)
	}
	one.Bins[0].D5Mean = nan
	if got := (Style{}).spark(columns(short, &one, 16), false); got != " " {
		t.Errorf("an interval without values is %q", got)
	}
}

// TestLinesFit: no line is longer than the terminal, but for names of jobs and lines that are there to be copied.
func TestLinesFit(t *testing.T) {
	for _, width := range []int{40, 60, 61, 70, 79, 80, 100, 119, 120, 121, 200} {
		for _, ascii := range []bool{false, true} {
			var b bytes.Buffer
			if err := Job(&b, made(), Style{Width: width, ASCII: ascii}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if uniseg.StringWidth(line) > width && !strings.Contains(line, "#SBATCH") {
					t.Errorf("%d cells: %q", width, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("spaces at the end of %q", line)
				}
			}
			if ascii && strings.ContainsFunc(b.String(), func(r rune) bool { return r >= 0x80 }) {
				t.Errorf("%d cells: not ASCII: %s", width, b.String())
			}
		}
	}
}

// TestColourRepeatsWords: without colours nothing is lost.
func TestColourRepeatsWords(t *testing.T) {
	for name, show := range shows {
		var plain, colored bytes.Buffer
		if err := show(&plain, Style{Width: 80}); err != nil {
			t.Fatal(err)
		}
		if err := show(&colored, Style{Width: 80, Color: true}); err != nil {
			t.Fatal(err)
		}
		text := colored.String()
		for _, color := range []string{red, yellow, cyan, bold, "0"} {
			text = strings.ReplaceAll(text, "\x1b["+color+"m", "")
		}
		if text != plain.String() {
			t.Errorf("%s: %s differs from %s", name, text, &plain)
		}
		if strings.Contains(plain.String(), "\x1b") {
			t.Errorf("%s: colours that nobody asked for", name)
		}
	}
}

// TestWordsAreThoseOfFindings: a bar is bad while a rule holds, well if one was evaluated, and else without a word.
func TestWordsAreThoseOfFindings(t *testing.T) {
	words := func(j *view.Job) (all []string) {
		for _, u := range j.Uses() {
			all = append(all, u.Name+" "+u.Word)
		}
		return all
	}
	j := made()
	want := []string{"busy cores low", "FLOPs of peak", "memory bandwidth bound", "memory ok"}
	if diff := cmp.Diff(want, words(j)); diff != "" {
		t.Errorf("open findings: %s", diff)
	}
	for i := range j.Findings {
		j.Findings[i].State = schemas.FindingClosed
	}
	want = []string{"busy cores ok", "FLOPs of peak", "memory bandwidth ok", "memory ok"}
	if diff := cmp.Diff(want, words(j)); diff != "" {
		t.Errorf("closed findings: %s", diff)
	}
	j.Findings = []schemas.Finding{
		found(j, "memory-full", schemas.ClassHigh, "", ""), found(j, "low-use", schemas.ClassLow, "", ""),
	}
	want = []string{"busy cores ok", "FLOPs low", "memory bandwidth low", "memory full"}
	if diff := cmp.Diff(want, words(j)); diff != "" {
		t.Errorf("other findings: %s", diff)
	}
	j.Findings, j.NotEvaluated = nil, nil
	want = []string{"busy cores ", "FLOPs of peak", "memory bandwidth of peak", "memory "}
	if diff := cmp.Diff(want, words(j)); diff != "" {
		t.Errorf("no rule: %s", diff)
	}
}

// TestWideTerminals: from 120 cells on there are means, extremes, and the nodes that are lowest and highest.
func TestWideTerminals(t *testing.T) {
	for width, want := range map[int]bool{80: false, 119: false, 120: true} {
		var b bytes.Buffer
		if err := Job(&b, made(), Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if got := strings.Contains(text, "  mean  ") && strings.Contains(text, "  low   high"); got != want {
			t.Errorf("%d cells: %s", width, text)
		}
	}
}

// TestMemoryOfSeveralJobsIsThatOfTheList: each line of several jobs has the memory that weir jobs shows.
func TestMemoryOfSeveralJobsIsThatOfTheList(t *testing.T) {
	total := func(name string, most float64) view.Metric {
		m := view.Metric{Name: name, Unit: "B"}
		m.Total.Count, m.Total.D[10] = 1, most
		return m
	}
	j := &view.Job{Metrics: []view.Metric{total("job_mem_used", 8)}}
	if got := j.Line().MemPerNode; got == nil || *got != 8 {
		t.Errorf("of the job alone: %v", got)
	}
	j.Metrics = append(j.Metrics, total("mem_used", 90))
	if got := j.Line().MemPerNode; got == nil || *got != 90 {
		t.Errorf("of its nodes: %v", got)
	}
}
