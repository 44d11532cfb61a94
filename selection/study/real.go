package study

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/selection"
)

// The responses of the real data.
const (
	Iterations = "y_iterations_per_s"
	Writes     = "y_write_mb_per_s"
)

// Real reads recorded counters of a machine, taken at 1 s, on which two applications and a disturber ran. The response
// is one of the two applications; its true dependencies are unknown.
func Real(compressed io.Reader, response string) (*Case, error) {
	plain, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, fmt.Errorf("reading the recorded counters: %w", err)
	}
	lines, err := csv.NewReader(plain).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the recorded counters: %w", err)
	}
	c := &Case{Table: &selection.Table{}}
	for i, name := range lines[0] {
		values := make([]float64, len(lines)-1)
		for t, line := range lines[1:] {
			if values[t], err = strconv.ParseFloat(line[i], 64); err != nil {
				return nil, fmt.Errorf("reading the recorded counters: column %s, line %d: %w", name, t+2, err)
			}
		}
		switch {
		case name == "chunk":
			for t, v := range values {
				if t == 0 || v != values[t-1] {
					c.Chunks = append(c.Chunks, nil)
				}
				c.Chunks[len(c.Chunks)-1] = append(c.Chunks[len(c.Chunks)-1], t)
				c.Table.Start = append(c.Table.Start, int64(t)*1000)
			}
		case name == response:
			c.Table.Responses = []selection.Response{{Name: name, Values: values}}
		case !strings.HasPrefix(name, "y_"):
			columns := []selection.Column{{Values: values}}
			c.Table.Metrics = append(c.Table.Metrics, selection.Metric{Name: name, Columns: columns})
			c.Loads = append(c.Loads, nil)
		}
	}
	return c, nil
}
