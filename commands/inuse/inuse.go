// Package inuse knows which metrics rules, reports and settings need, so that no list of metrics drops them. It links
// neither rules nor reports, because agents ask it too.
package inuse

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/derive"

	"github.com/weirhpc/weir/commands/cli"
)

// Use is a metric in use, with the rules, reports and settings that need it.
type Use struct {
	Name string
	By   []string
}

// named contains a line for each metric that weir's own code or a shipped rule names, with its user before it.
// TestNamedIsWhatTheCodeNeeds makes it.
//
//go:embed named.tsv
var named string

// TopMetric is the metric that `weir top` draws by default, as deciles.
const TopMetric = "cpu_user"

// InUse returns the metrics that rules, reports and settings name, in ascending order. A list of metrics never drops
// them. If the rules of the site cannot be read, InUse returns the reason together with the metrics of everything else.
func InUse(cfg config.Config) ([]Use, error) {
	by := map[string][]string{}
	put := func(who string, names ...string) {
		for _, n := range names {
			by[n] = append(by[n], who)
		}
	}
	for line := range strings.Lines(named) {
		who, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if rule, is := strings.CutPrefix(who, "rule "); !is || !slices.Contains(cfg.Find.Off, rule) {
			put(who, name)
		}
	}
	files, err := SiteRules(cfg.Find.Rules)
	for _, f := range files {
		for _, r := range f.rules() {
			put("rule "+r.ID, slices.Concat(r.Needs, r.Uses)...)
		}
	}
	for name, from := range computedFrom(cfg.Agent) {
		put("agent.metrics", name)
		put("agent.metrics: "+name, from...)
	}
	put("samples.metrics", cfg.Samples.Metrics...)
	for _, name := range cfg.Nodes.Metrics {
		if by[name] == nil { // those of the table are in use anyway
			put("nodes.metrics", name)
		}
	}
	all := make([]Use, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[name])
		all = append(all, Use{name, slices.Compact(by[name])})
	}
	return all, err
}

// computedFrom returns, for each metric that the site computes, the metrics in its formula. If the definitions do not
// compile, it returns nil: the check of the configuration reports that error.
func computedFrom(cfg config.Agent) map[string][]string {
	definitions := make([]derive.Definition, len(cfg.Metrics))
	for i, m := range cfg.Metrics {
		definitions[i] = derive.Definition(m)
	}
	set, err := derive.Compile(definitions)
	if err != nil {
		return nil
	}
	return set.Uses()
}

// WithList returns the configuration with the list of agent.metrics_file and the names in use. A list that cannot be
// read restricts nothing, because measuring too much is harmless, and measuring too little loses data.
func WithList(cfg config.Config, log *slog.Logger) config.Config {
	if cfg.Agent.MetricsFile == "" {
		return cfg
	}
	list, err := config.ReadMetricList(cfg.Agent.MetricsFile)
	if err != nil {
		log.Warn("list of metrics cannot be used: everything is measured", "key", "agent.metrics_file", "err", err)
		return cfg
	}
	uses, err := InUse(cfg)
	if err != nil {
		log.Info("rules of the site cannot be read here: the list alone keeps what they need", "err", err)
	}
	names := make([]string, len(uses))
	for i := range uses {
		names[i] = uses[i].Name
	}
	cfg.Agent.List = list.With(names)
	kept, all := 0, source.Catalogue(cfg.Agent)
	for _, m := range all {
		if cfg.Agent.Measures(m.Name) {
			kept++
		}
	}
	log.Info("list of metrics is in force", "file", cfg.Agent.MetricsFile, "metrics", kept, "of", len(all),
		"canary", config.Canary(cfg.Agent.Node, list.Canary), "not_opened", source.NotOpened(cfg.Agent))
	return cfg
}

var errUnknownMetric = errors.New("there is no such metric")

// shownNames is the number of names that a note lists.
const shownNames = 12

// CheckList compares the list of agent.metrics_file with the catalogue and with the metrics in use. It returns notes
// for an administrator, and an error if the list is wrong.
func CheckList(cfg config.Config) (notes []string, err error) {
	path := cfg.Agent.MetricsFile
	if path == "" {
		return nil, nil
	}
	if err := cli.Readable("agent.metrics_file", path); err != nil {
		return nil, err
	}
	list, err := config.ReadMetricList(path)
	if err != nil {
		return nil, fmt.Errorf("agent.metrics_file: %w", err)
	}
	known := map[string]bool{}
	for _, m := range source.Catalogue(cfg.Agent) {
		known[m.Name] = true
	}
	uses, err := InUse(cfg)
	for _, note := range listNotes(list, known, uses) {
		notes = append(notes, fmt.Sprintf("agent.metrics_file %s: %s", path, note))
	}
	return notes, errors.Join(unknownKept(path, list, known), err)
}

// isMetric reports whether name is a metric. The skew metrics are not in the catalogue: the agent makes one for each
// source.
func isMetric(name string, known map[string]bool) bool {
	return known[name] || strings.HasPrefix(name, source.SkewMetric)
}

// unknownKept returns an error with the names that a list keeps and the catalogue does not know, or nil.
func unknownKept(path string, list *config.MetricList, known map[string]bool) error {
	var faults []error
	for i, name := range list.Keep {
		if !isMetric(name, known) {
			faults = append(faults, fmt.Errorf("agent.metrics_file %s: keep[%d] = %s: %w%s", path, i, name,
				errUnknownMetric, naming.Nearest(name, known)))
		}
	}
	if more := len(faults) - shownNames; more > 0 {
		faults = append(faults[:shownNames], fmt.Errorf("agent.metrics_file %s: %d unknown names more", path, more))
	}
	return errors.Join(faults...)
}

// listNotes returns notes for an administrator about a correct list, such as metrics in use that it does not mention.
func listNotes(list *config.MetricList, known map[string]bool, uses []Use) (notes []string) {
	note := func(names []string, text string) {
		if len(names) > 0 {
			notes = append(notes, fmt.Sprintf("%s (%d): %s", text, len(names), FirstNames(names)))
		}
	}
	decided := map[string]bool{}
	var lacking, gone, fresh []string
	for _, u := range uses {
		decided[u.Name] = true
		if known[u.Name] && !slices.Contains(list.Keep, u.Name) {
			lacking = append(lacking, u.Name+" ("+u.By[0]+")")
		}
	}
	for _, d := range list.Dropped {
		if decided[d.Name] = true; !isMetric(d.Name, known) {
			gone = append(gone, d.Name)
		}
	}
	everywhere := config.MetricList{Keep: list.Keep, Responses: list.Responses} // without canaries
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !everywhere.Measures("", name) && !decided[name] {
			fresh = append(fresh, name)
		}
	}
	note(lacking, "keep lacks names that are in use, which are measured all the same")
	note(gone, "names below dropped are of no metric")
	note(fresh, "the list decides nothing about metrics, so only canaries measure them; select anew")
	if list.Canary == 0 {
		notes = append(notes, "canary is 0: no node goes on measuring everything, so nothing shows when a dropped "+
			"metric becomes important")
	}
	return notes
}

// FirstNames lists up to shownNames names, and counts the rest.
func FirstNames(names []string) string {
	if more := len(names) - shownNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNames], ", "), more)
	}
	return strings.Join(names, ", ")
}
