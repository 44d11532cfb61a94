package integration

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/kafka"
)

var writePermissions = flag.Bool("permissions.write", false, "write the table of docs/security.md anew")

// TestPermissionsPage: docs/security.md lists the same rights of each role as weir topics acl prints.
func TestPermissionsPage(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../docs/security.md", "<!-- rights: begin -->\n", "<!-- rights: end -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	is, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table between %q and %q", page, begin, end)
	}
	want := "\n" + rightsTable(t) + "\n"
	if *writePermissions {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if is != want {
		t.Errorf("%s has\n%s\nwant, as with -permissions.write\n%s", page, is, want)
	}
}

func rightsTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| role | Write on topics | Read on topics | beside |\n|---|---|---|---|\n")
	for _, name := range kafka.Roles() {
		rights, err := kafka.Rights(withoutPrefix(), name)
		if err != nil {
			t.Fatal(err)
		}
		var writes, reads, beside []string
		others := map[string][]string{} // topics by further operations
		for _, r := range rights {
			star := ""
			if r.Pattern == kmsg.ACLResourcePatternTypePrefixed {
				star = "*"
			}
			for _, o := range r.Operations {
				operation := kafka.OperationName(o)
				switch {
				case r.Type == kmsg.ACLResourceTypeTopic && o == kmsg.ACLOperationWrite:
					writes = append(writes, r.Name)
				case r.Type == kmsg.ACLResourceTypeTopic && o == kmsg.ACLOperationRead:
					reads = append(reads, r.Name)
				case r.Type == kmsg.ACLResourceTypeTopic:
					others[operation] = append(others[operation], r.Name)
				case r.Type == kmsg.ACLResourceTypeCluster:
					beside = append(beside, "cluster: "+operation)
				default:
					kind := strings.ToLower(strings.ReplaceAll(r.Type.String(), "_", " "))
					beside = append(beside, fmt.Sprintf("%s `%s%s`: %s", kind, r.Name, star, operation))
				}
			}
		}
		for _, operation := range []string{"Create", "AlterConfigs", "Describe"} {
			switch topics := others[operation]; {
			case len(topics) > 10:
				beside = append(beside, operation+" on all topics")
			case len(topics) > 0:
				beside = append(beside, operation+" on "+strings.Join(topics, ", "))
			}
			delete(others, operation)
		}
		if len(others) > 0 {
			t.Errorf("%s has operations for which the table has no words: %v", name, others)
		}
		cells := []string{name, strings.Join(writes, ", "), strings.Join(reads, ", "), strings.Join(beside, "; ")}
		b.WriteString(strings.ReplaceAll("| "+strings.Join(cells, " | ")+" |\n", "|  |", "| |"))
	}
	return strings.ReplaceAll(b.String(), "|  |", "| |")
}
