package cli

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/schemas"
)

// CSVFlags select whether and how a command prints comma-separated values.
type CSVFlags struct{ AsCSV, Raw bool }

// Add adds the flags to a command.
func (f *CSVFlags) Add(c *cobra.Command) {
	c.Flags().BoolVar(&f.AsCSV, "csv", false, "print comma-separated values")
	c.Flags().BoolVar(&f.Raw, "raw", false, "with --csv: put no ' before texts that a spreadsheet takes for formulas")
}

// formula reports whether a spreadsheet would compute a text instead of showing it. Users choose the names of their
// jobs, so these may be formulas.
func formula(text string) bool { return text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) }

// PrintCSV prints rows by RFC 4180, except for its line ends. Names and numbers are the same as in the JSON. A list
// stays JSON, and an unknown value is empty. Unless raw is set, a text that begins like a formula gets a ' before it,
// as OWASP advises.
func PrintCSV[T any](w io.Writer, raw bool, rows []T) error {
	out := csv.NewWriter(w)
	var none T
	names, _, err := Fields(none, raw)
	if err == nil {
		err = out.Write(names)
	}
	for i := 0; i < len(rows) && err == nil; i++ {
		var values []string
		if _, values, err = Fields(rows[i], raw); err == nil {
			err = out.Write(values)
		}
	}
	out.Flush()
	if err = cmp.Or(err, out.Error()); err != nil {
		return fmt.Errorf("printing CSV: %w", err)
	}
	return nil
}

// Fields returns the names and the values of a row, in the order of its JSON.
func Fields(row any, raw bool) (names, values []string, err error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(row); err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(&text)
	if _, err := d.Token(); err != nil { // the brace
		return nil, nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		cell := string(value)
		if cell == "null" {
			cell = ""
		} else if value[0] == '"' {
			if err := json.Unmarshal(value, &cell); err != nil {
				return nil, nil, err
			}
			if !raw && formula(cell) {
				cell = "'" + cell
			}
		}
		names, values = append(names, fmt.Sprint(name)), append(values, schemas.Printable(cell))
	}
	return names, values, nil
}

// PrintRows prints rows for programs, as JSON or as CSV.
func PrintRows[T any](w io.Writer, f CSVFlags, rows []T) error {
	if f.AsCSV {
		return PrintCSV(w, f.Raw, rows)
	}
	return PrintJSON(w, rows)
}
