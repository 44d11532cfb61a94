package metrics

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
)

// options returns the options of the selection. The map kept lists, for each metric that is kept in any case, its
// users; the patterns of --keep are added to used.
func (f *selectFlags) options(t *selection.Table, cfg config.Config, used map[string][]string) (
	o selection.Options, kept map[string][]string, main []string, err error,
) {
	o = selection.Defaults()
	o.Quadratic, o.Threshold, o.Max, o.Coverage = f.model == modelQuadratic, f.threshold, f.max, f.coverage
	o.Seed = f.seed
	names := t.Names()
	all := slices.Clone(names)
	for _, m := range source.Catalogue(cfg.Agent) {
		all = append(all, m.Name)
	}
	wanted, err := matching(all, f.keep, "--keep")
	if err != nil {
		return o, nil, nil, err
	}
	for _, n := range wanted {
		used[n] = append(used[n], "--keep")
	}
	if main, err = matching(names, f.main, "--main"); err != nil {
		return o, nil, nil, err
	}
	kept = map[string][]string{}
	for _, n := range names {
		if why := used[n]; len(why) > 0 {
			kept[n] = why
		}
	}
	o.Keep = slices.Sorted(maps.Keys(kept))
	return o, kept, main, nil
}

// unjudged warns of metrics that agents would stop measuring although no row had them: nothing is known about these.
func unjudged(t *selection.Table, cfg config.Config, keeps func(name string) bool) []string {
	var unseen []string
	for _, m := range source.Catalogue(cfg.Agent) {
		if !keeps(m.Name) && !strings.Contains(m.Name, ":") &&
			!slices.ContainsFunc(t.Metrics, func(of selection.Metric) bool { return of.Name == m.Name }) {
			unseen = append(unseen, m.Name)
		}
	}
	if len(unseen) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d metrics of the catalogue are in no row, and so were not judged: only canaries "+
		"would measure them. --keep keeps those that you want: %s", len(unseen), inuse.FirstNames(unseen))}
}

// frontierCells bounds the tables for which selections without whole sources are tried, since each is a selection of
// its own.
const frontierCells = 4_000_000

// matching returns the names that match any of the patterns. A pattern without a match is an error.
func matching(names, patterns []string, flag string) (found []string, err error) {
	has := map[string]bool{}
	for _, p := range patterns {
		some := false
		for _, n := range names {
			if is, _ := path.Match(p, n); is {
				some, has[n] = true, true
			}
		}
		if !some {
			return nil, cli.Usage(fmt.Errorf("%s %.80q is none of the %d metrics that were read", flag, p, len(names)))
		}
	}
	return slices.Sorted(maps.Keys(has)), nil
}

// known reports whether the catalogue has any of the table's metrics.
func known(t *selection.Table) bool {
	return slices.ContainsFunc(t.Metrics, func(m selection.Metric) bool { return m.Source != "" })
}
