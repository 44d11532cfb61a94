package sizing

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// worstError and middleError are what docs/performance.md states of the model: by how much weir size misses the
// processor time of an interval that was measured.
const worstError, middleError = .4, .15

func small() (Machine, config.Config, Growth) {
	cfg := config.Default()
	cfg.Collect.Sketch, cfg.Grace = 0, time.Second
	return Machine{Nodes: 1000, Cores: 2, Metrics: 1, Jobs: 20, Names: []Metric{{"ipc", "1"}}}, cfg,
		Growth{Constants: Constants{Value: .01}, Held: Memory{2, 100}, Kept: Memory{1, 10}}
}

// TestSizeByHand: numbers that were computed without a computer.
func TestSizeByHand(t *testing.T) {
	m, cfg, g := small()
	n, err := Size(m, cfg, g)
	if err != nil {
		t.Fatal(err)
	}
	// 10 for the schema, 116 for the header, 4 for two CPUs, 31 for a metric of two values, 1 for no reported names
	const record = 162
	for name, pair := range map[string][2]float64{
		"record bytes":   {float64(n.RecordBytes), record},
		"interval bytes": {float64(n.IntervalBytes), 1000 * record},
		"values a s":     {n.ValuesPerS, 200},
		"cpu seconds":    {n.CPUSeconds, 20},
		"cores":          {float64(n.CollectCores), 8}, // 20 s, twice for the client, in 10 s that are half used
		"partitions":     {float64(n.Partitions), 24},
		"processes":      {float64(n.CollectProcesses), 2},
		"memory":         {float64(n.MemoryBytes), 2*64e6 + 2*(2*162_000+100*1000+162_000+10*1000)},
		"memory outage":  {float64(n.MemoryOutageBytes), 2*64e6 + 2*(65*(2*162_000+100*1000)+162_000+10*1000)},
		"brokers":        {float64(n.Brokers), 3},
		"in":             {n.InBytesPerS, 16_200},
		"burst":          {n.BurstBytesPerS, 324_000},
		"quota":          {n.QuotaBytesPerS, 1.25 * 33 * record / 10}, // 32 kept intervals, and one more in ten seconds
		// a day of 16,200 B/s, and a week of it, which is less than 24 segments; three copies
		"counters": {n.CountersBytes, 3 * (1_399_680_000 + 9_797_760_000)},
		"archive":  {n.ArchiveDayBytes, 22 * 85 * 8640},
		"values":   {n.ValuesWeekBytes, 8 * 2000 * 8640 * 7},
		// 22 rows of 85 bytes stand for 2,000 values of 8
		"reduction": {n.Reduction, 1 - 1870./16_000},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-9*pair[1] {
			t.Errorf("%s: %g, want %g", name, pair[0], pair[1])
		}
	}
	if n.PartitionsBy != "partitions_per_core" || n.BrokersBy != "replication" {
		t.Errorf("partitions by %s, brokers by %s", n.PartitionsBy, n.BrokersBy)
	}
}

// TestSizeRules: each rule decides where it asks for most.
func TestSizeRules(t *testing.T) {
	m, cfg, g := small()
	g.Constants.Value = 0
	if n, err := Size(m, cfg, g); err != nil || n.Partitions != 4 || n.PartitionsBy != "least_partitions" {
		t.Errorf("%d partitions by %s, %v", n.Partitions, n.PartitionsBy, err)
	}
	cfg.Balance.PartitionBytesPerS = 1000 // l_max is 5,000 B, half of it 2,500, and the records have 162,000
	if n, err := Size(m, cfg, g); err != nil || n.Partitions != 65 || n.PartitionsBy != "partition_fill" {
		t.Errorf("%d partitions by %s, %v", n.Partitions, n.PartitionsBy, err)
	}
	cfg.Balance.LMax = 10 // nodes
	if n, err := Size(m, cfg, g); err != nil || n.Partitions != 200 {
		t.Errorf("%d partitions by %s, %v", n.Partitions, n.PartitionsBy, err)
	}
	_, cfg, _ = small()
	m.Nodes, m.Jobs = 100_000, 0 // three connections each
	n, err := Size(m, cfg, g)
	if err != nil || n.Brokers != 30 || n.BrokersBy != "broker_connections" || n.Jobs != 2000 {
		t.Errorf("%d brokers by %s for %d jobs, %v", n.Brokers, n.BrokersBy, n.Jobs, err)
	}
	m.Cores, m.Metrics = 128, 37
	if n, err := Size(m, cfg, g); err != nil || n.BrokersBy != "broker_burst" {
		t.Errorf("%d brokers by %s, %v", n.Brokers, n.BrokersBy, err)
	}
	cfg.Grace = cfg.Interval / 2
	if n, err := Size(m, cfg, g); err != nil || n.BrokersBy != "broker_connections" {
		t.Errorf("%d brokers by %s, %v", n.Brokers, n.BrokersBy, err)
	}
}

// all are the numbers of which a larger machine never needs less.
func (n *Needs) all() []float64 {
	return []float64{
		float64(n.RecordBytes), float64(n.IntervalBytes), float64(n.Partitions), n.CPUSeconds, float64(n.CollectCores),
		float64(n.CollectProcesses), float64(n.MemoryBytes), float64(n.MemoryOutageBytes), float64(n.Brokers),
		n.InBytesPerS, n.BurstBytesPerS, n.ReplicaBytesPerS, n.CollectBytesPerS, n.SamplesBytesPerS, n.SummaryBytesPerS,
		n.QuotaBytesPerS,
		n.CountersBytes, n.SummaryTopic, n.PartialsBytes, n.ArchiveDayBytes, n.ArchiveWeekBytes, n.ValuesWeekBytes,
	}
}

// TestSizeIsMonotonic: more nodes, cores, metrics or jobs never need less, with the constants that were measured.
func TestSizeIsMonotonic(t *testing.T) {
	g, err := Measured()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	_, cfg, _ := small()
	cfg.Collect.Sketch = 512
	for range 200 {
		m := Machine{
			Nodes: 1 + int(math.Exp(11*r.Float64())), Cores: 1 + int(math.Exp(5*r.Float64())),
			Metrics: 1 + int(math.Exp(5*r.Float64())),
		}
		if r.IntN(2) == 0 {
			m.Jobs = 1 + r.IntN(m.Nodes)
		}
		more, what := m, "jobs"
		switch by := 1 + r.IntN(50); r.IntN(4) {
		case 0:
			what, more.Nodes = "nodes", m.Nodes+by
		case 1:
			what, more.Cores = "cores", m.Cores+by
		case 2:
			what, more.Metrics = "metrics", m.Metrics+by
		default:
			if m.Jobs > 0 {
				more.Jobs = min(m.Nodes, m.Jobs+by)
			}
		}
		a, errA := Size(m, cfg, g)
		b, errB := Size(more, cfg, g)
		if errors.Is(errB, ErrMachine) { // too large
			continue
		}
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		for i, v := range a.all() {
			if w := b.all()[i]; w < v*(1-1e-12) {
				t.Errorf("more %s: number %d falls from %g to %g: %+v and %+v", what, i, v, w, m, more)
			}
		}
	}
}

// TestSizeRefuses: what cannot be is refused with the limit.
func TestSizeRefuses(t *testing.T) {
	good, cfg, g := small()
	for name, change := range map[string]func(*Machine){
		"no nodes":                   func(m *Machine) { m.Nodes = 0 },
		"too many nodes":             func(m *Machine) { m.Nodes = maxNodes + 1 },
		"no cores":                   func(m *Machine) { m.Cores = -1 },
		"too many cores":             func(m *Machine) { m.Cores = maxCores + 1 },
		"no metrics":                 func(m *Machine) { m.Metrics = 0 },
		"too many metrics":           func(m *Machine) { m.Metrics = schemas.MaxMetrics + 1 },
		"more jobs than nodes":       func(m *Machine) { m.Jobs = 1001 },
		"a record that is too large": func(m *Machine) { m.Cores, m.Metrics = maxCores, 1000 },
		"too many partitions":        func(m *Machine) { m.Nodes, m.Cores, m.Metrics = maxNodes, 1000, 100 },
	} {
		m := good
		change(&m)
		if n, err := Size(m, cfg, g); !errors.Is(err, ErrMachine) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
}

// TestSizeIsAsMeasured: the model is that of the points it stands beside, and weir size misses none of them by more
// than is stated.
func TestSizeIsAsMeasured(t *testing.T) {
	g, err := Measured()
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Points) < 20 {
		t.Fatalf("%d points", len(g.Points))
	}
	again := NewGrowth(g.Points)
	if again.Constants != g.Constants || again.Held != g.Held || again.Kept != g.Kept {
		t.Errorf("growth.json has %+v, and its points give %+v: run make bench-growth", g.Constants, again.Constants)
	}
	var errs []float64
	cfg := config.Default()
	for i := range g.Points {
		p := &g.Points[i]
		n := Needs{
			Machine:    Machine{Nodes: p.Nodes, Cores: p.Cores, Metrics: p.Metrics, Jobs: p.Jobs},
			Partitions: p.Partitions, RecordBytes: p.RecordBytes / int64(p.Nodes),
		}
		off := g.Constants.seconds(n.shape(float64(cfg.CollectorBytes())))/p.Median() - 1
		errs = append(errs, math.Abs(off))
		if math.Abs(off) > worstError {
			t.Errorf("%+v: %+.0f %%", p.Shape, 100*off)
		}
		held := g.Held.Bytes(p.RecordBytes, p.Nodes) / float64(p.HeldBytes)
		if held < .7 || held > 1.4 {
			t.Errorf("%+v: holds %.2f of what was measured", p.Shape, held)
		}
	}
	slices.Sort(errs)
	t.Logf("weir size misses %.0f %% in the middle, %.0f %% at worst", 100*errs[len(errs)/2], 100*errs[len(errs)-1])
	if errs[len(errs)/2] > middleError {
		t.Errorf("misses %.0f %% in the middle", 100*errs[len(errs)/2])
	}
}

// TestFit: constants are found again, none is negative, and what does not matter is 0.
func TestFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	var amounts [][]float64
	var measured []float64
	for range 30 {
		a := []float64{1e6 * r.Float64(), 1e3 * r.Float64(), r.Float64(), 1}
		amounts = append(amounts, a)
		measured = append(measured, 2e-6*a[0]+3e-3*a[1]+1e-9*a[2])
	}
	c := fit(amounts, measured)
	for i, want := range []float64{2e-6, 3e-3, 0, 0} {
		if math.Abs(c[i]-want) > 1e-3*want {
			t.Errorf("constant %d: %g, want %g", i, c[i], want)
		}
	}
	for i := range measured {
		measured[i] = 2e-6*amounts[i][0] - 5e-4*amounts[i][1] + amounts[i][3]
	}
	for i, c := range fit(amounts, measured) {
		if c < 0 {
			t.Errorf("constant %d: %g", i, c)
		}
	}
}

// TestJobSizes: every node has a job and every job a node, however they divide.
func TestJobSizes(t *testing.T) {
	for _, m := range [][2]int{{1, 1}, {9288, 1}, {9288, 185}, {20_000, 20_000}, {101, 100}} {
		sizes := JobSizes(m[0], m[1])
		sum := 0
		for _, n := range sizes {
			sum += n
		}
		if len(sizes) != m[1] || sum != m[0] || slices.Min(sizes) < 1 {
			t.Errorf("%v: %d jobs of %d nodes, the least %d", m, len(sizes), sum, slices.Min(sizes))
		}
	}
}
