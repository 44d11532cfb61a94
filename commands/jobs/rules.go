package jobs

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// NewRules returns the command weir rules.
func NewRules() *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Show and check the rules that find what is wrong with jobs",
		Long: `Shows and checks the rules that find what is wrong with jobs.

The rules are weir's own, without those in find.off, and the site's in find.rules. docs/rules.md explains how to write
one.`,
		Example: `  weir rules list
  weir rules show idle-cores
  weir rules check site.yaml`,
		RunE: cli.NeedsSubcommand,
	}
	c.AddCommand(newRulesList(), newRulesShow(), newRulesCheck())
	return c
}

// ruleRow is a rule for a reader.
type ruleRow struct {
	ID         string             `json:"id"`
	Title      string             `json:"title"`
	Needs      []string           `json:"needs"`
	Uses       []string           `json:"uses"`
	Require    string             `json:"require"`
	Each       string             `json:"each"`
	Job        string             `json:"job"`
	Share      *float64           `json:"share"`
	By         string             `json:"by"`
	Parameters map[string]float64 `json:"parameters"`
	Silences   []string           `json:"silences"`
	From       string             `json:"from"`
	Hash       string             `json:"hash"`
	Source     string             `json:"source"`
}

func rowOf(r *rules.Rule) ruleRow {
	row := ruleRow{
		ID: r.ID, Title: r.Title, Needs: r.Needs, Uses: r.Uses, Require: r.Require, By: r.By, Silences: r.Silences,
		From: r.From, Hash: r.Hash, Source: r.SourceName, Parameters: map[string]float64{},
	}
	if row.Each = r.Condition; r.Job {
		row.Each, row.Job = "", r.Condition
	} else {
		row.Share = &r.Share
	}
	names, values := r.Parameters()
	for i, n := range names {
		row.Parameters[n] = values[i]
	}
	return row
}

func newRulesList() *cobra.Command {
	conf := cli.ConfigFlags{}
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the rules with the metrics that they need, their thresholds and sources",
		Long: `Lists the rules with the metrics that they need, their thresholds, and the sources of these.

A rule that is judged in every interval has a share: the share of intervals in which it must hold.`,
		Example: `  weir rules list
  weir rules list --json --config /etc/weir/weir.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := reading.ConfiguredRules(&conf)
			if err != nil {
				return err
			}
			if !asJSON {
				return printRules(c.OutOrStdout(), set)
			}
			rows := make([]ruleRow, len(set.Rules))
			for i := range set.Rules {
				rows[i] = rowOf(&set.Rules[i])
			}
			return cli.PrintJSON(c.OutOrStdout(), rows)
		},
	}
	conf.Add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

// printRules prints a paragraph for each rule.
func printRules(w io.Writer, set *rules.Set) error {
	var b strings.Builder
	for i := range set.Rules {
		if i > 0 {
			b.WriteString("\n")
		}
		printRule(&b, &set.Rules[i])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printRule(b *strings.Builder, r *rules.Rule) {
	fmt.Fprintf(b, "%s: %s\n", r.ID, cli.Wrapped(r.Title, 4, len(r.ID)+2))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "    %-10s %s\n", name, cli.Wrapped(text, 15, 15))
		}
	}
	line("needs", strings.Join(r.Needs, ", "))
	line("uses", strings.Join(r.Uses, ", "))
	line("require", r.Require)
	if r.Job {
		line("job", r.Condition)
	} else {
		line("each", r.Condition)
		line("share", strconv.FormatFloat(r.Share, 'g', -1, 64))
	}
	line("by", r.By)
	var parameters []string
	names, values := r.Parameters()
	for i, n := range names {
		parameters = append(parameters, n+" = "+strconv.FormatFloat(values[i], 'g', -1, 64))
	}
	line("parameters", strings.Join(parameters, ", "))
	line("silences", strings.Join(r.Silences, ", "))
	line("from", r.From)
}

func newRulesShow() *cobra.Command {
	conf := cli.ConfigFlags{}
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a rule with its hint, its examples and its hash",
		Long: `Shows a rule with its hint, its examples and its hash.

Every finding of the rule carries the hash. It changes with everything that decides about findings, and not with the
words of the rule.`,
		Example: `  weir rules show idle-cores`,
		Args:    cli.OneArg("ID", "idle-cores"),
		RunE: func(c *cobra.Command, args []string) error {
			set, err := reading.ConfiguredRules(&conf)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(set.Rules, func(r rules.Rule) bool { return r.ID == args[0] })
			if i < 0 {
				return cli.Usage(fmt.Errorf("there is no rule %.60q: `weir rules list` lists them", args[0]))
			}
			r := &set.Rules[i]
			var b strings.Builder
			printRule(&b, r)
			for _, l := range [][2]string{
				{"hint", r.Hint},
				{"slurm", r.Slurm},
				{"fires", strings.Join(r.Fires, ", ")},
				{"silent", strings.Join(r.Silent, ", ")},
				{"hash", r.Hash},
				{"file", r.SourceName},
			} {
				if l[1] != "" {
					fmt.Fprintf(&b, "    %-10s %s\n", l[0], cli.Wrapped(l[1], 15, 15))
				}
			}
			_, err = io.WriteString(c.OutOrStdout(), b.String())
			return err
		},
	}
	conf.Add(c)
	return c
}
