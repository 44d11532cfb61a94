package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/latency"
	"github.com/weirhpc/weir/topology/network"
	"github.com/weirhpc/weir/topology/simulated"
)

// measureTopology runs weir topology measure. It returns the exit status and both outputs.
func measureTopology(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	status = run(t.Context(), append([]string{"topology", "measure"}, args...), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// TestTopologyMeasure measures a made-up network by both methods. The files have its latencies and its switches.
func TestTopologyMeasure(t *testing.T) {
	truth := simulated.Tree([]int{3, 4, 8})
	for _, method := range []string{"all", "adaptive"} {
		dir := t.TempDir()
		latencies, tree := filepath.Join(dir, "l.csv"), filepath.Join(dir, "tree.yaml")
		status, out, errs := measureTopology(t, "--simulate", "tree:3x4x8", "--noise", ".03", "--outliers", ".01",
			"--method", method, "--out", latencies, "--network", tree, "--json")
		if status != exitDone {
			t.Fatalf("%s: status %d: %s", method, status, errs)
		}
		var m measured
		if err := json.Unmarshal([]byte(out), &m); err != nil {
			t.Fatalf("%s: %v: %s", method, err, out)
		}
		if m.Nodes != 96 || m.Switches != 16 || m.Method != method || m.Confidence.Level != "high" || m.Pairs == 0 {
			t.Errorf("%s: %s", method, out)
		}
		found, err := network.ReadFile(tree)
		if err != nil || !network.Equal(found, truth) {
			t.Errorf("%s: wrong network (%v)", method, err)
		}
		matrix, err := latency.ReadFile(latencies)
		if err != nil || matrix.Len() != 96 {
			t.Errorf("%s: latencies: %v", method, err)
		}
	}
}

// TestTopologyMeasureOutput writes the latencies to standard output, and the report to standard error.
func TestTopologyMeasureOutput(t *testing.T) {
	status, out, errs := measureTopology(t, "--simulate", "tree:3x8", "--noise", ".02")
	if status != exitDone || !strings.Contains(errs, "tree of 24 nodes and 4 switches, confidence high") {
		t.Errorf("status %d: %s", status, errs)
	}
	if m, err := latency.Read(strings.NewReader(out)); err != nil || m.Len() != 24 {
		t.Errorf("latencies: %v", err)
	}
}

// TestTopologyMeasureJournal goes on from a journal, and refuses that of other nodes.
func TestTopologyMeasureJournal(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal.csv")
	for _, first := range []bool{true, false} {
		status, out, errs := measureTopology(t, "--simulate", "star:8", "--journal", journal, "--json")
		if status != exitDone || strings.Contains(out, `"replayed":0,`) != first {
			t.Errorf("status %d: %s %s", status, out, errs)
		}
	}
	status, _, errs := measureTopology(t, "--simulate", "star:9", "--journal", journal)
	if status != exitFailed || !strings.Contains(errs, "of 8 nodes, and these are 9") {
		t.Errorf("status %d: %s", status, errs)
	}
}

func TestTopologyMeasureUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                          "--simulate",
		"--simulate star:8 --threads":               "one of",
		"--simulate star:8 --method some":           "--method",
		"--simulate star:8 --passes -1":             "--passes",
		"--simulate star:8 --share 2":               "--share",
		"--simulate star:8 --packets-per-second -1": "--packets-per-second",
		"--simulate star:8 --network tree.txt":      "--network",
		"--simulate star:8 --noise -1":              "--noise",
		"--simulate star:8 --outliers 2":            "--outliers",
		"--simulate star:8 --tick -1":               "--tick",
		"--simulate moon:8":                         "moon",
		"--simulate ./none.tgf":                     "none.tgf",
	} {
		status, _, errs := measureTopology(t, strings.Fields(args)...)
		if status != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, want %d and %q: %s", args, status, exitUsage, want, errs)
		}
	}
}

// TestTopologyMeasureFile measures the network of a file.
func TestTopologyMeasureFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.tgf")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := simulated.Tree([]int{2, 6}).Write(f, network.TGF); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := measureTopology(t, "--simulate", file, "--noise", ".01"); status != exitDone ||
		!strings.Contains(errs, "tree of 12 nodes") {
		t.Errorf("status %d: %s", status, errs)
	}
}
