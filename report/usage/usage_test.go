package usage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

var november = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// job is a job of 8 cores that ran for hours, and idled for a share of its time; idle below 0: not measured.
func job(id string, end time.Time, hours, idle float64, gpus int32, gpuIdle float64) Job {
	cores, ms, start := int64(8), end.UnixMilli(), end.Add(-time.Duration(hours*float64(time.Hour))).UnixMilli()
	var j Job
	j.JobID, j.Cores, j.Start, j.End, j.State, j.TimeS = id, &cores, &start, &ms, schemas.StateCompleted, 3600*hours
	if gpus > 0 {
		j.Gpus = &gpus
		j.GPUBusy, j.GPUWastedH, j.GPUsMeasuredH = new(1-gpuIdle), new(gpuIdle*hours*float64(gpus)), hours*float64(gpus)
	}
	if idle >= 0 {
		j.Busy, j.WastedH, j.CoresMeasuredH = new(1-idle), new(idle*hours*8), 8*hours
	}
	return j
}

// TestMonthsAddUp: each job counts once, in the month in which it ended.
func TestMonthsAddUp(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		in := &Input{Kind: User, Name: "u", Month: november}
		want := map[string]*Sum{}
		for i := range 40 {
			end := november.AddDate(0, -4, 0).Add(time.Duration(r.Int64N(int64(190 * 24 * time.Hour))))
			j := job(fmt.Sprint(i), end, r.Float64()*50, r.Float64()-0.2, int32(r.IntN(3)), r.Float64())
			if r.IntN(2) == 0 {
				j.Energy.Add("node_power", 100, 10, 60)
			}
			in.Jobs = append(in.Jobs, j)
			month := end.Format("2006-01")
			if want[month] == nil {
				want[month] = &Sum{}
			}
			s := want[month]
			s.Jobs++
			s.Cores.Held += 8 * j.TimeS / 3600
			if j.WastedH != nil {
				s.Cores.Wasted += *j.WastedH
			}
			if j.Gpus != nil {
				s.GPUs.Held += float64(*j.Gpus) * j.TimeS / 3600
				s.GPUs.Wasted += *j.GPUWastedH
			}
			if joules, _, ok := j.Energy.Joules(); ok {
				s.Energy += joules
			}
		}
		got := Compute(in)
		all := append(slices.Clone(got.Before), got.Sum)
		if len(all) != MonthsBefore+1 {
			t.Fatalf("%d months", len(all))
		}
		for _, s := range all {
			w := want[s.Month.Format("2006-01")]
			if w == nil {
				w = &Sum{}
			}
			for _, pair := range [][2]float64{
				{float64(s.Jobs), float64(w.Jobs)},
				{s.Cores.Held, w.Cores.Held},
				{s.Cores.Wasted, w.Cores.Wasted},
				{s.GPUs.Held, w.GPUs.Held},
				{s.GPUs.Wasted, w.GPUs.Wasted},
				{s.Energy, w.Energy},
			} {
				if math.Abs(pair[0]-pair[1]) > 1e-6 {
					t.Fatalf("seed %d: %+v, want %+v", seed, s, *w)
				}
			}
		}
	}
}

// TestMonthsHaveTheirEdges: the first millisecond belongs to a month, that of the next month does not.
func TestMonthsHaveTheirEdges(t *testing.T) {
	in := &Input{Month: november}
	for i, end := range []time.Time{
		november.Add(-time.Millisecond), november, november.AddDate(0, 1, 0).Add(-time.Millisecond),
		november.AddDate(0, 1, 0), november.AddDate(0, -3, 0), november.AddDate(0, -3, 0).Add(-time.Millisecond),
	} {
		in.Jobs = append(in.Jobs, job(fmt.Sprint(i), end, 1, 0.5, 0, 0))
	}
	r := Compute(in)
	if r.Sum.Jobs != 2 || r.Before[2].Jobs != 1 || r.Before[0].Jobs != 1 || r.Before[1].Jobs != 0 {
		t.Errorf("%+v, %+v", r.Sum, r.Before)
	}
}

// TestWasteIsOfWhatWasMeasured: hours of a job without measurements are held, and no part of them is wasted or used.
func TestWasteIsOfWhatWasMeasured(t *testing.T) {
	r := Compute(&Input{Month: november, Jobs: []Job{
		job("1", november, 10, 0.5, 0, 0), job("2", november, 30, -1, 0, 0), job("3", november.AddDate(0, -1, 0), 1, 0.25, 0, 0),
	}})
	share, ok := r.Sum.Cores.Share()
	cores, gpus := r.Trend()
	if r.Sum.Cores.Held != 320 || !ok || share != 0.5 || cores == nil || *cores != 0.25 || gpus != nil {
		t.Errorf("%+v: %v, trend %v %v", r.Sum, share, cores, gpus)
	}
	if _, ok := r.Sum.GPUs.Share(); ok {
		t.Error("GPU-hours of nobody have a share")
	}
}

// TestWorstJobs are those with a finding that wasted most. A wasted GPU-hour counts as the cores beside the GPU.
func TestWorstJobs(t *testing.T) {
	find := func(j Job, found ...schemas.Finding) Job {
		j.Findings = found
		return j
	}
	low := schemas.Finding{Rule: "low", Class: schemas.ClassLow, Severity: 0.3}
	high := schemas.Finding{Rule: "high", Class: schemas.ClassHigh, Severity: 0.9, Hint: "Change it.", Title: "t"}
	in := &Input{Month: november, Judged: true, Jobs: []Job{
		job("clean", november, 100, 1, 0, 0),
		find(job("a", november, 10, 0.5, 0, 0), low, high),                 // 40 core-hours
		find(job("b", november, 10, 0, 2, 1), low),                         // 20 GPU-hours, 80 core-hours
		find(job("c", november, 10, 0.1, 0, 0), low),                       // 8
		find(job("before", november.AddDate(0, -1, 0), 10, 1, 0, 0), high), // another month
		find(job("d", november, 1, 0.1, 0, 0), low), find(job("e", november, 1, 0.2, 0, 0), low),
		find(job("f", november, 1, 0, 0, 0), low),
	}}
	r := Compute(in)
	var got []string
	for i := range r.Worst {
		w := &r.Worst[i]
		got = append(got, fmt.Sprintf("%s %s %.1f", w.JobID, w.Finding.Rule, w.Cost))
	}
	if want := "[b low 80.0 a high 40.0 c low 8.0 e low 1.6 d low 0.8]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if r.Worst[1].Change() != "Change it." || r.Found != 6 {
		t.Errorf("%q, %d jobs with findings", r.Worst[1].Change(), r.Found)
	}
	if len(r.Rules) != 2 || r.Rules[0].ID != "low" || r.Rules[0].Jobs != 6 || r.Rules[0].CoreHours != 264 ||
		r.Rules[0].GPUHours != 20 || r.Rules[0].Class != schemas.ClassLow || r.Rules[1].Title != "t" {
		t.Errorf("%+v", r.Rules)
	}
	views := map[string]int{}
	for _, row := range r.Rows() {
		views[row.View]++
	}
	if fmt.Sprint(views) != "map[findings:2 month:1 months_before:3 worst_jobs:5]" {
		t.Errorf("%v", views)
	}
}

// TestEnergyOfNodesOrParts: the power of whole nodes counts once; without it, that of their parts.
func TestEnergyOfNodesOrParts(t *testing.T) {
	for want, metrics := range map[string][]string{
		"6000 J of nodes":          {"node_power", "cpu_power", "acc_power"},
		"12000 J of CPUs and GPUs": {"cpu_power", "acc_power"},
		"6000 J of GPUs":           {"acc_power"},
		"0 J of ":                  {"temperature_max"},
	} {
		var e view.Energy
		for _, m := range metrics {
			e.Add(m, 10, 60, 10)
		}
		if j, of, ok := e.Joules(); fmt.Sprintf("%.0f J of %s", j, of) != want || ok != (j > 0) {
			t.Errorf("%v: %v of %s, want %s", metrics, j, of, want)
		}
	}
}
