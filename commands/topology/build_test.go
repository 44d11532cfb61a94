package topology_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

const topologyCases = "topology/discovery/discover/testdata/cases"

// TestTopologyCases: build prints the tree or the links of each case, without a parameter.
func TestTopologyCases(t *testing.T) {
	answers, err := filepath.Glob(filepath.Join(topologyCases, "*.[te]*"))
	if err != nil || len(answers) < 15 {
		t.Fatalf("%v: %d cases", err, len(answers))
	}
	for _, answer := range answers {
		ending := filepath.Ext(answer)
		name := strings.TrimSuffix(answer, ending)
		format := map[string]string{".tree": network.Parens, ".edges": network.Edges}[ending]
		status, stdout, stderr := clitest.Weir(t.Context(), "topology", "build", "--matrix", name+".csv", "--format", format)
		if status != cli.ExitDone {
			t.Errorf("%s: status %d, %s", name, status, stderr)
			continue
		}
		got, err := network.Read(strings.NewReader(stdout))
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, stdout)
			continue
		}
		want, err := network.ReadFile(answer)
		if err != nil {
			t.Fatal(err)
		}
		if !network.Equal(got, want) {
			t.Errorf("%s: %s, and it is %s", name, stdout, answer)
		}
		if !strings.Contains(stderr, "confidence ") {
			t.Errorf("%s: no confidence in %q", name, stderr)
		}
		if ending == ".tree" { // the text is the same too
			text, err := os.ReadFile(answer)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasSuffix(bytes.TrimSpace(text), []byte("\n"+strings.TrimSpace(stdout))) {
				t.Errorf("%s: %s, and %s says %s", name, stdout, answer, text)
			}
		}
	}
}

// TestTopologyForms: each form of what build writes is the same network to diff, and the balancer reads the trees.
func TestTopologyForms(t *testing.T) {
	cases, err := filepath.Abs(topologyCases)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, form := range network.Forms() {
		file := "tree." + form
		status, stdout, stderr := clitest.Weir(t.Context(), "topology", "build", "--matrix",
			filepath.Join(cases, "tree2_32_s1.csv"), "--out", file)
		if status != cli.ExitDone || stdout != "" && form != network.Parens {
			t.Fatalf("%s: status %d, %q, %s", form, status, stdout, stderr)
		}
		status, stdout, stderr = clitest.Weir(t.Context(), "topology", "diff", file, filepath.Join(cases, "tree2_32_s1.tree"))
		if status != cli.ExitDone || !strings.Contains(stdout, "the same network of 32 nodes") {
			t.Errorf("%s: status %d, %s%s", form, status, stdout, stderr)
		}
		status, stdout, _ = clitest.Weir(t.Context(), "topology", "diff", file, filepath.Join(cases, "tree2_32_s10.tree"))
		if status != cli.ExitFailed || strings.Count(stdout, "only in") != 8 {
			t.Errorf("%s: status %d, %s", form, status, stdout)
		}
		if form == network.YAML || form == network.Conf || form == network.TGF {
			tree, err := topology.ReadFile(file)
			if err != nil || len(tree.Islands()) != 4 || len(tree.Nodes()) != 32 {
				t.Errorf("%s: the balancer reads %v, %v", form, tree, err)
			}
		}
	}
}

// TestTopologyJSON: the form json has what is known of the network.
func TestTopologyJSON(t *testing.T) {
	status, stdout, stderr := clitest.Weir(t.Context(), "topology", "build", "--matrix",
		filepath.Join(topologyCases, "tree2_32_s1.csv"), "--format", "json")
	var got struct {
		Kind            string
		Nodes, Switches []string
		Links           []struct {
			A, B      string
			LatencyUs float64 `json:"latency_us"`
		}
		Confidence struct {
			Level  string
			Margin float64 `json:"margin_nats"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != cli.ExitDone {
		t.Fatalf("%v, status %d, %s", err, status, stderr)
	}
	if got.Kind != "tree" || len(got.Nodes) != 32 || len(got.Switches) != 5 || len(got.Links) != 36 ||
		got.Confidence.Level != "high" || !(got.Confidence.Margin > 0) {
		t.Errorf("%+v", got)
	}
	for _, l := range got.Links {
		if !(l.LatencyUs > .1 && l.LatencyUs < .8) {
			t.Errorf("%+v", l)
		}
	}
}

// TestTopologyRefuses: each mistake is named with its remedy, and no file is left.
func TestTopologyRefuses(t *testing.T) {
	matrix := filepath.Join(topologyCases, "thesis_t2_2.csv")
	tree := filepath.Join(topologyCases, "thesis_t2_2.tree")
	torus := filepath.Join(topologyCases, "torus2_4x4_no_base.edges")
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(bad, []byte("1,2\n-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args, says string
		status     int
	}{
		{"build", "--matrix is missing", cli.ExitUsage},
		{"build --matrix " + bad, "line 2", cli.ExitUsage},
		{"build --matrix /nowhere.csv", "/nowhere.csv", cli.ExitUsage},
		{"build --matrix " + matrix + " --format svg", "parens", cli.ExitUsage},
		{"build --matrix " + matrix + " --method cliques", "weir or thesis", cli.ExitUsage},
		{"build --matrix " + matrix + " --epsilon .1", "for --method thesis", cli.ExitUsage},
		{"build --matrix " + matrix + " --method thesis --epsilon 1", "below 1", cli.ExitUsage},
		{"diff " + tree, "two arguments", cli.ExitUsage},
		{"diff " + tree + " " + matrix, "line 1", cli.ExitUsage},
		{"show " + dir, "not a regular file", cli.ExitUsage},
		{"join " + tree, "nodes.tgf cores.tgf", cli.ExitUsage},
		{"join " + tree + " n99=" + tree, "no node", cli.ExitUsage},
		{"join " + tree + " " + torus, "no node", cli.ExitUsage},
		{"join " + tree + " " + tree + " --measured x", "no processor x", cli.ExitUsage},
		{"correct --network " + tree, "--matrix", cli.ExitUsage},
		{"correct --network " + torus + " --matrix " + matrix, "not in the matrix", cli.ExitFailed},
		{"correct --network " + tree + " --matrix " + matrix + " --store-and-forward", "--bytes", cli.ExitUsage},
		{"correct --network " + tree + " --matrix " + matrix + " --bytes -1", "at least 0", cli.ExitUsage},
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"topology"}, strings.Fields(tt.args)...)...)
		if status != tt.status || stdout != "" || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: status %d, %q, %q", tt.args, status, stdout, stderr)
		}
	}
	out := filepath.Join(dir, "out.yaml")
	if status, _, stderr := clitest.Weir(t.Context(), "topology", "build", "--matrix", filepath.Join(topologyCases,
		"hypercube_5.csv"), "--out", out); status != cli.ExitFailed || !strings.Contains(stderr, "forms of any network") {
		t.Errorf("a hypercube as YAML: status %d, %s", status, stderr)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("half a file is left")
	}
}
