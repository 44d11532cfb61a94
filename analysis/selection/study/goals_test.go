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

// admitted are goals that are not reached, and why the study does not fail for that.
var admitted = map[int]string{}

// check notes what was measured for a goal.
func (g *goals) check(number int, name string, holds bool, format string, args ...any) {
	verdict := "holds"
	if !holds {
		why, is := admitted[number]
		verdict = "**missed**: " + why
		if !is {
			verdict = "**missed**"
			g.missed = append(g.missed, fmt.Sprintf("goal %d, %s: "+format, append([]any{number, name}, args...)...))
		}
	}
	g.lines = append(g.lines, fmt.Sprintf("| %d | %s | %s | %s |", number, name, fmt.Sprintf(format, args...), verdict))
}

func (g *goals) write(b *strings.Builder) {
	fmt.Fprintf(b, "| | goal | measured | |\n|---|---|---|---|\n%s\n", strings.Join(g.lines, "\n"))
}
