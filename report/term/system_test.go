package term

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/report/machine"
)

// october is a report of a month.
func october() *machine.Report {
	ms := func(month time.Month) int64 { return time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC).UnixMilli() }
	notSeen, without, disk := 15.0, 0.034, 11_000.0
	return &machine.Report{
		Options: machine.Options{FromMs: ms(10), ToMs: ms(11)}, Jobs: 9812, CoreHours: 1_234_567.8,
		GPUHours: 4321, GPUs: machine.Cores{Seen: 200, Busy: 100, Wasted: 60, Free: 40},
		Energy: machine.Energy{Joules: 3.6e12, Of: "CPUs and GPUs"},
		Left: machine.LeftOut{Jobs: 7204, Reasons: []machine.Reason{
			{Text: "< 8 cores", Jobs: 3900}, {Text: "<= 10m", Jobs: 5120}, {Text: "queue devel", Jobs: 4066},
		}},
		Cores: machine.Cores{Seen: 985, Busy: 712, Wasted: 179, Free: 94, NotSeen: &notSeen},
		Figures: []machine.Figure{{
			ID: "peak_flops", Title: "Share of peak FLOPs", Unit: "1", Sizes: []machine.Size{
				{Cores: 128, Jobs: 1204, CoreHours: 99_000, P25: 0.021, Median: 0.034, P75: 0.056, Mean: 0.044},
				{
					Cores: 256, Jobs: 930, CoreHours: 400_000, P25: 0.019, Median: 0.035, P75: 0.098, Mean: 0.067,
					MeanWithout: &without,
					Low:         []machine.OffUser{{User: "u3", Jobs: 5, Share: 1}},
					High: []machine.OffUser{
						{User: "u1", Jobs: 9, Share: 0.81}, {User: "u2", Jobs: 8, Share: 0.77},
					},
				},
			},
			Months: []machine.Month{
				{Month: "2026-09", Jobs: 12, Mean: 0.05, Median: 0.04, MeanCores: 130},
				{Month: "2026-10", Jobs: 9800, Mean: 0.06, Median: 0.045, MeanCores: 146},
			},
		}, {
			ID: "bytes_per_cycle", Title: "Memory bytes per cycle", Unit: "B", Sizes: []machine.Size{
				{Cores: 128, Jobs: 1204, CoreHours: 99_000, P25: 0.21, Median: 1.25, P75: 2.5, Mean: 1.5},
			},
		}},
		Sizes: []machine.MonthSize{
			{Month: "2026-10", Jobs: 9812, P25: 16, Median: 64, P75: 256, Mean: 190.5, Weighted: 2048},
		},
		Kernel: []machine.KernelJob{
			{Job: "184223", User: "alice", Cores: 4096, System: 0.74, Disk: &disk},
			{Job: "184400", User: "carol", Cores: 512, System: 0.01},
		},
		Judged: true, Rules: []machine.Rule{{ID: "idle-cores"}, {ID: "serial"}, {ID: "swapping"}},
		Accounts: []machine.Line{
			{Account: "phys-a", Jobs: 800, CoreHours: 500_000, Cost: 60_123, Cells: []machine.Cell{
				{Measured: true, Jobs: 12, Severity: 0.55, Cost: 60_000},
				{Measured: true, Jobs: 1, Severity: 0.9, Cost: 123},
				{},
			}},
			{Account: "chem", Jobs: 80, CoreHours: 5000, Cells: []machine.Cell{{Measured: true}, {Measured: true}, {}}},
		},
		Worst: []machine.Line{
			{
				Job: "184223", User: "alice", Cost: 21_340,
				Cells: []machine.Cell{{Jobs: 1, Severity: 0.6, Cost: 21_340}, {}, {}},
			},
		},
	}
}

func systemText(t *testing.T, r *machine.Report, s Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := System(&b, r, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const system80 = `
October 2026   9,812 jobs counted, 1,234,568 core-hours, 4,321 GPU-hours; left
               out: 7,204 (< 8 cores 3,900, <= 10m 5,120, queue devel 4,066;
               overlapping)
Cores   busy 71.2 %, wasted 17.9 %, free 9.4 %, not seen 1.5 %
GPUs   busy 50.0 %, wasted 30.0 %, free 20.0 %, of what was measured: ` + "`machine`" + `
       in the configuration does not tell all GPUs
Energy   1 GWh of CPUs and GPUs, as far as power was measured

Share of peak FLOPs by job size, in %
    cores    jobs  core-hours     p25  median     p75    mean
      128   1,204      99,000     2.1     3.4     5.6     4.4
      256     930     400,000     1.9     3.5     9.8     6.7
           above p75: u1 81 %, u2 77 %; mean without them 3.4
           below p25: u3 100 %
    month    jobs  median    mean  mean cores
  2026-09      12     4.0     5.0         130
  2026-10   9,800     4.5     6.0         146

Memory bytes per cycle by job size, in B
    cores    jobs  core-hours     p25  median     p75    mean
      128   1,204      99,000    0.21    1.25     2.5     1.5

Cores of a job by month of its start
    month    jobs     p25  median     p75    mean  of the mean core-hour
  2026-10   9,812      16      64     256     191  2,048 cores

Jobs with most time in the kernel
job         user          cores  kernel  local disk
184223      alice         4,096    74 %     11 kB/s

What to tune first: core-hours x severity, summed over findings, by account
phys-a          60,123 in 500,000 h    idle-cores 0.55 in 12 jobs, serial 0.90
    in 1 job

Jobs with most core-hours x severity; ` + "`weir job ID`" + ` explains one
184223       alice       21,340  idle-cores 0.60

Not evaluated, since no job has the metrics: swapping
`

// TestSystem: the report as people read it, and no line is longer than the terminal.
func TestSystem(t *testing.T) {
	if got := systemText(t, october(), Style{Width: 80}); got != system80[1:] {
		t.Errorf("%s\nwant\n%s", got, system80[1:])
	}
	long := systemText(t, october(), Style{Width: 120, ASCII: true})
	for _, want := range []string{
		"      128   1,204      99,000     2.1     3.4     5.6     4.4        ---|----",
		"phys-a          60,123 in 500,000 h    idle-cores 0.55 in 12 jobs, serial 0.90 in 1 job\n",
	} {
		if !strings.Contains(long, want) {
			t.Errorf("no %q in\n%s", want, long)
		}
	}
}

// TestSystemFitsItsTerminal, whatever the names are.
func TestSystemFitsItsTerminal(t *testing.T) {
	r := october()
	for _, name := range hostileNames {
		r.Left.Reasons[2].Text = "queue " + name
		r.Figures[0].Sizes[1].High[0].User, r.Kernel[0].Job, r.Kernel[0].User = name, name, name
		r.Accounts[0].Account, r.Worst[0].Job, r.Worst[0].User, r.Rules[0].ID = name, name, name, name
		for _, cells := range []int{1, 20, 40, 59, 60, 79, 80, 120, 200} {
			for _, ascii := range []bool{false, true} {
				text := systemText(t, r, Style{Width: cells, ASCII: ascii})
				for l := range strings.Lines(text) {
					l = strings.TrimSuffix(l, "\n")
					if width(l) > max(cells, 20) || strings.ContainsAny(l, "\x1b\r\x07\u202e") {
						t.Errorf("%d cells: %d: %q", cells, width(l), l)
					}
				}
			}
		}
	}
}

// TestSystemOfNothing: where nothing was measured, words say so, and there is no 0 that could be taken for a number.
func TestSystemOfNothing(t *testing.T) {
	text := systemText(t, &machine.Report{Options: october().Options}, Style{Width: 80})
	for _, want := range []string{"0 jobs counted", "not measured", "no findings"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "%") || strings.Contains(text, "NaN") {
		t.Errorf("numbers of nothing:\n%s", text)
	}
}

// TestSharesOfTheMachineAddUp: what is shown of busy, wasted, free and not seen is 100, as on the page.
func TestSharesOfTheMachineAddUp(t *testing.T) {
	notSeen := 3.36
	r := &machine.Report{Cores: machine.Cores{Busy: 90.64, Wasted: 4, Free: 2, NotSeen: &notSeen}}
	var b strings.Builder
	if err := System(&b, r, Style{}); err != nil {
		t.Fatal(err)
	}
	if want := "busy 90.6 %, wasted 4.0 %, free 2.0 %, not seen 3.4 %"; !strings.Contains(b.String(), want) {
		t.Errorf("%s\nwant %s", &b, want)
	}
}
