package metrics

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/commands/cli"
)

// listOf makes the list of a selection. It includes the names in use that agents can measure, even if no row had them.
func listOf(r *selection.Report, used map[string][]string, cfg config.Config) *config.MetricList {
	l := &config.MetricList{
		Version: 1, Rows: r.Rows, Blocks: r.Blocks, Responses: r.Responses, Method: r.Method,
		Seed: int64(r.Seed), //nolint:gosec // the number as it was given, if it is not above 2^63
	}
	why := map[string]string{}
	for _, m := range source.Catalogue(cfg.Agent) {
		if by := used[m.Name]; len(by) > 0 {
			why[m.Name] = "in use: " + strings.Join(by, ", ")
		}
	}
	for _, k := range r.Kept {
		switch {
		case k.Tier != selection.TierInUse:
			why[k.Name] = k.Tier
		case why[k.Name] == "":
			why[k.Name] = "in use: " + strings.Join(r.InUse[k.Name], ", ")
		}
	}
	for _, m := range r.Left {
		switch {
		case why[m.Name] != "":
		case m.Reason == leftConstant:
			l.Dropped = append(l.Dropped, config.Dropped{Name: m.Name})
		default:
			why[m.Name] = "not judged: " + m.Reason
		}
	}
	for _, name := range slices.Sorted(maps.Keys(why)) {
		l.Keep = append(l.Keep, name)
		l.Kept = append(l.Kept, config.Kept{Name: name, Why: why[name]})
	}
	for _, d := range r.Dropped {
		if why[d.Name] == "" {
			l.Dropped = append(l.Dropped, config.Dropped{
				Name: d.Name, Representative: d.Representative, R: d.R, R2: d.R2,
			})
		}
	}
	return l
}

// leftConstant is the reason for a metric that never changed. It is dropped without a metric that stands for it.
const leftConstant = "constant"

// errNoList is returned if the output file exists and is not a list of metrics.
var errNoList = errors.New("it is there and no metrics.yaml: name another file, or move it away")

// mayReplace returns an error if the file exists and is not a list of metrics.
func mayReplace(file string) error {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("--out %s: %w", file, errNoList)
	}
	if _, err := config.ReadMetricList(file); err != nil {
		return fmt.Errorf("--out %s: %w", file, errNoList)
	}
	return nil
}

// writeList replaces a list in one step, since agents read it at any time.
func writeList(file string, l *config.MetricList, warnings []string) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("--out %s: agents could not read the list: %w", file, err)
	}
	if err := mayReplace(file); err != nil { // the file may have appeared meanwhile
		return err
	}
	return cli.WriteWhole("--out", file, func(w io.Writer) error {
		if _, err := fmt.Fprint(w, "# Written by `weir metrics select`. agent.metrics_file names it; "+
			"docs/selection.md explains it.\n"); err != nil {
			return err
		}
		for _, one := range warnings { // for the person who deploys the list
			if _, err := fmt.Fprintf(w, "# Warning: %s\n", strings.Join(strings.Fields(one), " ")); err != nil {
				return err
			}
		}
		e := yaml.NewEncoder(w)
		e.SetIndent(2)
		return errors.Join(e.Encode(l), e.Close())
	})
}
