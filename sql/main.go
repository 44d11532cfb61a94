// Command weir-sql queries the archive in SQL, with DuckDB inside. It is a module of its own, because DuckDB needs cgo
// and weir does without. `weir sql` runs the user's own DuckDB with the same views.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/config"
)

const help = `Asks weir's archive in SQL, with DuckDB inside.

  weir-sql [OPTIONS] [QUERY]

Without QUERY and --file it reads queries from standard input, each up to its semicolon. It holds the archive's shared
lock for each query. docs/queries.md has the views, and many questions.

  weir-sql "select metric, avg(mean) from job_totals group by all"
  weir-sql --csv --file report.sql --dir weir-data/archive > report.csv

`

// etcFile is the machine's configuration.
const etcFile = "/etc/weir/weir.yaml"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options are the command line.
type options struct {
	dir, config, file string
	json, csv         bool
	query             string
	asked             bool
}

// run is main without the process. It returns the exit status: 0 for success, 1 for a failure, 2 for wrong usage or
// configuration.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if err == nil {
		o.dir, err = o.archive()
	}
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "weir-sql: %v\n", err)
		return 2
	}
	if err := ask(ctx, o, stdin, stdout, stderr); err != nil {
		if !errors.Is(err, syscall.EPIPE) {
			fmt.Fprintf(stderr, "weir-sql: %v\n", err)
		}
		return 1
	}
	return 0
}

func parse(args []string, stdout io.Writer) (o options, err error) {
	flags := pflag.NewFlagSet("weir-sql", pflag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "", "`DIR` of the archive (default: sink.dir of the configuration)")
	flags.StringVar(&o.config, "config", "", "configuration `FILE` (default: "+etcFile+")")
	flags.StringVarP(&o.file, "file", "f", "", "run the queries in `FILE`; - is standard input")
	flags.BoolVar(&o.json, "json", false, "print one JSON object a line")
	flags.BoolVar(&o.csv, "csv", false, "print comma-separated values (default: a table)")
	flags.Usage = func() { fmt.Fprint(stdout, help, flags.FlagUsages()) }
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch o.asked = flags.NArg() == 1; {
	case flags.NArg() > 1:
		return o, fmt.Errorf("one query is wanted, but there are %d arguments: put it in quotes", flags.NArg())
	case o.asked && o.file != "":
		return o, errors.New("a query or --file, not both")
	case o.json && o.csv:
		return o, errors.New("--json and --csv: name one of them")
	}
	o.query = flags.Arg(0)
	return o, nil
}

// archive returns the directory of the archive.
func (o *options) archive() (string, error) {
	dir := o.dir
	if dir == "" {
		src := config.Source{File: o.config, Environ: os.Environ(), Defaults: config.Default()}
		if _, err := os.Stat(etcFile); src.File == "" && err == nil {
			src.File = etcFile
		}
		cfg, err := config.Load(src)
		if err != nil {
			return "", err
		}
		dir = cfg.Sink.Dir
	}
	return filepath.Abs(dir)
}
