package integration

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// outsideModules is the directory in which `make outside` installs the modules of the outside reader. `make
// outside-spark` adds Spark.
const outsideModules, sparkModules = "../bin/outside", "../bin/outside-spark"

// TestOutsideReader lets a program read weir's output that shares no code and no library with weir. Then it makes sure
// that the program would have noticed errors.
func TestOutsideReader(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	reader := findReader(t)
	s := newSystem(t)
	sinkPart, merge, collect := s.startSink(), s.startMerge(), s.startCollect()
	balance, nodes := s.startBalancer(), s.startNodes()
	s.summarizes()
	s.injectFaults()
	s.meetAll()
	nodes.stop()
	s.awaitTicks(s.newest())
	balance.stop()
	s.awaitCollect()
	collect.stop()
	s.awaitMerge()
	merge.stop()
	s.endSink(sinkPart)

	config := s.configFile()
	status, out := reader(t, config)
	t.Logf("%s", out)
	if status != 0 {
		t.Fatalf("the outside reader exits %d", status)
	}
	for _, method := range []string{schemas.MethodNode, schemas.MethodExact, schemas.MethodEstimated} {
		if !strings.Contains(out, " "+method) {
			t.Errorf("no %s summary was compared: the run proves nothing about it", method)
		}
	}
	for _, rule := range []string{"records of ended jobs", "nodes with several jobs", "nodes of several collectors"} {
		if !strings.Contains(out, rule) {
			t.Errorf("there were no %s: the run proves nothing about _system", rule)
		}
	}
	t.Run("sees nodes of the machine that are counted twice", func(t *testing.T) {
		s.produce(s.wrong(t, func(sum *schemas.JobSummary) bool {
			sum.NodesExpected++
			return sum.JobID == schemas.JobSystem
		}))
		if status, out := reader(t, config); status != 1 || !strings.Contains(out, "nodes of the machine") {
			t.Errorf("exits %d\n%s", status, out)
		}
	})
	t.Run("sees an exact metric with bounds", func(t *testing.T) {
		s.produce(s.wrong(t, func(sum *schemas.JobSummary) bool {
			for i := range sum.Metrics {
				if m := &sum.Metrics[i]; m.RankError != nil && *m.RankError == 0 && sum.Method == schemas.MethodExact {
					m.Lo, m.Hi = m.Deciles, m.Deciles
					return true
				}
			}
			return false
		}))
		if status, out := reader(t, config); status != 1 || !strings.Contains(out,
			"DIFFERENCE: rank_error, lo, hi EXACT") {
			t.Errorf("exits %d\n%s", status, out)
		}
	})
	t.Run("sees a decile that is wrong", func(t *testing.T) {
		s.produce(s.wrongDecile(t))
		if status, out := reader(t, config); status != 1 || !strings.Contains(out, "DIFFERENCE: deciles EXACT") {
			t.Errorf("exits %d\n%s", status, out)
		}
	})
	t.Run("sees a certified summary that promises too much", func(t *testing.T) {
		s.produce(s.wrong(t, func(sum *schemas.JobSummary) bool {
			for i := range sum.Metrics {
				if c := sum.Metrics[i].Certified; c != nil && c.Eps > 0.01 && sum.Method == schemas.MethodExact {
					c.Eps = 0
					return true
				}
			}
			return false
		}))
		if status, out := reader(t, config); status != 1 || !strings.Contains(out, "DIFFERENCE: eps") {
			t.Errorf("exits %d\n%s", status, out)
		}
	})
	t.Run("sees a file that is missing", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(s.cfg.Sink.Dir, "summaries", "*", "*.parquet"))
		if err != nil || len(files) == 0 {
			t.Fatal("no files", err)
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
		if status, out := reader(t, config); status != 1 || !strings.Contains(out, "DIFFERENCE: no file has") {
			t.Errorf("exits %d\n%s", status, out)
		}
	})
}

// findReader returns a function that runs the outside reader. It ends the test if Python or one of its modules is
// missing.
func findReader(t *testing.T) func(t *testing.T, config string) (status int, out string) {
	t.Helper()
	run := func(args ...string) (int, string) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		cmd := outsidePython(ctx, t, append([]string{"outside/reader.py"}, args...)...)
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			return -1, err.Error()
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if status, out := run("--help"); status != 0 {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		withoutModules(t, "OUTSIDE READER DID NOT RUN: nothing but weir has read what weir writes", lines[len(lines)-1])
	}
	return func(t *testing.T, config string) (int, string) {
		t.Helper()
		began := time.Now()
		status, out := run("--settle", "0", config, "../schemas")
		t.Logf("the outside reader took %.1f s", time.Since(began).Seconds())
		return status, out
	}
}

// outsidePython returns a Python with the modules of `make outside`.
func outsidePython(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, "python3", args...)
	modules, err := filepath.Abs(outsideModules)
	if err != nil {
		t.Fatal(err)
	}
	if spark, err := filepath.Abs(sparkModules); err == nil {
		modules += string(filepath.ListSeparator) + spark
	}
	if more := os.Getenv("PYTHONPATH"); more != "" {
		modules += string(filepath.ListSeparator) + more
	}
	cmd.Env = append(os.Environ(), "PYTHONPATH="+modules)
	return cmd
}

// withoutModules skips a test loudly, or fails it if the modules are required.
func withoutModules(t *testing.T, what, why string) {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("REQUIRE_OUTSIDE_READER") != "" {
		missing = t.Fatalf
	}
	missing("%s: %s: `make outside`, or pip install -r integration/outside/requirements.txt", what, why)
}

// wrongDecile is an exact summary of the topic once more, with a decile that is off by less than one in 10^12.
func (s *system) wrongDecile(t *testing.T) *kgo.Record {
	t.Helper()
	return s.wrong(t, func(sum *schemas.JobSummary) bool {
		if sum.Method != schemas.MethodExact || len(sum.Metrics) == 0 || sum.Metrics[0].Deciles == nil {
			return false
		}
		d := *sum.Metrics[0].Deciles
		if d[5] == 0 || d[5] == d[6] {
			return false
		}
		d[5] *= 1 + 1e-13
		return true
	})
}

// wrong is the first summary of the topic that spoil takes, once more as spoil left it.
func (s *system) wrong(t *testing.T, spoil func(sum *schemas.JobSummary) bool) *kgo.Record {
	t.Helper()
	for _, r := range s.read(schemas.TopicJobSummary) {
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		sum := v.(*schemas.JobSummary)
		if !spoil(sum) {
			continue
		}
		value, err := schemas.Marshal(sum)
		if err != nil {
			t.Fatal(err)
		}
		return &kgo.Record{Topic: r.Topic, Partition: r.Partition, Value: value}
	}
	t.Fatal("no summary to spoil")
	return nil
}
