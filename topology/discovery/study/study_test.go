package study

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var full = flag.Bool("full", false, "run the whole study, and rewrite the tables of docs/topology.md")

const (
	page  = "../../../docs/topology.md"
	begin = "<!-- study: begin -->\n"
	end   = "<!-- study: end -->"
)

// TestStudy measures the goals and rewrites the tables of docs/topology.md. It fails where a goal does not hold. Seeds
// are 1, 2 and so on, so each row can be repeated.
func TestStudy(t *testing.T) {
	if !*full {
		t.Skip("NOT TESTED: the goals of topology discovery on all networks (make topology-study)")
	}
	began := time.Now()
	s := &study{t: t}
	s.large() // first, while the process has needed no memory yet
	for _, goal := range goals() {
		s.goal(goal, goal.seeds)
	}
	s.cases()
	s.regression()
	s.limits()
	s.doubt()
	doc := &strings.Builder{}
	s.write(doc)
	s.noise(doc)
	s.disturbed(doc)
	rewrite(t, doc.String())
	t.Logf("the study took %s", time.Since(began).Round(time.Second))
	for _, missed := range s.missed {
		t.Error(missed)
	}
}

// TestStudyInShort is the study on few seeds of the small networks.
func TestStudyInShort(t *testing.T) {
	s := &study{t: t}
	for _, goal := range goals() {
		if goal.network(1).Nodes <= 40 {
			goal.need, goal.literal = 0, false // few seeds show no share
			s.goal(goal, short)
		}
	}
	s.cases()
	s.limits()
	if wrong := s.wrongHigh; wrong > 0 {
		t.Errorf("%d wrong networks have high confidence", wrong)
	}
	for _, missed := range s.missed {
		t.Error(missed)
	}
}

// TestTableIsOfTheStudy: the page has what the study wrote, and not what somebody changed since.
func TestTableIsOfTheStudy(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), begin)
	block, _, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers of make topology-study", page)
	}
	if strings.TrimSpace(block) == "" {
		t.Skip("TABLES OF docs/topology.md NOT CHECKED: make topology-study has not written them yet")
	}
	body, sum, ok := strings.Cut(block, "<!-- sum ")
	if !ok || !strings.HasPrefix(sum, digest(body)) {
		t.Errorf("the tables of %s are not what the study wrote: run make topology-study", page)
	}
	for _, goal := range goals() {
		if !strings.Contains(body, "\n| "+goal.name+" | ") {
			t.Errorf("the tables of %s lack %s: run make topology-study", page, goal.name)
		}
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// rewrite replaces what stands between the markers of the page.
func rewrite(t *testing.T, generated string) {
	t.Helper()
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers of make topology-study", page)
	}
	body := "\n" + generated + "\n"
	text := before + begin + body + fmt.Sprintf("<!-- sum %s -->\n", digest(body)) + end + after
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
