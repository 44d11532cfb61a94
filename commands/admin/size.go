package admin

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/config/sizing"
	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
)

// sizeKeys are the configuration keys that flags of weir size set.
var sizeKeys = map[string]string{
	"interval": "interval", "retention": "topics.counters_retention", "replication": "topics.replication",
}

// sizeFlags are the flags of weir size.
type sizeFlags struct {
	file    string
	machine sizing.Machine
	asJSON  bool
}

// NewSize returns the command weir size.
func NewSize() *cobra.Command {
	var f sizeFlags
	c := &cobra.Command{
		Use:   "size",
		Short: "Compute how many brokers, partitions, cores, bytes and disks a machine needs",
		Long: `Computes how many brokers, partitions, cores, bytes and disks a machine needs.

Bytes are counted from encoded records, with names as long as in "weir metrics" and without compression. Processor time
comes from a model that "make bench-growth" fitted to measurements. Everything else comes from rules of thumb, each
shown with its name, so that you can replace it by your own.

It assumes a value for each logical CPU in every metric, and no shared nodes. Metrics of nodes, sockets and GPUs need
less. With a configuration, its interval, replication, retention and limits count. It asks no broker.`,
		Example: `  weir size --nodes 9288 --cores 16 --metrics 37 --jobs 185    # SuperMUC
  weir size --nodes 9408 --cores 64                            # Frontier
  weir size --nodes 78125 --cores 128 --interval 30s           # ten million cores
  weir size --nodes 9408 --cores 64 --config weir.yaml --json | jq .needs.brokers`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.StringVar(&f.file, "config", "", "take interval, replication, retention and limits from configuration `FILE`")
	cli.OfferFiles(c, "config", cli.YamlFiles...)
	flags.IntVar(&f.machine.Nodes, "nodes", 0, "compute nodes: `N`")
	flags.IntVar(&f.machine.Cores, "cores", 0, "logical CPUs of a node: `N`")
	flags.IntVar(&f.machine.Metrics, "metrics", 37, "metrics that have a value for each logical CPU: `N`")
	flags.IntVar(&f.machine.Jobs, "jobs", 0, fmt.Sprintf("jobs that run at a time: `N`; 0: one for %d nodes",
		sizing.NodesOfAJob))
	d := config.Default()
	flags.Duration("interval", d.Interval, "`DURATION` of an interval")
	flags.Duration("retention", d.Topics.CountersRetention, "how long counters are kept: `DURATION`")
	flags.Int("replication", d.Topics.Replication, "copies of each record: `N`")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object: needs and rules")
	return c
}

func (f *sizeFlags) run(c *cobra.Command) error {
	for _, name := range []string{"nodes", "cores"} {
		if !c.Flags().Changed(name) {
			return cli.Usage(fmt.Errorf("--%s is needed, as in: weir size --nodes 9408 --cores 64", name))
		}
	}
	if c.Flags().Changed("jobs") && f.machine.Jobs < 1 {
		return cli.Usage(fmt.Errorf("--jobs %d: at least 1", f.machine.Jobs))
	}
	src := config.Source{
		File: f.file, Environ: os.Environ(), Flags: c.Flags(), Keys: sizeKeys, Defaults: config.Default(),
	}
	cfg, err := config.Load(src)
	if err != nil {
		return cli.Usage(err)
	}
	growth, err := sizing.Measured()
	if err != nil {
		return err
	}
	f.machine.Names = catalogueNames()
	needs, err := sizing.Size(f.machine, cfg, growth)
	if errors.Is(err, sizing.ErrMachine) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	rules := sizing.Rules(growth)
	if f.asJSON {
		return cli.PrintJSON(c.OutOrStdout(), []sized{{needs, rules}})
	}
	return printSize(c.OutOrStdout(), needs, rules, cfg)
}

// sized is the JSON object of --json.
type sized struct {
	Needs sizing.Needs  `json:"needs"`
	Rules []sizing.Rule `json:"rules"`
}

// catalogueNames are the core-scoped metrics that the agent ships.
func catalogueNames() (names []sizing.Metric) {
	for _, m := range source.Catalogue(config.Agent{}) {
		if m.Scope == schemas.ScopeCore {
			names = append(names, sizing.Metric{Name: m.Name, Unit: m.Unit})
		}
	}
	return names
}

func printSize(w io.Writer, n sizing.Needs, rules []sizing.Rule, cfg config.Config) error {
	cli.Say(w, "%s nodes with %s logical CPUs, %s metrics, %s jobs, an interval of %s: %s values a second",
		view.Count(int64(n.Nodes)), view.Count(int64(n.Cores)), view.Count(int64(n.Metrics)), view.Count(int64(n.Jobs)),
		cfg.Interval, si(n.ValuesPerS, ""))
	for _, section := range []func(*cli.Table, sizing.Needs, config.Config){showServices, showBytes, showArchive} {
		t := cli.NewTable(0)
		section(t, n, cfg)
		cli.Say(w, "")
		if err := t.Print(w); err != nil {
			return err
		}
	}
	cli.Say(w, "\nRules of thumb, and what was measured:")
	t := cli.NewTable(0)
	for _, r := range rules {
		t.Line("  %s\t%s\t%s", r.Name, si(r.Value, r.Unit), r.Why)
	}
	return t.Print(w)
}

func showServices(t *cli.Table, n sizing.Needs, cfg config.Config) {
	t.Line("brokers\t%d\tby %s; %d copies of each record", n.Brokers, n.BrokersBy, cfg.Topics.Replication)
	t.Line("partitions of counters\t%d\tby %s; collectors in the configuration, cannot be changed later", n.Partitions,
		n.PartitionsBy)
	t.Line("partitions of routes\t%d\tpartitions.routes: a thirtieth of the nodes", max(1, min(10_000, n.Nodes/30)))
	t.Line("collect, cores\t%d\tan interval takes %s of folding; and as much for Kafka's client", n.CollectCores,
		si(n.CPUSeconds, "s"))
	t.Line("collect, processes\t%d\tweir collect, on at least two hosts", n.CollectProcesses)
	t.Line("collect, memory\t%s\tof all processes together, while intervals close", si(float64(n.MemoryBytes), "B"))
	t.Line("collect, memory at worst\t%s\twhile no balancer runs: %d intervals are kept",
		si(float64(n.MemoryOutageBytes), "B"), config.Outage+1)
	t.Line("merge, sink, balance\t2 each\tone works, and one stands by")
}

func showBytes(t *cli.Table, n sizing.Needs, cfg config.Config) {
	t.Line("a record\t%s\tof a node in an interval", si(float64(n.RecordBytes), "B"))
	t.Line("agents to brokers\t%s\ton average; of a node %s", si(n.InBytesPerS, "B/s"),
		si(n.InBytesPerS/float64(n.Nodes), "B/s"))
	t.Line("the same, at most\t%s\tall agents send in half of grace (%s); a longer one lowers it",
		si(n.BurstBytesPerS, "B/s"), cfg.Grace)
	t.Line("quota of an agent\t%s\tproducer_byte_rate of each client, which an agent never reaches (docs/security.md)",
		si(n.QuotaBytesPerS, "B/s"))
	t.Line("among brokers\t%s\tthe other copies", si(n.ReplicaBytesPerS, "B/s"))
	t.Line("brokers to collect\t%s\ton average", si(n.CollectBytesPerS, "B/s"))
	t.Line("brokers to samples\t%s\twhere weir samples runs, or another reader of all values",
		si(n.SamplesBytesPerS, "B/s"))
	t.Line("summaries\t%s\tfrom collect and merge, and again to each reader", si(n.SummaryBytesPerS, "B/s"))
	t.Line("disk: counters\t%s\tfor %s, all copies", si(n.CountersBytes, "B"), short(cfg.Topics.CountersRetention))
	t.Line("disk: partials\t%s\tfor %s, all copies", si(n.PartialsBytes, "B"), short(cfg.Topics.CountersRetention))
	t.Line("disk: job-summary\t%s\tfor %s, all copies", si(n.SummaryTopic, "B"), short(cfg.Topics.SummaryRetention))
	t.Line("disk of each broker\t%s\tall of that, with room to spare", si(n.BrokerDiskBytes, "B"))
}

func showArchive(t *cli.Table, n sizing.Needs, cfg config.Config) {
	t.Line("archive\t%s\ta day", si(n.ArchiveDayBytes, "B"))
	t.Line("\t%s\ta week; all values, 8 bytes each: %s", si(n.ArchiveWeekBytes, "B"), si(n.ValuesWeekBytes, "B"))
	t.Line("reduction\t%s\tPerSyst's paper has more than 91 %%", view.Percent(n.Reduction, true))
	if cfg.Collect.Sketch > 0 {
		t.Line("\t%s\twithout certified summaries (collect.sketch: 0)", view.Percent(n.ReductionBare, true))
	}
}

// si writes a number with three digits, a prefix and a unit.
func si(v float64, unit string) string {
	if v > 0 && v < 1 && unit == "s" {
		number, prefix := view.SI(v * 1e9)
		if prefix == "" {
			return number + " ns"
		}
		return number + " " + map[string]string{"k": "µ", "M": "m"}[prefix] + unit
	}
	number, prefix := view.SI(v)
	if prefix+unit == "" {
		return number
	}
	if prefix == "" || len(unit) < 4 {
		return number + " " + prefix + unit
	}
	return number + prefix + " " + unit
}

// short writes a duration without zeros at its end.
func short(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}
