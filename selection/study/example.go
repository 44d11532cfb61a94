package study

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"

	"github.com/weirhpc/weir/selection"
)

// exampleSeed is the seed of the worked example in docs/selection.md.
const exampleSeed = 17

// Example is the table of the worked example: an application on six machines, and nine factors that decide its rate.
func Example() *selection.Table { return Cactus(exampleSeed).Table }

// WriteCSV writes a table in the form that weir metrics select reads: a time in seconds, the first column of each
// metric, and the responses.
func WriteCSV(w io.Writer, t *selection.Table) error {
	out := csv.NewWriter(w)
	head, columns := []string{"t"}, [][]float64{}
	for _, m := range t.Metrics {
		head, columns = append(head, m.Name), append(columns, m.Columns[0].Values)
	}
	for _, r := range t.Responses {
		head, columns = append(head, r.Name), append(columns, r.Values)
	}
	if err := out.Write(head); err != nil {
		return err
	}
	row := make([]string, len(head))
	for i, start := range t.Start {
		row[0] = strconv.FormatFloat(float64(start)/1000, 'f', -1, 64)
		for k, x := range columns {
			row[k+1] = ""
			if v := x[i]; !math.IsNaN(v) {
				row[k+1] = strconv.FormatFloat(v, 'g', 9, 64)
			}
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
