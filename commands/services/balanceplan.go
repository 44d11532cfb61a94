package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
)

const planHelp = `

With --plan it only shows the collectors for the jobs of a list. With --explain JOB, it shows the reasons for that
job's place. Neither touches a broker. A running balancer keeps jobs in place, but the plan is made as if it had just
started. The configuration, if there is one, supplies everything that the options leave out: the jobs of all sources,
and the tree.

The object of --plan --json has these names:

  - jobs: each with its method, and its nodes at each collector. A job of method NODE has no collector.
  - collectors: each with its load in nodes
  - distance, lower_bound, tree_nodes_used, overloaded
  - skipped: the jobs that cannot be followed. They are on standard error too.
  - waiting: how many jobs wait for their start`

// planFlags are the flags of weir balance that show a plan in place of balancing.
type planFlags struct {
	plan, json bool
	explain    string
}

// planKeys are the configuration keys that flags of a plan set.
var planKeys = map[string]string{
	"jobs": "balance.jobs_file", "tree": "balance.tree_file",
	"algorithm": "balance.algorithm", "collectors": "collectors",
	"l-max": "balance.l_max", "l-dist": "balance.l_dist", "log-level": "log_level",
}

// Add gives a command the flags that show a plan.
func (f *planFlags) Add(c *cobra.Command) {
	d := config.Default()
	flags := c.Flags()
	flags.BoolVar(&f.plan, "plan", false, "show a plan, without Kafka")
	flags.StringVar(&f.explain, "explain", "", "show why `JOB` is where it is, without Kafka")
	flags.BoolVar(&f.json, "json", false, "with --plan: print one JSON object")
	flags.String("jobs", "", "with --plan: job `FILE` (YAML)")
	flags.String("tree", "", "with --plan: `FILE` with the tree: YAML, topology.conf, topology.yaml or .tgf")
	flags.String("algorithm", d.Balance.Algorithm, "with --plan: `NAME` of the algorithm: weir or literal")
	flags.Int("collectors", d.Collectors, "with --plan: `N` collectors")
	flags.Int("l-max", d.Balance.LMax,
		"with --plan: `NODES` that one collector takes (default: from the configured rates)")
	flags.Int("l-dist", d.Balance.LDist,
		"with --plan and literal: `NODES` of a split job at one collector (default: 0.9 l-max)")
	cli.OfferFiles(c, "jobs", cli.YamlFiles...)
	cli.OfferFiles(c, "tree", append([]string{"conf", "tgf"}, cli.YamlFiles...)...)
	cli.Offer(c, "algorithm", "weir", "literal")
}

// wanted reports whether a plan is to be shown.
func (f *planFlags) wanted() bool { return f.plan || f.explain != "" }

// unused returns an error if a flag was given that has an effect with a plan only.
func (f *planFlags) unused(c *cobra.Command) (err error) {
	c.Flags().Visit(func(given *pflag.Flag) {
		key, only := planKeys[given.Name]
		switch {
		case err != nil || given.Name == "log-level":
		case only:
			err = cli.Usage(fmt.Errorf("--%s is for --plan and --explain; a balancer takes %s from its configuration",
				given.Name, key))
		case given.Name == "json" && f.json:
			err = cli.Usage(errors.New("--json is for --plan"))
		}
	})
	return err
}

// show prints a plan, or the reasons for the place of a job. It works without a configuration.
func (f *planFlags) show(c *cobra.Command, conf *cli.ConfigFlags) error {
	for _, name := range []string{"simulate", "machine"} {
		if c.Flags().Changed(name) {
			return cli.Usage(fmt.Errorf("--%s is for a balancer that runs; a plan wants --jobs FILE", name))
		}
	}
	if f.explain != "" && f.json {
		return cli.Usage(errors.New("--explain and --json: choose one; " +
			"--plan --json is for programs"))
	}
	src := conf.Source(cli.EtcFile)
	src.Keys = planKeys
	cfg, err := config.Load(src)
	if err != nil {
		return cli.Usage(err)
	}
	conf.ReportIgnored(cfg)
	p, err := preview(c.Context(), cfg, c.Flags().Changed("jobs"), c.ErrOrStderr())
	if err != nil {
		return err
	}
	for _, s := range p.Skipped {
		cli.Say(c.ErrOrStderr(), "weir: job %s skipped: %s", schemas.ShownJobID(s.JobID), s.Reason)
	}
	if most, _ := cfg.CollectorNodes(); p.Overloaded {
		cli.Say(c.ErrOrStderr(), "weir: overloaded: the jobs need %d collectors of %d nodes, there are %d; "+
			"raise collectors (under a new prefix) or what a collector takes (balance.l_max)",
			p.Needed, most, cfg.Collectors)
	}
	switch {
	case f.explain != "":
		return p.Explain(c.OutOrStdout(), f.explain)
	case f.json:
		return json.NewEncoder(cli.Escaped{W: c.OutOrStdout()}).Encode(p)
	}
	return printPlan(c.OutOrStdout(), p)
}

// preview plans the jobs of all configured sources, or with fileAlone the jobs of the job file. It reports the parts of
// the tree file that the tree leaves out.
func preview(ctx context.Context, cfg config.Config, fileAlone bool, report io.Writer) (*balancer.Preview, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the sources' goroutines
	if fileAlone {
		cfg.Balance.Slurm.Enabled, cfg.Balance.DropDir = false, ""
	}
	if err := scheduler.CheckCPUIDs(cfg); err != nil {
		return nil, cli.Usage(err)
	}
	sources, slurm := schedulers(ctx, cfg)
	if len(sources) == 0 {
		return nil, cli.Usage(errors.New("no jobs: name the file of jobs and their nodes with --jobs FILE, " +
			"or a configuration with balance.slurm, balance.drop_dir or balance.jobs_file"))
	}
	source := scheduler.Join(sources...)
	nodes := cfg.Balance.Nodes
	if len(nodes) == 0 && cfg.Balance.TreeFile == "" && slurm != nil {
		if nodes = slurm.Nodes(); nodes == nil {
			_, faults := slurm.Jobs(time.Now())
			return nil, unreadable(faults)
		}
	}
	tree, err := treeOf(cfg, nodes)
	if err != nil {
		return nil, cli.Usage(err)
	}
	for _, w := range tree.Warnings() {
		cli.Say(report, "weir: tree file %s: %s", cfg.Balance.TreeFile, w)
	}
	if len(tree.Nodes()) == 0 {
		return nil, cli.Usage(errors.New("no tree: name the file with the nodes of the machine with --tree FILE"))
	}
	p := balancer.NewPreview(cfg, tree, source, time.Now())
	if err := unreadable(p.Faults); err != nil && slurm == nil {
		return nil, cli.Usage(err)
	} else if err != nil {
		return nil, err
	}
	return p, nil
}

// printPlan prints numbers of nodes in place of the names that the JSON lists, since the plan of a machine names
// thousands.
func printPlan(out io.Writer, p *balancer.Preview) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "JOB\tRESTART\tMETHOD\tCOLLECTORS (NODES)")
	for _, j := range p.Jobs {
		var at []string
		for _, s := range j.Collectors {
			at = append(at, fmt.Sprintf("%d (%d)", s.Collector, len(s.Nodes)))
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", j.JobID, j.Restart, j.Method, strings.Join(at, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	used, most := 0, int64(0)
	for _, c := range p.Collectors {
		if c.Load > 0 {
			used++
		}
		most = max(most, c.Load)
	}
	_, err := fmt.Fprintf(out, "\ndistance %d, lower bound %d; tree nodes used %d; "+
		"%d of %d collectors used, the fullest takes %d nodes\n",
		p.Distance, p.LowerBound, p.TreeNodesUsed, used, len(p.Collectors), most)
	if err == nil && p.Waits+p.Over > 0 {
		_, err = fmt.Fprintf(out, "jobs that do not run now: %d waiting, %d over\n", p.Waits, p.Over)
	}
	return err
}
