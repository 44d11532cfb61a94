package fold

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/sizing"
	"github.com/weirhpc/weir/schemas"
)

var growth = flag.Bool("growth", false, "measure growth, and rewrite config/sizing/growth.json and docs/performance.md")

const (
	growthFile  = "../../config/sizing/growth.json"
	growthPage  = "../../docs/performance.md"
	growthBegin = "<!-- growth: begin -->\n"
	growthEnd   = "<!-- growth: end -->\n"

	growthRuns    = 3
	perPartition  = 145 // nodes
	nodesOfAJob   = 50  // as on SuperMUC in PerSyst's paper: 9,288 nodes, 185 jobs
	fewestValues  = 2_000_000
	ownedTogether = 8   // partitions of a process: the garbage collector costs more for the small heap of few
	largestGrowth = 1.5 // of the cost of a value, from 10^5 cores to 10^7
)

// superMUC is the shape around which one thing at a time is varied.
var superMUC = sizing.Shape{Nodes: 9288, Cores: 16, Metrics: 37, Jobs: 185, Partitions: 64}

// growthShapes are the points that are measured. With the cores of a machine its partitions and jobs grow.
func growthShapes() (points []sizing.Point) {
	add := func(sweep string, change func(*sizing.Shape)) {
		s := superMUC
		change(&s)
		points = append(points, sizing.Point{Sweep: sweep, Shape: s})
	}
	machine := func(sweep string, nodes, cores int) {
		add(sweep, func(s *sizing.Shape) {
			s.Nodes, s.Cores = nodes, cores
			s.Partitions = max(1, (s.Nodes+perPartition/2)/perPartition)
			s.Jobs = max(1, s.Nodes/nodesOfAJob)
		})
	}
	for _, m := range [][2]int{{63, 16}, {625, 16}, {6250, 16}, {15_625, 64}, {78_125, 128}} {
		machine("cores", m[0], m[1])
	}
	for _, nodes := range []int{781, 7812} { // and the last one above
		machine("cores, with 128 in each node", nodes, 128)
	}
	for _, n := range []int{1, 4, 16, 64, 256} {
		add("partitions", func(s *sizing.Shape) { s.Partitions = n })
	}
	for _, n := range []int{1, 20, 185, 2000, 20_000} {
		add("jobs", func(s *sizing.Shape) { s.Jobs, s.Nodes = n, max(s.Nodes, n) })
	}
	for _, n := range []int{1, 10, 37, 100, 200} {
		add("metrics", func(s *sizing.Shape) { s.Metrics = n })
	}
	return points
}

// TestGrowth measures how the cost of an interval grows, fits the model of package sizing to it, and writes both.
func TestGrowth(t *testing.T) {
	if !*growth {
		t.Skip("NOT MEASURED: how the cost of an interval grows (make bench-growth)")
	}
	points := growthShapes()
	for i := range points {
		began := time.Now()
		measureGrowth(t, &points[i], growthRuns)
		p := &points[i]
		t.Logf("%s: %+v: %.1f ns a value, %.2f held, %.2f kept, in %s", p.Sweep, p.Shape, p.PerValue(),
			ratio(p.HeldBytes, p.RecordBytes), ratio(p.KeptBytes, p.RecordBytes),
			time.Since(began).Round(time.Millisecond))
	}
	g := sizing.NewGrowth(points)
	g.Command, g.Processor, g.Go = "make bench-growth", processorName(), runtime.Version()
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(growthFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	rewriteGrowth(t, growthTables(&g))
	t.Logf("constants, in seconds: %+v", g.Constants)
	t.Logf("heap, in bytes: held until the Tick %+v, kept after it %+v", g.Held, g.Kept)
	if wide, same := grown(&g); max(wide, same) > largestGrowth {
		t.Errorf("a value costs %.2f and %.2f times as much at 10^7 cores as at 10^5, goal %g", wide, same,
			largestGrowth)
	}
}

// grown returns the cost of a value at 10^7 cores by that at 10^5. Wide is with nodes that become wider, and same with
// nodes of 128 cores at both ends.
func grown(g *sizing.Growth) (wide, same float64) {
	most := g.Points[4].PerValue()
	return most / g.Points[2].PerValue(), most / g.Points[5].PerValue()
}

// TestGrowthInShort: what is measured is a whole interval of the machine, whatever its shape.
func TestGrowthInShort(t *testing.T) {
	for _, s := range []sizing.Shape{
		{Nodes: 1, Cores: 1, Metrics: 1, Jobs: 1, Partitions: 1},
		{Nodes: 40, Cores: 4, Metrics: 5, Jobs: 6, Partitions: 3},
		{Nodes: 40, Cores: 4, Metrics: 3, Jobs: 40, Partitions: 7},
		{Nodes: 10, Cores: 2, Metrics: 2, Jobs: 1, Partitions: 20},
	} {
		p := sizing.Point{Shape: s}
		measureGrowth(t, &p, 1)
		if p.Parts < s.Jobs || p.RecordBytes < 8*s.Values() || p.OutputBytes <= 0 || len(p.Seconds) != 1 {
			t.Errorf("%+v", p)
		}
	}
}

// TestGrowthPlaces: every node of every job is at one partition, and no partition has more than its bound. Small jobs
// are not split.
func TestGrowthPlaces(t *testing.T) {
	for _, s := range []sizing.Shape{
		superMUC,
		{Nodes: 20_000, Jobs: 20_000, Partitions: 64},
		{Nodes: 20_000, Jobs: 1, Partitions: 64},
		{Nodes: 100, Jobs: 3, Partitions: 1},
	} {
		const most = 1000
		at := place(s, most)
		bound := max(most, (s.Nodes+s.Partitions-1)/s.Partitions)
		nodes, parts, last, placed := 0, map[int]int{}, map[int]int{}, map[int]int{}
		for _, shares := range at {
			here := 0
			for _, x := range shares {
				here += x.nodes
				parts[x.job]++
				placed[x.job] += x.nodes
				last[x.job] = max(last[x.job], x.first+x.nodes)
			}
			nodes += here
			if here > bound {
				t.Errorf("%+v: %d nodes at one partition, of %d at most", s, here, bound)
			}
		}
		sizes := sizing.JobSizes(s.Nodes, s.Jobs)
		if nodes != s.Nodes || len(parts) != s.Jobs || len(at) != s.Partitions {
			t.Errorf("%+v: %d nodes of %d jobs at %d partitions", s, nodes, len(parts), len(at))
		}
		for job, n := range parts {
			if placed[job] != sizes[job] || last[job] != sizes[job] {
				t.Errorf("%+v: job %d has %d nodes up to %d, of %d", s, job, placed[job], last[job], sizes[job])
			}
			if n > 1 && sizes[job] <= bound/2 {
				t.Errorf("%+v: job %d of %d nodes is split", s, job, sizes[job])
			}
		}
	}
}

// TestGrowthPage: the page has the tables of the measurement that weir size uses.
func TestGrowthPage(t *testing.T) {
	g, err := sizing.Measured()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(growthPage)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), growthBegin+growthTables(&g)+growthEnd) {
		t.Errorf("%s has other tables than %s: run make bench-growth", growthPage, growthFile)
	}
}

// share is what one partition has of a job: some of its nodes, from the first.
type share struct{ job, first, nodes int }

// place gives each job whole to the partition with the least load. A job that fits nowhere is split over the emptiest
// ones, as the balancer does. Where the machine does not fit, the bound is the mean.
func place(s sizing.Shape, most int) [][]share {
	most = max(most, (s.Nodes+s.Partitions-1)/s.Partitions)
	at, load := make([][]share, s.Partitions), make([]int, s.Partitions)
	for job, left := range sizing.JobSizes(s.Nodes, s.Jobs) {
		for first := 0; left > 0; {
			least := 0
			for p := range load {
				if load[p] < load[least] {
					least = p
				}
			}
			n := min(left, most-load[least])
			at[least] = append(at[least], share{job, first, n})
			load[least] += n
			first, left = first+n, left-n
		}
	}
	return at
}

// growthRun folds intervals of one machine.
type growthRun struct {
	t       *testing.T
	p       *sizing.Point
	at      [][]share
	sizes   []int
	parts   []int32   // of each job
	rounds  int       // intervals that are folded; the first one fills memory that later ones use again
	partial [][]Entry // of each round, for merge
	seconds []float64 // of each round
	random  *rand.Rand
	count   int64 // values that summaries have
	jobs    int   // that have a summary
}

// measureGrowth folds intervals of a machine: ownedTogether partitions after the others, and then merge. It times from
// the encoded bytes of the records and the Tick to the encoded bytes of the outputs and the Progress. Seconds are CPU
// time of the process, so that they have the garbage collector's. Making the records is not timed.
func measureGrowth(t *testing.T, p *sizing.Point, runs int) {
	t.Helper()
	each := int(min(30, 1+fewestValues/p.Values())) // intervals of a run
	if runs == 1 {
		each = 1
	}
	p.RecordBytes, p.HeldBytes, p.KeptBytes, p.OutputBytes = 0, 0, 0, 0
	cfg := config.Default()
	g := &growthRun{t: t, p: p, rounds: 1 + runs*each, random: rand.New(rand.NewPCG(1, uint64(p.Values())))}
	g.sizes = sizing.JobSizes(p.Nodes, p.Jobs)
	g.at = place(p.Shape, int(cfg.CollectorBytes())/len(encode(t, g.record(0, 0, 0))))
	g.parts = make([]int32, p.Jobs)
	p.Parts, p.Ranks = 0, 0
	for _, shares := range g.at {
		for _, x := range shares {
			g.parts[x.job]++
			p.Parts++
			p.Ranks += sizing.Ranks(x.nodes * p.Cores)
		}
	}
	g.partial, g.seconds = make([][]Entry, g.rounds), make([]float64, g.rounds)
	for c := int32(0); c < int32(p.Partitions); c += ownedTogether {
		g.collect(c, min(c+ownedTogether, int32(p.Partitions)))
	}
	g.merge()
	rounds := int64(g.rounds)
	if want := 2 * rounds * p.Values(); g.count != want || int64(g.jobs) != rounds*int64(p.Jobs+1) {
		t.Fatalf("%+v: %d values in %d summaries of %d rounds, want %d", p.Shape, g.count, g.jobs, rounds, want)
	}
	p.OutputBytes /= rounds
	p.KeptBytes = max(p.KeptBytes, 1)
	p.Seconds = nil
	for run := range runs {
		sum := 0.0
		for _, s := range g.seconds[1+run*each : 1+(run+1)*each] {
			sum += s
		}
		p.Seconds = append(p.Seconds, sum/float64(each))
	}
}

// record is what a node sends. Values are exponential, mostly 0, or integers, by metric and job.
func (g *growthRun) record(job, node, round int) *schemas.CounterBatch {
	start := simEpochMs + int64(round)*simT
	r := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: simCluster, Node: fmt.Sprintf("r%05dn%05d", job, node),
		BootID: "0c7d8a52-3a3e-4c57-9a55-0a1b2c3d4e5f", RunID: "0123456789abcdef", Seq: int64(round) + 1_000_000,
		IntervalStart: start, IntervalMs: simT, SampledAt: 1000 * (start + simT), SentAt: start + simT + 100,
		JobID: jobName(job), Cpus: make([]int32, g.p.Cores), Epoch: 1000,
	}}
	for c := range r.Cpus {
		r.Cpus[c] = int32(c)
	}
	r.Metrics = make([]schemas.CounterBatchMetric, g.p.Metrics)
	values := make([]float64, g.p.Cores*g.p.Metrics)
	for m := range r.Metrics {
		mine := values[m*g.p.Cores:][:g.p.Cores:g.p.Cores]
		r.Metrics[m] = schemas.CounterBatchMetric{
			Name: fmt.Sprintf("metric_%04d", m), Unit: "1", Scope: schemas.ScopeCore, Values: mine,
		}
		for i := range mine {
			switch v := g.random.ExpFloat64(); (m + job) % 4 {
			case 0, 1:
				mine[i] = v
			case 2:
				mine[i] = max(0, v-2.3) // nine of ten are 0
			default:
				mine[i] = math.Floor(100 * v)
			}
		}
	}
	return r
}

func jobName(job int) string { return fmt.Sprint(4_000_000 + job) }

// collect folds all rounds of some partitions, as a process does that owns them: all records, and then all Ticks.
func (g *growthRun) collect(first, end int32) {
	var folds []*Collector
	for partition := first; partition < end; partition++ {
		fold := NewCollector(simCluster, partition, int32(g.p.Partitions), nil)
		fold.Sketch = config.Default().Collect.Sketch
		folds = append(folds, fold)
	}
	for round := range g.rounds {
		empty := int64(0)
		if round == 0 {
			empty = liveHeap()
		}
		var records [][]Entry
		var ticks []Entry
		for partition := first; partition < end; partition++ {
			r, tick := g.entries(partition, round)
			records, ticks = append(records, r), append(ticks, tick)
		}
		runtime.GC()
		began := processSeconds(g.t)
		for i, fold := range folds {
			for _, e := range records[i] {
				fold.Apply(e)
			}
		}
		g.seconds[round] += processSeconds(g.t) - began
		if round == 0 {
			for _, entries := range records {
				for _, e := range entries {
					g.p.RecordBytes += int64(len(e.Value))
				}
			}
			records = nil // what the fold still needs of them counts
			g.p.HeldBytes += liveHeap() - empty
		}
		for i, fold := range folds {
			g.tick(fold, ticks[i], round)
		}
		if round == 0 {
			g.p.KeptBytes += liveHeap() - empty
		}
	}
}

// tick folds the Tick of a partition, and encodes what comes of it.
func (g *growthRun) tick(fold *Collector, tick Entry, round int) {
	began := processSeconds(g.t)
	fx := fold.Apply(tick)
	var outputs []Entry
	for _, o := range fx.Outputs {
		value, err := schemas.MarshalChecked(o)
		if err != nil {
			g.t.Fatal(err)
		}
		outputs = append(outputs, Entry{AppendedMs: tick.AppendedMs, Value: value})
	}
	if _, err := schemas.MarshalChecked(fold.Progress(tick.Offset)); err != nil {
		g.t.Fatal(err)
	}
	g.seconds[round] += processSeconds(g.t) - began
	for i, o := range fx.Outputs {
		if s, whole := o.(*schemas.JobSummary); whole {
			g.summary(s, outputs[i].Value)
		} else {
			outputs[i].Value = bytes.Clone(outputs[i].Value)
			g.partial[round] = append(g.partial[round], outputs[i])
			if round == 0 {
				g.p.KeptBytes -= int64(len(outputs[i].Value)) // we keep it, not the fold
			}
		}
	}
}

// entries are the records of a partition in a round, and its Tick.
func (g *growthRun) entries(partition int32, round int) (records []Entry, tick Entry) {
	start := simEpochMs + int64(round)*simT
	t := &schemas.Tick{IntervalStart: start, IntervalMs: simT}
	for _, x := range g.at[partition] {
		job := schemas.TickJob{JobID: jobName(x.job), Parts: g.parts[x.job], JobNodes: int32(g.sizes[x.job])}
		for n := x.first; n < x.first+x.nodes; n++ {
			r := g.record(x.job, n, round)
			job.Nodes = append(job.Nodes, r.Node)
			records = append(records, Entry{AppendedMs: start + simT, Value: bytes.Clone(encode(g.t, r))})
		}
		t.Jobs = append(t.Jobs, job)
	}
	// Nodes of all jobs come in turn, in no order.
	g.random.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	records = append(records, Entry{AppendedMs: start + simT, Value: encode(g.t, t)})
	for i := range records {
		records[i].Offset = int64(round*(len(records)+1) + i)
	}
	last := len(records) - 1
	return records[:last], records[last]
}

// merge folds what the partitions wrote.
func (g *growthRun) merge() {
	fold := NewMerger(simCluster, int32(g.p.Partitions), nil)
	fold.Sketch = config.Default().Collect.Sketch
	for round, entries := range g.partial {
		for i := range entries {
			entries[i].Offset = int64(round*len(entries) + i)
		}
		runtime.GC()
		began := processSeconds(g.t)
		var done []schemas.Record
		var values [][]byte
		for _, e := range entries {
			for _, o := range fold.Apply(e).Outputs {
				value, err := schemas.MarshalChecked(o)
				if err != nil {
					g.t.Fatal(err)
				}
				done, values = append(done, o), append(values, value)
			}
		}
		g.seconds[round] += processSeconds(g.t) - began
		for i, o := range done {
			g.summary(o.(*schemas.JobSummary), values[i])
		}
	}
}

// summary counts what a summary speaks for.
func (g *growthRun) summary(s *schemas.JobSummary, value []byte) {
	g.jobs++
	g.p.OutputBytes += int64(len(value))
	for i := range s.Metrics {
		g.count += s.Metrics[i].Count
	}
}

// processSeconds returns the CPU time of the process, of all of its threads.
func processSeconds(t *testing.T) float64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return float64(ts.Nano()) / 1e9
}

// liveHeap returns the bytes of what is reachable.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func ratio(a, b int64) float64 { return float64(a) / float64(b) }

func processorName() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// growthTables are the tables of docs/performance.md.
func growthTables(g *sizing.Growth) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "\nMeasured by `%s` with %s on %s.\n", g.Command, g.Go, g.Processor)
	errs := g.Errors()
	sweep := ""
	for i := range g.Points {
		p := &g.Points[i]
		if p.Sweep != sweep {
			sweep = p.Sweep
			fmt.Fprintf(b, "\n**Varied: %s.**\n\n", sweep)
			b.WriteString("| nodes × cores | metrics | jobs | partitions | values | CPU, s | ns a value | runs | " +
				"model | held |\n|---|---|---|---|---|---|---|---|---|---|\n")
		}
		runs := slices.Sorted(slices.Values(p.Seconds))
		fmt.Fprintf(b, "| %d × %d | %d | %d | %d | %.3g M | %.3g | **%.1f** | %.1f to %.1f | %+.0f %% | %.2f |\n",
			p.Nodes, p.Cores, p.Metrics, p.Jobs, p.Partitions, float64(p.Values())/1e6, p.Median(), p.PerValue(),
			1e9*runs[0]/float64(p.Values()), 1e9*runs[len(runs)-1]/float64(p.Values()), 100*errs[i],
			ratio(p.HeldBytes, p.RecordBytes))
	}
	for i := range errs {
		errs[i] = math.Abs(errs[i])
	}
	slices.Sort(errs)
	c := g.Constants
	b.WriteString("\n| the model: a thing of an interval | costs |\n|---|---|\n")
	for _, row := range []struct {
		what    string
		seconds float64
	}{
		{"a value", c.Value},
		{"a record", c.Record},
		{"a metric of a record", c.Column},
		{"a metric of a job, or of a share of it", c.Summary},
		{"a rank that its certified summary looks at, 1,024 at most", c.Rank},
		{"a metric of a partition's share of `_system`", c.Share},
		{"a partition", c.Partition},
	} {
		cost := "nothing that shows"
		if row.seconds > 0 {
			cost = fmt.Sprintf("%.4g µs", 1e6*row.seconds)
		}
		fmt.Fprintf(b, "| %s | %s |\n", row.what, cost)
	}
	if len(errs) > 0 {
		fmt.Fprintf(b, "| **error of the model**, in the middle and at worst | %.0f %%, %.0f %% |\n",
			100*errs[len(errs)/2], 100*errs[len(errs)-1])
		wide, same := grown(g)
		fmt.Fprintf(b, "| **a value at 10^7 cores, by one at 10^5** (goal: %g at most) | %.2f |\n", largestGrowth, wide)
		fmt.Fprintf(b, "| the same, with nodes of 128 cores at both ends | %.2f |\n", same)
		fmt.Fprintf(b, "| heap until the Tick, bytes: for a byte of records, and for a record | %.2f, %.0f |\n",
			g.Held.Byte, g.Held.Record)
		fmt.Fprintf(b, "| heap kept after the Tick, bytes: likewise | %.2f, %.0f |\n", g.Kept.Byte, g.Kept.Record)
	}
	b.WriteString("\n")
	return b.String()
}

// rewriteGrowth replaces what stands between the markers of the page.
func rewriteGrowth(t *testing.T, generated string) {
	t.Helper()
	text, err := os.ReadFile(growthPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), growthBegin)
	_, after, ok2 := strings.Cut(rest, growthEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers of make bench-growth", growthPage)
	}
	if err := os.WriteFile(growthPage, []byte(before+growthBegin+generated+growthEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
