package selection

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// knownAnswers is a file of testdata/cases: another program computed it (pandas and statsmodels).
type knownAnswers struct {
	Response, Time string
	Runs           []json.RawMessage
}

type knownRun struct {
	Threshold       float64
	Model           string
	FToRemove       float64 `json:"f_to_remove"`
	Constant        []string
	Clusters        [][]string
	Representatives []string
	RowsUsed        int `json:"rows_used"`
	Eliminated      [][2]any
	Terms, Selected []string
	F               map[string]float64
	R2              float64
	ReductionDegree float64 `json:"reduction_degree"`
	Error           string
	Samples         int
	Predictors      int
}

func TestLiteralFindsTheKnownAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.json")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files of cases, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var known knownAnswers
		if err := json.Unmarshal(raw, &known); err != nil {
			t.Fatal(err)
		}
		table := readCase(t, strings.TrimSuffix(file, ".json")+".csv", known)
		for _, raw := range known.Runs {
			var want knownRun
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s/%g/%s", filepath.Base(file), want.Threshold, want.Model)
			t.Run(name, func(t *testing.T) {
				l, err := SelectLiteral(table, 0, LiteralOptions{
					Threshold: want.Threshold, FToRemove: want.FToRemove, Quadratic: want.Model == "quadratic",
				})
				if (err != nil) != (want.Error != "") {
					t.Fatal(err)
				}
				text, err := json.Marshal(l)
				if err != nil {
					t.Fatal(err)
				}
				sameRun(t, text, raw, want)
			})
		}
	}
}

// sameRun compares the JSON, so that its fields are those of the cases.
func sameRun(t *testing.T, text, raw []byte, want knownRun) {
	t.Helper()
	var got knownRun
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var gotKeys, wantKeys map[string]json.RawMessage
	if err := json.Unmarshal(text, &gotKeys); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &wantKeys); err != nil {
		t.Fatal(err)
	}
	for key := range wantKeys {
		if _, ok := gotKeys[key]; !ok {
			t.Errorf("no field %s", key)
		}
		delete(gotKeys, key)
	}
	delete(gotKeys, "collinear")
	if len(gotKeys) > 0 {
		t.Errorf("fields that the case has not: %v", gotKeys)
	}
	if len(got.Eliminated) != len(want.Eliminated) {
		t.Fatalf("eliminated %v, want %v", got.Eliminated, want.Eliminated)
	}
	for i, e := range want.Eliminated {
		if g := got.Eliminated[i]; g[0] != e[0] || !near(g[1].(float64), e[1].(float64), 1e-5) {
			t.Errorf("elimination %d is %v, want %v", i, g, e)
		}
	}
	if len(got.F) != len(want.F) {
		t.Errorf("F of %v, want of %v", got.F, want.F)
	}
	for name, f := range want.F {
		if !near(got.F[name], f, 1e-5) {
			t.Errorf("F of %s is %g, want %g", name, got.F[name], f)
		}
	}
	if math.Abs(got.R2-want.R2) > 1e-8 {
		t.Errorf("R² is %.10f, want %.10f", got.R2, want.R2)
	}
	got.Eliminated, got.F, got.R2 = want.Eliminated, want.F, want.R2
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// near allows a relative difference, and the rounding of six decimals.
func near(got, want, relative float64) bool {
	return math.Abs(got-want) <= relative*math.Abs(want)+5e-7
}

func readCase(t *testing.T, file string, known knownAnswers) *Table {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{}
	for i := range lines[1:] {
		table.Start = append(table.Start, int64(i)*1000)
	}
	for j, name := range lines[0] {
		var values []float64
		for _, line := range lines[1:] {
			v, err := strconv.ParseFloat(line[j], 64)
			if line[j] == "" {
				v = math.NaN()
			} else if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		switch name {
		case known.Time:
		case known.Response:
			table.Responses = append(table.Responses, Response{Name: name, Values: values})
		default:
			table.Metrics = append(table.Metrics, Metric{Name: name, Columns: []Column{{Values: values}}})
		}
	}
	return table
}
