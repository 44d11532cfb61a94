// Package query contains the SQL views of the archive, as text for DuckDB. It runs no query.
package query

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// NoDuckDB is the remedy if no duckdb is installed.
const NoDuckDB = "install it with `pip install duckdb-cli`, or name it with --duckdb PATH; " +
	"or build weir-sql, which has DuckDB inside: `make build-sql`"

// Oldest is the oldest DuckDB that the views are tested with. Older ones cannot match columns by name.
const Oldest = "1.3"

// errNoArchive is returned if there is no archive.
var errNoArchive = errors.New("there is no archive")

// ViewsOf returns the statements that create the views of the present archive in dir, an absolute path.
func ViewsOf(dir string) (string, error) {
	archive, there := os.DirFS(dir), map[string]bool{}
	for _, t := range tables() {
		found, err := hasFiles(archive, t.name)
		if err != nil {
			return "", fmt.Errorf("looking for tables of the archive in %s: %w", dir, err)
		}
		if found {
			there[t.name] = true
		}
	}
	if _, err := fs.Stat(archive, "summaries"); err != nil && len(there) == 0 {
		return "", fmt.Errorf("%w in %s: set sink.dir, or --dir, to the sink's directory", errNoArchive, dir)
	}
	return views(dir, func(table string) bool { return there[table] })
}

// hasFiles reports whether the pattern of a table's view matches any file.
func hasFiles(archive fs.FS, table string) (bool, error) {
	dates, err := fs.ReadDir(archive, table)
	for _, date := range slices.Backward(dates) {
		if !strings.HasPrefix(date.Name(), "date=") || date.Type().IsRegular() {
			continue
		}
		files, err := fs.ReadDir(archive, table+"/"+date.Name())
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ".parquet") {
				return true, nil
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, err
}

// views returns the statements that create the views of the archive in dir, an absolute path. there reports whether
// files of a table exist. The view of a table without files is empty, with the same columns.
func views(dir string, there func(table string) bool) (string, error) {
	if err := speakable(dir); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- The archive in %s, for DuckDB %s or later. Times and dates are UTC.\n",
		strings.Join(strings.Fields(dir), " "), Oldest)
	b.WriteString("SET TimeZone = 'UTC';\n")
	for _, t := range tables() {
		view := t.name
		if view == "summaries" {
			view = "summary_files"
		}
		source := t.nothing()
		if there(t.name) {
			source = t.files(dir)
		}
		fmt.Fprintf(&b, "\nCREATE OR REPLACE VIEW %s AS\n%s;\n", view, source)
		if view != t.name {
			fmt.Fprintf(&b, "\nCREATE OR REPLACE VIEW %s AS SELECT * EXCLUDE (filename) FROM %s;\n", t.name, view)
		}
	}
	b.WriteString(performance + selected + findingsJobs)
	fmt.Fprintf(&b, jobSummaries, literal(prefix(dir, "summaries")))
	return b.String(), nil
}

// speakable returns an error if the path cannot be written in DuckDB's SQL.
func speakable(dir string) error {
	switch {
	case !filepath.IsAbs(dir):
		return fmt.Errorf("the archive %q is not an absolute path", dir)
	case !utf8.ValidString(dir) || strings.ContainsAny(dir, "\\\x00"):
		return fmt.Errorf("the archive %q: DuckDB takes no path with a backslash, or that is not UTF-8: "+
			"reach it by a symbolic link", dir)
	}
	return nil
}

// prefix returns the beginning of the paths of a table's files, up to the date.
func prefix(dir, table string) string { return filepath.Join(dir, table) + "/date=" }

// literal returns a text as a literal of SQL.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// globbed returns a path that matches itself alone.
func globbed(path string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(path)
}

func (c column) quoted() string { return `"` + c.name + `"` }

// files selects from the table's files. The columns are named here, since union_by_name would open each file for every
// query, and a file of an older weir may lack some. The date comes from the path: DuckDB opens only the files of the
// dates that a query asks for. The date is null if the name of a directory holds none.
func (t table) files(dir string) string {
	start := prefix(dir, t.name)
	var b strings.Builder
	keep := "* EXCLUDE (filename), "
	if t.name == "summaries" {
		keep = "*, "
	}
	fmt.Fprintf(&b, "SELECT %stry_cast(substring(filename, %d, 10) AS DATE) AS date\nFROM read_parquet(%s,\n", keep,
		utf8.RuneCountInString(start)+1, literal(globbed(start)+"*/*.parquet"))
	b.WriteString("  filename = true, hive_partitioning = false, schema = MAP {\n")
	for i, c := range t.columns {
		end := ","
		if i == len(t.columns)-1 {
			end = ""
		}
		fmt.Fprintf(&b, "    '%s': {name: '%[1]s', type: '%s', default_value: NULL}%s\n", c.name, c.kind, end)
	}
	b.WriteString("  })")
	return b.String()
}

// nothing selects no rows, with the table's columns.
func (t table) nothing() string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, c := range t.columns {
		fmt.Fprintf(&b, "NULL::%s AS %s, ", c.kind, c.quoted())
	}
	if t.name == "summaries" {
		b.WriteString("NULL::VARCHAR AS filename, ")
	}
	b.WriteString("NULL::DATE AS date\nWHERE false")
	return b.String()
}

// ofJob are the numbers of a job that most questions need.
const ofJob = `
  (epoch_ms(j."end") - epoch_ms(j."start")) / 1000.0 AS duration_s,
  CASE WHEN j.cores > 0 THEN CAST(pow(2, ceil(log2(j.cores))) AS BIGINT) END AS size_class,
  j.cores * ((epoch_ms(j."end") - epoch_ms(j."start")) / 3600000.0) AS core_hours,`

// performance lists each job with each metric: the job's record, and the values over its whole life. The middle of the
// measured time lies in that life, and in no life of a namesake.
const performance = `
CREATE OR REPLACE VIEW jobs_performance AS
SELECT j.*,` + ofJob + `
  t."start" AS measured_start, t."end" AS measured_end,
  t.* EXCLUDE (cluster, job_id, restart, "start", "end", date)
FROM jobs j JOIN job_totals t ON t.cluster = j.cluster AND t.job_id = j.job_id AND t.restart = j.restart
  AND (epoch_ms(t."start") + epoch_ms(t."end")) // 2 >= epoch_ms(j."start")
  AND (epoch_ms(t."start") + epoch_ms(t."end")) // 2 < epoch_ms(j."end");
`

// selected lists the jobs that show how the machine is used, by the choice of NWPerf's authors. `weir report system`
// leaves out the same jobs if no flag selects others.
const selected = `
CREATE OR REPLACE VIEW selected AS
SELECT * FROM jobs_performance
WHERE cores >= 8 AND duration_s > 600 AND queue NOT IN ('test', 'devel', 'debug');
`

// findingsJobs lists each finding with its job. Among namesakes, it is the last job that had begun by the finding.
const findingsJobs = `
CREATE OR REPLACE VIEW findings_jobs AS
SELECT j.*,` + ofJob + `
  f.state AS finding_state, f.* EXCLUDE (cluster, job_id, restart, state, position, date, job_start)
FROM jobs j JOIN findings f ON f.cluster = j.cluster AND f.job_id = j.job_id AND f.restart = j.restart
  AND (j."start" IS NULL OR j."start" <= f.as_of) AND f.as_of < j."end" + INTERVAL 10 MINUTE
QUALIFY row_number() OVER (PARTITION BY f.cluster, f.job_id, f.restart, f.rule, f.as_of
  ORDER BY j."start" DESC NULLS LAST, j."end") = 1;
`

// jobSummaries reads the dates of a job alone. The view jobs lists its lives once they end. DuckDB compares the bounds
// with the names of the files before it opens them.
//
// The margin of an hour is for an interval that began before the job, and for clocks. A job that jobs does not list, or
// that ended within a day, may run: its dates have no end. A life without a start has no beginning.
const jobSummaries = `
CREATE OR REPLACE MACRO job_summaries(id) AS TABLE
WITH bounds AS MATERIALIZED (
  SELECT %[1]s || CASE WHEN count(*) = count("start") AND count(*) > 0
      THEN strftime((min("start") - INTERVAL 1 HOUR) AT TIME ZONE 'UTC', '%%Y-%%m-%%d') ELSE '' END AS least,
    %[1]s || CASE WHEN max("end") < now() - INTERVAL 1 DAY
      THEN strftime((max("end") + INTERVAL 25 HOUR) AT TIME ZONE 'UTC', '%%Y-%%m-%%d') ELSE ':' END AS beyond
  FROM jobs WHERE job_id = id::VARCHAR
)
SELECT * EXCLUDE (filename) FROM summary_files
WHERE job_id = id::VARCHAR
  AND filename >= (SELECT least FROM bounds) AND filename < (SELECT beyond FROM bounds);
`
