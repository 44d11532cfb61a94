package integration

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// TestExamples runs the examples of the README, unchanged, against a running system.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	modules := outsidePython(ctx, t, "-c", "import confluent_kafka, duckdb, fastavro")
	if out, err := modules.CombinedOutput(); err != nil {
		withoutModules(t, "EXAMPLES DID NOT RUN", strings.TrimSpace(string(out))+" "+err.Error())
	}
	s := systemOn(t, embeddedBroker(t)) // its topics have the default prefix, which the examples name
	s.startSink()
	s.startMerge()
	s.startCollect()
	s.startBalancer()
	s.startNodes()

	t.Run("consume.py", func(t *testing.T) {
		cmd := outsidePython(ctx, t, "examples/consume.py", s.cfg.Kafka.Brokers[0])
		cmd.Dir, cmd.Stderr = "..", t.Output()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, lines := "", bufio.NewScanner(out)
		for !strings.Contains(line, "sim_normal") && lines.Scan() { // slow machines: no values for the first jobs
			line = lines.Text()
		}
		if !strings.Contains(line, "sim_normal") {
			t.Errorf("it prints %q (%v), want the deciles of a simulated job", line, lines.Err())
		}
		cancelled := cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if cancelled != nil {
			t.Error(cancelled)
		}
	})
	t.Run("spread.sql", func(t *testing.T) {
		s.eventually("a file of the archive that has the metric", func() bool {
			files, err := filepath.Glob(filepath.Join(s.cfg.Sink.Dir, "summaries", "*", "*.parquet"))
			return err == nil && slices.ContainsFunc(files, func(file string) bool {
				rows, _, err := sink.ReadFile(file)
				return err == nil && slices.ContainsFunc(rows, func(r schemas.Row) bool {
					return r.Metric != nil && *r.Metric == "sim_normal"
				})
			})
		})
		query, err := filepath.Abs("../examples/spread.sql")
		if err != nil {
			t.Fatal(err)
		}
		program := "import duckdb, sys; print(duckdb.sql(open(sys.argv[1]).read()).fetchall())"
		cmd := outsidePython(ctx, t, "-c", program, query)
		cmd.Dir = t.TempDir()
		if err := os.Mkdir(filepath.Join(cmd.Dir, "weir-data"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(s.cfg.Sink.Dir, filepath.Join(cmd.Dir, "weir-data", "archive")); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "sim_normal") {
			t.Errorf("%v: %s", err, out)
		}
	})
}
