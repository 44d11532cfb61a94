package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2" // the database
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/analysis/query"
	"github.com/weirhpc/weir/sink"
)

// session is a DuckDB in memory with the archive's views.
type session struct {
	options
	conn *sql.Conn
	out  io.Writer
}

func ask(ctx context.Context, o options, stdin io.Reader, stdout, stderr io.Writer) error {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return fmt.Errorf("starting DuckDB: %w", err)
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("starting DuckDB: %w", err)
	}
	defer conn.Close()
	s := &session{o, conn, stdout}
	if err := s.locked(ctx, s.makeViews); err != nil {
		return err
	}
	switch {
	case o.asked:
		return s.runAll(ctx, strings.NewReader(o.query), nil)
	case o.file != "" && o.file != "-":
		f, err := os.Open(o.file)
		if err != nil {
			return err
		}
		defer f.Close()
		return s.runAll(ctx, f, nil)
	}
	if f, is := stdin.(*os.File); is && o.file == "" && isTerminal(f) {
		fmt.Fprintln(stderr, "End a query with a semicolon, and the session with Ctrl-D.")
		return s.runAll(ctx, stdin, stderr)
	}
	return s.runAll(ctx, stdin, nil)
}

// locked runs fn under the archive's shared lock.
func (s *session) locked(ctx context.Context, fn func(context.Context) error) error {
	return sink.Reading(ctx, s.dir, func() error { return fn(ctx) })
}

func (s *session) makeViews(ctx context.Context) error {
	views, err := query.ViewsOf(s.dir)
	if err != nil {
		return err
	}
	if _, err := s.conn.ExecContext(ctx, views); err != nil {
		return fmt.Errorf("making the views: %w", err)
	}
	return nil
}

// runAll runs the statements that it reads, up to the first error. With a person to prompt it goes on behind errors.
func (s *session) runAll(ctx context.Context, in io.Reader, prompt io.Writer) error {
	var open splitter
	lines := bufio.NewReader(in)
	for {
		if prompt != nil {
			fmt.Fprint(prompt, map[bool]string{true: "weir-sql> ", false: "     ...> "}[open.empty()])
		}
		line, end := lines.ReadString('\n')
		statements := open.add(line)
		if end != nil {
			statements = append(statements, open.rest()...)
		}
		for _, one := range statements {
			err := s.interruptible(ctx, one)
			if err != nil && (prompt == nil || ctx.Err() != nil) {
				return err
			}
			if err != nil {
				fmt.Fprintln(prompt, err)
			}
		}
		switch {
		case errors.Is(end, io.EOF):
			return nil
		case end != nil:
			return fmt.Errorf("reading queries: %w", end)
		}
	}
}

// interruptible runs a statement, which Ctrl-C ends.
func (s *session) interruptible(ctx context.Context, statement string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	return s.run(ctx, statement)
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
