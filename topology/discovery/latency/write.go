package latency

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// forms of a file.
const (
	triangle = "triangle" // the shortest: a line for each node with its latencies to the nodes after it
	Square   = "square"   // with a line and a column of names
	Pairs    = "pairs"    // a line for each pair that was measured
)

// forms returns all forms.
func forms() []string { return []string{triangle, Square, Pairs} }

// digits of a latency. Seven are a millionth of it, which no clock measures.
const digits = 7

// Write writes the matrix in a form that Read reads. Pairs that were not measured are empty fields, or absent lines.
func (m *Matrix) Write(w io.Writer, form string) error {
	out := bufio.NewWriterSize(w, 1<<16)
	if m.TickUs > 0 {
		fmt.Fprintf(out, "# tick_us: %g\n", m.TickUs)
	}
	if m.Noise > 0 {
		fmt.Fprintf(out, "# noise: %.4g\n", m.Noise)
	}
	switch form {
	case triangle:
		m.writeTriangle(out)
	case Square:
		m.writeSquare(out)
	case Pairs:
		m.writePairs(out)
	default:
		return fmt.Errorf("the form %.20q must be one of %s", form, strings.Join(forms(), ", "))
	}
	return out.Flush()
}

func (m *Matrix) writeNames(w *bufio.Writer) {
	fmt.Fprintf(w, "# names: %s\n", strings.Join(m.names, ","))
}

func (m *Matrix) writeTriangle(w *bufio.Writer) {
	m.writeNames(w)
	for a := range m.Len() - 1 {
		for b := a + 1; b < m.Len(); b++ {
			if b > a+1 {
				_ = w.WriteByte(',')
			}
			_, _ = w.WriteString(text(m.At(a, b)))
		}
		_ = w.WriteByte('\n')
	}
}

func (m *Matrix) writeSquare(w *bufio.Writer) {
	fmt.Fprintf(w, "node,%s\n", strings.Join(m.names, ","))
	for a, name := range m.names {
		_, _ = w.WriteString(name)
		for b := range m.names {
			_ = w.WriteByte(',')
			if a == b {
				_ = w.WriteByte('0')
			} else {
				_, _ = w.WriteString(text(m.At(a, b)))
			}
		}
		_ = w.WriteByte('\n')
	}
}

// writePairs writes the names as a comment, because a node may lack any latency, and to keep their order.
func (m *Matrix) writePairs(w *bufio.Writer) {
	m.writeNames(w)
	_, _ = w.WriteString("a,b,latency_us\n")
	for a := range m.names {
		for b := a + 1; b < m.Len(); b++ {
			if us := m.At(a, b); !math.IsNaN(us) {
				fmt.Fprintf(w, "%s,%s,%s\n", m.names[a], m.names[b], text(us))
			}
		}
	}
}

func text(us float64) string {
	if math.IsNaN(us) {
		return ""
	}
	return strconv.FormatFloat(us, 'g', digits, 64)
}
