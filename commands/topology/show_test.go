package topology_test

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/topology"
)

// TestTopologyShow: show draws what build wrote, as text and as a picture.
func TestTopologyShow(t *testing.T) {
	tree := filepath.Join(topologyCases, "thesis_t2_2.tree")
	status, stdout, stderr := clitest.Weir(t.Context(), "topology", "show", tree, "--ascii")
	if want := "s0\n|-- s1: n[0-2]\n|-- s2: n[3-5]\n`-- s3: n[6-8]\n"; status != cli.ExitDone || stdout != want {
		t.Errorf("status %d, %q, %s", status, stdout, stderr)
	}
	picture := filepath.Join(t.TempDir(), "tree.svg")
	for _, file := range []string{"-", picture} {
		status, stdout, stderr := clitest.Weir(t.Context(), "topology", "show", tree, "--svg", file)
		if file == picture {
			text, err := os.ReadFile(picture)
			if err != nil || stdout != "" {
				t.Fatalf("%v, %q", err, stdout)
			}
			stdout = string(text)
		}
		if err := xml.Unmarshal([]byte(stdout), new(struct{})); status != cli.ExitDone || err != nil ||
			strings.Count(stdout, "</text>") != 13 {
			t.Errorf("%s: status %d, %v, %s%s", file, status, err, stdout, stderr)
		}
	}
}

// TestTopologyPicture: docs/topology.svg is what its page says it is.
func TestTopologyPicture(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree.yaml")
	status, _, stderr := clitest.Weir(t.Context(), "topology", "measure", "--simulate", "tree:3x3x6", "--noise", ".05",
		"--network", tree, "--json")
	if status != cli.ExitDone {
		t.Fatal(stderr)
	}
	status, got, stderr := clitest.Weir(t.Context(), "topology", "show", tree, "--svg", "-")
	want, err := os.ReadFile("docs/topology.svg")
	if status != cli.ExitDone || err != nil || got != string(want) {
		t.Errorf("docs/topology.svg is another picture: make it with the commands of docs/topology.md: %v %s",
			err, stderr)
	}
}

// TestTopologyCorrect: latencies of links, with what cannot be known, and with the time of the message taken off.
func TestTopologyCorrect(t *testing.T) {
	dir := t.TempDir()
	tree, out := filepath.Join(dir, "two.tgf"), filepath.Join(dir, "out.tgf")
	text := "1 top\n2 a\n3 b\n4 n0\n5 n1\n6 n2\n7 n3\n8 n4\n9 n5\n#\n" +
		"1 2 t: 100\n1 3 t: 100\n2 4 t: 1000\n2 5 t: 1000\n2 6 t: 1000\n3 7 t: 1000\n3 8 t: 1000\n3 9 t: 1000\n"
	matrix := filepath.Join(dir, "m.csv")
	// 100 bytes take 1 us over the top and 0.1 us below a switch. Links have 1 us, and those at the top 2 us.
	rows := "2.1,2.1,7,7,7\n2.1,7,7,7\n7,7,7\n2.1,2.1\n2.1\n"
	for file, text := range map[string]string{tree: text, matrix: rows} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, _, stderr := clitest.Weir(t.Context(), "topology", "correct", "--network", tree, "--matrix", matrix, "--bytes",
		"100", "--out", out)
	if status != cli.ExitDone || !strings.Contains(stderr, "15 pairs, relative RMS") || !strings.Contains(stderr,
		"only sums are known of these links: a - top, b - top") && !strings.Contains(stderr, "top - ") {
		t.Fatalf("status %d, %s", status, stderr)
	}
	n, err := network.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range n.Links {
		want := 1.
		if n.IsSwitch(l.A) {
			want = 2
		}
		if math.Abs(l.LatencyUs-want) > 1e-5 || math.IsNaN(l.Throughput) {
			t.Errorf("between %s and %s: %v us, %v MB/s", n.Names[l.A], n.Names[l.B], l.LatencyUs, l.Throughput)
		}
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "topology", "correct", "--network", tree, "--matrix", matrix, "--json")
	var got topology.CorrectedJSON
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != cli.ExitDone || got.Pairs != 15 ||
		len(got.Undetermined) != 2 || got.R2 == nil || *got.R2 < .9 {
		t.Errorf("%v, status %d, %s%s", err, status, stdout, stderr)
	}
}

// TestTopologyJoin: two nodes with a network of their own become switches.
func TestTopologyJoin(t *testing.T) {
	dir := t.TempDir()
	nodes, cores := filepath.Join(dir, "nodes.tree"), filepath.Join(dir, "cores.tree")
	big := filepath.Join(dir, "big.tree")
	for file, text := range map[string]string{nodes: "(a,b,c)", cores: "((0,1),(2,3))", big: "(0,1,2,3,4)"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "topology", "join", nodes, cores, "c="+big, "--format", "parens")
	want := "(((a:n0,a:n1),(a:n2,a:n3)),((b:n0,b:n1),(b:n2,b:n3)),(c:n0,c:n1,c:n2,c:n3,c:n4))\n"
	if status != cli.ExitDone || stdout != want {
		t.Errorf("status %d, %s, want %s; %s", status, stdout, want, stderr)
	}
	status, stdout, stderr = clitest.Weir(t.Context(), "topology", "join", nodes, cores)
	if n, err := network.Read(strings.NewReader(stdout)); status != cli.ExitDone || err != nil || n.Nodes != 12 {
		t.Errorf("status %d, %v, %s%s", status, err, stdout, stderr)
	}
}

// TestTopologyDiff: nodes of one side, JSON, standard input, and this host's processors.
func TestTopologyDiff(t *testing.T) {
	dir := t.TempDir()
	conf, yaml := filepath.Join(dir, "topology.conf"), filepath.Join(dir, "tree.yaml")
	for file, text := range map[string]string{
		conf: "SwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Nodes=n[4-6]\nSwitchName=top Switches=s[1-2]\n",
		yaml: "root: m\nislands:\n  - {name: x, nodes: [n1, n2, n3]}\n  - {name: y, nodes: [n4, n5, n6, n7]}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, _ := clitest.Weir(t.Context(), "topology", "diff", conf, yaml)
	if want := "only in " + yaml + ": nodes n7\n"; status != cli.ExitFailed || stdout != want {
		t.Errorf("status %d, %q", status, stdout)
	}
	status, stdout, _ = clitest.Weir(t.Context(), "topology", "diff", conf, yaml, "--json")
	var d network.Differences
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || status != cli.ExitFailed || len(d.OnlyB.Nodes) != 1 ||
		strings.Contains(stdout, "null") {
		t.Errorf("status %d, %v, %s", status, err, stdout)
	}
	root := commands.NewRoot(new(bool))
	root.SetArgs([]string{"topology", "diff", "-", conf})
	root.SetIn(strings.NewReader("(n1,n2,n3,(n4,n5,n6))"))
	root.SetOut(io.Discard)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("standard input: %v", err)
	}
	if _, err := os.Stat("/sys/devices/system/cpu/cpu0/topology"); err != nil {
		t.Skip("this host does not say where its processors are")
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "topology", "diff", topology.SysfsName, topology.SysfsName)
	if status != cli.ExitDone || !strings.Contains(stdout, "the same network") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}
