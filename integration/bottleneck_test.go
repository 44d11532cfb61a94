package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

var runBottleneck = flag.Bool("bottleneck", false, "run TestBottleneck, which takes a minute")

// At 500 ms bottleneckRows take 40 s. If other processes of this host fault too, more rows are needed.
const (
	bottleneckRows    = 80
	maxBottleneckRows = 300
)

// TestBottleneck runs an application under weir up. Its rate is the rate of its page faults, and it burns CPU in vain.
// The application reports its rate, and the selection must name the page faults, both from the topic and from the
// archive.
func TestBottleneck(t *testing.T) {
	if !*runBottleneck {
		t.Skip("make test-selection runs it")
	}
	withoutBrokers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	m := newMachine(t)
	program := filepath.Join(t.TempDir(), "bottleneck")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./pagebound").CombinedOutput(); err != nil {
		t.Fatalf("building the application: %v: %s", err, out)
	}
	data := filepath.Join(t.TempDir(), "weir-data")
	up := m.add("up", nil, "up", "--data", data, "--interval", "500ms")
	up.start()
	report := filepath.Join(data, "report", "host.0")
	await(ctx, t, "the file of reports", func() bool {
		_, err := os.Stat(report)
		return err == nil
	})
	app := exec.CommandContext(ctx, program, "-window", "500ms")
	app.Env = append(os.Environ(), "WEIR_REPORT_FILE="+report)
	app.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaint bytes.Buffer
	app.Stderr = &complaint
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}

	type selection struct {
		Rows        int  `json:"rows"`
		Predictable bool `json:"predictable"`
		Kept        []struct {
			Name string  `json:"name"`
			Tier string  `json:"tier"`
			Gain float64 `json:"gain"`
		} `json:"kept"`
	}
	var said bytes.Buffer // complaints of the last selection
	selected := func(from string) (s selection, ok bool) {
		said.Reset()
		cmd := exec.CommandContext(ctx, m.binary, "metrics", "select", "--config", filepath.Join(data, "weir.yaml"),
			"--from", from, "--response", "app_steps", "--statistics", "mean", "--json")
		cmd.Stderr = &said
		out, err := cmd.Output()
		return s, err == nil && json.Unmarshal(out, &s) == nil
	}
	named := func(s selection) bool {
		faults := []string{"node_page_faults", "page_faults"} // of the node, and of all its CPUs: either will do
		return s.Predictable && len(s.Kept) > 0 && s.Kept[0].Tier == "response" &&
			slices.Contains(faults, s.Kept[0].Name)
	}
	check := func(from string, s selection) {
		t.Helper()
		if !named(s) {
			t.Errorf("from %s: the selection does not name page faults first: %+v", from, s)
			return
		}
		t.Logf("from %s: %s of %d rows, gain %.2f", from, s.Kept[0].Name, s.Rows, s.Kept[0].Gain)
	}
	var s selection
	await(ctx, t, "enough intervals", func() bool {
		time.Sleep(2 * time.Second)
		var ok bool
		s, ok = selected("counters")
		return ok && s.Rows >= bottleneckRows && (named(s) || s.Rows >= maxBottleneckRows)
	})
	check("counters", s)
	if err := app.Process.Kill(); err != nil {
		t.Errorf("the application ended by itself: %v: %s", err, &complaint)
	}
	_ = app.Wait() // it was killed
	up.end()       // the rest is in the archive
	if s, ok := selected("archive"); !ok {
		t.Errorf("selecting from the archive: %s", &said)
	} else {
		check("archive", s)
	}
}

// await waits until something holds.
func await(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		if ctx.Err() != nil {
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
		time.Sleep(50 * time.Millisecond)
	}
}
