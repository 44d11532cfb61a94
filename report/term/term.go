// Package term writes what a job did as text for a terminal. It knows nothing of files and brokers.
//
// Every datum is cleaned before it is written: names of jobs, users and nodes hold whatever their authors chose. Colour
// repeats words, and never carries meaning alone.
package term

import (
	"io"
	"strings"

	_ "github.com/gdamore/tcell/v2" // the screen of weir top
	"github.com/rivo/uniseg"

	"github.com/weirhpc/weir/schemas"
)

// Style is what the reader's terminal can show.
type Style struct {
	Width int  // cells of a line; 0 is 80
	ASCII bool // it shows nothing but ASCII
	Color bool // it understands control sequences

	Where string // flags that say where a job is read, each after a space, for the commands that a report names
}

// Widths that the reports are made for. Below narrow there are names and numbers alone.
const (
	narrow  = 60
	usual   = 80
	wide    = 120
	longest = 500 // no line needs more
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

// Clean returns a text as it may be written to a terminal that shows UTF-8. Characters that drive a terminal become
// question marks. A text that needs more than so many cells ends in an ellipsis.
func Clean(text string, cells int) string { return cut(text, cells, "…") }

// clean is Clean for the reader's terminal.
func (s Style) clean(text string, cells int) string {
	if !s.ASCII {
		return Clean(text, cells)
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

// width is the number of cells that a cleaned text takes.
func width(text string) int { return uniseg.StringWidth(text) }

// left and right pad a cleaned text with spaces, behind and before it.
func left(text string, cells int) string {
	return text + strings.Repeat(" ", max(0, cells-width(text)))
}

func right(text string, cells int) string {
	return strings.Repeat(" ", max(0, cells-width(text))) + text
}

// flow joins parts with a gap, and begins a new line where the next part would not fit.
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

// Colours are those that a terminal's user has chosen for their numbers.
const (
	red    = "31"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
)

// paint colours a text that is padded already. The text is ours.
func (s Style) paint(color, text string) string {
	if !s.Color || color == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// colorOf is the colour of a finding's class.
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

// text collects the lines of a report, which is written at once.
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
