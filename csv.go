package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"

	"github.com/weirhpc/weir/schemas"
)

// printCSV prints rows as RFC 4180 has them, but for its line ends: the names and the numbers are those of the JSON. A
// list stays JSON, and what is unknown is empty.
func printCSV[T any](w io.Writer, rows []T) error {
	out := csv.NewWriter(w)
	var none T
	names, _, err := fields(none)
	if err == nil {
		err = out.Write(names)
	}
	for i := 0; i < len(rows) && err == nil; i++ {
		var values []string
		if _, values, err = fields(rows[i]); err == nil {
			err = out.Write(values)
		}
	}
	out.Flush()
	if err = cmp.Or(err, out.Error()); err != nil {
		return fmt.Errorf("printing CSV: %w", err)
	}
	return nil
}

// fields returns the names and the values of a row, in the order of its JSON.
func fields(row any) (names, values []string, err error) {
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
		}
		names, values = append(names, fmt.Sprint(name)), append(values, schemas.Printable(cell))
	}
	return names, values, nil
}

// printRows prints rows for programs, as JSON or as CSV.
func printRows[T any](w io.Writer, asCSV bool, rows []T) error {
	if asCSV {
		return printCSV(w, rows)
	}
	return printJSON(w, rows)
}
