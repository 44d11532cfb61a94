package selection

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// ResponseValue is a value that an application reported for an interval.
type ResponseValue struct {
	JobID   string
	Restart string // as decimal digits
	At      int64  // milliseconds: the interval's start, or a time within it
	Value   float64
}

// ReadResponse reads a CSV with columns job_id, restart, interval_start and value. Without restart, all values belong
// to the first life. Times are Unix milliseconds or seconds, or RFC 3339.
func ReadResponse(from io.Reader) (values []ResponseValue, notes []string, err error) {
	t, err := readResponse(from)
	if err != nil {
		return nil, nil, err
	}
	for i, v := range t.Responses[0].Values {
		if math.IsNaN(v) {
			continue
		}
		job, restart, _ := strings.Cut(t.Units[t.Unit[i]], "/")
		values = append(values, ResponseValue{JobID: job, Restart: restart, At: t.Start[i], Value: v})
	}
	if len(values) == 0 {
		return nil, nil, fmt.Errorf("%w: column value has no number", ErrCSV)
	}
	return values, t.Notes, nil
}

func readResponse(from io.Reader) (*Table, error) {
	s, err := openSheet(from)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"job_id", "interval_start", "value"} {
		if !slices.Contains(s.names, name) {
			return nil, fmt.Errorf("%w: no column is called %s: there are %s; a file of responses has job_id, "+
				"restart, "+
				"interval_start, value", ErrCSV, name, someOf(s.names))
		}
	}
	p := csvTable{sheet: s, timeAt: slices.Index(s.names, "interval_start"), unitAt: map[string]int{}}
	for _, name := range unitColumns[:2] {
		if at := slices.Index(s.names, name); at >= 0 {
			p.unitAt[name] = at
		}
	}
	p.columns = []csvColumn{{name: "value", at: slices.Index(s.names, "value"), response: true}}
	return p.read()
}
