package reading

import (
	"fmt"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
)

// RuleSet compiles the shipped rules and the rules of the site, without those in find.off.
func RuleSet(cfg config.Config) (*rules.Set, error) {
	all, err := inuse.SiteRules(cfg.Find.Rules)
	if err != nil {
		return nil, cli.Usage(err)
	}
	var files []rules.Source
	for _, f := range all {
		files = append(files, rules.Source(f))
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

// ConfiguredRules compiles the rules that the configuration enables. A host without a configuration uses the defaults.
func ConfiguredRules(f *cli.ConfigFlags) (*rules.Set, error) {
	cfg, err := f.Local()
	if err != nil {
		return nil, err
	}
	return RuleSet(cfg)
}
