// Package term writes reports about jobs and the machine as text for a terminal. It knows nothing of files and brokers.
//
// Every datum is cleaned before it is written: names of jobs, users and nodes may hold any characters. Colour repeats
// words, and never carries meaning alone.
package term

import (
	"io"
	"strings"

	_ "github.com/gdamore/tcell/v2" // the screen of weir top
	"github.com/rivo/uniseg"

	"github.com/weirhpc/weir/schemas"
)

// Style describes the capabilities of the reader's terminal.
type Style struct {
	Width int  // cells of a line; 0 is 80
	ASCII bool // the terminal shows ASCII only
	Color bool // the terminal understands control sequences

	Where string // flags that select the source of a job, each after a space, for the commands that a report suggests
}

// Widths for which the reports are designed. Below narrow they consist of names and numbers alone.
const (
	narrow  = 60
	usual   = 80
	wide    = 120
	longest = 500 // no line needs to be longer
)

// cells is the width of a line.
func (s Style) cells() int {
	if s.Width <= 0 {
		return usual
	}
	return min(max(s.Width, 20), longest)
}

// marksOfOne bounds the runes of one character, so that a heap of accents stays in its line.
const marksOfOne = 8

// clean returns a text that is safe to write to a terminal with UTF-8. Characters that drive a terminal become question
// marks. A text that needs more than the given cells ends in an ellipsis.
func clean(text string, cells int) string { return cut(text, cells, "…") }

// clean is Clean for the reader's terminal.
func (s Style) clean(text string, cells int) string {
	if !s.ASCII {
		return clean(text, cells)
	}
	text = strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return '?'
		}
		return r
	}, text)
	return cut(text, cells, "~")
}

// cut keeps as many characters as fit. Its mark takes one cell.
func cut(text string, cells int, mark string) string {
	var kept strings.Builder
	used, before := 0, 0 // before: bytes that leave a cell for the mark
	state := -1
	for rest := schemas.Printable(text); rest != ""; {
		var one string
		var width int
		one, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+width > cells {
			if cells < 1 {
				return ""
			}
			return kept.String()[:before] + mark
		}
		used += width
		for i, r := range []rune(one) {
			if i < marksOfOne {
				kept.WriteRune(r)
			}
		}
		if used < cells {
			before = kept.Len()
		}
	}
	return kept.String()
}

// width returns the number of cells that a cleaned text takes.
func width(text string) int { return uniseg.StringWidth(text) }

// left and right pad a cleaned text with spaces, behind and before it.
func left(text string, cells int) string {
	return text + strings.Repeat(" ", max(0, cells-width(text)))
}

func right(text string, cells int) string {
	return strings.Repeat(" ", max(0, cells-width(text))) + text
}

// flow joins parts with a gap, and begins a new line if the next part would not fit.
func flow(parts []string, gap string, cells int) (lines []string) {
	line := ""
	for _, p := range parts {
		switch {
		case p == "":
		case line == "":
			line = p
		case width(line)+width(gap)+width(p) > cells:
			lines = append(lines, strings.TrimRight(line, " "))
			line = p
		default:
			line += gap + p
		}
	}
	if line != "" {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// wrap breaks a cleaned text between words. A word that is longer than a line stays whole.
func wrap(text string, cells int) []string { return flow(strings.Fields(text), " ", cells) }

// Colours are given as numbers, so that the user's palette applies.
const (
	red    = "31"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
)

// paint colours a padded text. The text must be clean.
func (s Style) paint(color, text string) string {
	if !s.Color || color == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// colorOf returns the colour of a finding's class.
func colorOf(class string) string {
	switch class {
	case schemas.ClassHigh:
		return red
	case schemas.ClassMed:
		return yellow
	case schemas.ClassLow:
		return cyan
	}
	return ""
}

// text collects the lines of a report, to write them at once.
type text struct {
	Style
	b strings.Builder
}

// line adds a line without spaces at its end.
func (t *text) line(parts ...string) {
	t.b.WriteString(strings.TrimRight(strings.Join(parts, ""), " "))
	t.b.WriteByte('\n')
}

func (t *text) lines(lines []string) {
	for _, l := range lines {
		t.line(l)
	}
}

// hanging adds a text that is wrapped. Its first line begins with head, the others with as many spaces as indent.
func (t *text) hanging(head string, headCells, indent int, body string) {
	words := strings.Fields(body)
	first := max(t.cells()-headCells, 8)
	n, used := 0, 0
	for n < len(words) && (n == 0 || used+1+width(words[n]) <= first) {
		if n > 0 {
			used++
		}
		used += width(words[n])
		n++
	}
	t.line(head, strings.Join(words[:n], " "))
	for _, l := range flow(words[n:], " ", max(t.cells()-indent, 8)) {
		t.line(strings.Repeat(" ", indent), l)
	}
}

func (t *text) print(w io.Writer) error {
	_, err := io.WriteString(w, t.b.String())
	return err
}
