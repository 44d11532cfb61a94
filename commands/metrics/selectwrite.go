package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/commands/cli"
)

// printLiteral prints a literal selection for people.
func printLiteral(w io.Writer, response string, l *selection.Literal, notes []string, failed bool) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Literal method for %s: threshold %g, model %s, F to remove %g, %d "+
		"rows\n", response, l.Threshold,
		l.Model, l.FToRemove, l.RowsUsed)
	list := func(head string, names []string) {
		head = fmt.Sprintf("%s (%d): ", head, len(names))
		fmt.Fprintf(&text, "%s%s\n", head, cli.Wrapped(cli.OrDash(strings.Join(names, " ")), 2, len(head)))
	}
	list("constant", l.Constant)
	var groups []string
	for _, c := range l.Clusters {
		if len(c) > 1 {
			groups = append(groups, "{"+strings.Join(c, " ")+"}")
		}
	}
	list(fmt.Sprintf("clusters %d; of several metrics", len(l.Clusters)), groups)
	list("representatives", l.Representatives)
	if !failed {
		list("selected", l.Selected)
		fmt.Fprintf(&text, "in-sample R² %.4f, which noise reaches too: forward says what holds on held-out rows\n"+
			"reduction degree %.3f\n", l.R2, l.ReductionDegree)
	}
	for _, n := range notes {
		fmt.Fprintf(&text, "- %s\n", cli.Wrapped(n, 2, 2))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeReport writes the report into a directory: for people, for programs, and for spreadsheets.
func writeReport(dir string, r *selection.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	write := func(name string, fn func(io.Writer) error) error {
		return cli.WriteWhole("--report", filepath.Join(dir, name), fn)
	}
	return errors.Join(
		write("report.txt", func(w io.Writer) error {
			return term.Selection(w, r, term.Style{Width: cli.TableWidth})
		}),
		write("selection.json", func(w io.Writer) error { return writeIndented(w, r) }),
		write("kept.csv", func(w io.Writer) error { return cli.PrintCSV(w, false, r.Kept) }),
		write("dropped.csv", func(w io.Writer) error { return cli.PrintCSV(w, false, r.Dropped) }),
		write("curve.csv", func(w io.Writer) error { return cli.PrintCSV(w, false, r.Curve) }),
	)
}

// writeIndented writes a value as JSON that a person can read.
func writeIndented(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(value)
}

// listName returns the origin of a list, as the list records it.
func (f *selectFlags) listName() string {
	name := []string{f.from}
	for _, part := range []struct{ flag, value string }{
		{"dir", f.dir}, {"jobs", f.jobs}, {"since", f.since}, {"until", f.until},
	} {
		if part.value != "" {
			name = append(name, "--"+part.flag, cli.Quoted(part.value))
		}
	}
	return strings.Join(name, " ")
}

// write writes the list that the agents take.
func (f *selectFlags) write(c *cobra.Command, l *config.MetricList, warnings []string) error {
	l.Source, l.Canary, l.Created = f.listName(), f.canary, time.Now().UTC().Format(time.RFC3339)
	if err := writeList(f.out, l, warnings); err != nil {
		return err
	}
	for _, one := range warnings {
		cli.Say(c.ErrOrStderr(), "weir metrics: warning: %s", one)
	}
	cli.Say(c.ErrOrStderr(), "weir metrics: %s keeps %d metrics: try it with `weir check`, then name it in "+
		"agent.metrics_file",
		f.out, len(l.Keep))
	return nil
}
