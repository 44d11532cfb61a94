package schemas

import (
	_ "embed"
	"strings"
	"sync"
)

// catalogue contains a line for each metric of weir's own sources: name, unit and scope. TestFoldsKnowTheCatalogue
// makes it.
//
//go:embed catalogue.tsv
var catalogue string

var catalogued = sync.OnceValue(func() map[string]struct{} {
	lines := map[string]struct{}{}
	for line := range strings.Lines(catalogue) {
		lines[strings.TrimSuffix(line, "\n")] = struct{}{}
	}
	return lines
})

// Catalogued reports whether weir's own sources define a metric of this name, unit and scope. If a record lacks room
// for all metrics, these come first. The answer depends on the program alone, so that a replay on another host decides
// alike.
func Catalogued(name, unit, scope string) bool {
	_, has := catalogued()[name+"\t"+unit+"\t"+scope]
	return has
}
