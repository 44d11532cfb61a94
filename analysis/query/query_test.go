package query_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/analysis/query"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/findings"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"
)

// TestColumns: the views have exactly the columns that the writers' structs have, with the types that DuckDB reads.
func TestColumns(t *testing.T) {
	for table, of := range map[string]reflect.Type{
		"summaries":  reflect.TypeFor[schemas.Row](),
		"rollups":    reflect.TypeFor[compact.Rollup](),
		"jobs":       reflect.TypeFor[jobs.Row](),
		"job_totals": reflect.TypeFor[totals.Total](),
		"findings":   reflect.TypeFor[findings.Row](),
	} {
		var written []string
		for f := range of.Fields() {
			if tag, ok := f.Tag.Lookup("parquet"); ok {
				name, options, _ := strings.Cut(tag, ",")
				written = append(written, name+" "+duckType(t, f.Type, options))
			}
		}
		shown := query.Columns(table)
		for _, c := range written {
			if !slices.Contains(shown, c) {
				t.Errorf("view %s lacks %s", table, c)
			}
		}
		for _, c := range shown {
			if !slices.Contains(written, c) {
				t.Errorf("view %s has %s, which no file has", table, c)
			}
		}
	}
}

// duckType returns the type as which DuckDB reads a field.
func duckType(t *testing.T, of reflect.Type, options string) string {
	t.Helper()
	switch of.Kind() {
	case reflect.Pointer:
		return duckType(t, of.Elem(), options)
	case reflect.Slice:
		return duckType(t, of.Elem(), options) + "[]"
	case reflect.String:
		return "VARCHAR"
	case reflect.Int32:
		return "INTEGER"
	case reflect.Float64:
		return "DOUBLE"
	case reflect.Bool:
		return "BOOLEAN"
	case reflect.Int64:
		if strings.Contains(options, "timestamp") {
			return "TIMESTAMPTZ"
		}
		return "BIGINT"
	}
	t.Fatalf("no type for %v", of)
	return ""
}

// TestViewsOfWhatIsThere: a table with a file is read, any other one is empty, whatever else lies there.
func TestViewsOfWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{
		"summaries/date=2026-01-05/a.parquet", "summaries/date=2026-01-06/.keep", "jobs/date=2026-01-05/README",
		"rollups/README", "job_totals/elsewhere/a.parquet",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	views, err := query.ViewsOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(views, "read_parquet("); n != 1 {
		t.Errorf("%d tables are read, want summaries alone:\n%s", n, views)
	}
}
