package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/latency"
	"github.com/weirhpc/weir/topology/measure"
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
		"--agents --on n1":                          "--on",
		"--agents --on n[":                          "--on",
		"--agents --nodes 1":                        "--nodes",
		"--agents --nodes 200000":                   "--nodes",
		"--agents --on n[1-200000]":                 "--on",
		"--agents --for 25h":                        "--for",
		"--agents --wait 0s":                        "--wait",
		"--agents --wait 3m":                        "--wait",
		"--agents --for 10s --wait 11s":             "--wait",
		"--agents --address host":                   "--address",
		"--agents --address 0.0.0.0:7117":           "--address",
		"--agents --bytes 1":                        "bytes",
		"--agents --config none.yaml":               "none.yaml",
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

// TestTopologyPeer: the process of an agent takes part as its standard input says, and ends with its input.
func TestTopologyPeer(t *testing.T) {
	secret := []byte("0123456789abcdef")
	r, err := measure.Coordinate("127.0.0.1:0", secret, measure.DefaultPing, measure.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var inputs []*io.PipeWriter
	ends := make(chan error, 2)
	for _, name := range []string{"n1", "n2"} {
		in, out := io.Pipe()
		inputs = append(inputs, out)
		task, err := json.Marshal(measure.Member{
			Coordinator: r.Address(), Secret: secret, Name: name, Listen: "127.0.0.1:0",
		})
		if err != nil {
			t.Fatal(err)
		}
		begun := false
		root := newRoot(&begun)
		root.SetArgs([]string{"topology", "peer"})
		root.SetIn(in)
		root.SetErr(io.Discard)
		go func() { ends <- root.ExecuteContext(t.Context()) }()
		if _, err := out.Write(append(task, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Gather(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	us, err := r.Measure(t.Context(), []latency.Pair{{A: 0, B: 1}})
	if err != nil || !(us[0] > 0) {
		t.Errorf("%v us: %v", us, err)
	}
	_ = inputs[0].Close() // the agent is gone
	if err := <-ends; !errors.Is(err, context.Canceled) {
		t.Errorf("without its agent: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ends; err != nil {
		t.Errorf("at the end: %v", err)
	}
}

func TestTopologyPeerUsage(t *testing.T) {
	for _, in := range []string{"", "rubbish", `{"Coordinator":1}`, `{"Unknown":""}`} {
		begun := false
		root := newRoot(&begun)
		root.SetArgs([]string{"topology", "peer"})
		root.SetIn(strings.NewReader(in))
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "standard input") {
			t.Errorf("%q: %v", in, err)
		}
	}
}
