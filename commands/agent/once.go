package agent

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

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// IntervalRow is a metric of one interval of this host.
type IntervalRow struct {
	Name   string     `json:"name"`
	Unit   string     `json:"unit"`
	Scope  string     `json:"scope"`
	CPUs   []int32    `json:"cpus,omitempty"`   // CPUs of a core-scoped metric, in the order of Values
	Rows   []int32    `json:"rows,omitempty"`   // sockets or GPUs, likewise
	Cgroup string     `json:"cgroup,omitempty"` // name of the cgroup of the job, for a job-scoped metric
	Values []*float64 `json:"values"`           // null if missing
}

// once prints one interval of this host. Kafka is not asked.
func once(c *cobra.Command, cfg config.Config, asJSON bool) error {
	h := source.Open(cfg.Agent, cli.NewLogger(c.ErrOrStderr(), cfg))
	defer h.Close()
	if wait := Apart(cfg, cfg.Interval); wait > 2*time.Second {
		cli.Say(c.ErrOrStderr(), "weir agent: reading now, and again in %s", wait)
	}
	cpus, columns, jobs, err := ReadTwice(c.Context(), h, Apart(cfg, cfg.Interval))
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
		return cli.PrintJSON(c.OutOrStdout(), rows)
	}
	return printInterval(c.OutOrStdout(), rows)
}

func intervalRows(cpus []int32, columns []source.Column) []IntervalRow {
	rows := make([]IntervalRow, len(columns))
	for i := range columns {
		k := &columns[i]
		rows[i] = IntervalRow{
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

func printInterval(w io.Writer, rows []IntervalRow) error {
	t := cli.NewTable(0)
	t.Line("METRIC\tUNIT\tSCOPE\tVALUES\tMISSING\tMIN\tMEDIAN\tMAX")
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
			least, median, most = cli.Number(&values[0]), cli.Number(&values[(n-1)/2]), cli.Number(&values[n-1])
		}
		t.Line("%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s", r.Name, r.Unit, cmp.Or(r.Cgroup, r.Scope), len(values),
			len(r.Values)-len(values), least, median, most)
	}
	return t.Print(w)
}

// CostRow is the cost of a source on this host.
type CostRow struct {
	Source     string            `json:"source"`
	State      string            `json:"state"` // read or absent
	Metrics    int               `json:"metrics"`
	CPUMedian  float64           `json:"cpu_us_median"`
	CPUMax     float64           `json:"cpu_us_max"`
	WallMedian float64           `json:"wall_us_median"`
	WallMax    float64           `json:"wall_us_max"`
	Absent     map[string]string `json:"absent,omitempty"` // metrics, and why
}

// readings is the number of times that weir agent --check reads each source.
const readings = 20

// WholeCycle names the row of --check for all sources together. No source bears this name.
const WholeCycle = "(cycle)"

// checkSources prints the cost of each source on this host. It does not ask Kafka. If report names a file, it writes a
// report of the hardware there before.
func checkSources(c *cobra.Command, cfg config.Config, asJSON bool, report string) error {
	if report != "" {
		if err := reportHardware(c, cfg, report); err != nil || report == toStdout {
			return err
		}
	}
	compared := compareEvents(c, cfg)
	h := source.Open(cfg.Agent, slog.New(slog.DiscardHandler)) // the rows replace the log
	defer h.Close()
	sources, cycles, err := h.Costs(c.Context(), readings, 50*time.Millisecond)
	if err != nil {
		return err
	}
	rows := make([]CostRow, 0, len(sources)+1)
	all := CostRow{Source: WholeCycle, State: "read"}
	all.CPUMedian, all.CPUMax = Spread(cycles)
	for _, s := range sources {
		r := CostRow{Source: s.Source, State: "read", Metrics: s.Metrics}
		if len(s.CPU) == 0 && len(s.Absent) > 0 {
			r.State = "absent"
		}
		r.CPUMedian, r.CPUMax = Spread(s.CPU)
		r.WallMedian, r.WallMax = Spread(s.Wall)
		for _, a := range s.Absent {
			if r.Absent == nil {
				r.Absent = map[string]string{}
			}
			r.Absent[a.Metric] = WithRemedy(a.Reason)
		}
		all.Metrics += r.Metrics
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b CostRow) int { return cmp.Compare(b.CPUMedian, a.CPUMedian) })
	rows = append(rows, all)
	if asJSON {
		return cli.PrintJSON(c.OutOrStdout(), rows)
	}
	if err := printCosts(c.OutOrStdout(), rows); err != nil || compared == 0 {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "perf-utils counted %d perf events too\n", compared)
	return err
}

// secondTime is how long perf-utils counts a group of perf events beside weir.
const secondTime = 100 * time.Millisecond

// compareEvents has perf-utils count the perf events of this host beside weir. It returns how many were compared, and
// prints a note for each on which both disagree. Where there are none the rows have the reason.
func compareEvents(c *cobra.Command, cfg config.Config) (compared int) {
	seconds, _ := source.SecondReadings(c.Context(), cfg.Agent, secondTime)
	for _, s := range seconds {
		if s.Reason == nil {
			compared++
		}
		if !s.Agrees() {
			cli.Say(c.ErrOrStderr(), "weir: note: perf event %s", s)
		}
	}
	return compared
}

// Spread returns the median and the maximum of durations, in microseconds.
func Spread(all []time.Duration) (median, most float64) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return us(all[len(all)/2]), us(all[len(all)-1])
}

// printCosts prints the most expensive source first, then the absent metrics. Metrics of a source with the same reason
// share a line.
func printCosts(w io.Writer, rows []CostRow) error {
	t := cli.NewTable(0)
	t.Line("SOURCE\tSTATE\tMETRICS\tCPU_US\tMAX\tWALL_US\tMAX")
	us := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	var absent strings.Builder
	for _, r := range rows {
		t.Line("%s\t%s\t%d\t%s\t%s\t%s\t%s", r.Source, r.State, r.Metrics, us(r.CPUMedian), us(r.CPUMax),
			us(r.WallMedian), us(r.WallMax))
		named := map[string][]string{}
		for metric, reason := range r.Absent {
			named[reason] = append(named[reason], metric)
		}
		for _, reason := range slices.Sorted(maps.Keys(named)) {
			slices.Sort(named[reason])
			head := r.Source + ": "
			text := strings.Join(named[reason], " ") + ": " + reason
			fmt.Fprintf(&absent, "%s%s\n", head, cli.Wrapped(text, 4, len(head)))
		}
	}
	err := t.Print(w)
	if absent.Len() > 0 && err == nil {
		_, err = fmt.Fprintf(w, "\nabsent:\n%s", absent.String())
	}
	return err
}

// errOneOf is returned for flags of the agent that exclude each other.
var errOneOf = errors.New("--once, --check: give one of them; --json goes with either")

// errReport is returned for a report that nothing is read for, or that would be mixed with other output.
var errReport = errors.New("--report goes with --check, and --report - without --json")

// WithRemedy returns the reason of an absence, followed by the remedy if one is known.
func WithRemedy(reason error) string {
	if remedy := source.Remedy(reason); remedy != "" {
		return reason.Error() + ": " + remedy
	}
	return reason.Error()
}

// Apart returns the time between two readings. It is at least least, and long enough for one run of each command of the
// site.
func Apart(cfg config.Config, least time.Duration) time.Duration {
	for _, s := range cfg.Agent.Sources {
		if len(s.Exec) > 0 {
			least = max(least, cfg.Interval+s.Timeout)
		}
	}
	return least
}

// ReadTwice reads the sources twice, some time apart.
func ReadTwice(ctx context.Context, h *source.Host, apart time.Duration) (
	cpus []int32, columns []source.Column, jobs []source.JobColumns, err error,
) {
	read := func() time.Time {
		now := time.Now()
		h.Read(source.Vitals{BoundaryMs: now.UnixMilli(), Interval: max(apart, time.Second)})
		return now
	}
	begin := read()
	if !retry.Pause(ctx, apart) {
		return nil, nil, nil, ctx.Err()
	}
	elapsed := read().Sub(begin)
	cpus, columns = h.Interval(elapsed)
	return cpus, columns, h.Jobs(elapsed), nil
}
