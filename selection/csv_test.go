package selection_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/weirhpc/weir/selection"
)

// same reports where what a test got is not what it wants.
func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %#v\nwant %#v", what, got, want)
	}
}

// refused reports an error that is none of the table, or does not say what it has to.
func refused(t *testing.T, err error, says string) {
	t.Helper()
	if !errors.Is(err, selection.ErrCSV) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %v with %q", err, selection.ErrCSV, says)
	}
}

func readCSV(t *testing.T, text string, responses ...string) *selection.Table {
	t.Helper()
	table, err := selection.ReadCSV(strings.NewReader(text), responses)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func column(t *testing.T, table *selection.Table, name string) []float64 {
	t.Helper()
	for _, m := range table.Metrics {
		if m.Name == name {
			return m.Columns[0].Values
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

// Whatever a spreadsheet or a logger made of it, it is the same table, and the report says what was turned.
func TestReadCSVIsTheSameHoweverItIsWritten(t *testing.T) {
	const plain = "t,cpu,mem,y\n0,1.5,,10\n30,2.5,7,11\n60,-3,8,12\n"
	wide := utf16.Encode([]rune("\ufeff" + plain))
	var little, big bytes.Buffer
	for _, u := range wide {
		little.Write([]byte{byte(u), byte(u >> 8)})
		big.Write([]byte{byte(u >> 8), byte(u)})
	}
	german := strings.NewReplacer(",", ";", ".", ",").Replace(plain)
	for name, c := range map[string]struct {
		text  string
		notes []string
	}{
		"plain":         {plain, nil},
		"crlf":          {strings.ReplaceAll(plain, "\n", "\r\n"), nil},
		"bom":           {"\ufeff" + plain, nil},
		"no last end":   {strings.TrimSuffix(plain, "\n"), nil},
		"spaces":        {strings.ReplaceAll(plain, ",", " , "), nil},
		"quotes":        {strings.ReplaceAll(plain, "cpu", `"cpu"`), nil},
		"nan":           {strings.ReplaceAll(plain, ",,", ",NaN,"), nil},
		"semicolon":     {strings.ReplaceAll(plain, ",", ";"), []string{"cells are separated by semicolons"}},
		"tab":           {strings.ReplaceAll(plain, ",", "\t"), []string{"cells are separated by tabs"}},
		"decimal comma": {german, []string{"cells are separated by semicolons", "2 numbers with a decimal comma"}},
		"quoted comma": {
			strings.NewReplacer("1.5", `"1,5"`, "2.5", `"2,5"`).Replace(plain),
			[]string{"2 numbers with a decimal comma"},
		},
		"cr": {
			strings.ReplaceAll(plain, "\n", "\r"), []string{"turned from lines that end in a carriage return"},
		},
		"utf-16":            {little.String(), []string{"turned from UTF-16"}},
		"utf-16 big endian": {big.String(), []string{"turned from UTF-16"}},
	} {
		t.Run(name, func(t *testing.T) {
			table := readCSV(t, c.text, "y")
			same(t, "times", table.Start, []int64{0, 30_000, 60_000})
			same(t, "cpu", column(t, table, "cpu"), []float64{1.5, 2.5, -3})
			mem := column(t, table, "mem")
			same(t, "mem is missing", math.IsNaN(mem[0]), true)
			same(t, "mem", mem[1:], []float64{7, 8})
			same(t, "responses", table.Responses, []selection.Response{{Name: "y", Values: []float64{10, 11, 12}}})
			same(t, "notes", table.Notes, c.notes)
		})
	}
}

// What cannot be a table is an error that names the place and what to do. Nothing is guessed.
func TestReadCSVRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"nothing":           {"", "it is empty"},
		"names alone":       {"t,a,y\n", "no row has values: there is none below the names"},
		"no response":       {"t,a,b\n0,1,2\n", `no column is called "y", as the response is: there are t, a, b`},
		"no metric":         {"t,y\n0,1\n", "no column is a metric"},
		"numbers as names":  {"0,1,2\n3,4,5\n", "the first line has numbers"},
		"twice":             {"t,a,a,y\n0,1,2,3\n", `columns 2 and 3 are both called "a"`},
		"cut":               {"t,a,y\n0,1,2\n30,1\n", "line 3 has 2 cells and the line of names 3: is the file cut"},
		"decimal comma":     {"t,a,y\n0,1,5,2\n", "with decimal commas the separator must be a semicolon"},
		"both kinds":        {"t;a;y\n0;1,5;2\n30;1.5;2\n", "1 number with a comma and 1 with a point"},
		"thousands":         {"t;a;y\n0;1.234,5;2\n30;2;3\n", `"1.234,5" has separators between thousands`},
		"zero bytes":        {"t,a\x00,y\n0,1,2\n", "bytes that are zero: save it as text in UTF-8"},
		"odd utf-16":        {"\xff\xfet\x00,", "it is cut"},
		"quote":             {"t,a,y\n0,\"1,2\n", "line 2"},
		"response of words": {"t,a,y\n0,1,fast\n30,2,slow\n", `the response "y" is no number at line 2: "fast"`},
		"words":             {"t,a,y\n0,x,1\n30,z,2\n", "no column has numbers: a"},
		"no time":           {"t,a,y\nnoon,1,1\n", `1 row has no time in column "t"`},
		"dates and numbers": {"t,a,y\n0,1,1\n2026-11-21T00:00:00Z,2,2\n", "dates in 1 rows and numbers in 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := selection.ReadCSV(strings.NewReader(c.text), []string{"y"})
			if name == "numbers as names" {
				_, err = selection.ReadCSV(strings.NewReader(c.text), nil)
			}
			refused(t, err, c.says)
		})
	}
}

// What is left out is counted.
func TestReadCSVCounts(t *testing.T) {
	table := readCSV(t, "t,,node_name,a,b,chunk,\xe9t\xe9,y\n"+
		"0,9,n1,1,inf,0,1,1\n30,9,n1,?,2,0,2,2\nnever,9,n1,3,3,0,3,3\n60,9,n1,oops,4,1,4,4\n90,9,n2,5,1e999,1,5,5\n",
		"y")
	same(t, "times", table.Start, []int64{0, 30_000, 60_000, 90_000})
	same(t, "names", names(table), []string{"a", "b", `\xE9t\xE9`})
	same(t, "Notes", table.Notes, []string{
		"column chunk is left out: it numbers stretches of time",
		"1 column without a name left out",
		`1 name not in UTF-8: bytes are written as \xE9`,
		"1 column of text left out: node_name",
		`1 cell no number, and so missing; the first is in column "a", line 5: "oops"`,
		"2 cells not finite, and so missing",
		"1 row without a time left out",
	})
}

func names(t *selection.Table) (all []string) {
	for _, m := range t.Metrics {
		all = append(all, m.Name)
	}
	return all
}

func TestReadCSVSortsByTimeWithinAUnit(t *testing.T) {
	table := readCSV(t, "time,job_id,restart,a,y\n"+
		"2026-11-21T00:00:20Z,7,1,3,3\n2026-11-21T00:00:10Z,7,1,2,2\n2026-11-21T00:00:00Z,8,0,9,9\n"+
		"2026-11-21T00:00:00Z,7,1,1,1\n2026-11-21T00:00:00Z,7,1,1.5,1.5\n", "y")
	same(t, "Units", table.Units, []string{"7/1", "8/0"})
	same(t, "Unit", table.Unit, []int32{0, 0, 0, 0, 1})
	same(t, "a", column(t, table, "a"), []float64{1, 1.5, 2, 3, 9})
	same(t, "y", table.Responses[0].Values, []float64{1, 1.5, 2, 3, 9})
	same(t, "Notes", table.Notes, []string{
		"3 rows are earlier than the row before: sorted by time",
	})
	table = readCSV(t, "t,a,y\n0,1,1\n0,2,2\n1700000000000,3,3\n", "y")
	same(t, "times", table.Start, []int64{0, 0, 1_700_000_000_000})
	same(t, "Notes", table.Notes, []string{"1 row has the time of the row before"})
}

func TestReadResponse(t *testing.T) {
	values, notes, err := selection.ReadResponse(strings.NewReader(
		"job_id,restart,interval_start,value,remark\n4711,0,1764000000000,3.5,fine\n" +
			"4711,1,1764000010000,,\n4712,0,1764000010000,4,\n"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "notes", notes, nil)
	same(t, "values", values, []selection.ResponseValue{
		{JobID: "4711", Restart: "0", At: 1764000000000, Value: 3.5},
		{JobID: "4712", Restart: "0", At: 1764000010000, Value: 4},
	})
	values, _,
		err = selection.ReadResponse(strings.NewReader("job_id,interval_start,value\n7,2026-11-21T00:00:00Z,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "values", values, []selection.ResponseValue{{JobID: "7", Restart: "0", At: 1795219200000, Value: 1}})
	for text, says := range map[string]string{
		"job_id,start,value\n7,0,1\n":          "no column is called interval_start",
		"job_id,interval_start,value\n7,0,\n":  "column value has no number",
		"job_id,interval_start,value\n7,0,x\n": "the response \"value\" is no number",
	} {
		_, _, err := selection.ReadResponse(strings.NewReader(text))
		refused(t, err, says)
	}
}

// 5,000 metrics are read; 100,001 columns are not.
func TestReadCSVOfManyColumns(t *testing.T) {
	made := func(columns, rows int) string {
		var b strings.Builder
		for i := range columns {
			fmt.Fprintf(&b, "m%d,", i)
		}
		b.WriteString("y\n")
		for range rows {
			b.WriteString(strings.Repeat("1,", columns) + "2\n")
		}
		return b.String()
	}
	table := readCSV(t, made(5000, 3), "y")
	same(t, "metrics", len(table.Metrics), 5000)
	same(t, "times", table.Start, []int64{0, 1000, 2000})
	_, err := selection.ReadCSV(strings.NewReader(made(100_000, 1)), []string{"y"})
	refused(t, err, "100001 columns: at most 100000 are read")
}

// A table that is read is whole: every column has a value a row, finite or missing, and times ascend within a unit.
func FuzzReadCSV(f *testing.F) {
	for _, text := range []string{
		"t,a,y\n0,1,2\n30,2,3\n", "t;a;y\r\n0;1,5;2\r\n", "\ufefft,a,y\n5,1,2\n0,2,3\n",
		"job_id,restart,t,a,y\n7,0,1,2,3\n",
		"\xff\xfet\x00,\x00a\x00,\x00y\x00\n\x001\x00,\x001\x00,\x001\x00", "t,\xe9,y\n0,nan,1e400\n", "t,a,y\r0,1,2\r",
		"time,a,y\n2026-11-21,1,2\n", "t,\"a\n b\",y\n1,\"2\",3\n", "a,y\n,\n", "chunk,a,y\n0,x,2\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, _ = selection.ReadResponse(bytes.NewReader(text))
		table, err := selection.ReadCSV(bytes.NewReader(text), []string{"y"})
		if err != nil {
			if !errors.Is(err, selection.ErrCSV) {
				t.Fatal(err)
			}
			return
		}
		n := table.Rows()
		columns := [][]float64{table.Responses[0].Values}
		for _, m := range table.Metrics {
			if m.Name == "" {
				t.Fatal("a metric without a name")
			}
			columns = append(columns, m.Columns[0].Values)
		}
		if n == 0 || len(columns) == 1 {
			t.Fatal("a table without rows or metrics")
		}
		for _, c := range columns {
			if len(c) != n || slices.ContainsFunc(c, func(v float64) bool { return math.IsInf(v, 0) }) {
				t.Fatalf("%d of %d rows, or an infinite value: %v", len(c), n, c)
			}
		}
		last := map[int32]int64{}
		for i, at := range table.Start {
			unit := int32(0)
			if table.Unit != nil {
				unit = table.Unit[i]
				_ = table.Units[unit]
			}
			if before, has := last[unit]; has && at < before {
				t.Fatalf("row %d is before the one before it", i)
			}
			last[unit] = at
		}
	})
}

// A line without an end is refused before it fills the memory.
func TestReadCSVRefusesALongLine(t *testing.T) {
	endless := strings.NewReader("t,y,m\n0,1,2\n1,2," + strings.Repeat("a", 65<<20))
	_, err := selection.ReadCSV(endless, []string{"y"})
	if !errors.Is(err, selection.ErrCSV) || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("error %v", err)
	}
}

// openQuote is the rest of a CSV after a quote that nothing closes, in short lines. It counts the bytes read.
type openQuote struct{ read int }

func (o *openQuote) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "1,2\n"[(o.read+i)%4]
	}
	o.read += len(p)
	if o.read > 900<<20 {
		return 0, io.EOF
	}
	return len(p), nil
}

// A cell in quotes that goes on over the ends of lines is refused as well.
func TestReadCSVRefusesALongCell(t *testing.T) {
	rest := &openQuote{}
	_, err := selection.ReadCSV(io.MultiReader(strings.NewReader("t,y,m\n0,1,2\n1,2,\""), rest), []string{"y"})
	if !errors.Is(err, selection.ErrCSV) || !strings.Contains(err.Error(), "64 MiB") || rest.read > 70<<20 {
		t.Errorf("%d bytes were read: %v", rest.read, err)
	}
}

// Many lines in quotes, each of them short, are a table.
func TestReadCSVCountsEachLine(t *testing.T) {
	lines := strings.Repeat("1,2,\"3\n"+strings.Repeat(" ", 10_000)+"\"\n", 7_000)
	table, err := selection.ReadCSV(strings.NewReader("t,y,m\n"+lines), []string{"y"})
	if err != nil || table == nil {
		t.Error(err)
	}
}
