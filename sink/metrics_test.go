package sink

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// value returns what a gauge or counter of one series shows.
func value(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("%v %v", families, err)
	}
	m := families[0].GetMetric()[0]
	return m.GetGauge().GetValue() + m.GetCounter().GetValue()
}

// written returns how many files the histogram counts.
func written(t *testing.T, b *bench) float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(b.metrics.fileSeconds)
	families, err := r.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("the time to write a file is not shown: %v %v", families, err)
	}
	return float64(families[0].GetMetric()[0].GetHistogram().GetSampleCount())
}

func TestMetricsSayWhatIsArchived(t *testing.T) {
	t.Parallel()
	const partition = 1 // of none of the other tests' conflicts
	b, rnd := newBench(t, 2), random(t)
	of := labels(partition)
	rows, files, bytes := b.metrics.rows.With(of), b.metrics.files.With(of), b.metrics.bytes.With(of)
	before := []float64{value(t, rows), value(t, files), value(t, bytes)}
	if n := written(t, b); n != 0 {
		t.Errorf("%v files are counted at first, want 0: a rate has to see the first", n)
	}
	b.summaries(rnd, partition, 3)
	b.transaction(partition, false, []byte("aborted"))
	b.summaries(rnd, partition, 2)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
	paths, err := filepath.Glob(filepath.Join(b.cfg.Sink.Dir, "summaries", "date=*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	var size, next, last int64
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		_, f, err := ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
		if f.Next > next {
			next, last = f.Next, f.LastInterval
		}
	}
	for what, pair := range map[string][2]float64{
		"rows":     {float64(len(b.want)), value(t, rows) - before[0]},
		"files":    {float64(len(paths)), value(t, files) - before[1]},
		"timed":    {float64(len(paths)), written(t, b)},
		"bytes":    {float64(size), value(t, bytes) - before[2]},
		"position": {float64(next), value(t, b.metrics.position.With(labels(partition)))},
		"interval": {float64(last) / 1000, value(t, b.metrics.lastStart.With(labels(partition)))},
		"lag":      {0, value(t, b.metrics.lag.With(labels(partition)))},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", what, pair[1], pair[0])
		}
	}
}

func TestMetricsOfADiskThatFails(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	failures := b.metrics.failures.With(labels(0))
	before := value(t, failures)
	b.summaries(rnd, 0, 1)
	failed := false
	s := b.newSink(func(action, path string) error {
		if action == ActLink && strings.Contains(path, datePrefix) && !failed {
			failed = true
			return syscall.ENOSPC
		}
		return nil
	})
	end, _ := b.live(s)
	files := func() []string {
		paths, _ := filepath.Glob(filepath.Join(b.cfg.Sink.Dir, "summaries", datePrefix+"*", "*.parquet"))
		return paths
	}
	kafkatest.Eventually(t, "a file", func() bool { return len(files()) > 0 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	b.check()
	if got := value(t, failures) - before; got != 1 {
		t.Errorf("%v failures, want 1", got)
	}
}
