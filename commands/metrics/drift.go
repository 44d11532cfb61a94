package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/commands/cli"
)

// Exit statuses of weir metrics drift, besides 0 for hold.
const (
	exitRedo    = 3
	exitUnknown = 4
)

func newMetricsDrift() *cobra.Command {
	f := observationFlags{withNodes: true}
	var list string
	var asJSON bool
	c := &cobra.Command{
		Use:   "drift --list FILE",
		Short: "Check whether a list of metrics still holds",
		Long: `Checks whether a list of metrics still holds: hold, redo or unknown, with the reasons.

It reads observations newer than the list, and compares them with the relations that the list recorded:

  responses   The kept metrics must explain each response as well as in training. The CUSUM of the log error, over
              stretches of 60 rows, must stay below 4.
  canaries    On nodes that measure everything, each dropped metric must follow from the kept ones. Its squared error
              must not be above 10 times that of training in more stretches than chance explains.

Choose the jobs that the list was selected from, by the same --jobs. A response that is a metric, or a column of the
CSV with its name, is found without --response.

In the archive, canaries can be judged only for jobs on canary nodes: --from counters reads each node.

Status 0 is hold and 3 is redo: select anew. Status 4 is unknown: a response has too few rows, or the list has no
response and no canary was judged. A response needs 120 rows, a canary 60. Status 1 and 2 are errors, as with all
commands.`,
		Example: `  weir metrics drift --list /etc/weir/metrics.yaml
  weir metrics drift --list metrics.yaml --since 7d --jobs user=ada --json
  weir metrics drift --list metrics.yaml --from run.csv --response y`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if list == "" {
				return cli.Usage(errors.New("--list needs a file that weir metrics select --out wrote"))
			}
			l, err := config.ReadMetricList(list)
			if err != nil {
				return cli.Usage(fmt.Errorf("--list: %w", err))
			}
			if l.Drift == nil {
				return cli.Usage(fmt.Errorf("--list %s: it has no part drift, so there is nothing to compare with: "+
					"select the metrics with weir metrics select --out", list))
			}
			if f.since == "" && !f.fromFile() {
				f.since = l.Created
			}
			r, err := watch(c, &f, l)
			if err != nil {
				return err
			}
			return printDrift(c.OutOrStdout(), list, l, r, asJSON)
		},
	}
	f.Add(c)
	flags := c.Flags()
	flags.StringVar(&list, "list", "", "compare with the list in `FILE`, such as metrics.yaml")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	flags.Lookup("since").Usage = "intervals since `TIME`: 7d ago, or a date of UTC " +
		"(default: the list's own; of a CSV all)"
	flags.Lookup("response").Usage = "responses of the list `A,B` that are columns, or files as of weir metrics select"
	cli.OfferFiles(c, "list", cli.YamlFiles...)
	return c
}

// watch reads the observations, and compares them with the list.
func watch(c *cobra.Command, f *observationFlags, l *config.MetricList) (*selection.DriftReport, error) {
	w := watched(l.Drift)
	for _, r := range f.responses {
		name, _, _ := strings.Cut(r[strings.LastIndex(r, "/")+1:], ".csv")
		if !isTable(r) {
			name = r
		}
		if !slices.Contains(l.Responses, name) {
			return nil, cli.Usage(fmt.Errorf("--response %.80q: the list was selected for %s", r,
				cmp.Or(strings.Join(l.Responses, ", "), "no response")))
		}
	}
	t, _, err := f.table(c)
	if err != nil {
		return nil, err
	}
	return worked(c, t, func() (*selection.DriftReport, error) {
		r := w.Watch(t)
		if missing := len(l.Dropped) - len(w.Canaries); missing > 0 {
			r.Notes = append(slices.Clone(r.Notes), fmt.Sprintf("%d dropped metrics are not watched: constant in "+
				"training, or they did not follow from kept ones", missing))
		}
		return r, nil
	})
}

// driftLine is the verdict for programs.
type driftLine struct {
	List    string `json:"list"`
	Created string `json:"created"`
	*selection.DriftReport
}

// printDrift prints the verdict, and returns the exit status of the command as an error.
func printDrift(w io.Writer, list string, l *config.MetricList, r *selection.DriftReport, asJSON bool) error {
	if asJSON {
		if err := cli.PrintJSON(w, []driftLine{{List: list, Created: l.Created, DriftReport: r}}); err != nil {
			return err
		}
	} else if err := driftText(w, l, r); err != nil {
		return err
	}
	switch r.Verdict {
	case selection.VerdictRedo:
		return cli.StatusError(exitRedo)
	case selection.VerdictUnknown:
		return cli.StatusError(exitUnknown)
	}
	return nil
}

var driftAdvice = map[string]string{
	selection.VerdictHold:    "the list holds",
	selection.VerdictRedo:    "select the metrics anew",
	selection.VerdictUnknown: "there are too few observations",
}

// shownCanaries bounds the table of canaries: the worst come first.
const shownCanaries = 20

func driftText(w io.Writer, l *config.MetricList, r *selection.DriftReport) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n", r.Verdict, driftAdvice[r.Verdict])
	fmt.Fprintf(&text, "List of %s, %d rows read\n", cli.OrDash(l.Created), r.Rows)
	for _, why := range r.Why {
		fmt.Fprintf(&text, "- %s\n", cli.Wrapped(why, 2, 2))
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	if len(r.Responses) > 0 {
		t := cli.NewTable(0)
		t.Line("\nRESPONSE\tROWS\tMISSING\tSTRETCHES\tCUSUM\tLIMIT\tALARM")
		for _, d := range r.Responses {
			t.Line("%s\t%d\t%d\t%d\t%.1f\t%g\t%s", d.Response, d.Rows, d.Missing, d.Stretches, d.Sum, d.Limit,
				at(d.AlarmMs))
		}
		if err := t.Print(w); err != nil {
			return err
		}
	}
	if err := printCanaries(w, r.Canaries); err != nil {
		return err
	}
	for i, n := range r.Notes {
		if i == 0 {
			cli.Say(w, "")
		}
		if _, err := fmt.Fprintf(w, "- %s\n", cli.Wrapped(n, 2, 2)); err != nil {
			return err
		}
	}
	return nil
}

// printCanaries prints the dropped metrics that exceeded their limit for a stretch of rows.
func printCanaries(w io.Writer, all []selection.CanaryDrift) error {
	worst := slices.DeleteFunc(slices.Clone(all), func(c selection.CanaryDrift) bool { return c.Parted == 0 })
	if len(worst) == 0 {
		return nil
	}
	slices.SortStableFunc(worst, func(a, b selection.CanaryDrift) int {
		return cmp.Or(cmp.Compare(b.Parted-b.Chance, a.Parted-a.Chance), cmp.Compare(b.Worst, a.Worst))
	})
	t := cli.NewTable(0)
	t.Line("\nDROPPED\tREPRESENTATIVE\tSTRETCHES\tPARTED\tCHANCE\tWORST\tSINCE")
	for _, c := range worst[:min(shownCanaries, len(worst))] {
		t.Line("%s\t%s\t%d\t%d\t%d\t%.0f×\t%s", c.Metric, c.Representative, c.Stretches, c.Parted, c.Chance, c.Worst,
			at(c.SinceMs))
	}
	if more := len(worst) - shownCanaries; more > 0 {
		t.Line("and %d more: --json has all", more)
	}
	return t.Print(w)
}

// at formats a time in milliseconds since 1970.
func at(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return time.UnixMilli(*ms).UTC().Format(time.RFC3339)
}

// watched converts the part drift of a list to the types of package selection.
func watched(d *config.MetricDrift) *selection.Drift {
	w := &selection.Drift{Centred: d.Centred}
	for _, m := range d.Models {
		of := selection.DriftModel{Renewed: m.Renewed, Model: selection.Model{
			Response: m.Response, Intercept: m.Intercept, Low: m.Low, High: m.High,
			LogMSE: m.LogMSE, LogMSESD: m.LogMSESD,
		}}
		for _, t := range m.Terms {
			of.Terms = append(of.Terms, selection.ModelTerm{
				Metric: t.Metric, Statistic: t.Statistic, Square: t.Square, Scaling: selection.Scaling(t.Scaling),
				Coefficient: t.Coefficient,
			})
		}
		w.Models = append(w.Models, of)
	}
	for _, c := range d.Columns {
		w.Columns = append(w.Columns, selection.DriftColumn{
			Metric: c.Metric, Statistic: c.Statistic, Scaling: selection.Scaling(c.Scaling),
		})
	}
	for _, c := range d.Canaries {
		of := selection.Canary{Metric: c.Metric, Error: c.Error}
		for _, t := range c.Terms {
			of.Terms = append(of.Terms, selection.CanaryTerm(t))
		}
		w.Canaries = append(w.Canaries, of)
	}
	return w
}

// driftOf makes the part drift of a list. A metric in use is kept even if the selection drops it, so no model watches
// it.
func driftOf(l *config.MetricList, w *selection.Drift) *config.MetricDrift {
	d := &config.MetricDrift{Centred: w.Centred}
	for _, m := range w.Models {
		of := config.DriftModel{
			Response: m.Response, Renewed: m.Renewed, Intercept: m.Intercept, Low: m.Low, High: m.High,
			LogMSE: m.LogMSE, LogMSESD: m.LogMSESD,
		}
		for _, t := range m.Terms {
			of.Terms = append(of.Terms, config.DriftTerm{
				Metric: t.Metric, Statistic: t.Statistic, Square: t.Square, Scaling: config.DriftScaling(t.Scaling),
				Coefficient: t.Coefficient,
			})
		}
		d.Models = append(d.Models, of)
	}
	dropped, named := map[string]bool{}, map[string]bool{}
	for _, m := range l.Dropped {
		dropped[m.Name] = true
	}
	for _, c := range w.Canaries {
		if !dropped[c.Metric] {
			continue
		}
		of := config.DriftCanary{Metric: c.Metric, Error: c.Error}
		named[c.Metric] = true
		for _, t := range c.Terms {
			of.Terms = append(of.Terms, config.DriftCanaryTerm(t))
			named[t.Metric] = true
		}
		d.Canaries = append(d.Canaries, of)
	}
	for _, c := range w.Columns {
		if named[c.Metric] {
			d.Columns = append(d.Columns, config.DriftColumn{
				Metric: c.Metric, Statistic: c.Statistic, Scaling: config.DriftScaling(c.Scaling),
			})
		}
	}
	return d
}
