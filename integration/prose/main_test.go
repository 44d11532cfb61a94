package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// long is a sentence of n words, without a full stop.
func long(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }

func TestSentences(t *testing.T) {
	for text, want := range map[string][]string{
		"One. Two.":                        {"One.", "Two."},
		"weir reads. numpy agrees.":        {"weir reads.", "numpy agrees."},
		"It takes 3.5 s, e.g. here. Next":  {"It takes 3.5 s, e.g. here.", "Next"},
		"See `a.b. c` and `d`. *Then* go!": {"See `a.b. c` and `d`.", "*Then* go!"},
		"(A note.) **Bold.** Rest":         {"(A note.)", "**Bold.**", "Rest"},
	} {
		if diff := cmp.Diff(want, sentences(text)); diff != "" {
			t.Errorf("%q: want (-), got (+):\n%s", text, diff)
		}
	}
}

func TestInMarkdown(t *testing.T) {
	code := strings.Repeat("`x y z` ", 20)
	twoLines := long(13) + "\n" + long(13)
	for name, c := range map[string]struct {
		text string
		want []string // line, size and unit
	}{
		"short": {long(12) + "\n" + long(13) + ".\n", nil},
		"long":  {"# Title\n\n" + long(13) + "\n" + long(13) + ".\n", []string{"3: 26 words"}},
		"items are paragraphs": {
			"- " + long(20) + "\n- " + long(20) + "\n1. " + long(26), []string{"3: 132 columns", "3: 26 words"},
		},
		"an item goes on":           {"- " + long(13) + "\n  " + long(13), []string{"1: 26 words"}},
		"cells are paragraphs":      {"| " + long(20) + " | " + long(20) + " |", nil},
		"a cell is read":            {"| a | " + long(26) + " |", []string{"1: 26 words"}},
		"code blocks have no prose": {"```\n" + strings.Repeat("a ", 59) + "\n```\n", nil},
		"code blocks have lines":    {"```\n" + strings.Repeat("a", 121) + "\n```\n", []string{"2: 121 columns"}},
		"code is one word":          {code[:len(code)/2] + "\n" + code[len(code)/2:], nil},
		"addresses are not read": {
			"[" + long(3) + "](a b c d e f)\n" + long(22), nil,
		},
		"an address is not broken": {"- https://example.org/" + strings.Repeat("d", 120), nil},
		"with a reason": {
			"<!-- long: a quotation -->\n" + twoLines + "\n\n" + twoLines, []string{"5: 26 words"},
		},
		"what a program wrote": {"<!-- made by x: begin -->\n\n" + long(40) + "\n<!-- made by x: end -->\n", nil},
		"lines":                {strings.Repeat("a ", 60) + "bb. c", []string{"1: 125 columns", "1: 61 words"}},
	} {
		var got []string
		for _, f := range inMarkdown("page.md", c.text) {
			got = append(got, fmt.Sprintf("%d: %d %s", f.line, f.size, f.unit))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", name, diff)
		}
	}
}

func TestInGo(t *testing.T) {
	comment := "// F does " + long(10) + "\n// " + long(20) + ".\n//\n//\tcode " + long(9) + "\n//\n//   - " + long(9)
	src := "package a\n\n" + comment + "\nfunc F() {}\n"
	found, err := inGo("a.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].size != 32 || found[0].line != 3 {
		t.Errorf("%+v, want the sentence of 32 words in line 3", found)
	}
}

func TestRunEndsWithTheFindings(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	write(long(26))
	status, err := run(&out, dir, false, false)
	if status != 1 || err != nil || !strings.Contains(out.String(), "README.md:1: 26 words") {
		t.Errorf("a long sentence: status %d, %v: %s", status, err, out.String())
	}
	write(long(20) + ".")
	if status, err := run(&out, dir, false, true); status != 0 || err != nil {
		t.Errorf("a short one: status %d, %v", status, err)
	}
}
