package page

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/compare"
	"github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/report/usage"
	"github.com/weirhpc/weir/report/view"
)

var pages = flag.String("pages", "", "write the made-up pages into this `DIR`, for a browser")

var options = Options{Now: time.UnixMilli(dayStart + dayMs).UTC(), Version: "v0"}

func render(t testing.TB, j *view.Job, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Job(&b, j, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// madeUpPages are pages of jobs of all kinds, by name.
func madeUpPages() map[string]func(testing.TB) []byte {
	of := func(j *view.Job, p *view.Peers) func(testing.TB) []byte {
		o := options
		o.Peers = p
		return func(t testing.TB) []byte { return render(t, j, o) }
	}
	return map[string]func(testing.TB) []byte{
		"day":     of(madeUp(240), madeUpPeers()),
		"array":   func(t testing.TB) []byte { return render(t, several(t), options) },
		"hostile": of(hostile(), hostilePeers()),
		"bare":    of(bare(), nil),
		"short":   of(short(), nil),
		"year":    of(year(), madeUpPeers()),
		"system": system(
			madeUpMachine(""),
		),
		"system-hostile":  system(madeUpMachine(evil)),
		"system-bare":     system(&machine.Input{}),
		"compare":         compared(pair()),
		"usage":           month("alice"),
		"usage-hostile":   month(evil),
		"compare-hostile": compared(hostile(), madeUp(24)),
		"compare-bare":    compared(bare(), short()),
	}
}

// pair is a made-up job that has ended, and its next run, which keeps more cores busy.
func pair() (a, b *view.Job) {
	a, b = madeUp(24), madeUp(24)
	for _, j := range []*view.Job{a, b} {
		j.Running, j.State, j.End = false, schemas.StateCompleted, new(j.UntilMs)
	}
	b.JobID, b.Findings = "184301", b.Findings[1:]
	for _, name := range []string{"cpu_user", "cpu_idle"} {
		t := &b.Find(name).Total
		for k := range t.D {
			t.D[k] = math.Round(2*float64(k)) / 100
			if name == "cpu_user" {
				t.D[k] += 0.8
			}
		}
		t.Lo, t.Hi, t.Mean = t.D, t.D, t.D[5]
	}
	return a, b
}

// month is the page of a month of an account with GPUs and power meters.
func month(name string) func(testing.TB) []byte {
	in := &usage.Input{
		Kind: usage.Account, Name: name, Judged: true, Month: time.UnixMilli(dayStart).UTC().AddDate(0, 0, -20),
	}
	from, _ := pair()
	for i := range 12 {
		j := usage.Job{JobLine: from.Line(), CoresMeasuredH: 90_000, Findings: from.Findings[:i%3]}
		j.JobID, j.User, j.Account, j.Name = fmt.Sprint(184223+i), name, name, name
		j.End = new(in.Month.AddDate(0, -i/4, i).UnixMilli())
		if i%2 == 0 {
			j.Gpus, j.GPUsMeasuredH, j.GPUWastedH = new(int32(4)), 90, new(30.0)
			j.Energy.Add("node_power", 500, 8640*64, 10)
		}
		in.Jobs = append(in.Jobs, j)
	}
	return func(t testing.TB) []byte {
		t.Helper()
		var w bytes.Buffer
		if err := Usage(&w, usage.Compute(in), options); err != nil {
			t.Fatal(err)
		}
		return w.Bytes()
	}
}

func compared(a, b *view.Job) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		t.Helper()
		var w bytes.Buffer
		if err := Compared(&w, compare.Jobs(a, b, nil), options); err != nil {
			t.Fatal(err)
		}
		return w.Bytes()
	}
}

// TestComparedPageSays has what changed, or why nothing is compared.
func TestComparedPageSays(t *testing.T) {
	text := string(madeUpPages()["compare"](t))
	for _, want := range []string{
		"<h1>Jobs 184223 and 184301</h1>", "0 findings appeared, and 1 went away.", "<h3>cpu_idle <small>",
		"<figure>", "Gone: only 184223 has it", "<tr><td>core-hours<td", "Not changed for certain", "Stays: 184223 has it",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	text = string(madeUpPages()["compare-bare"](t))
	if !strings.Contains(text, "<li>they have no metric in common") || strings.Contains(text, "<figure>") {
		t.Error("the page of jobs that are not comparable compares them")
	}
}

func system(in *machine.Input) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		t.Helper()
		var b bytes.Buffer
		if err := System(&b, machine.Compute(in), options); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
}

// TestPages writes the pages that the tests with a browser look at.
func TestPages(t *testing.T) {
	if *pages == "" {
		t.Skip("-pages names no directory")
	}
	for name, page := range madeUpPages() {
		if err := os.WriteFile(filepath.Join(*pages, name+".html"), page(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPageSays looks for what a reader of the page relies on.
func TestPageSays(t *testing.T) {
	day := string(madeUpPages()["day"](t))
	for _, want := range []string{
		"<title>Job 184223 relax_n256</title>",
		"81\u00a0% of the 4,096 cores on 64 nodes were busy, over 24.0 hours. 3 findings, the worst: " +
			"Memory bandwidth is the limit.",
		"RUNNING 1-00:00:00 of 2-00:00:00", "64 nodes, 4,096 cores", "n0381, n0382, n0383, … n0444",
		"8,640 intervals of 10\u00a0s",
		"n0412 silent from 2026-09-21 14:10 to 14:18", "exact in 97.0\u00a0% of intervals; elsewhere",
		"#SBATCH --exclude=n0412",
		"In 93\u00a0% of 8,580 checks; mean severity 0.27, at worst 0.31; n0412 in 7,421 of them",
		"5 of 10 properties appear. Worst: Memory bandwidth is the limit, with a mean severity of 0.51.",
		"n0412 is lowest in clock in 92\u00a0% of the intervals; chance gives 1.6\u00a0%.",
		"Memory is the roof: at 0.699 FLOP/B a node reaches 83\u00a0% of it.",
		"The job stands out by median of vectorization_ratio: only 0.5\u00a0% of 412 jobs in the queue are below it.",
		"<code>unused-gpu</code><td class=\"n\">job.gpus is 0",
	} {
		if !strings.Contains(day, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	bare := string(madeUpPages()["bare"](t))
	for _, want := range []string{
		"No property was evaluated.", "No rule was evaluated.", "an archive has the other jobs",
		"It needs the metrics flops_any",
	} {
		if !strings.Contains(bare, want) {
			t.Errorf("the page of a job without numbers does not say %q", want)
		}
	}
}

// TestSilenceOfDaysHasItsDates: it does not look like one of minutes.
func TestSilenceOfDaysHasItsDates(t *testing.T) {
	j := madeUp(240)
	j.Gaps[0].UntilMs += 2 * dayMs
	if got := seen(j); !strings.Contains(got, "silent from 2026-09-21 14:10 to 2026-09-23 14:18") {
		t.Error(got)
	}
}

// TestSystemPageSays has the numbers of the report.
func TestSystemPageSays(t *testing.T) {
	in := madeUpMachine("")
	r := machine.Compute(in)
	busy, wasted, _, _, _ := r.Cores.Shares()
	text := string(system(in)(t))
	for _, want := range []string{
		"<h1>September 2026</h1>", thousands(r.Jobs) + " counted",
		thousands(r.Jobs) + " jobs ran for " + whole(r.CoreHours) + " core-hours and " + whole(r.GPUHours) + " GPU-hours.",
		"<h2>What the GPUs did</h2>", "of the GPU-hours that jobs held were wasted", "100\u00a0MWh of nodes",
		`<i class="med" style="width:11`, "busy in " + tenths(busy), "wasted in " + tenths(wasted),
		"Below p25 with 100\u00a0% of the jobs of 256 cores: slow.", "Cores without work costs most", ">phys-a<td>",
		"cores in the mean; the mean core-hour was spent in a job of",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	bare := string(system(&machine.Input{})(t))
	for _, want := range []string{"No core was measured.", "no job was judged"} {
		if !strings.Contains(bare, want) {
			t.Errorf("the page of an archive without jobs does not say %q", want)
		}
	}
	nobody := []machine.Hour{{Hours: 9, IdleCoreHours: 9}, {Rest: true, Hours: 9}}
	free := string(system(&machine.Input{Hours: nobody})(t))
	if !strings.Contains(free, "No job held a core.") || strings.Contains(free, "wasted.") {
		t.Error("the page of a machine that nobody used says what jobs wasted")
	}
}

// TestPagesAskForNothing holds of every page, with names of all kinds.
func TestPagesAskForNothing(t *testing.T) {
	own := regexp.MustCompile(
		`(?i)<(script|img|iframe|object|embed|link|base|form|a)\b|` +
			`<\w+(\s[\w-]+(="[^"]*")?)*\s+on\w+=|url\([^#]|@import`,
	)
	for name, page := range madeUpPages() {
		text := page(t)
		if at := own.Find(text); at != nil {
			t.Errorf("%s: the page has %q", name, at)
		}
		if at := regexp.MustCompile("[\x00-\x09\x0b-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069]|NaN|Inf\\b").
			Find(text); at != nil {
			t.Errorf("%s: the page has %q", name, at)
		}
	}
}

// TestPageIsSmall is the budget of a page of 24 hours and 16 metrics.
func TestPageIsSmall(t *testing.T) {
	if n := len(madeUpPages()["day"](t)); n > 500_000 || n < 100_000 {
		t.Errorf("the page has %d bytes, want at most 500,000", n)
	}
}

// TestBinsHold joins bins: what every interval held must lie in the joined envelope, and nothing is lost.
func TestBinsHold(t *testing.T) {
	bins := madeUp(240).Metrics[0].Bins
	bins[7].Measured, bins[7].Low, bins[7].High = 0, [11]float64{}, [11]float64{} // nothing was measured
	joined := coarser(bins, 24)
	if len(joined) != 24 {
		t.Fatalf("%d bins, want 24", len(joined))
	}
	var count, reported int64
	for i, b := range bins {
		in := &joined[i/10]
		count, reported = count+b.Count, reported+b.Reported
		if b.StartMs < in.StartMs || b.EndMs > in.EndMs {
			t.Fatalf("bin %d lies beyond the one that it is joined to", i)
		}
		for k := range b.Low {
			if b.Measured > 0 && (b.Low[k] < in.Low[k] || b.High[k] > in.High[k]) {
				t.Fatalf(
					"bin %d: decile %d is %v to %v, the joined one %v to %v",
					i,
					k,
					b.Low[k],
					b.High[k],
					in.Low[k],
					in.High[k],
				)
			}
		}
	}
	for _, b := range joined {
		count, reported = count-b.Count, reported-b.Reported
	}
	if count != bins[7].Count || reported != 0 {
		t.Errorf("%d values and %d node intervals are lost", count, reported)
	}
	if joined[0].Low[0] == 0 && bins[0].Low[0] > 0 {
		t.Error("a bin without values lowered the envelope")
	}
}

// TestTail compares the probability with a simulation, and with sums of exact fractions.
func TestTail(t *testing.T) {
	for _, tt := range []struct {
		k, n int64
		p    float64
		want float64
	}{
		{5, 10, 0.1, 0.001634937},
		{10, 10, 0.5, 0.0009765625},
		{50, 1000, 0.02, 7.884716909e-09},
		{11, 10, 0.5, 0},
		{0, 10, 0.5, 1},
		{1, 100, 0.02, 1}, // below the mean it says 1
	} {
		if got := tail(tt.k, tt.n, tt.p); math.Abs(got-tt.want) > 1e-5*tt.want+1e-12 {
			t.Errorf("at least %d of %d with %v: %v, want %v", tt.k, tt.n, tt.p, got, tt.want)
		}
	}
	r := rand.New(rand.NewPCG(7, 7))
	const trials = 20_000
	hits := 0
	for range trials {
		n := 0
		for range 60 {
			if r.Float64() < 1.0/8 {
				n++
			}
		}
		if n >= 12 {
			hits++
		}
	}
	if got, want := tail(12, 60, 1.0/8), float64(hits)/trials; math.Abs(got-want) > 0.005 {
		t.Errorf("at least 12 of 60 with 1/8: %v, the simulation has %v", got, want)
	}
}

// TestChanceIsSilent gives each node its turn: none stands out.
func TestChanceIsSilent(t *testing.T) {
	j := madeUp(24)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range j.Metrics {
		for k := range j.Metrics[i].Bins {
			b := &j.Metrics[i].Bins[k]
			b.Lows, b.Highs = nil, nil
			for range b.Measured {
				b.Lows = append(b.Lows, view.NodeCount{Node: j.Nodes[r.IntN(64)], Count: 1})
				b.Highs = append(b.Highs, view.NodeCount{Node: j.Nodes[r.IntN(64)], Count: 1})
			}
		}
	}
	if n := newNodeTable(j); len(n.Rows) != 0 || n.Figure != "" || !strings.HasPrefix(n.Result, "None of 64 nodes") {
		t.Errorf("by chance: %q and %d rows", n.Result, len(n.Rows))
	}
}

// TestTiesNameNobody: where nothing was read from a file, every node is lowest, and the first one of them is named.
func TestTiesNameNobody(t *testing.T) {
	m := madeUp(24).Metrics[15] // swap_pages, which are 0
	for i := range m.Bins {
		m.Bins[i].Lows = []view.NodeCount{{Node: "n0381", Count: int64(m.Bins[i].Measured)}}
	}
	if rows := above(&m, 64, false); len(rows) != 0 {
		t.Errorf("a tie names %+v", rows)
	}
	b := view.Bin{Measured: 1, Count: 4} // of four values, d0 to d2 are the least one
	b.Low = [11]float64{1, 1, 1, 1.2, 1.6, 2, 2.4, 2.8, 3.2, 3.6, 4}
	b.High = b.Low
	if tied(&b, false) || tied(&b, true) {
		t.Error("four different values are a tie")
	}
}

// TestGapsAreHatched takes bins away: the bands must break there.
func TestGapsAreHatched(t *testing.T) {
	j := madeUp(24)
	m := j.Metrics[0]
	m.Bins = append(m.Bins[:4:4], m.Bins[8:]...)
	m.Bins[10].Measured = 0
	c := columnsOf(m.Bins, chart.Time(j.FirstMs, j.UntilMs, 0, 24))
	if len(c.bins) != 21 || c.bins[4] != nil || c.xs[4] != 4 || c.xs[5] != 8 || len(c.xs) != 22 {
		t.Fatalf("columns at %v", c.xs)
	}
	y := c.at(chart.Linear(0, 1, 0, 1), func(b *view.Bin) float64 { return b.Mean })
	if !math.IsNaN(y[4]) || !math.IsNaN(y[11]) || math.IsNaN(y[3]) {
		t.Errorf("positions %v, want none at 4 and 11", y)
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{percent(0), "0\u00a0%"},
		{percent(1), "100\u00a0%"},
		{percent(0.9996), "99.9\u00a0%"},
		{percent(0.00001), "<0.01\u00a0%"},
		{percent(0.005), "0.5\u00a0%"},
		{percent(0.0123), "1.2\u00a0%"},
		{percent(0.78), "78\u00a0%"},
		{percent(math.NaN()), "unknown"},
		{unitText("ipc", "1", 0.31), "0.31"},
		{unitText("flops_any", "FLOP/s", 2.44e9), "2.44\u00a0GFLOP/s"},
		{unitText("mem_used", "B", 91.6e9), "91.6\u00a0GB"},
		{unitText("clock", "Hz", 999.6e6), "1\u00a0GHz"},
		{unitText("swap_pages", "1/s", 12), "12\u00a0/s"},
		{unitText("x", "W", -1500), "-1.5\u00a0kW"},
		{unitText("x", "B", 0), "0\u00a0B"},
		{span(3600e3 * 23.5), "23:30:00"},
		{span(86400e3 * 3), "3-00:00:00"},
		{roughly(90e3), "90 seconds"},
		{roughly(45 * 60e3), "45 minutes"},
		{thousands(-1234567), "-1,234,567"},
		{thousands(999), "999"},
		{shorten("漢字漢字", 5), "漢字…"},
		{shorten("abc", 3), "abc"},
		{ending("rack0-node00001", 6), "…00001"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// TestSeverityClasses holds the classes of the map to those of findings.
func TestSeverityClasses(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want string
	}{{math.NaN(), ""}, {0, "sev0"}, {0.001, "sev1"}, {0.34, "sev2"}, {0.67, "sev3"}, {1, "sev3"}} {
		if got := severityClass(tt.v); got != tt.want {
			t.Errorf("severity %v is %q, want %q", tt.v, got, tt.want)
		}
	}
}

// TestBars: the word repeats the finding, and where no rule judges the bar is of the peak.
func TestBars(t *testing.T) {
	j := madeUp(24)
	got := map[string]use{}
	for _, u := range uses(j) {
		got[u.Name] = u
	}
	for name, want := range map[string][2]string{
		"busy cores": {"low", "med"},
		"FLOPs":      {"of peak", ""}, "memory bandwidth": {"bound", "med"}, "memory": {"ok", ""},
	} {
		if u := got[name]; u.Word != want[0] || u.Class != want[1] {
			t.Errorf("%s: %q of class %q, want %q", name, u.Word, u.Class, want)
		}
	}
	j.Findings = append(
		j.Findings,
		schemas.Finding{Rule: "low-use", State: schemas.FindingOpen, Class: schemas.ClassHigh},
	)
	if u := uses(j)[1]; u.Name != "FLOPs" || u.Word != "low" || u.Class != "high" {
		t.Errorf("with a finding the bar is %+v, want the word of it", u)
	}
	j.Type.Memory, j.Type.PeakFlops, j.Type.PeakMemBW = 0, 0, 0
	if n := len(uses(j)); n != 1 {
		t.Errorf("%d bars without a type of node, want that of busy cores alone", n)
	}
}

// TestWriteErrors: a full disk is an error.
func TestWriteErrors(t *testing.T) {
	if err := Job(full{}, bare(), options); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

// FuzzNames puts a name everywhere: the page must stay the same tree of elements.
func FuzzNames(f *testing.F) {
	f.Add(evil)
	f.Add(wide)
	f.Add("\x00\xff{{")
	f.Fuzz(func(t *testing.T, name string) {
		j := short()
		j.JobID, j.Name, j.User, j.Account = name, name, name, name
		j.Queue, j.State, j.Cluster, j.From = name, name, name, name
		j.Nodes = []string{name}
		j.ByNode = &view.NodeTable{Lines: []view.NodeLine{{Node: name, Nodes: 1}}, Source: name}
		j.Metrics = j.Metrics[:1]
		j.Metrics[0].Name, j.Metrics[0].Unit, j.Metrics[0].Scope = name, name, name
		j.Findings = []schemas.Finding{{Rule: name, Title: name, Hint: name, Slurm: name, Class: name, Node: &name}}
		var b bytes.Buffer
		if err := Job(&b, j, options); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "<script") + strings.Count(b.String(), "<img"); n > 0 {
			t.Errorf("%d elements come from the name", n)
		}
		if strings.Count(b.String(), "</title>") != 1+strings.Count(b.String(), "<title id=") {
			t.Error("the name ended an element")
		}
	})
}

func BenchmarkJob(b *testing.B) {
	j := madeUp(240)
	o := options
	o.Peers = madeUpPeers()
	size := 0
	for b.Loop() {
		size = len(render(b, j, o))
	}
	b.ReportMetric(float64(size), "bytes")
}

// TestSampledMetricsAreMarked: the heading of a fan tells on how many nodes the metric is, where some lack it.
func TestSampledMetricsAreMarked(t *testing.T) {
	m := view.Metric{Name: "cpu_user", Scope: schemas.ScopeCore}
	for want, nodes := range map[string]view.Nodes{
		"CPU time in user code, per core":                         {Intervals: 10, With: 960, Reported: 960},
		"CPU time in user code, per core, sampled: 2 of 96 nodes": {Intervals: 10, With: 20, Reported: 960},
	} {
		if m.Total.Nodes = nodes; what(&m) != want {
			t.Errorf("%q, want %q", what(&m), want)
		}
	}
}

// TestNodesWithoutWorkAreNamed: whatever stands out by chance, the section of nodes names those without work first, and
// all of them.
func TestNodesWithoutWorkAreNamed(t *testing.T) {
	line := func(node string, busy, gpu float64) view.NodeLine {
		return view.NodeLine{Node: node, Busy: busy, GPU: gpu, Nodes: 1}
	}
	nan := math.NaN()
	for want, lines := range map[string][]view.NodeLine{
		"4 of 8 nodes have no work: n1, n3, n5, n7. None of 8 nodes": {
			line("n7", 0.001, nan), line("n5", 0.002, nan), line("n1", 0.002, nan), line("n3", 0.009, nan),
			line("n2", 0.9, nan), line("n4", 0.9, nan), line("n6", 0.9, nan), line("n8", 0.9, nan),
		},
		"1 of 2 nodes has no work: n2. None of 8 nodes": {line("n2", 0, 0), line("n1", 0.001, 0.9), line("n3", nan, nan)},
		"None of 8 nodes": {line("n1", 0, nan), line("n2", 0, nan)},
	} {
		j := short()
		j.Nodes, j.Metrics = make([]string, 8), nil
		j.ByNode = &view.NodeTable{Lines: lines}
		if got := newNodeTable(j).Result; !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s…", got, want)
		}
	}
}
