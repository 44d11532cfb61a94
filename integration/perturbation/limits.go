package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirhpc/weir/retry"
)

// cgroups is the directory of cgroup v1's controller cpu.
const cgroups = "/sys/fs/cgroup/cpu"

// restraint is a way to keep a daemon from taking too much.
type restraint struct {
	name   string
	before []string          // words in front of the command
	files  map[string]string // of its control group
}

// restraints are settings that a unit may use: CPUQuota=, CPUWeight=, Nice= and CPUSchedulingPolicy=. Weight 100 is the
// default.
func restraints() []restraint {
	quota := func(percent int) map[string]string {
		return map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": strconv.Itoa(1000 * percent)}
	}
	return []restraint{
		{"none", nil, nil},
		{"quota 20 %", nil, quota(20)},
		{"quota 5 %", nil, quota(5)},
		{"weight 10", nil, map[string]string{"cpu.shares": "102"}},
		{"nice 5", []string{"nice", "-n", "5"}, nil},
		{"class idle", []string{"chrt", "--idle", "0"}, nil},
	}
}

// limited is the effect of a restraint on a daemon, and on an application that uses every processor.
type limited struct {
	Restraint string  `json:"restraint"`
	Burst     string  `json:"burst"` // processor time that a cycle needs beside the sample
	Cycles    int     `json:"cycles"`
	SkewP50   float64 `json:"skew_p50_us"`
	SkewP90   float64 `json:"skew_p90_us"`
	SkewMax   float64 `json:"skew_max_us"`
	TookP50   float64 `json:"cycle_p50_us"` // how long a cycle takes, with all that interrupts it
	TookP90   float64 `json:"cycle_p90_us"`
	LoopP999  float64 `json:"loop_p999_us"` // of the application's loop
	LoopMax   float64 `json:"loop_max_us"`
	Throttled int     `json:"throttled"`  // periods in which the quota stopped the daemon
	Stopped   float64 `json:"stopped_ms"` // how long, in all

	restraint          restraint
	burst              burst
	skews, took, loops []time.Duration // of all runs
}

type limitsReport struct {
	Rows []*limited `json:"rows"`
}

// burst is how much processor time a cycle needs beside the sample, and how far apart the cycles are.
type burst struct{ needs, every, runs time.Duration }

// bursts are the bursts of this machine, of 256 processors with 128 jobs, and of the 32 intervals that are sent after
// an outage.
var bursts = []burst{
	{0, 100 * time.Millisecond, 1500 * time.Millisecond},
	{13 * time.Millisecond, 250 * time.Millisecond, 1500 * time.Millisecond},
	{130 * time.Millisecond, time.Second, 3 * time.Second},
}

// limits measures every restraint while the application uses all processors. Each round measures all of them once, in
// random order.
func limits(ctx context.Context, l *lab, o options, progress io.Writer) (*limitsReport, error) {
	a, err := l.startApplication()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stopAll(a.ranks) }()
	if err := a.calibrate(time.Second); err != nil {
		return nil, err
	}
	var rows []*limited
	for _, b := range bursts {
		for _, x := range restraints() {
			rows = append(rows, &limited{restraint: x, burst: b, Restraint: x.name, Burst: b.needs.String()})
		}
	}
	began := time.Now()
	for i, round := range order(len(rows), o.runs, rand.New(rand.NewPCG(o.seed, 3))) {
		for _, k := range round {
			if err := rows[k].run(ctx, l, a); err != nil {
				return nil, fmt.Errorf("%s: %w", rows[k].Restraint, err)
			}
		}
		fmt.Fprintf(progress, "round %d of %d\n", i+1, o.runs)
		if spent := time.Since(began); spent+spent/time.Duration(i+1) > o.limit {
			fmt.Fprintf(progress, "%v are over: no further round\n", o.limit)
			break
		}
	}
	for _, r := range rows {
		r.judge()
	}
	return &limitsReport{rows}, nil
}

// run runs one sampler under the restraint, beside the application.
func (r *limited) run(ctx context.Context, l *lab, a *application) error {
	c, err := l.startSampler(sampling{Every: r.burst.every, Burn: r.burst.needs}, r.restraint.before...)
	if err != nil {
		return err
	}
	group, err := enter(c, r.restraint.files)
	if group != "" {
		defer os.Remove(group) // after the process has ended
	}
	if err == nil && !retry.Pause(ctx, 2*r.burst.every) {
		err = ctx.Err()
	}
	if err != nil {
		_, stopErr := c.stop()
		return errors.Join(err, stopErr)
	}
	end := time.Now().Add(r.burst.runs).UnixNano()
	times, runErr := a.run(work{Benchmark: quantum, Iterations: maxTimes, Turns: a.units, Until: end})
	periods, ms := throttled(group)
	r.Throttled, r.Stopped = r.Throttled+periods, r.Stopped+ms
	text, err := c.stop()
	if err = errors.Join(runErr, err); err != nil {
		return err
	}
	var s sampled
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("reading what a sampler did: %w", err)
	}
	r.skews, r.took = append(r.skews, s.Skew...), append(r.took, s.Took...)
	for _, t := range times {
		r.loops = append(r.loops, t.Each...)
	}
	return nil
}

// judge makes the numbers of all runs.
func (r *limited) judge() {
	skews, took, loops := microseconds(r.skews), microseconds(r.took), microseconds(r.loops)
	r.Cycles = len(skews)
	r.SkewP50, r.SkewP90, r.SkewMax = percentile(skews, 0.5), percentile(skews, 0.9), percentile(skews, 1)
	r.TookP50, r.TookP90 = percentile(took, 0.5), percentile(took, 0.9)
	r.LoopP999, r.LoopMax = percentile(loops, 0.999), percentile(loops, 1)
}

// microseconds are the lengths, sorted.
func microseconds(all []time.Duration) []float64 {
	out := make([]float64, len(all))
	for i, d := range all {
		out[i] = float64(d) / 1000
	}
	slices.Sort(out)
	return out
}

// enter puts a process into a control group of its own, and returns the group's directory. Without files there is none.
func enter(c *child, files map[string]string) (string, error) {
	if files == nil {
		return "", nil
	}
	dir := filepath.Join(cgroups, fmt.Sprintf("weir-perturbation-%d", c.cmd.Process.Pid))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("making a control group takes root and cgroup v1: %w", err)
	}
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			return dir, fmt.Errorf("limiting a control group: %w", err)
		}
	}
	pid := strconv.Itoa(c.cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid), 0o644); err != nil {
		return dir, fmt.Errorf("entering a control group: %w", err)
	}
	return dir, nil
}

// throttled reads how often and how long the quota stopped a group.
func throttled(dir string) (periods int, ms float64) {
	text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if dir == "" || err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var value float64
		if _, err := fmt.Sscan(line, &name, &value); err != nil {
			continue
		}
		switch name {
		case "nr_throttled":
			periods = int(value)
		case "throttled_time":
			ms = value / 1e6
		}
	}
	return periods, ms
}

func (r *limitsReport) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "a cycle needs\trestraint\tcycles\tskew p50 us\tp90 us\tmax us\tcycle p50 us\tp90 us\t"+
		"loop p99.9 us\tmax us\tstops\tstopped ms\t\n")
	for _, x := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%.0f\t\n", x.Burst, x.Restraint,
			x.Cycles, x.SkewP50, x.SkewP90, x.SkewMax, x.TookP50, x.TookP90, x.LoopP999, x.LoopMax, x.Throttled,
			x.Stopped)
	}
	_ = w.Flush()
}
