package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirhpc/weir/kafka"
)

// cgroups is where the controller cpu of cgroup v1 is mounted, and where unified has v2's.
const cgroups = "/sys/fs/cgroup/cpu"

// restraint is a way to keep a daemon from taking too much.
type restraint struct {
	name   string
	before []string          // words in front of the command
	files  map[string]string // of its control group
}

// restraints are what a unit may say: CPUQuota=, CPUWeight=, CPUSchedulingPolicy=, Nice= and CPUAffinity=.
func restraints() []restraint {
	quota := func(percent int) map[string]string {
		return map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": strconv.Itoa(1000 * percent)}
	}
	return []restraint{
		{"none", nil, nil},
		{"quota 20 %", nil, quota(20)},
		{"quota 5 %", nil, quota(5)},
		{"weight 10 of 100", nil, map[string]string{"cpu.shares": "102"}},
		{"nice 5", []string{"nice", "-n", "5"}, nil},
		{"nice 19", []string{"nice", "-n", "19"}, nil},
		{"class idle", []string{"chrt", "--idle", "0"}, nil},
		{"one processor", on(0), nil},
		{"nice -5", []string{"nice", "-n", "-5"}, nil},
	}
}

// limited is what a restraint does to a daemon, and to an application that uses every processor.
type limited struct {
	Restraint string        `json:"restraint"`
	Burst     time.Duration `json:"burst_ns"` // processor time that a cycle needs beside the sample
	SkewP50   float64       `json:"skew_p50_us"`
	SkewP99   float64       `json:"skew_p99_us"`
	SkewMax   float64       `json:"skew_max_us"`
	TookP50   float64       `json:"cycle_p50_us"` // how long a cycle takes, with all that interrupts it
	TookMax   float64       `json:"cycle_max_us"`
	Longest   float64       `json:"longest_us"` // of the application's loop
	Lost      float64       `json:"lost"`       // share of the application's time
	Throttled int           `json:"throttled"`  // periods in which the quota stopped the daemon
	Stopped   float64       `json:"stopped_ms"` // how long, in all
}

type limitsReport struct {
	Rows []limited `json:"rows"`
}

// bursts are the processor time of a cycle: of this machine, of 256 processors with 128 jobs, and of the 32 intervals
// that are sent after an outage.
var bursts = []time.Duration{0, 13 * time.Millisecond, 130 * time.Millisecond}

// limitCycles is how many cycles a row has, and limitEvery how far apart they are.
const limitCycles, limitEvery = 16, 250 * time.Millisecond

// limits measures every restraint while the application uses all processors.
func limits(ctx context.Context, l *lab, o options) (*limitsReport, error) {
	a, err := l.startApplication()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stopAll(a.ranks) }()
	if err := a.calibrate(time.Second); err != nil {
		return nil, err
	}
	r := &limitsReport{}
	for _, burst := range bursts {
		for _, x := range restraints() {
			row, err := l.restrain(ctx, a, x, burst)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.name, err)
			}
			r.Rows = append(r.Rows, row)
		}
		if o.quick {
			break
		}
	}
	return r, nil
}

// restrain runs one sampler under one restraint, beside the application.
func (l *lab) restrain(ctx context.Context, a *application, x restraint, burst time.Duration) (limited, error) {
	row := limited{Restraint: x.name, Burst: burst}
	c, err := l.startSampler(sampling{Every: limitEvery, Burn: burst}, x.before...)
	if err != nil {
		return row, err
	}
	group, err := enter(c, x.files)
	if group != "" {
		defer os.Remove(group) // once the process has ended
	}
	stop := func() (string, error) { return c.stop() }
	if err != nil {
		_, stopErr := stop()
		return row, errors.Join(err, stopErr)
	}
	if !kafka.Pause(ctx, 2*limitEvery) {
		_, _ = stop()
		return row, ctx.Err()
	}
	end := time.Now().Add(limitCycles * limitEvery).UnixNano()
	times, runErr := a.run(work{Benchmark: quantum, Iterations: maxTimes, Turns: a.units, Until: end})
	row.Throttled, row.Stopped = throttled(group)
	text, err := stop()
	if err = errors.Join(runErr, err); err != nil {
		return row, err
	}
	var s sampled
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return row, fmt.Errorf("reading what a sampler did: %w", err)
	}
	skews, took := microseconds(s.Skew), microseconds(s.Took)
	row.SkewP50, row.SkewP99, row.SkewMax = percentile(skews, 0.5), percentile(skews, 0.99), percentile(skews, 1)
	row.TookP50, row.TookMax = percentile(took, 0.5), percentile(took, 1)
	for _, t := range times {
		each := microseconds(t.Each)
		typical := percentile(each, 0.5)
		row.Longest = max(row.Longest, percentile(each, 1))
		row.Lost = max(row.Lost, 1-typical*float64(len(each))/(float64(t.Total)/1000))
	}
	return row, nil
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
	fmt.Fprint(w, "a cycle needs\trestraint\tskew p50 us\tp99 us\tmax us\tcycle p50 us\tmax us\t"+
		"longest loop us\tlost\tstops\tstopped ms\t\n")
	for _, x := range r.Rows {
		fmt.Fprintf(w, "%v\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f %%\t%d\t%.0f\t\n", x.Burst, x.Restraint,
			x.SkewP50, x.SkewP99, x.SkewMax, x.TookP50, x.TookMax, x.Longest, 100*x.Lost, x.Throttled, x.Stopped)
	}
	_ = w.Flush()
}
