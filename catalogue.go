package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// tableWidth is what a table may take of a terminal.
const tableWidth = 120

func newCatalogue() *cobra.Command {
	conf := configFlags{}
	var asJSON, probes bool
	c := &cobra.Command{
		Use:   "metrics",
		Short: "Show the metrics that the agent measures, and their formulas",
		Long: `Shows the metrics that the agent measures, and their formulas.

They are grouped by source. A core-scoped metric has a value for each CPU, a node-scoped one a single value, and those
of sockets and GPUs one for each. A ratio is formed for each value, and never summed. A rate is per second. A gauge is
what was found at the end of the interval.

--available opens every source of this host, and reads it twice. It names what has a value, and why the rest has none.
A metric that a host lacks is absent from its records: it is never 0.

With a configuration the site's own metrics are among them.`,
		Example: `  weir metrics
  weir metrics --available --config /etc/weir/agent.yaml
  weir metrics --json | jq -r .name`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var cfg config.Config
			if probes || conf.file != "" {
				var err error
				if cfg, err = conf.local(); err != nil {
					return err
				}
			}
			rows := catalogue(cfg.Agent)
			if probes {
				if wait := apart(cfg, 0); wait > 2*time.Second {
					say(c.ErrOrStderr(), "weir metrics: the site's commands run before each boundary; waiting %s "+
						"for them", wait)
				}
				if err := probe(c.Context(), withList(cfg, newLogger(c.ErrOrStderr(), cfg)), rows); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), rows)
			}
			return printCatalogue(c.OutOrStdout(), rows)
		},
	}
	conf.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.Flags().BoolVar(&probes, "available", false, "probe this host: what has values, and why the rest has none")
	c.AddCommand(newMetricsSelect(), newMetricsCompare(), newMetricsDrift())
	return c
}

// metricRow is a line of the catalogue.
type metricRow struct {
	Name      string `json:"name"`
	Unit      string `json:"unit"`
	Scope     string `json:"scope"`
	Kind      string `json:"kind"`
	Source    string `json:"source"`
	Origin    string `json:"origin"`
	Formula   string `json:"formula"`
	Available *bool  `json:"available,omitempty"` // nil where the host was not probed
	Reason    string `json:"reason,omitempty"`    // why it is not available
}

func catalogue(cfg config.Agent) (rows []metricRow) {
	for _, m := range source.Catalogue(cfg) {
		rows = append(rows, metricRow{
			Name: m.Name, Unit: m.Unit, Scope: m.Scope, Kind: string(m.Kind), Source: m.Source, Origin: m.Origin,
			Formula: m.Formula,
		})
	}
	return rows
}

// probe fills in what this host has.
func probe(ctx context.Context, cfg config.Config, rows []metricRow) error {
	h := source.Open(cfg.Agent, slog.New(slog.DiscardHandler))
	defer h.Close()
	_, columns, jobs, err := readTwice(ctx, h, apart(cfg, 500*time.Millisecond))
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
			r.Reason = withRemedy(reason)
		}
	}
	return nil
}

// withRemedy is why something is absent, and what to do.
func withRemedy(reason error) string {
	if remedy := source.Remedy(reason); remedy != "" {
		return reason.Error() + ": " + remedy
	}
	return reason.Error()
}

// apart is the time between two readings: at least so long, and so long that each command of the site ran in between.
func apart(cfg config.Config, least time.Duration) time.Duration {
	for _, s := range cfg.Agent.Sources {
		if len(s.Exec) > 0 {
			least = max(least, cfg.Interval+s.Timeout)
		}
	}
	return least
}

// readTwice reads the sources twice, some time apart.
func readTwice(ctx context.Context, h *source.Host, apart time.Duration) (
	cpus []int32, columns []source.Column, jobs []source.JobColumns, err error,
) {
	read := func() time.Time {
		now := time.Now()
		h.Read(source.Vitals{BoundaryMs: now.UnixMilli(), Interval: max(apart, time.Second)})
		return now
	}
	begin := read()
	if !kafka.Pause(ctx, apart) {
		return nil, nil, nil, ctx.Err()
	}
	elapsed := read().Sub(begin)
	cpus, columns = h.Interval(elapsed)
	return cpus, columns, h.Jobs(elapsed), nil
}

// printCatalogue prints the metrics below their sources. Text that is too long for a line goes on below its beginning.
func printCatalogue(w io.Writer, rows []metricRow) error {
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
			if r.Scope != "" { // a metric that the site computes has that of its inputs
				head = fmt.Sprintf("%s (%s): ", r.Source, r.Scope)
			}
			fmt.Fprintf(&text, "%s%s\n", head, wrapped(r.Origin, 4, len(head)))
			if shared = sharedReason(rows[i:]); shared != "" {
				fmt.Fprintf(&text, "    absent: %s\n", wrapped(shared, 4, len("    absent: ")))
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
			wrapped(what, indent, indent))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// sharedReason is why all metrics of the first row's source are absent, and empty where that differs. One alone shares
// it with none.
func sharedReason(rows []metricRow) string {
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

// wrapped breaks text at spaces, so that it fits behind the first line's beginning, and indents what follows.
func wrapped(text string, indent, begun int) string {
	var b strings.Builder
	at := begun
	for i, word := range strings.Fields(schemas.Printable(text)) {
		switch {
		case i == 0:
		case at+1+len(word) > tableWidth:
			fmt.Fprintf(&b, "\n%*s", indent, "")
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}

// intervalRow is a metric of one interval of this host.
type intervalRow struct {
	Name   string     `json:"name"`
	Unit   string     `json:"unit"`
	Scope  string     `json:"scope"`
	CPUs   []int32    `json:"cpus,omitempty"`   // of a core-scoped metric, in the order of its values
	Rows   []int32    `json:"rows,omitempty"`   // numbers of the sockets or GPUs, likewise
	Cgroup string     `json:"cgroup,omitempty"` // of a job-scoped metric: the name of the job's cgroup
	Values []*float64 `json:"values"`           // null where one is missing
}

// once prints one interval of this host. Kafka is not asked.
func once(c *cobra.Command, cfg config.Config, asJSON bool) error {
	h := source.Open(cfg.Agent, newLogger(c.ErrOrStderr(), cfg))
	defer h.Close()
	if wait := apart(cfg, cfg.Interval); wait > 2*time.Second {
		say(c.ErrOrStderr(), "weir agent: reading now, and again in %s", wait)
	}
	cpus, columns, jobs, err := readTwice(c.Context(), h, apart(cfg, cfg.Interval))
	if err != nil {
		return err
	}
	rows := intervalRows(cpus, columns)
	for _, j := range jobs {
		of := intervalRows(nil, j.Columns)
		for i := range of {
			of[i].Cgroup = schemas.Printable(j.Cgroup)
		}
		rows = append(rows, of...)
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), rows)
	}
	return printInterval(c.OutOrStdout(), rows)
}

func intervalRows(cpus []int32, columns []source.Column) []intervalRow {
	rows := make([]intervalRow, len(columns))
	for i := range columns {
		k := &columns[i]
		rows[i] = intervalRow{
			Name: k.Name, Unit: k.Unit, Scope: k.Scope, Rows: k.Rows,
			Values: make([]*float64, len(k.Values)),
		}
		if k.Scope == schemas.ScopeCore {
			rows[i].CPUs = cpus
		}
		for j, v := range k.Values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				rows[i].Values[j] = &v
			}
		}
	}
	return rows
}

func printInterval(w io.Writer, rows []intervalRow) error {
	t := newTable(0)
	t.line("METRIC\tUNIT\tSCOPE\tVALUES\tMISSING\tMIN\tMEDIAN\tMAX")
	for _, r := range rows {
		var values []float64
		for _, v := range r.Values {
			if v != nil {
				values = append(values, *v)
			}
		}
		slices.Sort(values)
		least, median, most := "-", "-", "-"
		if n := len(values); n > 0 {
			least, median, most = number(&values[0]), number(&values[(n-1)/2]), number(&values[n-1])
		}
		t.line("%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s", r.Name, r.Unit, cmp.Or(r.Cgroup, r.Scope), len(values),
			len(r.Values)-len(values), least, median, most)
	}
	return t.print(w)
}

// costRow is what a source costs here.
type costRow struct {
	Source     string            `json:"source"`
	State      string            `json:"state"` // read or absent
	Metrics    int               `json:"metrics"`
	CPUMedian  float64           `json:"cpu_us_median"`
	CPUMax     float64           `json:"cpu_us_max"`
	WallMedian float64           `json:"wall_us_median"`
	WallMax    float64           `json:"wall_us_max"`
	Absent     map[string]string `json:"absent,omitempty"` // metrics, and why
}

// readings is how often weir agent --check reads each source.
const readings = 20

// wholeCycle is the row of --check for all sources together. No source has this name.
const wholeCycle = "(cycle)"

// checkSources prints what each source costs on this host. Kafka is not asked.
func checkSources(c *cobra.Command, cfg config.Config, asJSON bool) error {
	h := source.Open(cfg.Agent, slog.New(slog.DiscardHandler)) // the rows say what the log would
	defer h.Close()
	sources, cycles, err := h.Costs(c.Context(), readings, 50*time.Millisecond)
	if err != nil {
		return err
	}
	rows := make([]costRow, 0, len(sources)+1)
	all := costRow{Source: wholeCycle, State: "read"}
	all.CPUMedian, all.CPUMax = spread(cycles)
	for _, s := range sources {
		r := costRow{Source: s.Source, State: "read", Metrics: s.Metrics}
		if len(s.CPU) == 0 && len(s.Absent) > 0 {
			r.State = "absent"
		}
		r.CPUMedian, r.CPUMax = spread(s.CPU)
		r.WallMedian, r.WallMax = spread(s.Wall)
		for _, a := range s.Absent {
			if r.Absent == nil {
				r.Absent = map[string]string{}
			}
			r.Absent[a.Metric] = withRemedy(a.Reason)
		}
		all.Metrics += r.Metrics
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b costRow) int { return cmp.Compare(b.CPUMedian, a.CPUMedian) })
	rows = append(rows, all)
	if asJSON {
		return printJSON(c.OutOrStdout(), rows)
	}
	return printCosts(c.OutOrStdout(), rows)
}

// spread returns the median and the largest of some times, in microseconds.
func spread(all []time.Duration) (median, most float64) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return us(all[len(all)/2]), us(all[len(all)-1])
}

// printCosts prints the dearest source first, then what is absent. Metrics of a source with the same reason share a
// line.
func printCosts(w io.Writer, rows []costRow) error {
	t := newTable(0)
	t.line("SOURCE\tSTATE\tMETRICS\tCPU_US\tMAX\tWALL_US\tMAX")
	us := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	var absent strings.Builder
	for _, r := range rows {
		t.line("%s\t%s\t%d\t%s\t%s\t%s\t%s", r.Source, r.State, r.Metrics, us(r.CPUMedian), us(r.CPUMax),
			us(r.WallMedian), us(r.WallMax))
		named := map[string][]string{}
		for metric, reason := range r.Absent {
			named[reason] = append(named[reason], metric)
		}
		for _, reason := range slices.Sorted(maps.Keys(named)) {
			slices.Sort(named[reason])
			head := r.Source + ": "
			fmt.Fprintf(&absent, "%s%s\n", head, wrapped(strings.Join(named[reason], " ")+": "+reason, 4, len(head)))
		}
	}
	err := t.print(w)
	if absent.Len() > 0 && err == nil {
		_, err = fmt.Fprintf(w, "\nabsent:\n%s", absent.String())
	}
	return err
}

// errOneOf is returned for flags of the agent that exclude each other.
var errOneOf = errors.New("--once, --check: give one of them; --json goes with either")
