package integration

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// TestExamples runs what the README shows, unchanged, against a running system.
func TestExamples(t *testing.T) {
	beside(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	modules := outsidePython(ctx, t, "-c", "import confluent_kafka, duckdb, fastavro")
	if out, err := modules.CombinedOutput(); err != nil {
		withoutModules(t, "EXAMPLES DID NOT RUN", strings.TrimSpace(string(out))+" "+err.Error())
	}
	s := systemOn(t, embeddedBroker(t)) // whose topics have the default prefix, which the examples name
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
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.Contains(line, "sim_normal") {
			t.Errorf("it prints %q (%v), want the deciles of a simulated job", line, err)
		}
		cancelled := cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if cancelled != nil {
			t.Error(cancelled)
		}
	})
	t.Run("spread.sql", func(t *testing.T) {
		files := filepath.Join(s.cfg.Sink.Dir, "summaries", "*", "*.parquet")
		s.eventually("a file of the archive", func() bool {
			found, err := filepath.Glob(files)
			return err == nil && len(found) > 0 && len(s.read(schemas.TopicJobSummary)) > 0
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
