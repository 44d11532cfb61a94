package main

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

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const planHelp = `

With --plan it only shows where the jobs of a list would be reduced, and touches no broker; with --explain JOB, why one of them is
where it is. The jobs that run now are planned as by a balancer that begins now: one that runs keeps jobs where they are. What
is not given comes from the configuration, if there is one: jobs from all of its sources (Slurm, drop directory, balance.jobs_file), the
tree from balance.tree_file (or balance.nodes, or Slurm's). With --json, one object: jobs with method and the nodes at each of their collectors (a job of method NODE has
none), the load of each collector in nodes, distance and its lower_bound, tree_nodes_used, overloaded, the jobs skipped because they
cannot be followed, and how many are waiting for their start. Skipped jobs are named on standard error too.

  weir balance --plan --jobs jobs.yaml --tree tree.yaml --collectors 8 --l-max 1000
  weir balance --explain 4711 --config /etc/weir/balance.yaml`

// planFlags are the flags of weir balance that show a plan in place of balancing.
type planFlags struct {
	plan, json bool
	explain    string
}

// planKeys are the configuration keys that flags of a plan set.
var planKeys = map[string]string{
	"jobs": "balance.jobs_file", "tree": "balance.tree_file", "algorithm": "balance.algorithm", "collectors": "collectors",
	"l-max": "balance.l_max", "l-dist": "balance.l_dist", "log-level": "log_level",
}

// addPlan gives weir balance the flags that show a plan.
func addPlan(c *cobra.Command) {
	var f planFlags
	d := config.Default()
	c.Long += planHelp
	flags := c.Flags()
	flags.BoolVar(&f.plan, "plan", false, "show an assignment, without Kafka")
	flags.StringVar(&f.explain, "explain", "", "say why `JOB` is where it is, without Kafka")
	flags.BoolVar(&f.json, "json", false, "with --plan: one JSON object")
	flags.String("jobs", "", "with --plan: job `FILE` (YAML)")
	flags.String("tree", "", "with --plan: `FILE` with the tree: YAML, topology.conf, topology.yaml or .tgf")
	flags.String("algorithm", d.Balance.Algorithm, "with --plan: weir or literal")
	flags.Int("collectors", d.Collectors, "with --plan: `N` collectors")
	flags.Int("l-max", d.Balance.LMax, "with --plan: `NODES` whose jobs one collector takes (0: from the configuration's rates)")
	flags.Int("l-dist", d.Balance.LDist, "with --plan, literal: `NODES` of a split job for one collector (0: 0.9 l-max)")
	serve := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.plan || f.explain != "" {
			return f.run(c)
		}
		for name := range planKeys {
			if name != "log-level" && c.Flags().Changed(name) {
				return usageError{fmt.Errorf("--%s is for --plan and --explain; a balancer takes %s from its configuration", name, planKeys[name])}
			}
		}
		if f.json {
			return usageError{errors.New("--json is for --plan")}
		}
		return serve(c, args)
	}
}

func (f *planFlags) run(c *cobra.Command) error {
	if c.Flags().Changed("simulate") {
		return usageError{errors.New("--simulate is for a balancer that runs; a plan wants --jobs FILE")}
	}
	if f.explain != "" && f.json {
		return usageError{errors.New("--explain and --json: choose one; --plan --json has what --explain says in words")}
	}
	cfg, err := planConfig(c)
	if err != nil {
		return usageError{err}
	}
	p, err := preview(c.Context(), cfg, c.Flags().Changed("jobs"), c.ErrOrStderr())
	if err != nil {
		return err
	}
	for _, s := range p.Skipped {
		say(c.ErrOrStderr(), "weir: job %s skipped: %s", schemas.ShownJobID(s.JobID), s.Reason)
	}
	if most, _ := cfg.CollectorNodes(); p.Overloaded {
		say(c.ErrOrStderr(), "weir: overloaded: the jobs need %d collectors of %d nodes, there are %d; raise collectors (under a new prefix) or what a collector takes (balance.l_max)",
			p.Needed, most, cfg.Collectors)
	}
	switch {
	case f.explain != "":
		return p.Explain(c.OutOrStdout(), f.explain)
	case f.json:
		return json.NewEncoder(escaped{c.OutOrStdout()}).Encode(p)
	}
	return printPlan(c.OutOrStdout(), p)
}

// planConfig is the configuration of a plan: of the same files as any command's, but it needs none.
func planConfig(c *cobra.Command) (config.Config, error) {
	src := (&configFlags{file: c.Flag("config").Value.String(), command: c}).source(etcFile)
	src.Keys = planKeys
	return config.Load(src)
}

// preview plans for the jobs of a file that was named, else for those of all sources of the configuration. It reports
// what the tree's file has that the tree does not show.
func preview(ctx context.Context, cfg config.Config, fileAlone bool, report io.Writer) (*balancer.Preview, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what asks in the background
	if fileAlone {
		cfg.Balance.Slurm.Enabled, cfg.Balance.DropDir = false, ""
	}
	if err := scheduler.CheckCPUIDs(cfg); err != nil {
		return nil, usageError{err}
	}
	sources, slurm := schedulers(ctx, cfg)
	if len(sources) == 0 {
		return nil, usageError{errors.New("no jobs: name the file that says which jobs run where with --jobs FILE, or a configuration with balance.slurm, balance.drop_dir or balance.jobs_file")}
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
		return nil, usageError{err}
	}
	for _, w := range tree.Warnings() {
		say(report, "weir: tree file %s: %s", cfg.Balance.TreeFile, w)
	}
	if len(tree.Nodes()) == 0 {
		return nil, usageError{errors.New("no tree: name the file with the nodes of the machine with --tree FILE")}
	}
	p := balancer.NewPreview(cfg, tree, source, time.Now())
	if err := unreadable(p.Faults); err != nil && slurm == nil {
		return nil, usageError{err}
	} else if err != nil {
		return nil, err
	}
	return p, nil
}

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
	_, err := fmt.Fprintf(out, "\ndistance %d, lower bound %d; tree nodes used %d; %d of %d collectors used, the fullest takes %d nodes\n",
		p.Distance, p.LowerBound, p.TreeNodesUsed, used, len(p.Collectors), most)
	if err == nil && p.Waits+p.Over > 0 {
		_, err = fmt.Fprintf(out, "jobs that do not run now: %d waiting, %d over\n", p.Waits, p.Over)
	}
	return err
}
