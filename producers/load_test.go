package producers

import (
	"compress/gzip"
	"encoding/csv"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of recorded quantiles again")

// TestRecordedTable: the table of the program has the quantiles of the recording. Ties are rounded, since rates of
// whole events in not quite a second are not whole.
func TestRecordedTable(t *testing.T) {
	columns := recordedColumns(t)
	var table strings.Builder
	for _, of := range []struct {
		kind     string
		counters []string
	}{
		{kindIdle, []string{"stat.cpu.iowait", "stat.cpu.steal", "stat.softirq.hrtimer", "snmp.Tcp.AttemptFails"}},
		{kindBimodal, []string{"stat.cpu.idle", "stat.softirq.timer", "vmstat.nr_free_pages_blocks", "stat.cpu0.user"}},
		{kindTail, []string{
			"net.lo.rx_bytes", "vmstat.pgpgout", "vmstat.workingset_refault_file", "disk.vda.sectors_written",
		}},
		{kindTies, []string{"stat.procs_running", "stat.cpu1.softirq", "stat.cpu0.system", "disk.vda.flushes"}},
		{kindNormal, []string{"stat.cpu1.user", "meminfo.MemFree", "vmstat.nr_dirty_threshold", "meminfo.AnonPages"}},
		{kindConstant, []string{"vmstat.nr_kernel_stack", "meminfo.Slab", "meminfo.PageTables", "meminfo.VmallocUsed"}},
	} {
		for _, counter := range of.counters {
			sorted := columns[counter]
			if sorted == nil {
				t.Fatalf("%s was not recorded", counter)
			}
			slices.Sort(sorted)
			_, _ = fmt.Fprintf(&table, "%s,%s", of.kind, counter)
			for k := range steps + 1 {
				v := sorted[(k*(len(sorted)-1)+steps/2)/steps]
				if of.kind == kindTies {
					v = math.Round(v)
				}
				_, _ = fmt.Fprintf(&table, ",%.6g", v)
			}
			table.WriteString("\n")
		}
	}
	if *update {
		if err := os.WriteFile("recorded.csv", []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table.String(), recordedTable); diff != "" {
		t.Error(diff)
	}
	if _, err := readRecordings("idle,x,1,2\n"); err == nil {
		t.Error("a table of two quantiles is read")
	}
	if _, err := readRecordings(strings.Replace(recordedTable, ",0,", ",zero,", 1)); err == nil {
		t.Error("a table with a word is read")
	}
}

// recordedColumns reads the recording of real counters.
func recordedColumns(t *testing.T) map[string][]float64 {
	t.Helper()
	f, err := os.Open("../selection/study/testdata/real_1s.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(plain).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string][]float64{}
	for i, name := range lines[0] {
		for _, line := range lines[1:] {
			v, err := strconv.ParseFloat(line[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			columns[name] = append(columns[name], v)
		}
	}
	return columns
}

// TestValuesStay pins the values of the test mix: tests and measurements of other commits rely on them. The number is
// from the commit before these values were made faster.
func TestValuesStay(t *testing.T) {
	h := fnv.New64a()
	for _, node := range SimulatedNodes(5) {
		for _, s := range shapes() {
			for cpu := range SimulatedCPUs {
				for start := int64(0); start < 5000; start += 1000 {
					_, _ = fmt.Fprintf(h, "%x ", math.Float64bits(SimulatedValue(node, s.name, cpu, start)))
				}
			}
		}
	}
	if got := h.Sum64(); got != 0xc4de7b12701e2004 {
		t.Errorf("values have the hash %x", got)
	}
}

// TestLoadShapes: each metric of the load has the shape that its name says.
func TestLoadShapes(t *testing.T) {
	all := loadShapes()
	if len(all) != MaxMetrics || all[0].name != "load_000_idle" || len(shapes()) != TestMetrics ||
		!slices.IsSortedFunc(all, func(a, b shape) int { return strings.Compare(a.name, b.name) }) {
		t.Fatalf("%d metrics, the first is %s; the test mix has %d", len(all), all[0].name, len(shapes()))
	}
	for i := range all[:4*len(kinds)] { // each recording once
		s := &all[i]
		var pooled []float64
		for _, node := range SimulatedNodes(300) {
			for start := int64(0); start < 3000; start += 1000 {
				values := make([]float64, 40)
				s.fill(values, 0, hashOf(node), start)
				for cpu, v := range values {
					if want := SimulatedValue(node, s.name, cpu, start); v != want {
						t.Fatalf("%s of cpu %d is %g, alone %g", s.name, cpu, v, want)
					}
				}
				pooled = append(pooled, values...)
			}
		}
		slices.Sort(pooled)
		if why := unlike(s.recorded, pooled); why != "" {
			t.Errorf("%s, recorded as %s: %s", s.name, s.recorded.counter, why)
		}
	}
	for _, name := range []string{"load_200_idle", "load_000_tail", "load_"} {
		if !math.IsNaN(SimulatedValue("sim0001", name, 0, 0)) {
			t.Errorf("%s has a value", name)
		}
	}
}

// unlike returns why sorted values have not the shape of a recording; empty if they have.
func unlike(r *recording, sorted []float64) string {
	q := func(p float64) float64 { return sorted[int(p*float64(len(sorted)-1))] }
	distinct := map[float64]int{}
	for _, v := range sorted {
		distinct[v]++
	}
	switch r.kind {
	case kindIdle:
		if zero := float64(distinct[0]) / float64(len(sorted)); zero < 0.8 || zero > 0.95 {
			return fmt.Sprintf("%.2f are zero", zero)
		}
	case kindBimodal:
		if low, valley, high := valley(q(0.005), q(0.99), sorted); valley > 0.5*min(low, high) {
			return fmt.Sprintf("%.3f and %.3f around %.3f are no two modes", low, high, valley)
		}
	case kindTail:
		if q(0.5) <= 0 || q(0.99) < 4*q(0.5) || q(1) < 50*q(0.5) {
			return fmt.Sprintf("the median is %g, the maximum %g", q(0.5), q(1))
		}
	case kindTies:
		for v := range distinct {
			if v != math.Round(v) || v < 0 {
				return fmt.Sprintf("%g is no small whole number", v)
			}
		}
		if len(distinct) > steps/2 {
			return fmt.Sprintf("%d different values", len(distinct))
		}
	case kindNormal:
		if skew := (q(0.9) + q(0.1) - 2*q(0.5)) / (q(0.9) - q(0.1)); math.Abs(skew) > 0.2 || len(distinct) < 1000 {
			return fmt.Sprintf("skewness %.2f, %d different values", skew, len(distinct))
		}
	case kindConstant:
		for v, n := range distinct {
			if n%120 != 0 {
				return fmt.Sprintf("%g is there %d times: not all values of a node", v, n)
			}
		}
		if len(distinct) < 100 {
			return fmt.Sprintf("300 nodes have %d different values", len(distinct))
		}
	}
	return ""
}

// valley divides the range of values into twelfths. It returns the share of values in the deepest valley, and the
// greatest shares below and above it.
func valley(from, to float64, sorted []float64) (low, least, high float64) {
	const bins = 12
	var shares [bins]float64
	for _, v := range sorted {
		i := int(bins * (v - from) / (to - from))
		shares[min(max(i, 0), bins-1)] += 1 / float64(len(sorted))
	}
	depth := -1.0
	for i := 1; i < bins-1; i++ {
		l, h := slices.Max(shares[:i]), slices.Max(shares[i+1:])
		if d := min(l, h) - shares[i]; d > depth {
			depth, low, least, high = d, l, shares[i], h
		}
	}
	return low, least, high
}

// TestLoadLevels: the nodes differ in their level where the metric is nearly normal, and nowhere else.
func TestLoadLevels(t *testing.T) {
	all := loadShapes()
	for _, i := range []int{4, 5, 0} { // normal, constant, idle
		s := &all[i]
		means := make([]float64, 0, 50)
		var within float64
		for _, node := range SimulatedNodes(50) {
			values := make([]float64, 1000)
			s.fill(values, 0, hashOf(node), 1000)
			var sum, squares float64
			for _, v := range values {
				sum, squares = sum+v, squares+v*v
			}
			mean := sum / 1000
			means = append(means, mean)
			within += math.Sqrt(max(0, squares/1000-mean*mean)) / 50
		}
		between := slices.Max(means) - slices.Min(means)
		if differ := between > within; differ != (s.recorded.kind != kindIdle) {
			t.Errorf("%s: the means of nodes differ by %g, the values of one by %g", s.name, between, within)
		}
	}
}

// BenchmarkSimulated is what the values of a node's interval cost, a value. It shows them by themselves, and with the
// memory in which they are returned. The heap is small here, so that its collection takes more than in a simulation.
func BenchmarkSimulated(b *testing.B) {
	for _, of := range []struct {
		name string
		node simulated
	}{
		{"test", simulated{node: "sim0001", cores: SimulatedCPUs, shapes: shapes()}},
		{"supermuc", simulated{node: "sim0001", cores: LoadCores, shapes: loadShapes()[:LoadMetrics]}},
		{"elcapitan", simulated{node: "sim0001", cores: 96, shapes: loadShapes()[:LoadMetrics]}},
	} {
		count := 0
		_, columns := of.node.Interval(0)
		for i := range columns {
			count += len(columns[i].Values)
		}
		b.Run(of.name+"/values", func(b *testing.B) {
			node, start := hashOf(of.node.node), int64(0)
			for b.Loop() {
				start += 1000
				for i := range of.node.shapes {
					of.node.shapes[i].fill(columns[i].Values, 0, node, start)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/value")
		})
		b.Run(of.name+"/interval", func(b *testing.B) {
			for b.Loop() {
				of.node.fromMs += 1000
				_, _ = of.node.Interval(0)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/value")
		})
	}
}
