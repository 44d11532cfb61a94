package machine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// october is the span of most tests.
var october = Options{
	FromMs: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC).UnixMilli(),
	ToMs:   time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), MinCores: 8, MinTime: 10 * time.Minute,
}

// job is one of the span that counts.
func job(id, user string, cores int64, peak float64) Job {
	return Job{
		JobKey: schemas.JobKey{JobID: id}, User: user, Account: "a", Queue: "normal", Cores: cores,
		StartMs: october.FromMs, EndMs: october.FromMs + 3_600_000,
		Means: map[string]Mean{"peak_share_flops": {Mean: peak, PerNode: 1}},
	}
}

// TestLeftOut: each job that does not count has all of its reasons, and the others count.
func TestLeftOut(t *testing.T) {
	long := func(minutes int64) int64 { return october.FromMs + 60_000*minutes }
	some := map[string]Mean{"x": {}}
	o := october
	o.WithoutQueues = []string{"devel", "debug"}
	in := &Input{Options: o, Jobs: []Job{
		job("counts", "u", 8, 0.1),
		{JobKey: schemas.JobKey{JobID: "few"}, Cores: 7, StartMs: long(0), EndMs: long(60), Means: some},
		{JobKey: schemas.JobKey{JobID: "ten"}, Cores: 8, StartMs: long(0), EndMs: long(10), Means: some},
		{
			JobKey: schemas.JobKey{JobID: "all"}, Cores: 1, StartMs: long(0), EndMs: long(1), Queue: "devel",
			Means: some,
		},
		{JobKey: schemas.JobKey{JobID: "cores"}, StartMs: long(0), EndMs: long(60), Means: some},
		{JobKey: schemas.JobKey{JobID: "start"}, Cores: 8, StartMs: -1, EndMs: long(60), Means: some},
		{JobKey: schemas.JobKey{JobID: "dark"}, Cores: 8, StartMs: long(0), EndMs: long(60)},
	}}
	r := Compute(in)
	want := LeftOut{Jobs: 6, Reasons: []Reason{
		{"< 8 cores", 2}, {"<= 10m", 3}, {"queue devel", 1}, {"cores unknown", 1}, {"without totals", 1},
	}}
	if diff := gocmp.Diff(want, r.Left); diff != "" || r.Jobs != 1 || r.CoreHours != 8 {
		t.Errorf("%d jobs, %v core-hours: %s", r.Jobs, r.CoreHours, diff)
	}
}

// TestCores: what was measured is busy, wasted or free, and together with what was not seen it is all of the machine.
func TestCores(t *testing.T) {
	hour := october.FromMs
	in := &Input{Options: october, Hours: []Hour{
		{hour, false, 100, 40}, // 100 core-hours, of which 40 were idle
		{hour, true, 20, 20},   // 20 of them belonged to no job
		{hour + 86_400_000, false, 50, 5},
	}}
	r := Compute(in)
	if want := (Cores{Seen: 150, Busy: 105, Wasted: 25, Free: 20}); gocmp.Diff(want, r.Cores) != "" {
		t.Errorf("%+v", r.Cores)
	}
	if len(r.Days) != 2 || r.Days[0].Date != "2026-10-01" || r.Days[0].Busy != 60 || r.Days[1].Wasted != 5 {
		t.Errorf("%+v", r.Days)
	}
	in.MachineHour = 1 // one core: 744 core-hours in October
	if r := Compute(in); *r.Cores.Machine != 744 || *r.Cores.NotSeen != 594 {
		t.Errorf("%+v", r.Cores)
	}
}

// TestCoresWithThreads: a thread that idles beside a busy one is no waste. The busy threads of one job make up for no
// idle core of another one. Each type of node has its own number of threads.
func TestCoresWithThreads(t *testing.T) {
	at := october.FromMs
	for name, c := range map[string]struct {
		idle float64 // of 2,000 core-hours that jobs held
		held []Held
		busy float64
	}{
		"both threads busy, and a job that does nothing": {1000, []Held{{at, 2, 1000, 0}, {at, 2, 1000, 1000}}, 1000},
		"one thread of each core busy":                   {1000, []Held{{at, 2, 1000, 500}, {at, 2, 1000, 500}}, 2000},
		"two types: the one idle, the other busy":        {1500, []Held{{at, 1, 1000, 1000}, {at, 2, 1000, 500}}, 1000},
		"types that are not known count as the others":   {1250, []Held{{at, 0, 1000, 500}, {at, 2, 1000, 750}}, 1000},
		"no threads are known":                           {1250, []Held{{at, 0, 1000, 500}, {at, 0, 1000, 750}}, 750},
		"each core has one thread":                       {1250, []Held{{at, 1, 1000, 500}, {at, 1, 900, 750}}, 750},
	} {
		all := []Hour{{at, false, 2100, c.idle + 100}, {at, true, 100, 100}}
		r := Compute(&Input{Options: october, Hours: all, Held: c.held})
		want := Cores{Seen: 2100, Busy: c.busy, Wasted: 2000 - c.busy, Free: 100}
		if gocmp.Diff(want, r.Cores) != "" || gocmp.Diff(want, r.Days[0].Cores) != "" {
			t.Errorf("%s: %+v, and of the day %+v", name, r.Cores, r.Days[0].Cores)
		}
	}
}

// TestSharesAreAll: whatever was measured, the shares add up to 100 %, and none is negative.
func TestSharesAreAll(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 5))
	for range 2000 {
		in := &Input{Options: october, MachineHour: float64(r.IntN(3))}
		for range r.IntN(5) {
			hours := 1000 * r.Float64()
			in.Hours = append(in.Hours, Hour{october.FromMs, r.IntN(2) == 0, hours, hours * r.Float64()})
			in.Held = append(in.Held, Held{october.FromMs, r.IntN(3), hours, hours * r.Float64()})
		}
		c := Compute(in).Cores
		busy, wasted, free, notSeen, ok := c.Shares()
		if sum := busy + wasted + free + notSeen; ok && math.Abs(sum-1) > 1e-12 || !ok && sum != 0 {
			t.Fatalf("%+v: the sum is %v", c, sum)
		}
		if min(busy, wasted, free, notSeen) < 0 || c.Seen < 0 || math.IsNaN(busy) {
			t.Fatalf("%+v", c)
		}
	}
}

// TestSizes: quartiles interpolate, and a class ends at a power of 2.
func TestSizes(t *testing.T) {
	in := &Input{Options: october, Jobs: []Job{
		job("1", "u", 65, 0.1), job("2", "u", 128, 0.2), job("3", "u", 100, 0.4), job("4", "u", 64, 0.5),
		job("5", "u", 120, math.NaN()),
	}}
	r := Compute(in)
	if len(r.Figures) != 1 || r.Figures[0].ID != "peak_flops" || len(r.Figures[0].Points) != 4 {
		t.Fatalf("%+v", r.Figures)
	}
	want := []Size{
		{Cores: 64, Jobs: 1, CoreHours: 64, P25: 0.5, Median: 0.5, P75: 0.5, Mean: 0.5},
		{Cores: 128, Jobs: 3, CoreHours: 293, P25: 0.15, Median: 0.2, P75: 0.3, Mean: 0.7 / 3},
	}
	if diff := gocmp.Diff(want, r.Figures[0].Sizes, approximately); diff != "" {
		t.Error(diff)
	}
	months := []Month{{"2026-10", 4, 0.3, 0.3, 89.25}}
	if diff := gocmp.Diff(months, r.Figures[0].Months, approximately); diff != "" {
		t.Error(diff)
	}
	sizes := []MonthSize{{"2026-10", 5, 477, 65, 100, 120, 95.4, (65*65 + 128*128 + 100*100 + 64*64 + 120*120) / 477.0}}
	if diff := gocmp.Diff(sizes, r.Sizes, approximately); diff != "" {
		t.Error(diff)
	}
}

var approximately = gocmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12*max(1, math.Abs(a)) })

// TestUsersOffTheirClass: a user is named if more than three of four jobs are in one quarter of the class. A class or a
// user with too few jobs says nothing.
func TestUsersOffTheirClass(t *testing.T) {
	var jobs []Job
	add := func(user string, n int, from float64) {
		for i := range n {
			jobs = append(jobs, job(fmt.Sprint(len(jobs)), user, 64, from+float64(i)/1000))
		}
	}
	add("great", 5, 0.9)  // all in the highest quarter
	add("usual", 20, 0.2) // in between
	add("lost", 6, 0.01)  // all in the lowest quarter
	add("rare", 4, 0.99)  // too few to say anything
	of := func() Size { return Compute(&Input{Options: october, Jobs: jobs}).Figures[0].Sizes[0] }
	s := of()
	if diff := gocmp.Diff([]OffUser{{"great", 5, 1}}, s.High); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]OffUser{{"lost", 6, 1}}, s.Low); diff != "" {
		t.Error(diff)
	}
	rest, n := 0.0, 0
	for _, j := range jobs {
		if j.User != "great" {
			rest += j.Means["peak_share_flops"].Mean
			n++
		}
	}
	if s.MeanWithout == nil || math.Abs(*s.MeanWithout-rest/float64(n)) > 1e-12 {
		t.Errorf("the mean without them is %v, want %v", s.MeanWithout, rest/float64(n))
	}
	jobs = jobs[:19]
	if s := of(); s.High != nil || s.Low != nil || s.MeanWithout != nil {
		t.Errorf("a class of 19 jobs: %+v", s)
	}
}

// TestPeakFlops: the configured peak of a node comes first, since jobs without whole nodes have no other number.
func TestPeakFlops(t *testing.T) {
	j := job("1", "u", 64, 0.25)
	j.Means["flops_any"] = Mean{Mean: 1e9, PerNode: 64}
	if got := j.peakFlops(); got != 0.25 {
		t.Errorf("without a configured peak %v", got)
	}
	j.Type.PeakFlops = 6.4e11
	if got := j.peakFlops(); math.Abs(got-0.1) > 1e-12 {
		t.Errorf("with a configured peak %v, want 0.1", got)
	}
}

// TestProperties: core-hours times severity rank accounts and jobs, and a property that nobody measured is told apart
// from one that nobody has.
func TestProperties(t *testing.T) {
	jobs := []Job{job("1", "u", 100, 0.1), job("2", "u", 10, 0.1), job("3", "v", 1000, 0.1)}
	jobs[2].Account = "b"
	jobs[1].Means["swap_pages"] = Mean{}
	in := &Input{
		Options: october, Jobs: jobs, Judged: true,
		Rules: []Rule{{ID: "idle", Needs: []string{"peak_share_flops"}}, {ID: "swap", Needs: []string{"swap_pages"}}},
		Found: []Found{
			{schemas.JobKey{JobID: "1"}, jobs[0].StartMs, "idle", 0.5},
			{schemas.JobKey{JobID: "2"}, jobs[0].StartMs, "idle", 0.3},
			{schemas.JobKey{JobID: "3"}, jobs[0].StartMs, "idle", 0.01},
			{schemas.JobKey{JobID: "3"}, jobs[0].StartMs, "unknown rule", 1},
			{schemas.JobKey{JobID: "elsewhere"}, jobs[0].StartMs, "idle", 1},
		},
	}
	r := Compute(in)
	want := []Line{
		{Account: "a", Jobs: 2, CoreHours: 110, Cost: 53, Cells: []Cell{{true, 2, 0.4, 53}, {Measured: true}}},
		{Account: "b", Jobs: 1, CoreHours: 1000, Cost: 10, Cells: []Cell{{true, 1, 0.01, 10}, {}}},
	}
	if diff := gocmp.Diff(want, r.Accounts, approximately); diff != "" {
		t.Error(diff)
	}
	in.Judged = false
	if r := Compute(in); len(r.Rules) != 0 || len(r.Worst) != 0 || r.Accounts[0].Cost != 0 {
		t.Errorf("an archive without findings: %+v", r)
	}
	if len(r.Worst) != 3 || r.Worst[0].Job != "1" || r.Worst[1].Job != "3" || r.Worst[2].Job != "2" {
		t.Errorf("%+v", r.Worst)
	}
}

// TestReportOfNothing: an archive without jobs and hours makes a report without numbers.
func TestReportOfNothing(t *testing.T) {
	r := Compute(&Input{Options: october, Rules: []Rule{{ID: "idle"}}})
	if _, _, _, _, ok := r.Cores.Shares(); ok || r.Jobs != 0 || len(r.Figures)+len(r.Sizes)+len(r.Accounts) != 0 {
		t.Errorf("%+v", r)
	}
	for _, row := range r.Rows() {
		if row.Share != nil {
			t.Errorf("%+v", row)
		}
	}
}

// TestReportsAreEqual: the order of the input changes nothing, not the last bit.
func TestReportsAreEqual(t *testing.T) {
	rnd := rand.New(rand.NewPCG(16, 6))
	in := &Input{Options: october, Judged: true, Rules: []Rule{{ID: "idle"}}}
	for i := range 300 {
		j := job(fmt.Sprint(i), fmt.Sprint("u", i%7), int64(8+rnd.IntN(500)), rnd.Float64()/10)
		j.Account = fmt.Sprint("a", i%5)
		in.Jobs = append(in.Jobs, j)
		in.Found = append(in.Found, Found{j.JobKey, j.StartMs, "idle", rnd.Float64()})
	}
	want := Compute(in)
	for range 5 {
		rnd.Shuffle(len(in.Jobs), func(i, k int) { in.Jobs[i], in.Jobs[k] = in.Jobs[k], in.Jobs[i] })
		rnd.Shuffle(len(in.Found), func(i, k int) { in.Found[i], in.Found[k] = in.Found[k], in.Found[i] })
		if diff := gocmp.Diff(want, Compute(in)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestSpan: the name of a time has its last day, and not the one behind it.
func TestSpan(t *testing.T) {
	at := func(text string) int64 {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when.UnixMilli()
	}
	for want, c := range map[string][2]string{
		"January 2026":             {"2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		"2026-01-01 to 2026-01-30": {"2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z"},
		"2026-01-30":               {"2026-01-30T00:00:00Z", "2026-01-31T00:00:00Z"},
		"2026-01-30 00:00 to 2026-01-30 06:30 UTC": {"2026-01-30T00:00:00Z", "2026-01-30T06:30:00Z"},
		"2026-01-30 06:00 to 2026-02-01 00:00 UTC": {"2026-01-30T07:00:00+01:00", "2026-02-01T00:00:00Z"},
	} {
		if got := (&Options{FromMs: at(c[0]), ToMs: at(c[1])}).Span(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestGPUsOfTheMachine: GPU-hours are busy, wasted, free or not seen, as core-hours are, and jobs held some of them.
func TestGPUsOfTheMachine(t *testing.T) {
	in := &Input{MachineGPUs: 10, Energy: Energy{Joules: 7, Of: "nodes"}}
	in.FromMs, in.ToMs = 0, 2*3_600_000
	for h := range int64(2) {
		in.GPUHours = append(in.GPUHours, Hour{StartMs: h * 3_600_000, Hours: 9, IdleCoreHours: 5},
			Hour{StartMs: h * 3_600_000, Rest: true, Hours: 3, IdleCoreHours: 3})
	}
	start := int64(0)
	in.Jobs = []Job{{
		JobKey: schemas.JobKey{JobID: "1"}, Cores: 8, GPUs: 4, StartMs: start, EndMs: 3_600_000,
		Means: map[string]Mean{"cpu_idle": {}},
	}}
	r := Compute(in)
	if g := r.GPUs; g.Busy != 8 || g.Wasted != 4 || g.Free != 6 || *g.NotSeen != 2 || r.GPUHours != 4 {
		t.Errorf("%+v, jobs held %v", g, r.GPUHours)
	}
	if r.Cores.Seen != 0 || r.Cores.Busy != 0 || len(r.GPUDays) != 1 || r.GPUDays[0].Busy != 8 {
		t.Errorf("cores %+v, days %+v", r.Cores, r.GPUDays)
	}
	got := map[string]float64{}
	for _, row := range r.Rows() {
		if row.GPUHours != nil && strings.HasPrefix(row.View, "gpus") {
			got[row.View+" "+row.Name] = *row.GPUHours
			if row.CoreHours != nil {
				t.Errorf("%s %s has core-hours", row.View, row.Name)
			}
		}
		if row.EnergyJ != nil {
			got[row.View+" "+row.Name] = *row.EnergyJ
		}
	}
	for name, want := range map[string]float64{
		"gpus machine": 20, "gpus wasted": 4, "gpus_by_date free": 6, "energy nodes": 7,
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}
