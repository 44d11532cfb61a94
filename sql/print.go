package main

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/weirhpc/weir/schemas"
)

// run runs a statement and prints its rows. DuckDB converts the values to text, so that they look the same as in its
// own shell. The whole result is read into memory first, and the lock is released before printing: a reader of the
// output may be slow.
func (s *session) run(ctx context.Context, statement string) (err error) {
	var rows *sql.Rows
	var kind duckdb.StmtType
	err = s.locked(ctx, func(ctx context.Context) error {
		kind, err = s.kind(ctx, statement)
		if err != nil {
			return err
		}
		if kind == duckdb.STATEMENT_TYPE_SELECT && s.json {
			statement = "SELECT CAST(to_json(weir_row) AS VARCHAR) AS json FROM (" + statement + "\n) weir_row"
		} else if kind == duckdb.STATEMENT_TYPE_SELECT {
			statement = "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM (" + statement + "\n)"
		}
		rows, err = s.conn.QueryContext(ctx, statement)
		return err
	})
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	out := bufio.NewWriter(s.out)
	switch kind {
	case duckdb.STATEMENT_TYPE_SELECT, duckdb.STATEMENT_TYPE_PRAGMA, duckdb.STATEMENT_TYPE_CALL:
		err = s.print(out, rows)
	case duckdb.STATEMENT_TYPE_EXPLAIN:
		err = printPlan(out, rows)
	}
	return cmp.Or(err, out.Flush())
}

// printPlan prints what EXPLAIN returns: the name of a plan, and its lines.
func printPlan(w io.Writer, rows *sql.Rows) error {
	for rows.Next() {
		var name, plan string
		if err := rows.Scan(&name, &plan); err != nil {
			return err
		}
		for line := range strings.Lines(plan) {
			fmt.Fprintln(w, schemas.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	return rows.Err()
}

// kind returns the kind of a statement. Its errors refer to the statement as the user wrote it, since run wraps queries
// in others.
func (s *session) kind(ctx context.Context, statement string) (kind duckdb.StmtType, err error) {
	err = s.conn.Raw(func(driver any) error {
		prepared, err := driver.(*duckdb.Conn).PrepareContext(ctx, statement)
		if err != nil {
			return err
		}
		defer prepared.Close()
		kind, err = prepared.(*duckdb.Stmt).StatementType()
		return err
	})
	return kind, err
}

func (s *session) print(w io.Writer, rows *sql.Rows) error {
	names, err := rows.Columns()
	if err != nil || len(names) == 0 {
		return err
	}
	begin, row, end := s.format(w)
	if err := begin(names); err != nil {
		return err
	}
	values, cells, pointers := make([]any, len(names)), make([]string, len(names)), make([]any, len(names))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return err
		}
		for i, v := range values {
			cells[i] = ""
			if v != nil {
				cells[i] = fmt.Sprint(v)
			} else if !s.csv && !s.json {
				cells[i] = "NULL"
			}
		}
		if err := row(cells); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return end()
}

// format returns the functions that print the names of the columns, a row, and the end.
func (s *session) format(w io.Writer) (begin, row func([]string) error, end func() error) {
	switch {
	case s.json:
		return func([]string) error { return nil },
			func(cells []string) error { _, err := fmt.Fprintln(w, cells[0]); return err },
			func() error { return nil }
	case s.csv:
		c := csv.NewWriter(w)
		return c.Write, c.Write, func() error { c.Flush(); return c.Error() }
	default:
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		line := func(cells []string) error {
			shown := make([]string, len(cells))
			for i, cell := range cells {
				shown[i] = schemas.Printable(cell)
			}
			_, err := fmt.Fprintln(t, strings.Join(shown, "\t"))
			return err
		}
		return line, line, t.Flush
	}
}
