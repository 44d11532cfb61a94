package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestPermissionsPage: docs/deploy.md gives each service the permissions that TestSecure tries, and no others.
func TestPermissionsPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range roles() {
		if name == "simulate" {
			name = "agent"
		}
		row := []string{name, strings.Join(r.writes, ", "), strings.Join(r.reads, ", ")}
		beside := ""
		if r.group != "" {
			star := strings.Repeat("*", strings.Count(r.transactions, "-"))
			id := "transactional id" + strings.Repeat("s", len(star))
			beside = fmt.Sprintf("%s `%s%s`: Write; group `%s`: Read", id, r.transactions, star, r.group)
		}
		found := false
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.Trim(line, "|\n"), "|")
			same := len(cells) == 4 && strings.TrimSpace(cells[3]) == beside
			for i := 0; same && i < 3; i++ { // triggers are of another way of sampling
				cell, _, _ := strings.Cut(cells[i], ";")
				same = strings.TrimSpace(cell) == row[i]
			}
			found = found || same
		}
		if !found {
			t.Errorf("docs/deploy.md has no row of permissions with %q and %q", row, beside)
		}
	}
}
