package reading

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/commands/cli"
)

// RuleSet compiles the shipped rules and the rules of the site, without those in find.off.
func RuleSet(cfg config.Config) (*rules.Set, error) {
	files, err := SiteRules(cfg.Find.Rules)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return CompileRules(cfg, files...)
}

// CompileRules compiles the shipped rules and the rules of the files. Rules may name every metric of the catalogue.
func CompileRules(cfg config.Config, files ...rules.Source) (*rules.Set, error) {
	var known []rules.Known
	for _, m := range source.Catalogue(cfg.Agent) {
		known = append(known, rules.Known{Name: m.Name, Unit: m.Unit, Scope: m.Scope})
	}
	set, err := rules.Compile(known, cfg.Find.Off, files...)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("rules:\n%w", err))
	}
	return set, nil
}

// SiteRules reads a rule file, or all *.yaml files of a directory. Without a name it returns no rules.
func SiteRules(name string) (files []rules.Source, err error) {
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
		text, err := RuleFile(n)
		if err != nil {
			return nil, fmt.Errorf("find.rules %s: %w", n, err)
		}
		files = append(files, rules.Source{Name: n, Text: text})
	}
	return files, nil
}

// maxRuleBytes bounds a rule file or an example, in bytes.
const maxRuleBytes = 64 << 20

var errTooLarge = errors.New("larger than 64 MiB")

// RuleFile reads a file of at most maxRuleBytes.
func RuleFile(name string) ([]byte, error) {
	return config.Answer(name, func() ([]byte, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, naming.Pathless(err)
		}
		defer f.Close()
		return Bounded(f)
	})
}

// Bounded reads at most maxRuleBytes of r.
func Bounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxRuleBytes+1))
	if err == nil && len(text) > maxRuleBytes {
		err = errTooLarge
	}
	if err != nil {
		return nil, naming.Pathless(err)
	}
	return text, nil
}

// ConfiguredRules compiles the rules that the configuration enables. A host without a configuration uses the defaults.
func ConfiguredRules(f *cli.ConfigFlags) (*rules.Set, error) {
	cfg, err := f.Local()
	if err != nil {
		return nil, err
	}
	return RuleSet(cfg)
}
