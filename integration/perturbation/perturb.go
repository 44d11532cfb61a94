package main

import (
	"bufio"
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
	"text/tabwriter"
	"time"
)

// row is the effect of one condition on one benchmark.
type row struct {
	Condition string  `json:"condition"`
	Benchmark string  `json:"benchmark"`
	Runs      int     `json:"runs"`
	Median    float64 `json:"median_s"`     // of the runs
	Best      float64 `json:"best_three_s"` // mean of the fastest three
	P99       float64 `json:"p99_us"`       // of the iterations of all runs
	Longest   float64 `json:"longest_us"`   // of them
	CPU       float64 `json:"cpu_ms_per_s"` // of the daemons beside
	effect
}

// study is a run of the whole comparison.
type study struct {
	lab        *lab
	seed       uint64
	rounds     int
	section    time.Duration // how long a benchmark takes without any daemon
	period     time.Duration // of the daemons: a section begins in its middle
	limit      time.Duration // no round begins that would end later
	conditions []condition
	out        io.Writer // of progress
}

// report contains the results of a study.
type report struct {
	Ranks       int          `json:"ranks"`
	Seed        uint64       `json:"seed"`
	Rows        []row        `json:"rows"`
	Sample      float64      `json:"sample_us"` // median length of a sample, by samplers of their own
	Send        float64      `json:"send_us"`   // processor time of a send, of samplers that send and others
	SkewP99     float64      `json:"skew_p99_us"`
	Predictions []prediction `json:"predictions"`
}

// application is the processes that compute.
type application struct {
	ranks []*child
	lines []*bufio.Scanner
	units int // of the quantum's loop
	turns map[string]int
}

// startApplication starts one rank for each processor, or as many as were asked for.
func (l *lab) startApplication() (*application, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("naming this program: %w", err)
	}
	file := filepath.Join(l.dir, "shared")
	if dir, err := os.MkdirTemp("/dev/shm", "weir-perturbation"); err == nil {
		defer os.RemoveAll(dir) // the ranks keep it mapped
		file = filepath.Join(dir, "shared")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, fmt.Errorf("making the shared memory: %w", err)
	}
	if err := os.Truncate(file, int64(sharedBytes(l.ranks))); err != nil {
		return nil, fmt.Errorf("making the shared memory: %w", err)
	}
	a := &application{turns: map[string]int{}}
	for i := range l.ranks {
		env := []string{
			role + "=rank", roleArgs + "=" + strconv.Itoa(i) + " " + strconv.Itoa(l.ranks) + " " + file,
			"GODEBUG=asyncpreemptoff=1", // the runtime's own signals are noise
		}
		c, err := l.start("rank "+strconv.Itoa(i), true, env, self)
		if a.ranks, err = whole(a.ranks, c, err); err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(c.out)
		lines.Buffer(nil, maxTimes*20)
		a.lines = append(a.lines, lines)
	}
	_, err = a.run(work{Benchmark: barrier, Iterations: 1}) // all have the memory mapped before its file goes
	return a, err
}

// run runs one benchmark on all ranks.
func (a *application) run(w work) ([]timing, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("telling the ranks what to run: %w", err)
	}
	for _, r := range a.ranks {
		if _, err := r.in.Write(append(text, '\n')); err != nil {
			return nil, fmt.Errorf("telling the ranks what to run: %w: %s", err, r.kept)
		}
	}
	times := make([]timing, len(a.ranks))
	for i, lines := range a.lines {
		if !lines.Scan() {
			return nil, fmt.Errorf("%s ended: %w: %s", a.ranks[i].name, lines.Err(), a.ranks[i].kept)
		}
		if err := json.Unmarshal(lines.Bytes(), &times[i]); err != nil {
			return nil, fmt.Errorf("reading the answer of %s: %w", a.ranks[i].name, err)
		}
	}
	return times, nil
}

// calibrate finds how many iterations of each benchmark take as long as a section, and how long the loop must be. It
// takes the fastest of some tries, since others use the machine too.
func (a *application) calibrate(section time.Duration) error {
	const tries = 5
	few := int(min(max(2, section/(10*time.Millisecond)), 20)) // iterations of a try
	fastest := func(w work) (time.Duration, error) {
		each := time.Duration(1<<63 - 1)
		for range tries {
			times, err := a.run(w)
			if err != nil {
				return 0, err
			}
			each = min(each, slices.Min(times[0].Each))
		}
		return max(each, 1), nil
	}
	const units = 100
	unit, err := fastest(work{Benchmark: quantum, Iterations: few, Turns: units})
	if err != nil {
		return err
	}
	a.units = max(1, int(workQuant*units/unit))
	for _, b := range benchmarks {
		each, err := fastest(work{Benchmark: b, Iterations: few, Turns: a.units})
		if err != nil {
			return err
		}
		a.turns[b] = int(min(max(1, section/each), maxTimes))
	}
	return nil
}

// patience is the number of periods after which a section ends, even if it is incomplete. Its time is then estimated
// from the completed part. On a busy machine, ranks that spin while another does not run take a thousand times as long.
const patience = 2

// section runs a benchmark once. It begins in the middle of a period. So each section contains one boundary of the
// daemons, and all sections of a condition the same share of their work.
func (a *application) section(benchmark string, period time.Duration) ([]timing, error) {
	begin := sampling{Every: period, Offset: period / 2}.instantAfter(time.Now().Add(2 * rankLead))
	return a.run(work{
		Benchmark: benchmark, Iterations: a.turns[benchmark], Turns: a.units, At: begin.UnixNano(),
		Until: begin.Add(patience * period).UnixNano(),
	})
}

// measured are the runs of one condition and benchmark.
type measured struct {
	totals []float64 // seconds, of the slowest rank
	each   []float64 // microseconds
	cpu    []float64 // milliseconds a second, of the daemons
}

// run measures all conditions, in random order, and judges them.
func (s *study) run(ctx context.Context) (report, error) {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	a, err := s.lab.startApplication()
	if err != nil {
		return report{}, err
	}
	defer func() { _ = stopAll(a.ranks) }()
	if err := a.calibrate(s.section); err != nil {
		return report{}, err
	}
	found, began := map[string]*measured{}, time.Now()
	for i, round := range order(len(s.conditions), s.rounds, rng) {
		for _, k := range round {
			if err := s.condition(ctx, a, s.conditions[k], found); err != nil {
				return report{}, fmt.Errorf("%s: %w", s.conditions[k].name, err)
			}
		}
		fmt.Fprintf(s.out, "round %d of %d\n", i+1, s.rounds)
		if spent := time.Since(began); spent+spent/time.Duration(i+1) > s.limit {
			fmt.Fprintf(s.out, "%v are over: no further round\n", s.limit)
			break
		}
	}
	r := report{Ranks: s.lab.ranks, Seed: s.seed}
	for _, b := range benchmarks {
		none, again := found[bare+b].totals, found[bareAgain+b].totals
		for _, c := range s.conditions {
			r.Rows = append(r.Rows, judge(c.name, b, none, again, found[c.name+b], rng))
		}
	}
	return r, nil
}

// judge makes a row of runs.
func judge(name, benchmark string, none, again []float64, m *measured, rng *rand.Rand) row {
	slices.Sort(m.each)
	return row{
		Condition: name, Benchmark: benchmark, Runs: len(m.totals), Median: median(m.totals), Best: bestMean(m.totals),
		P99: percentile(m.each, 0.99), Longest: percentile(m.each, 1), CPU: median(m.cpu),
		effect: compare(none, again, m.totals, rng),
	}
}

// condition runs every benchmark once under a condition.
func (s *study) condition(ctx context.Context, a *application, c condition, found map[string]*measured) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the processes end: nobody may scrape them any more
	beside, err := c.start(ctx, s.lab)
	if err != nil {
		return err
	}
	defer func() { cancel(); err = errors.Join(err, stopAll(beside)) }()
	select {
	case <-time.After(c.warm):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, b := range benchmarks {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		before, began := cpuOf(beside), time.Now()
		times, err := a.section(b, s.period)
		if err != nil {
			return err
		}
		m := found[c.name+b]
		if m == nil {
			m = &measured{}
			found[c.name+b] = m
		}
		m.cpu = append(m.cpu, 1000*(cpuOf(beside)-before).Seconds()/time.Since(began).Seconds())
		m.add(times, a.turns[b])
	}
	return nil
}

// add adds a run of so many iterations.
func (m *measured) add(times []timing, iterations int) {
	total := 0.0
	for _, t := range times {
		total = max(total, t.Total.Seconds()*float64(iterations)/float64(len(t.Each)))
		for _, d := range t.Each {
			m.each = append(m.each, float64(d)/1000)
		}
	}
	m.totals = append(m.totals, total)
}

// cpuOf is the processor time of some processes. A process that has ended counts nothing, because its end is reported
// as an error elsewhere.
func cpuOf(children []*child) (total time.Duration) {
	for _, c := range children {
		d, _ := c.cpu()
		total += d
	}
	return total
}

func (r *report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, b := range benchmarks {
		fmt.Fprintf(w, "\n%s\tmedian s\tbest 3 s\tp99 us\tlongest us\tCPU ms/s\tslowdown\t95 %%\tnoise\t \t\n", b)
		for _, x := range r.Rows {
			if x.Benchmark != b {
				continue
			}
			verdict := "above the noise"
			if x.Below {
				verdict = "below the noise"
			}
			fmt.Fprintf(w, "%s\t%.4f\t%.4f\t%.1f\t%.0f\t%.2f\t%+.2f %%\t%+.2f to %+.2f\t%.2f %%\t%s\t\n", x.Condition,
				x.Median, x.Best, x.P99, x.Longest, x.CPU, 100*x.Slowdown, 100*x.Low, 100*x.High, 100*x.Noise, verdict)
		}
	}
	_ = w.Flush()
	fmt.Fprintf(out, "\nA sample takes %.0f us and a send %.0f us of processor time. p99 of the skew: %.0f us.\n",
		r.Sample, r.Send, r.SkewP99)
	fmt.Fprint(out, "Predicted loss of an application that is coupled over all nodes, with these at 1 Hz:\n\n")
	fmt.Fprint(w, "nodes\tsampling aligned\tstaggered\tsends together\tin 0.6 s\tin T\t\n")
	for _, p := range r.Predictions {
		fmt.Fprintf(w, "%d\t%.2f %%\t%.2f %%\t%.2f %%\t%.2f %%\t%.2f %%\t\n", p.Nodes,
			100*p.Aligned, 100*p.Staggered, 100*p.Together, 100*p.Window, 100*p.Period)
	}
	_ = w.Flush()
}
