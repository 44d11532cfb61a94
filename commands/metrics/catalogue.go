// Package metrics holds the commands around `weir metrics`: the catalogue, the selection of metrics worth measuring,
// and the watch over an earlier selection.
package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
)

// NewCatalogue returns the command weir metrics.
func NewCatalogue() *cobra.Command {
	conf := cli.ConfigFlags{}
	var asJSON, probes bool
	c := &cobra.Command{
		Use:   "metrics",
		Short: "Show the metrics that the agent measures, and their formulas",
		Long: `Shows the metrics that the agent measures, and their formulas.

They are grouped by source. A core-scoped metric has a value for each CPU, a node-scoped metric a single value, and
metrics of sockets and GPUs one for each. A ratio is formed for each value, and never summed. A rate is per second. A
gauge is the value at the end of the interval.

--available opens every source of this host, and reads it twice. It lists the metrics with values, and the reasons for
missing ones. A metric that a host lacks is absent from its records: it is never 0.

With a configuration, the metrics of the site are listed too.`,
		Example: `  weir metrics
  weir metrics --available --config /etc/weir/agent.yaml
  weir metrics --json | jq -r .name`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var cfg config.Config
			if probes || conf.File != "" {
				var err error
				if cfg, err = conf.Local(); err != nil {
					return err
				}
			}
			rows := Catalogue(cfg.Agent)
			if probes {
				if wait := agent.Apart(cfg, 0); wait > 2*time.Second {
					cli.Say(c.ErrOrStderr(), "weir metrics: the site's commands run before each boundary; waiting %s "+
						"for them", wait)
				}
				cfg = inuse.WithList(cfg, cli.NewLogger(c.ErrOrStderr(), cfg))
				if err := probe(c.Context(), cfg, rows); err != nil {
					return err
				}
			}
			if asJSON {
				return cli.PrintJSON(c.OutOrStdout(), rows)
			}
			return printCatalogue(c.OutOrStdout(), rows)
		},
	}
	conf.Add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.Flags().BoolVar(&probes, "available", false,
		"probe this host: list the metrics with values, and why others are missing")
	c.AddCommand(newMetricsSelect(), newMetricsCompare(), newMetricsDrift())
	return c
}

// MetricRow is a line of the catalogue.
type MetricRow struct {
	Name      string `json:"name"`
	Unit      string `json:"unit"`
	Scope     string `json:"scope"`
	Kind      string `json:"kind"`
	Source    string `json:"source"`
	Origin    string `json:"origin"`
	Formula   string `json:"formula"`
	Available *bool  `json:"available,omitempty"` // nil if the host was not probed
	Reason    string `json:"reason,omitempty"`    // the reason if it is not available
}

// Catalogue returns a row for each metric of the agent.
func Catalogue(cfg config.Agent) (rows []MetricRow) {
	for _, m := range source.Catalogue(cfg) {
		rows = append(rows, MetricRow{
			Name: m.Name, Unit: m.Unit, Scope: m.Scope, Kind: string(m.Kind), Source: m.Source, Origin: m.Origin,
			Formula: m.Formula,
		})
	}
	return rows
}

// probe marks the metrics that this host measures, and the reasons for the others.
func probe(ctx context.Context, cfg config.Config, rows []MetricRow) error {
	h := source.Open(cfg.Agent, slog.New(slog.DiscardHandler))
	defer h.Close()
	_, columns, jobs, err := agent.ReadTwice(ctx, h, agent.Apart(cfg, 500*time.Millisecond))
	if err != nil {
		return err
	}
	for _, j := range jobs {
		columns = append(columns, j.Columns...)
	}
	absent := h.Absent(columns)
	for i := range rows {
		r := &rows[i]
		reason := absent[r.Name]
		r.Available = new(reason == nil)
		if reason != nil {
			r.Reason = agent.WithRemedy(reason)
		}
	}
	return nil
}

// printCatalogue prints the metrics below their sources. A text too long for its line continues below its beginning.
func printCatalogue(w io.Writer, rows []MetricRow) error {
	var text strings.Builder
	name, unit, kind, shared := 0, 0, 0, ""
	for _, r := range rows {
		name, unit, kind = max(name, len(r.Name)), max(unit, len(r.Unit)), max(kind, len(r.Kind))
	}
	indent := 2 + name + 2 + unit + 2 + kind + 2
	for i, r := range rows {
		if i == 0 || r.Source != rows[i-1].Source {
			if i > 0 {
				text.WriteString("\n")
			}
			head := r.Source + ": "
			if r.Scope != "" { // a metric that the site computes takes the scope of its inputs
				head = fmt.Sprintf("%s (%s): ", r.Source, r.Scope)
			}
			fmt.Fprintf(&text, "%s%s\n", head, cli.Wrapped(r.Origin, 4, len(head)))
			if shared = sharedReason(rows[i:]); shared != "" {
				fmt.Fprintf(&text, "    absent: %s\n", cli.Wrapped(shared, 4, len("    absent: ")))
			}
		}
		what := r.Formula
		if r.Available != nil {
			what = "available"
			if !*r.Available {
				what = "absent"
				if r.Reason != shared {
					what += ": " + r.Reason
				}
			}
		}
		fmt.Fprintf(&text, "  %-*s  %-*s  %-*s  %s\n", name, r.Name, unit, r.Unit, kind, r.Kind,
			cli.Wrapped(what, indent, indent))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// sharedReason returns the reason for which all metrics of the first row's source are absent. It is empty if the
// reasons differ, or if the source has a single metric.
func sharedReason(rows []MetricRow) string {
	n := 0
	for n < len(rows) && rows[n].Source == rows[0].Source {
		if rows[n].Reason != rows[0].Reason {
			return ""
		}
		n++
	}
	if n < 2 {
		return ""
	}
	return rows[0].Reason
}
