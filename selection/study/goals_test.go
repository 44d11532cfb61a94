package study

import (
	"fmt"
	"strings"
)

// goals are what the study has to show.
type goals struct {
	lines  []string
	missed []string // that the table does not admit
}

// check notes what was measured for a goal.
func (g *goals) check(number int, name string, holds bool, format string, args ...any) {
	g.admit(number, name, holds, false, "", format, args...)
}

// admit is check for a goal that is known to be missed. The table says why, and the study fails only where it is worse
// than tolerable.
func (g *goals) admit(number int, name string, holds, tolerable bool, why, format string, args ...any) {
	measured, verdict := fmt.Sprintf(format, args...), "holds"
	switch {
	case holds:
	case tolerable:
		verdict = "**missed**: " + why
	default:
		verdict = "**missed**"
		g.missed = append(g.missed, fmt.Sprintf("goal %d, %s: %s", number, name, measured))
	}
	g.lines = append(g.lines, fmt.Sprintf("| %d | %s | %s | %s |", number, name, measured, verdict))
}

func (g *goals) write(b *strings.Builder) {
	fmt.Fprintf(b, "| | goal | measured | |\n|---|---|---|---|\n%s\n", strings.Join(g.lines, "\n"))
}
