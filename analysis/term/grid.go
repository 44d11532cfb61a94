package term

import (
	"slices"
	"strings"
)

// column is a column of a table.
type column struct {
	head  string
	right bool // numbers stand at the right
	// drop orders the columns that a narrow terminal lacks, the largest first; 0 always stays.
	drop int
	// least is the width to which a column of names may be cut; 0: it is never cut.
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

// grid writes columns as a table that fits the terminal: it leaves out what may be missing, then narrows the gaps, then
// cuts names.
func (t *text) grid(columns []column) {
	columns = slices.Clone(columns)
	gap := 2
	need := func() int {
		n := gap * (len(columns) - 1)
		for i := range columns {
			n += columns[i].width()
		}
		return n
	}
	for need() > t.cells() {
		at := -1
		for i := range columns {
			if columns[i].drop > 0 && (at < 0 || columns[i].drop > columns[at].drop) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		columns = slices.Delete(columns, at, at+1)
	}
	if need() > t.cells() {
		gap = 1
	}
	for i := range columns {
		if over, c := need()-t.cells(), &columns[i]; over > 0 && c.least > 0 && c.width() > c.least {
			to := max(c.least, c.width()-over, width(c.head))
			c.cells = slices.Clone(c.cells)
			for k := range c.cells {
				c.cells[k] = t.clean(c.cells[k], to)
			}
		}
	}
	widths := make([]int, len(columns))
	for i := range columns {
		widths[i] = columns[i].width()
	}
	for row := -1; len(columns) > 0 && row < len(columns[0].cells); row++ {
		var line strings.Builder
		for i := range columns {
			c := &columns[i]
			text, color := c.head, ""
			if row >= 0 {
				text = c.cells[row]
				if c.color != nil {
					color = c.color[row]
				}
			}
			if i > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			space := strings.Repeat(" ", max(0, widths[i]-width(text)))
			if text = t.paint(color, text); c.right {
				text = space + text
			} else {
				text += space
			}
			line.WriteString(text)
		}
		t.line(line.String())
	}
}
