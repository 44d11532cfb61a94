package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/rules"
)

// ruleSet compiles the shipped rules and those of the site, without the ones that are off.
func ruleSet(cfg config.Config) (*rules.Set, error) {
	files, err := siteRules(cfg.Find.Rules)
	if err != nil {
		return nil, usageError{err}
	}
	return compileRules(cfg, files...)
}

// compileRules compiles the shipped rules and those of the files. Rules may name what the agent measures.
func compileRules(cfg config.Config, files ...rules.Source) (*rules.Set, error) {
	var known []rules.Known
	for _, m := range source.Catalogue(cfg.Agent) {
		known = append(known, rules.Known{Name: m.Name, Unit: m.Unit, Scope: m.Scope})
	}
	set, err := rules.Compile(known, cfg.Find.Off, files...)
	if err != nil {
		return nil, usageError{fmt.Errorf("rules:\n%w", err)}
	}
	return set, nil
}

// siteRules reads a rule file, or all *.yaml of a directory. Without a name there is none.
func siteRules(name string) (files []rules.Source, err error) {
	if name == "" {
		return nil, nil
	}
	names := []string{name}
	switch info, err := os.Stat(name); {
	case err != nil:
		return nil, fmt.Errorf("find.rules %s: %w", name, naming.Pathless(err))
	case info.IsDir():
		if names, err = filepath.Glob(filepath.Join(name, "*.yaml")); err != nil {
			return nil, fmt.Errorf("find.rules %s: %w", name, err)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		text, err := ruleFile(n)
		if err != nil {
			return nil, fmt.Errorf("find.rules %s: %w", n, err)
		}
		files = append(files, rules.Source{Name: n, Text: text})
	}
	return files, nil
}

// maxRuleBytes bounds what is read of a rule file or an example.
const maxRuleBytes = 64 << 20

var errTooLarge = errors.New("larger than 64 MiB")

// ruleFile reads a file that is not too large.
func ruleFile(name string) ([]byte, error) {
	return config.Answer(name, func() ([]byte, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, naming.Pathless(err)
		}
		defer f.Close()
		return bounded(f)
	})
}

func bounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxRuleBytes+1))
	if err == nil && len(text) > maxRuleBytes {
		err = errTooLarge
	}
	if err != nil {
		return nil, naming.Pathless(err)
	}
	return text, nil
}

func newRules() *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Show and check the rules that find what is wrong with jobs",
		Long: `Shows and checks the rules that find what is wrong with jobs.

They are those that weir ships, without those in find.off, and those of the site in find.rules. docs/rules.md explains
how to write one.`,
		Example: `  weir rules list
  weir rules show idle-cores
  weir rules check site.yaml`,
		RunE: needsSubcommand,
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
	conf := configFlags{}
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the rules: what they need, their thresholds, and where these come from",
		Long: `Lists the rules: what they need, their thresholds, and where these come from.

A rule that is judged in every interval has a share: of so many intervals it must hold.`,
		Example: `  weir rules list
  weir rules list --json --config /etc/weir/weir.yaml`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := conf.rules()
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
			return printJSON(c.OutOrStdout(), rows)
		},
	}
	conf.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

// rules compiles the rules of the configuration, if there is one.
func (f *configFlags) rules() (*rules.Set, error) {
	cfg, err := f.local()
	if err != nil {
		return nil, err
	}
	return ruleSet(cfg)
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
	fmt.Fprintf(b, "%s: %s\n", r.ID, wrapped(r.Title, 4, len(r.ID)+2))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "    %-10s %s\n", name, wrapped(text, 15, 15))
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
	conf := configFlags{}
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a rule with its hint, its examples and its hash",
		Long: `Shows a rule with its hint, its examples and its hash.

The hash is in every finding of the rule. It changes with all that decides, and not with the words of the rule.`,
		Example: `  weir rules show idle-cores`,
		Args:    oneArg("ID", "idle-cores"),
		RunE: func(c *cobra.Command, args []string) error {
			set, err := conf.rules()
			if err != nil {
				return err
			}
			i := slices.IndexFunc(set.Rules, func(r rules.Rule) bool { return r.ID == args[0] })
			if i < 0 {
				return usageError{fmt.Errorf("there is no rule %.60q: `weir rules list` lists them", args[0])}
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
					fmt.Fprintf(&b, "    %-10s %s\n", l[0], wrapped(l[1], 15, 15))
				}
			}
			_, err = io.WriteString(c.OutOrStdout(), b.String())
			return err
		},
	}
	conf.add(c)
	return c
}
