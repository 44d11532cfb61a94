package term

import (
	"slices"
	"strings"
)

// column is a column of a table.
type column struct {
	head  string
	right bool // numbers stand at the right
	// drop orders the columns to be left out on a narrow terminal, the largest first; 0: never left out.
	drop int
	// least is the width down to which a column of names may be cut; 0: never cut.
	least int
	cells []string // cleaned, one a row
	color []string // a colour for each row; may be nil
}

func (c *column) width() int {
	w := width(c.head)
	for _, text := range c.cells {
		w = max(w, width(text))
	}
	return w
}

// grid writes columns as a table that fits the terminal.
func (t *text) grid(columns []column) {
	columns, gap := t.fit(columns)
	if len(columns) == 0 {
		return
	}
	widths := make([]int, len(columns))
	for i := range columns {
		widths[i] = columns[i].width()
	}
	for row := -1; row < len(columns[0].cells); row++ {
		var line strings.Builder
		for i := range columns {
			if i > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			line.WriteString(t.cell(&columns[i], row, widths[i]))
		}
		t.line(line.String())
	}
}

// cell is a padded cell of a row; row -1 is the head.
func (t *text) cell(c *column, row, cells int) string {
	text, color := c.head, ""
	if row >= 0 {
		text = c.cells[row]
		if c.color != nil {
			color = c.color[row]
		}
	}
	space := strings.Repeat(" ", max(0, cells-width(text)))
	if text = t.paint(color, text); c.right {
		return space + text
	}
	return text + space
}

// fit leaves out columns that may be dropped until the rest fits the terminal. If that is not enough, it narrows the
// gaps, and then cuts names.
func (t *text) fit(columns []column) (fitting []column, gap int) {
	columns, gap = slices.Clone(columns), 2
	over := func() int {
		n := gap * (len(columns) - 1)
		for i := range columns {
			n += columns[i].width()
		}
		return n - t.cells()
	}
	for over() > 0 {
		at := dropped(columns)
		if at < 0 {
			break
		}
		columns = slices.Delete(columns, at, at+1)
	}
	if over() > 0 {
		gap = 1
	}
	for i := range columns {
		if n, c := over(), &columns[i]; n > 0 && c.least > 0 && c.width() > c.least {
			to := max(c.least, c.width()-n, width(c.head))
			c.cells = slices.Clone(c.cells)
			for k := range c.cells {
				c.cells[k] = t.clean(c.cells[k], to)
			}
		}
	}
	return columns, gap
}

// dropped returns the column that a narrow terminal drops first; -1 if all must stay.
func dropped(columns []column) int {
	at := -1
	for i := range columns {
		if columns[i].drop > 0 && (at < 0 || columns[i].drop > columns[at].drop) {
			at = i
		}
	}
	return at
}
