package jobs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
	"github.com/weirhpc/weir/commands/reading"
)

func newRulesCheck() *cobra.Command {
	conf := cli.ConfigFlags{}
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Compile the rules and run their recorded examples",
		Long: `Compiles the rules and runs their recorded examples.

With FILE it checks the rules of that file, with the examples in examples/ beside it. Otherwise it checks all rules. An
example is a recorded job: its record of topic jobs, and the rows of "weir job ID --json". A firing example must give a
finding, a silent one must not. If any example does otherwise, the status is 1.`,
		Example: `  weir rules check
  weir rules check site.yaml --config /etc/weir/weir.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.OneArg("FILE", "site.yaml")(c, args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := conf.Local()
			if err != nil {
				return err
			}
			types, err := nodetypes.New(cfg.Machine)
			if err != nil {
				return cli.Usage(err)
			}
			if len(args) == 0 {
				set, err := reading.RuleSet(cfg)
				if err != nil {
					return err
				}
				return checkRules(c.OutOrStdout(), set, types, "")
			}
			text, err := inuse.RuleFile(args[0])
			if err != nil {
				return cli.Usage(fmt.Errorf("%s: %w", args[0], err))
			}
			set, err := reading.CompileRules(cfg, rules.Source{Name: args[0], Text: text})
			if err != nil {
				return err
			}
			return checkRules(c.OutOrStdout(), set, types, args[0])
		},
	}
	conf.Add(c)
	return c
}

var errExamples = errors.New("examples of rules differ from what the rules find")

// checkRules runs the examples of all rules, or of the rules of one file, and prints a line for each rule.
func checkRules(w io.Writer, set *rules.Set, types *nodetypes.Types, only string) error {
	var b strings.Builder
	bad := 0
	for i := range set.Rules {
		r := &set.Rules[i]
		if only != "" && r.SourceName != only {
			continue
		}
		if len(r.Fires)+len(r.Silent) == 0 {
			fmt.Fprintf(&b, "%s: no examples\n", r.ID)
			continue
		}
		if faults := tryExamples(set, r, types); len(faults) > 0 {
			bad++
			fmt.Fprintf(&b, "%s: wrong\n    %s\n", r.ID, strings.Join(faults, "\n    "))
			continue
		}
		fmt.Fprintf(&b, "%s: ok: %d firing, %d silent\n", r.ID, len(r.Fires), len(r.Silent))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d rules: %w", bad, errExamples)
	}
	return nil
}

// tryExamples returns the faults of a rule's examples.
func tryExamples(set *rules.Set, r *rules.Rule, types *nodetypes.Types) (faults []string) {
	dir := os.DirFS(filepath.Dir(r.SourceName))
	if r.SourceName == rules.ShippedName {
		dir = rules.ShippedExamples()
	}
	for _, name := range slices.Concat(r.Fires, r.Silent) {
		found, why, err := tryExample(set, r.ID, dir, name, types)
		switch fires := slices.Contains(r.Fires, name); {
		case err != nil:
			faults = append(faults, schemas.Printable(fmt.Sprintf("%s: %v", name, err)))
		case fires && found == nil:
			faults = append(faults, schemas.Printable(fmt.Sprintf("%s: it must fire: %s", name, why)))
		case !fires && found != nil:
			faults = append(faults, fmt.Sprintf("%s: it must be silent: %s, held in %d of %d intervals", name,
				found.Class,
				found.Matched, found.Evaluated))
		}
	}
	return faults
}

func tryExample(set *rules.Set, id string, dir fs.FS, name string, types *nodetypes.Types) (
	found *schemas.Finding, why string, err error,
) {
	f, err := dir.Open(path.Join(rules.Examples, name))
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	text, err := inuse.Bounded(f)
	if err != nil {
		return nil, "", err
	}
	e, err := rules.ReadExample(text, types)
	if err != nil {
		return nil, "", err
	}
	found, why = set.Try(id, e)
	return found, why, nil
}
