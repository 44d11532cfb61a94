package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis/query"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/commands/cli"
)

// NewSQL returns the command weir sql.
func NewSQL() *cobra.Command {
	var f Flags
	var o sqlOptions
	c := &cobra.Command{
		Use:   "sql [QUERY]",
		Short: "Ask the archive in SQL, with your own DuckDB",
		Long: `Asks the archive in SQL, with your own DuckDB, version ` + query.Oldest + ` or later.

There is a view for each table of the archive, and two more. jobs_performance joins jobs with job_totals.
job_summaries('ID') reads the summaries of one job, from the dates on which it ran only. docs/queries.md answers many
questions.

With QUERY or --file it runs duckdb under the archive's shared lock, so that no compaction replaces files meanwhile.
Without either it starts duckdb on a terminal, without the lock, since a long session would keep compactions out. If a
query of the session fails because a file was replaced at that moment, repeat it.

If its output is a pipe or a file, it prints the views, for "duckdb -init" or any program with DuckDB inside. A table
without files becomes an empty view, so print the views anew when a table appears.`,
		Example: `  weir sql "select metric, avg(mean) from job_totals group by all"
  weir sql --csv --file report.sql --dir weir-data/archive > report.csv
  weir sql > views.sql`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage(fmt.Errorf("%s takes one query, but was given %d arguments: put it in quotes",
					c.CommandPath(), len(args)))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.query, o.asked = args[0], true
			}
			o.asJSON = f.asJSON
			if err := o.check(); err != nil {
				return cli.Usage(err)
			}
			dir, _, err := f.Load()
			if err != nil {
				return err
			}
			return runSQL(c, dir, o)
		},
	}
	f.Add(c)
	c.Flags().StringVarP(&o.file, "file", "f", "", "run the queries in `FILE`; - is standard input")
	c.Flags().BoolVar(&o.csv, "csv", false, "print comma-separated values (default: a table)")
	c.Flags().BoolVar(&o.print, "print", false, "print the views, also on a terminal")
	c.Flags().StringVar(&o.duckdb, "duckdb", "duckdb", "`PROGRAM` of DuckDB")
	cli.OfferFiles(c, "file", "sql")
	return c
}

// sqlOptions are the flags and arguments of `weir sql`.
type sqlOptions struct {
	query, file, duckdb       string
	asked, asJSON, csv, print bool
}

func (o *sqlOptions) check() error {
	switch {
	case o.asked && o.file != "":
		return errors.New("weir sql takes a query or --file, not both")
	case o.print && (o.asked || o.file != ""):
		return errors.New("weir sql --print takes no query: it prints the views")
	case o.asJSON && o.csv:
		return errors.New("--json and --csv: name one of them")
	}
	return nil
}

// args returns the arguments of duckdb. The views are passed as an argument, not as a file: a program that wraps duckdb
// may not pass other open files on.
func (o *sqlOptions) args(views string) []string {
	args := []string{"-bail", "-cmd", views}
	switch {
	case o.asJSON:
		args = append(args, "-jsonlines")
	case o.csv:
		args = append(args, "-csv", "-nullvalue", "")
	}
	switch {
	case o.asked:
		args = append(args, "-c", o.query)
	case o.file == "-":
		args = append(args, "-f", "/dev/stdin")
	case o.file != "":
		file := o.file
		if !filepath.IsAbs(file) {
			file = "./" + file // the name may begin with -
		}
		args = append(args, "-f", file)
	}
	return args
}

func runSQL(c *cobra.Command, dir string, o sqlOptions) error {
	one := o.asked || o.file != ""
	session := !one && !o.print && cli.IsTerminal(os.Stdin) && cli.IsTerminal(cli.OutputFile(c.OutOrStdout()))
	if !one && !session {
		views, err := query.ViewsOf(dir)
		if err == nil {
			_, err = io.WriteString(c.OutOrStdout(), views)
		}
		return err
	}
	program, err := exec.LookPath(o.duckdb)
	if err != nil {
		return fmt.Errorf("there is no DuckDB: %w: %s. `weir sql --print` prints the views for other programs", err,
			query.NoDuckDB)
	}
	start := func() error {
		views, err := query.ViewsOf(dir)
		if err != nil {
			return err
		}
		return runDuckDB(c, session, program, o.args(views))
	}
	if session {
		return start()
	}
	return sink.Reading(c.Context(), dir, start)
}

// runDuckDB runs duckdb until it ends, and returns its status. Ctrl-C reaches both processes. In a session weir ignores
// it, since duckdb only ends its query.
func runDuckDB(c *cobra.Command, session bool, program string, args []string) error {
	ctx := c.Context()
	if session {
		ctx = context.WithoutCancel(ctx)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, c.OutOrStdout(), c.ErrOrStderr()
	if file := cli.OutputFile(cmd.Stdout); file != nil {
		cmd.Stdout = file // a file, so that duckdb finds the width of the terminal
	}
	if file := cli.OutputFile(cmd.Stderr); file != nil {
		cmd.Stderr = file
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	signal.Reset(syscall.SIGPIPE) // it ends duckdb when nobody reads its output
	if session {
		signal.Ignore(os.Interrupt)
	}
	err := cmd.Start()
	signal.Ignore(syscall.SIGPIPE)
	if err == nil {
		err = cmd.Wait()
	}
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &ended) && ended.Exited():
		return cli.StatusError(ended.ExitCode()) // duckdb has printed the reason
	case errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGPIPE:
		return syscall.EPIPE
	case err != nil:
		return fmt.Errorf("running %s: %w", program, err)
	}
	return nil
}
