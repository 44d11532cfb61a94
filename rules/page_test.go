package rules

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRulesPage: the page lists the shipped rules with their thresholds, and where each threshold comes from. -update
// writes the table.
func TestRulesPage(t *testing.T) {
	const name, from, to = "../docs/rules.md", "<!-- rules -->\n", "<!-- end of rules -->"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), from)
	table, after, closed := strings.Cut(rest, to)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", name)
	}
	want := rulesTable(shippedSet(t))
	if *update {
		if err := os.WriteFile(name, []byte(before+from+want+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != want {
		t.Errorf("%s differs from the shipped rules: go test ./rules -run TestRulesPage -update", name)
	}
}

func rulesTable(s *Set) string {
	var b strings.Builder
	b.WriteString("| rule | holds where | share | threshold from |\n|---|---|---|---|\n")
	for i := range s.Rules {
		r := &s.Rules[i]
		share := "whole life"
		if !r.Job {
			share = strconv.FormatFloat(r.Share, 'g', -1, 64)
		}
		where := "`" + r.Condition + "`"
		if r.Require != "" {
			where = "`" + r.Require + "`; " + where
		}
		names, values := r.Parameters()
		for k, n := range names {
			where = regexp.MustCompile(`\bp\.`+n+`\b`).ReplaceAllString(where, strconv.FormatFloat(values[k], 'g',
				-1, 64))
		}
		fmt.Fprintf(&b, "| `%s`: %s | %s | %s | %s |\n", r.ID, r.Title, strings.ReplaceAll(where, "|", `\|`), share,
			r.From)
	}
	return b.String()
}
