// Command perturbation measures the cost of weir's agent for a node, and for the applications on it.
//
//	perturbation perturb   the effect of daemons on a loop of fixed work and on collectives, as NWPerf measured it
//	perturbation cost      processor time a cycle and memory, beside node_exporter
//	perturbation limits    the effect of a quota, a weight or a scheduling class on the instant of a sample
//
// docs/overhead.md shows the results. `make perturbation`, `make bench-agent` and `make bench-limits` run it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Environment variables that select the role of a child process.
const (
	role     = "WEIR_PERTURBATION_ROLE"
	roleArgs = "WEIR_PERTURBATION_ARGS"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := play(ctx)
	if errors.Is(err, errNoRole) {
		err = command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "perturbation:", err)
		os.Exit(1)
	}
}

// errNoRole is returned in the process that a person started.
var errNoRole = errors.New("this process has no role")

// play is the work of a process that this program started.
func play(ctx context.Context) error {
	args := os.Getenv(roleArgs)
	switch os.Getenv(role) {
	case "rank":
		var id, ranks int
		var file string
		if _, err := fmt.Sscan(args, &id, &ranks, &file); err != nil {
			return fmt.Errorf("reading what rank to be: %w", err)
		}
		return serveRank(id, ranks, file, os.Stdin, os.Stdout)
	case "sampler":
		var s sampling
		if err := json.Unmarshal([]byte(args), &s); err != nil {
			return fmt.Errorf("reading how to sample: %w", err)
		}
		return serveSampler(ctx, s, os.Stdout)
	}
	return errNoRole
}

// quickLimit is how long a quick run takes, but for its last 15 seconds.
const quickLimit = 75 * time.Second

// options are the settings of the command line.
type options struct {
	weir, agent, exporter string
	ranks, runs           int
	cycles                int
	seed                  uint64
	limit                 time.Duration
	settle                time.Duration
	only, list            string
	quick, json           bool
}

// absolute returns the whole path of a program, or nothing if none is named. weir's own was found a moment ago.
func absolute(path string) string {
	if path != "" {
		path, _ = filepath.Abs(path)
	}
	return path
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	o := options{settle: settle}
	flags := flag.NewFlagSet("perturbation perturb|cost|limits", flag.ContinueOnError)
	flags.StringVar(&o.weir, "weir", "bin/weir", "the `binary` of weir")
	flags.StringVar(&o.agent, "agent", "", "the `binary` of weir-agent, whose agents are measured; empty: weir's")
	flags.StringVar(&o.exporter, "exporter", "", "the `binary` of node_exporter; empty: leave it out")
	flags.IntVar(&o.ranks, "n", runtime.NumCPU(), "`processes` of the application")
	flags.IntVar(&o.runs, "runs", 7, "`runs` of each condition")
	flags.IntVar(&o.cycles, "cycles", 60, "cost: `seconds` to measure")
	flags.DurationVar(&o.limit, "for", 10*time.Minute, "begin no round that would end after this `time`")
	flags.Uint64Var(&o.seed, "seed", 1, "`seed` of the order")
	flags.StringVar(&o.only, "only", "", "perturb: leave out conditions that this `regexp` does not match")
	flags.StringVar(&o.list, "list", "", "cost: the `metrics.yaml` of one agent; empty: what is in use alone")
	flags.BoolVar(&o.quick, "quick", false, "fewer conditions and runs, within 90 seconds")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	if len(args) == 0 {
		flags.Usage()
		return flag.ErrHelp
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if o.ranks < 1 || o.ranks > maxRanks {
		return fmt.Errorf("-n %d must be 1 to %d", o.ranks, maxRanks)
	}
	dir, err := os.MkdirTemp("", "weir-perturbation")
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	l := &lab{dir: dir, ranks: o.ranks}
	if l.weir, err = filepath.Abs(o.weir); err != nil {
		return fmt.Errorf("naming weir: %w", err)
	}
	l.agent, l.exporter = absolute(o.agent), absolute(o.exporter)
	if _, err := os.Stat(l.exporter); err != nil {
		l.exporter = ""
		fmt.Fprintln(progress, "NODE_EXPORTER SKIPPED: NOTHING IS COMPARED WITH IT, SINCE IT IS NOT INSTALLED")
	}
	var found interface{ print(io.Writer) }
	switch args[0] {
	case "perturb":
		found, err = perturb(ctx, l, o, progress)
	case "cost":
		found, err = cost(ctx, l, o)
	case "limits":
		found, err = limits(ctx, l, o, progress)
	default:
		return fmt.Errorf("%q: say perturb, cost or limits", args[0])
	}
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(found)
	}
	found.print(out)
	return nil
}

// perturb runs the study, and predicts larger machines from its measurements.
func perturb(ctx context.Context, l *lab, o options, progress io.Writer) (*report, error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	s := &study{
		lab: l, seed: o.seed, rounds: o.runs, section: 900 * time.Millisecond, period: time.Second, limit: o.limit,
		out: progress,
	}
	s.conditions = slices.DeleteFunc(conditions(), func(c condition) bool {
		needed := c.name == bare || c.name == bareAgain
		return !needed && (!only.MatchString(c.name) || o.quick && !c.quick || c.needs && l.exporter == "")
	})
	if o.quick {
		s.rounds, s.limit = min(s.rounds, best), min(s.limit, quickLimit)
	}
	r, err := s.run(ctx)
	if err != nil {
		return nil, err
	}
	return &r, r.predict(ctx, l, o)
}
