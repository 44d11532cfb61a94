package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis/topics"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/hardware"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// machinePatience bounds the time for the facts. The topic is small.
const machinePatience = 30 * time.Second

// machineType is a node type for programs. Null is unknown.
type machineType struct {
	Name           string                    `json:"name"`
	Nodes          string                    `json:"nodes"` // a hostlist; empty: all others
	Count          int                       `json:"count"` // nodes with facts
	CPUs           *int                      `json:"cpus"`
	ThreadsPerCore *int                      `json:"threads_per_core"`
	GPUs           *int                      `json:"gpus"`
	Memory         *int64                    `json:"memory_bytes"`
	PeakFlops      *float64                  `json:"peak_flops"`
	PeakMemBW      *float64                  `json:"peak_mem_bw_bytes_per_s"`
	From           map[string]map[string]int `json:"from"` // nodes by fact and origin
	Blind          []rules.Blind             `json:"blind_rules"`
}

// machineReport is the machine for programs.
type machineReport struct {
	Types          []machineType `json:"types"`
	Contradictions []string      `json:"contradictions"`
	Unread         string        `json:"unread"` // why the facts of the agents are missing
}

// NewMachine returns the command weir machine.
func NewMachine() *cobra.Command {
	conf := cli.ConfigFlags{Reads: true}
	var asJSON bool
	c := &cobra.Command{
		Use:   "machine",
		Short: "List the types of nodes, the source of each fact, and the rules that lack one",
		Long: `Lists the types of nodes as rules know them.

A fact of "machine" in the configuration comes first, then the agent's of the node, which each agent reports at its
start. Nodes with the same facts are one type. FROM names the source of the facts; "none" means that a fact is unknown.

Then it lists facts on which two sources disagree, and rules that are not evaluated on a type, with the fact that they
lack: set it below "machine".`,
		Example: `  weir machine
  weir machine --json --config /etc/weir/status.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.Load()
			if err != nil {
				return err
			}
			facts, unread, err := readFacts(c.Context(), cfg)
			if err != nil {
				return err
			}
			r, err := machineOf(cfg, facts)
			if err != nil {
				return err
			}
			if unread != nil {
				r.Unread = unread.Error()
			}
			if asJSON {
				return cli.PrintJSON(c.OutOrStdout(), []*machineReport{r})
			}
			return r.print(c.OutOrStdout())
		},
	}
	conf.Add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// errNoBroker is the reason that facts are missing if no broker is configured.
var errNoBroker = errors.New("no broker is configured")

// readFacts reads the facts of the agents, if a broker is configured. unread is the reason that there are none.
func readFacts(ctx context.Context, cfg config.Config) (facts *hardware.Facts, unread, err error) {
	if len(cfg.Kafka.Brokers) == 0 {
		return hardware.NewFacts(cfg.Cluster), errNoBroker, nil
	}
	ctx, cancel := context.WithTimeout(ctx, machinePatience)
	defer cancel()
	reader, err := topics.Open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	return reader.Facts(ctx)
}

// machineOf describes the machine by the configuration and the facts of the agents.
func machineOf(cfg config.Config, facts *hardware.Facts) (*machineReport, error) {
	r := &machineReport{Types: []machineType{}, Contradictions: []string{}}
	set, err := reading.RuleSet(cfg)
	if err != nil {
		return nil, err
	}
	m, err := facts.Machine(cfg.Machine)
	if err != nil {
		return nil, cli.Usage(err)
	}
	for i := range m.Types {
		r.Types = append(r.Types, typeOf(&m.Types[i], set))
	}
	r.Contradictions = append(r.Contradictions, m.Contradictions...)
	return r, nil
}

func typeOf(t *hardware.Type, set *rules.Set) machineType {
	o := machineType{
		Name: t.Name, Nodes: t.Nodes, Count: len(t.Hosts), GPUs: t.GPUs, From: map[string]map[string]int{},
		Blind: append([]rules.Blind{}, set.Blind(t.NodeType)...),
	}
	o.CPUs, o.ThreadsPerCore, o.Memory = positive(t.CPUs), positive(t.ThreadsPerCore), positive(t.Memory)
	o.PeakFlops, o.PeakMemBW = positive(t.PeakFlops), positive(t.PeakMemBW)
	for k, name := range hardware.FactNames() {
		of := map[string]int{}
		for origin, nodes := range t.From[k] {
			of[string(origin)] = nodes
		}
		o.From[name] = of
	}
	return o
}

// positive returns nil for 0, which stands for unknown.
func positive[T int | int64 | float64](v T) *T {
	if v > 0 {
		return &v
	}
	return nil
}

func (r *machineReport) print(w io.Writer) error {
	t := cli.NewTable(0)
	t.Line("TYPE\tNODES\tCPUS\tTHREADS\tGPUS\tMEMORY\tPEAK FLOPS\tPEAK BW\tFROM")
	for i := range r.Types {
		o := &r.Types[i]
		t.Line("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", o.Name, o.hosts(), whole(o.CPUs), whole(o.ThreadsPerCore),
			whole(o.GPUs), scaled(o.Memory, "B"), scaled(o.PeakFlops, "FLOP/s"), scaled(o.PeakMemBW, "B/s"), o.from())
	}
	if len(r.Types) == 0 {
		t.Line("no node type is known")
	}
	if r.Unread != "" {
		t.Line("\nThe facts of the agents are missing: %s", r.Unread)
	}
	for _, text := range r.Contradictions {
		t.Line("\nDISAGREE %s", text)
	}
	for _, text := range r.blind() {
		t.Line("\nBLIND %s", text)
	}
	return t.Print(w)
}

// blind names the rules that lack a fact, a line for each fact and type.
func (r *machineReport) blind() (lines []string) {
	for i := range r.Types {
		of := map[string][]string{}
		var facts []string
		for _, b := range r.Types[i].Blind {
			if of[b.Fact] == nil {
				facts = append(facts, b.Fact)
			}
			of[b.Fact] = append(of[b.Fact], b.Rule)
		}
		for _, fact := range facts {
			lines = append(lines, fmt.Sprintf("%s: %s of %s is unknown: set it below machine",
				strings.Join(of[fact], ", "), fact, r.Types[i].Name))
		}
	}
	return lines
}

// hosts returns the nodes, of which there may be thousands.
func (o *machineType) hosts() string {
	const longest = 40
	switch {
	case o.Nodes == "":
		return "all others"
	case len(o.Nodes) > longest:
		return fmt.Sprintf("%d nodes", o.Count)
	}
	return o.Nodes
}

// from names the origin of the facts: once if all have the same, otherwise by fact.
func (o *machineType) from() string {
	of := map[string][]string{}
	var origins []string
	for _, fact := range hardware.FactNames() {
		origin := "none"
		var from []string
		for name := range o.From[fact] {
			if name == string(hardware.Configured) {
				name = "configuration"
			}
			from = append(from, name)
		}
		if slices.Sort(from); len(from) > 0 {
			origin = strings.Join(from, " and ")
		}
		if of[origin] == nil {
			origins = append(origins, origin)
		}
		of[origin] = append(of[origin], fact)
	}
	if len(origins) == 1 {
		return origins[0]
	}
	most := slices.MaxFunc(origins, func(a, b string) int { return len(of[a]) - len(of[b]) })
	words := []string{most}
	for _, origin := range origins {
		if origin != most {
			words = append(words, strings.Join(of[origin], " and ")+" "+origin)
		}
	}
	return strings.Join(words, "; ")
}

func whole(v *int) string {
	if v == nil {
		return "-"
	}
	return view.Count(int64(*v))
}

func scaled[T int64 | float64](v *T, unit string) string {
	if v == nil {
		return "-"
	}
	number, prefix := view.SI(float64(*v))
	return number + " " + prefix + unit
}

// shortBlind returns one line about rules that lack facts, or nothing.
func (r *machineReport) shortBlind() string {
	rulesOf, facts := map[string]bool{}, map[string]bool{}
	for i := range r.Types {
		for _, b := range r.Types[i].Blind {
			rulesOf[b.Rule], facts[b.Fact] = true, true
		}
	}
	if len(rulesOf) == 0 {
		return ""
	}
	var names []string
	for name := range facts {
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Sprintf("%d lack facts about nodes: %s; `weir machine` names them", len(rulesOf),
		strings.Join(names, ", "))
}
