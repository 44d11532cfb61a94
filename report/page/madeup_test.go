package page

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// The made-up job runs for 24 hours at 10 s, on 64 nodes of 64 cores. A tenth of its cores idle, one node is slow, and
// its imbalance grows.
const (
	dayStart = 1_790_000_000_000 / 86_400_000 * 86_400_000
	dayMs    = 86_400_000
)

// course is a metric of the made-up job: its value at a time from 0 to 1 and at a rank from 0 to 1.
type course struct {
	name, unit, scope string
	values            int64 // of a node
	at                func(t, rank float64) float64
}

func clip(v float64) float64 { return min(max(v, 0), 1) }

// user is the share of user time: a tenth of the cores idles, and more of them in the last eighth.
func user(t, rank float64) float64 {
	idle := 0.1 + 0.25*max(0, (t-0.85)/0.15)
	switch {
	case t < 0.01:
		return 0.3 * rank
	case rank < idle:
		return 0.02 + 0.01*rank
	}
	return 0.965 + 0.03*rank - 0.12*max(0, 0.2-math.Abs(rank-0.4))
}

func courses() []course {
	phase := func(t float64) float64 { return 0.5 + 0.5*math.Sin(t*40) }
	burst := func(t float64) float64 { return math.Exp(-math.Pow((math.Mod(t*8, 1)-0.5)*18, 2)) }
	return []course{
		{"cpu_user", "1", "core", 64, user},
		{"cpu_system", "1", "core", 64, func(t, r float64) float64 { return 0.004 + 0.02*r*r + 0.1*burst(t)*r }},
		{
			"cpu_iowait",
			"1",
			"core",
			64,
			func(t, r float64) float64 { return clip(math.Round(1e4*0.12*burst(t)*math.Pow(r, 6)) / 1e4) },
		},
		{"cpu_idle", "1", "core", 64, func(t, r float64) float64 { return clip(0.97 - user(t, 1-r)) }},
		{"ipc", "1", "core", 64, func(t, r float64) float64 { return 0.25 + 0.5*math.Pow(r, 0.6) + 0.08*phase(t)*r }},
		{"clock", "Hz", "core", 64, func(t, r float64) float64 { return 1.9e9 + 0.7e9*min(1, r*30) - 4e7*phase(t) }},
		{"flops_any", "FLOP/s", "core", 64, func(t, r float64) float64 {
			if r < 0.1 {
				return 0
			}
			return (2.2e9 + 0.9e9*r) * (0.9 + 0.1*phase(t)) * (1 - 0.3*max(0, t-0.85)/0.15)
		}},
		{
			"vectorization_ratio",
			"1",
			"core",
			64,
			func(t, r float64) float64 { return clip(0.45 + 0.2*r + 0.05*phase(t)) },
		},
		{"mem_bw", "B/s", "socket", 2, func(t, r float64) float64 { return (95e9 + 18e9*r) * (0.92 + 0.08*phase(t)) }},
		{"operational_intensity", "FLOP/B", "socket", 2, func(t, r float64) float64 {
			return (0.6 + 0.25*r) * (0.85 + 0.25*phase(t)) * (1 - 0.4*max(0, t-0.7))
		}},
		{"mem_used", "B", "node", 1, func(t, r float64) float64 { return 60e9 + 30e9*math.Min(1, t*3) + 4e9*r }},
		{"cpu_load", "1", "node", 1, func(t, r float64) float64 { return 56 + 3*r + 2*phase(t) }},
		{"disk_bytes", "B/s", "node", 1, func(t, r float64) float64 { return 2e4 + 4e5*burst(t)*r }},
		{
			"lustre_read_bw",
			"B/s",
			"node",
			1,
			func(t, r float64) float64 { return math.Round(1.2e9 * math.Exp(-t*100) * (0.5 + r)) },
		},
		{
			"lustre_write_bw",
			"B/s",
			"node",
			1,
			func(t, r float64) float64 { return math.Round(6e8 * burst(t) * (0.3 + r)) },
		},
		{"swap_pages", "1/s", "node", 1, func(_, _ float64) float64 { return 0 }},
	}
}

// madeUp is the job in so many bins.
func madeUp(bins int) *view.Job {
	nodes := make([]string, 64)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("n%04d", 381+i)
	}
	start, cores, limit, gpus := int64(dayStart), int64(4096), int64(2*86400), 0
	j := &view.Job{
		ByNode: madeUpByNode(nodes),
		Job: schemas.Job{
			JobID: "184223", Name: "relax_n256", User: "alice", Account: "phys-a", Queue: "normal", State: "RUNNING",
			Nodes: nodes, Start: &start, Cores: &cores, TimeLimitS: &limit,
		},
		Cluster:    "alpha",
		Running:    true,
		FirstMs:    dayStart,
		UntilMs:    dayStart + dayMs,
		IntervalMs: 10_000,
		Type: config.NodeType{
			Name: "thin", CPUs: 64, ThreadsPerCore: 1, GPUs: &gpus, Memory: 256e9, PeakFlops: 3e12, PeakMemBW: 2.56e11,
		},
		Intervals:      8640,
		Complete:       8590,
		Expected:       8640 * 64,
		Reported:       8640*64 - 50,
		ExactShare:     0.97,
		WorstRankError: 0.004,
		Gaps: []view.Gap{
			{
				FromMs:  dayStart + 14*3600e3 + 600e3,
				UntilMs: dayStart + 14*3600e3 + 1100e3,
				Missing: 50,
				Nodes:   []string{"n0412"},
			},
		},
		From: "archive and topic",
		NotEvaluated: []rules.Reason{
			{Rule: "unused-gpu", Why: "job.gpus is 0"}, {Rule: "low-vector", Why: "no metric avx512_share"},
		},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range courses() {
		j.Metrics = append(j.Metrics, c.metric(bins, r))
	}
	j.Findings = madeUpFindings()
	j.Map = madeUpMap(bins, r)
	return j
}

func (c *course) metric(bins int, r *rand.Rand) view.Metric {
	m := view.Metric{Name: c.name, Unit: c.unit, Scope: c.scope}
	var all []float64
	each := int64(dayMs / bins)
	for i := range bins {
		t := (float64(i) + 0.5) / float64(bins)
		b := view.Bin{
			StartMs: dayStart + int64(i)*each, EndMs: dayStart + int64(i+1)*each, Intervals: int32(each / 10_000),
			Measured: int32(each / 10_000), Complete: int32(each / 10_000),
		}
		b.Expected = int64(b.Intervals) * 64
		b.Reported = b.Expected
		b.Count = b.Reported * c.values
		for k := range 11 {
			v := c.at(t, float64(k)/10)
			wide := 0.012 * (1 + math.Abs(float64(k-5))) * r.Float64()
			b.Low[k], b.High[k] = v*(1-wide), v*(1+wide)
			if c.unit == "1" && v <= 1 {
				b.High[k] = min(b.High[k], 1)
			}
			if k > 0 {
				b.Low[k], b.High[k] = max(b.Low[k], b.Low[k-1]), max(b.High[k], b.High[k-1])
			}
			all = append(all, v)
			b.Mean += v / 11
		}
		b.D5Min, b.D5Max, b.D5Mean = b.Low[5], b.High[5], (b.Low[5]+b.High[5])/2
		if i*24/bins == 14 && i*240/bins%10 < 2 { // n0412 is silent
			b.Reported, b.Complete = b.Reported-25, b.Complete-25
		}
		m.Bins = append(m.Bins, b)
	}
	c.extremes(&m)
	slices.Sort(all)
	m.Total = view.Total{Known: true, Exact: false, RankError: 0.004, Count: 8640 * 64 * c.values}
	m.Total.PerNode = float64(c.values)
	for k := range 11 {
		v := all[k*(len(all)-1)/10]
		m.Total.D[k], m.Total.Lo[k], m.Total.Hi[k] = v, v, v
	}
	for _, v := range all {
		m.Total.Mean += v / float64(len(all))
	}
	return m
}

// extremes names the nodes that are lowest and highest in each bin.
func (c *course) extremes(m *view.Metric) {
	for i := range m.Bins {
		b := &m.Bins[i]
		n := int64(b.Measured)
		switch c.name {
		case "clock":
			b.Lows = []view.NodeCount{{Node: "n0412", Count: n * 93 / 100}, {Node: "n0383", Count: n - n*93/100}}
		case "cpu_user", "flops_any":
			b.Lows = []view.NodeCount{{Node: "n0412", Count: n / 3}, {Node: "n0401", Count: n / 9}}
			b.Highs = []view.NodeCount{{Node: "n0388", Count: n / 4}}
		case "mem_used", "lustre_write_bw", "cpu_load":
			b.Highs = []view.NodeCount{
				{Node: "n0381", Count: n * 88 / 100},
				{Node: fmt.Sprintf("n%04d", 382+i%60), Count: n - n*88/100},
			}
		}
	}
}

func madeUpFindings() []schemas.Finding {
	slow := "n0412"
	of := func(rule, title, class string, severity, worst float64, matched int64) schemas.Finding {
		return schemas.Finding{
			Cluster:    "alpha",
			JobID:      "184223",
			Rule:       rule,
			Title:      title,
			Class:      class,
			State:      schemas.FindingOpen,
			Certainty:  schemas.Certain,
			Severity:   severity,
			Worst:      worst,
			IntervalMs: 10_000,
			Intervals:  8640,
			Evaluated:  8580,
			Matched:    matched,
		}
	}
	idle := of("idle-cores", "Cores without work", schemas.ClassMed, 0.43, 0.98, 8520)
	idle.Hint = "At least 10 % of the cores idle in 99 % of the intervals. Start more ranks, or ask for fewer cores."
	idle.Slurm = "#SBATCH --nodes=58          (now 64)"
	idle.Evidence = []schemas.FindingEvidence{
		{Name: "cpu_idle.d9", Low: 0.94, Mean: 0.95, High: 0.99},
		{Name: "cpu_idle.d1", Low: 0, Mean: 0.01, High: 0.02},
	}
	memory := of("memory-bound", "Memory bandwidth is the limit", schemas.ClassMed, 0.52, 0.71, 8570)
	memory.Hint = "81 % of the peak bandwidth are in use: fewer ranks a node cost little."
	node := of("slow-node", "One node is slow", schemas.ClassLow, 0.27, 0.31, 7980)
	node.Hint, node.Slurm = "n0412 runs at 1.9 GHz, the job at 2.6 GHz. Report the node.", "#SBATCH --exclude=n0412"
	node.Node, node.NodeIntervals = &slow, 7421
	return []schemas.Finding{memory, idle, node}
}

func madeUpMap(bins int, r *rand.Rand) []view.Property {
	row := func(rule, title string, at func(t float64) float64) view.Property {
		p := view.Property{Rule: rule, Title: title}
		sum, n := 0.0, 0.0
		for i := range bins {
			t := float64(i) / float64(bins)
			v := clip(at(t) * (1 + 0.2*(r.Float64()-0.5)))
			if t < 0.004 || t > 0.585 && t < 0.596 {
				v = math.NaN()
			} else {
				sum, n, p.Max = sum+v, n+1, max(p.Max, v)
			}
			p.Worst = append(p.Worst, v)
		}
		p.Mean = sum / n
		return p
	}
	zero := func(float64) float64 { return 0 }
	never := view.Property{
		Rule:  "unused-gpu",
		Title: "GPU without work",
		Why:   "job.gpus is 0",
		Max:   math.NaN(),
		Mean:  math.NaN(),
	}
	for range bins {
		never.Worst = append(never.Worst, math.NaN())
	}
	return []view.Property{
		row(
			"memory-bound",
			"Memory bandwidth is the limit",
			func(t float64) float64 { return 0.5 + 0.1*math.Sin(t*40) },
		),
		row("idle-cores", "Cores without work", func(t float64) float64 { return 0.4 + 0.58*max(0, (t-0.85)/0.15) }),
		row("slow-node", "One node is slow", func(float64) float64 { return 0.28 }),
		row("io-wait", "Cores wait for input and output", func(t float64) float64 {
			return max(0, math.Exp(-math.Pow((math.Mod(t*8, 1)-0.5)*18, 2))-0.3) * 0.9
		}),
		row("kernel-no-io", "Kernel time without input or output", func(t float64) float64 {
			if t < 0.012 {
				return 0.9
			}
			return 0
		}),
		row("overload", "More threads than cores", zero),
		row("memory-full", "Memory nearly full", zero),
		row("swapping", "Pages are swapped", zero),
		row("unused-node", "A node without work", zero),
		row("imbalance", "Cores have unequal work", zero),
		never,
	}
}

func madeUpPeers() *view.Peers {
	p := &view.Peers{Days: 90, SizeClass: 4096}
	r := rand.New(rand.NewPCG(3, 4))
	add := func(metric, of string, value float64) {
		p.Queue = append(p.Queue, view.Rank{Metric: metric, Of: of, Value: value, Below: r.Int64N(412), All: 412})
		p.User = append(p.User, view.Rank{Metric: metric, Of: of, Value: value, Below: r.Int64N(37), All: 37})
	}
	add("cpu_idle", "busy", 0.78)
	for _, c := range courses()[:10] {
		add(c.name, "d5", c.at(0.5, 0.5))
		add(c.name, "spread", c.at(0.5, 0.9)-c.at(0.5, 0.1))
	}
	p.Queue[2].Below = 409
	return p
}

// madeUpByNode is a table by node of which the last is silent.
func madeUpByNode(nodes []string) *view.NodeTable {
	t := &view.NodeTable{Source: "the archive's table nodes: 99.8 % of the intervals of its nodes"}
	for i, node := range nodes {
		l := view.NodeLine{
			Node: node, Busy: min(0.97, 0.05+float64(i)/20), Memory: 88e9, GPU: math.NaN(), GPUMemory: math.NaN(),
			Network: 1.2e9, Nodes: 1,
		}
		if i == len(nodes)-1 {
			l.Busy, l.Memory, l.Network = math.NaN(), math.NaN(), math.NaN()
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}
