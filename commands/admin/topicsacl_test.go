package admin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/kafka"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestACLForms: every form has the same rights, for the user that an administrator names.
func TestACLForms(t *testing.T) {
	t.Setenv("WEIR_PREFIX", "big.")
	printed := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"topics", "acl"}, args...)...)
		if status != cli.ExitDone || stderr != "" {
			t.Fatalf("%q: status %d, %s", args, status, stderr)
		}
		return stdout
	}
	want := `# collect
kafka-acls.sh --bootstrap-server "$BROKERS" --command-config admin.properties --add --allow-principal ` +
		`User:weir-collect --operation Write --resource-pattern-type literal --topic big.partials ` +
		`--topic big.job-summary --topic big.rejects --topic big.progress
kafka-acls.sh --bootstrap-server "$BROKERS" --command-config admin.properties --add --allow-principal ` +
		`User:weir-collect --operation Read --resource-pattern-type literal --topic big.counters ` +
		`--topic big.progress --group big.collect
kafka-acls.sh --bootstrap-server "$BROKERS" --command-config admin.properties --add --allow-principal ` +
		`User:weir-collect --operation Write --resource-pattern-type prefixed --transactional-id big.collect-
`
	if got := printed("--role", "collect"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	got := printed("--role", "sink", "--principal", "it's")
	if !strings.Contains(got, `--allow-principal 'User:it'\''s' `) {
		t.Errorf("a name that a shell would take apart: %s", got)
	}
	all := printed()
	for _, role := range kafka.Roles() {
		if !strings.Contains(all, "# "+role+"\n") {
			t.Errorf("role %s is missing", role)
		}
		var g struct {
			Principal string
			Rights    []struct {
				Type       string   `json:"resource_type"`
				Name       string   `json:"resource_name"`
				Pattern    string   `json:"pattern_type"`
				Operations []string `json:"operations"`
			}
		}
		if err := json.Unmarshal([]byte(printed("--role", role, "--format", "json")), &g); err != nil {
			t.Fatal(err)
		}
		var user struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Spec struct {
				Authorization struct {
					ACLs []struct {
						Resource   struct{ Type, Name string }
						Operations []string
					}
				}
			}
		}
		strimzi := printed("--role", role, "--format", "strimzi", "--strimzi-cluster", "main")
		if err := yaml.Unmarshal([]byte(strimzi), &user); err != nil {
			t.Fatal(err)
		}
		acls := user.Spec.Authorization.ACLs
		if g.Principal != "User:weir-"+role || user.Metadata.Name != "weir-"+role ||
			user.Metadata.Labels["strimzi.io/cluster"] != "main" || len(acls) != len(g.Rights) {
			t.Fatalf("%s: %+v, %+v", role, g, user)
		}
		for i, r := range g.Rights {
			if acls[i].Resource.Name != r.Name && r.Type != "CLUSTER" || len(acls[i].Operations) != len(r.Operations) ||
				r.Type != "CLUSTER" && !strings.HasPrefix(r.Name, "big.") {
				t.Errorf("%s: %+v is not %+v", role, acls[i], r)
			}
			if r.Type != "CLUSTER" && !strings.Contains(all, " "+r.Name) {
				t.Errorf("%s: no line has %s", role, r.Name)
			}
		}
	}
	for _, args := range [][]string{
		{"--role", "collector"},
		{"--format", "xml"},
		{"--principal", "a"},
		{"--principal", "a", "--role", "sink", "--role", "find"},
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"topics", "acl"}, args...)...)
		if status != cli.ExitUsage || stdout != "" || stderr == "" {
			t.Errorf("%q: status %d, %s, %s", args, status, stdout, stderr)
		}
	}
}
