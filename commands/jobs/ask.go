package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/console"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// asker is the person for whom a command runs.
type asker struct {
	viewer analysis.Viewer
	cfg    *config.Config // nil: the command reads one
}

// everybody is the viewer of a command that runs beside the archive: who can read its files sees all jobs.
func everybody() analysis.Viewer { return analysis.Viewer{All: true} }

// direct returns a command that a person runs. Here weir job, jobs, compare and top begin. On a login node the console
// answers.
func direct(command func(asker) *cobra.Command) *cobra.Command {
	c := command(asker{viewer: everybody()})
	reading.OfferColors(c)
	c.RunE = orConsole(c.RunE)
	return c
}

// answered is a command that the console runs for an owner.
type answered struct {
	command func(asker) *cobra.Command
	allowed []string // flags. Any other one is refused, so that a new flag is refused until somebody allows it.
}

// answers are the commands of the console. No allowed flag names a file, a broker or a configuration, or makes a
// command go on without end.
func answers() map[string]answered {
	return map[string]answered{
		"compare": {newCompare, []string{"anyway", "ascii"}},
		"job": {newJob, []string{
			"ascii", "correlate", "findings", "from", "last", "metrics", "nodes", "restart", "rules", "to", "totals",
		}},
		"jobs": {newJobs, []string{"account", "ascii", "finding", "limit", "queue", "since", "sort", "user"}},
		"top":  {newTop, []string{"ascii", "metric", "once", "queue", "sort", "user"}},
	}
}

// mostArguments bounds the jobs that a question names.
const mostArguments = 100

// Ask returns the answers of the console: the output of `weir job`, `weir jobs`, `weir compare` and `weir top --once`
// for a viewer, with the archive and the brokers of a configuration.
func Ask(cfg config.Config) console.Answer {
	return func(ctx context.Context, viewer analysis.Viewer, q console.Question, out io.Writer) error {
		c, err := commandOf(asker{viewer, &cfg}, q)
		if err != nil {
			return fmt.Errorf("%w: %w", console.ErrBadQuestion, err)
		}
		c.SetContext(ctx)
		c.SetOut(out)
		c.SetErr(io.Discard)
		return answerOf(c.RunE(c, q.Arguments))
	}
}

// commandOf returns the command that a question names, with its flags set.
func commandOf(by asker, q console.Question) (*cobra.Command, error) {
	of, is := answers()[q.Command]
	switch {
	case !is:
		return nil, fmt.Errorf("%.40q is none of %v", q.Command, slices.Sorted(maps.Keys(answers())))
	case len(q.Arguments) > mostArguments:
		return nil, fmt.Errorf("%d jobs are named: name at most %d at once", len(q.Arguments), mostArguments)
	}
	c := of.command(by)
	for _, name := range slices.Sorted(maps.Keys(q.Flags)) {
		flag := c.Flags().Lookup(name)
		switch values := q.Flags[name]; {
		case flag == nil || !slices.Contains(of.allowed, flag.Name):
			return nil, fmt.Errorf("--%.40s is refused here", name)
		case len(values) != 1:
			return nil, fmt.Errorf("--%s is given %d times", flag.Name, len(values))
		default:
			if err := c.Flags().Set(flag.Name, values[0]); err != nil {
				return nil, cli.FlagError(c, err)
			}
		}
	}
	set := map[string]string{"color": "never", "width": strconv.Itoa(q.Width)}
	if q.Color {
		set["color"] = "always"
	}
	if !c.Flags().Changed("ascii") {
		set["ascii"] = "false" // the locale of the service is not the reader's
	}
	switch {
	case q.Command == "top" && q.JSON:
		return nil, errors.New("weir top has no JSON: `weir jobs --json` lists the jobs")
	case q.Command == "top":
		set["once"] = "true"
	default:
		set["json"] = strconv.FormatBool(q.JSON)
	}
	for name, value := range set {
		if err := c.Flags().Set(name, value); err != nil {
			return nil, cli.FlagError(c, err)
		}
	}
	return c, cmp.Or(cli.EmptyFlags(c), c.Args(c, q.Arguments))
}

// answerOf returns the error of a command in a form for its viewer. A job of another user is a job that does not exist.
func answerOf(err error) error {
	var usage cli.UsageError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, analysis.ErrNoJob), errors.Is(err, errNoTask):
		return console.ErrNotThere
	case errors.As(err, &usage):
		return fmt.Errorf("%w: %w", console.ErrBadQuestion, err)
	case errors.Is(err, analysis.ErrAmbiguous), errors.Is(err, analysis.ErrNoInterval),
		errors.Is(err, analysis.ErrNoMetric), errors.Is(err, errNoSuchMetric), errors.Is(err, errNoJobs),
		errors.Is(err, errNoPair), errors.Is(err, errManyTasks):
		return fmt.Errorf("%w: %w", console.ErrNoAnswer, err)
	}
	return err
}
