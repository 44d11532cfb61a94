package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis/topics"
	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
	"github.com/weirhpc/weir/commands/reading"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/notify"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/find"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/topology"
)

// upFlags are the flags of weir up that are not keys of the configuration.
type upFlags struct {
	Data, jobs, Listen string
	Load               reading.LoadFlags
	samples            bool
	length             time.Duration
}

// NewUp returns the command weir up.
func NewUp() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run everything in this process, on this machine's counters",
		Long: `Runs the whole of weir in one process, on this machine's counters.

It runs an embedded broker, the agent of this host, balancer, collect, merge, find and sink. One job "host" holds all
CPUs of this machine, so that there is something to see. In a second terminal try "weir jobs" and "weir job host". Each
interval gets a line, with its time in UTC.

It ends at Ctrl-C. All committed data is then in the archive, and the next start goes on from there.`,
		Example: `  weir up
  weir up --simulate 48 --interval 1s --for 10m`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.Load.Resolve(c, "simulate"); err != nil {
				return err
			}
			cfg, err := f.Config(c)
			if err != nil {
				return cli.Usage(err)
			}
			ctx := c.Context()
			if f.length > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, f.length)
				defer cancel()
			}
			cli.NeverWait(c.OutOrStdout(), c.ErrOrStderr())
			return up(ctx, f, cfg, c.OutOrStdout(), cli.NewLogger(c.ErrOrStderr(), cfg))
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.Data, "data", "weir-data", "`DIR` for the broker's log, the archive and the agent's state")
	flags.Duration("interval", 5*time.Second, "`LENGTH` of an interval, from 200ms to 24h")
	flags.IntVar(&f.Load.Nodes, "simulate", 0, "add `N` simulated nodes with a job mix, 16 to 100000 (default: none)")
	f.Load.Add(c)
	f.Load.AddMetrics(c)
	flags.StringVar(&f.jobs, "jobs", "", "job `FILE` (YAML) in place of the job host")
	flags.StringVar(&f.Listen, "listen", "127.0.0.1:0",
		"`HOST:PORT` where the embedded broker listens; port 0: any free one")
	flags.DurationVar(&f.length, "for", 0, "end after this `DURATION`, such as 10m (default: go on until Ctrl-C)")
	flags.BoolVar(&f.samples, "samples", false, "keep the values of all cores in the archive for a while")
	flags.String("log-level", "info", "`LEVEL` of the log: debug, info, warn or error")
	cli.OfferDirectories(c, "data")
	cli.OfferFiles(c, "jobs", cli.YamlFiles...)
	cli.Offer(c, "log-level", cli.LogLevels...)
	return c
}

// Config returns the configuration of a process that runs everything: small topics, little retention, no second
// replica.
func (f upFlags) Config(c *cobra.Command) (config.Config, error) {
	if err := CheckJobs("--jobs", f.jobs); err != nil {
		return config.Config{}, err
	}
	if f.length < 0 {
		return config.Config{}, fmt.Errorf("--for %v is negative: how long to run, such as 10m", f.length)
	}
	if err := cli.CheckAddress("listen", f.Listen); err != nil {
		return config.Config{}, err
	}
	dir, err := filepath.Abs(f.Data)
	if err != nil {
		return config.Config{}, fmt.Errorf("--data %s: %w", f.Data, err)
	}
	interval, err := c.Flags().GetDuration("interval")
	if err != nil {
		return config.Config{}, err
	}
	interval = min(max(interval, 0), 24*time.Hour) // Validate refuses other lengths
	d := config.Default()
	d.Interval, d.Collectors, d.Instance = 5*time.Second, 4, "up"
	d.Partitions = config.Partitions{Routes: 1, JobSummary: 1, Partials: 1}
	d.Topics = config.Topics{
		Replication: 1, CountersRetention: max(time.Hour, 3*config.Outage*interval),
		SummaryRetention: max(24*time.Hour, config.Outage*interval), SegmentBytes: 1 << 20,
		Wire: config.WireSingleObject,
	}
	d.Agent.StateDir, d.Sink.Dir = filepath.Join(dir, "agent"), filepath.Join(dir, "archive")
	d.Agent.ReportDir = filepath.Join(dir, "report")
	d.Sink.Period = 10 * time.Second // a person waits for the first file
	d.Balance.JobsFile = f.jobs
	if len(f.Load.Names()) == 0 {
		d.Balance.LocalMax = -1 // so that weir replay computes metrics of the job host, as docs/replay.md does
	}
	d.Balance.LMax, d.Balance.LDist = f.Load.Limits(d.Balance.LMax, d.Balance.LDist)
	cfg, err := config.Load(config.Source{
		Environ: os.Environ(), Flags: c.Flags(), Defaults: d,
		Keys: map[string]string{"interval": "interval", "log-level": "log_level"},
	})
	if err != nil {
		return cfg, err
	}
	cfg.Balance.Nodes = append([]string{cfg.Agent.Node}, f.Load.Names()...)
	cfg.Machine = runningMachine(cfg, f.Load)
	return cfg, cfg.Validate()
}

// addOptional adds the readers of topic counters for which nothing waits.
func (f *upFlags) addOptional(s *services, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) {
	s.Add("nodes", func(ctx context.Context) error {
		return sink.RunNodes(ctx, cfg, 0, log, sink.NewNodesMetrics(registry))
	})
	if f.samples {
		s.Add("samples", func(ctx context.Context) error {
			return sink.RunSamples(ctx, cfg, 0, log, sink.NewSamplesMetrics(registry))
		})
	}
}

// up runs everything until ctx ends. Then it ends the parts in the order in which data flows, so that each part still
// takes the last records of the part before it.
func up(ctx context.Context, f upFlags, cfg config.Config, out io.Writer, log *slog.Logger) (err error) {
	set, err := reading.RuleSet(cfg)
	if err != nil {
		return err
	}
	registry := newRegistry()
	hide, err := serveMetrics(ctx, cfg.Metrics.Listen, registry, log)
	if err != nil {
		return err
	}
	defer hide()
	broker, err := StartBroker(f.Data, f.Listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	cfg.Kafka.Brokers = []string{broker.Addr()}
	switch cfg, err = prepare(ctx, cfg, f.Data); {
	case ctx.Err() != nil: // a Ctrl-C before anything ran
		return nil
	case err != nil:
		return err
	}
	cli.Say(out, "data      %s", f.Data)
	cli.Say(out, "broker    %s (read committed)", broker.Addr())
	cli.Say(out, "archive   %s/summaries/*/*.parquet", cfg.Sink.Dir)
	cli.Say(out, "interval  %v; ask from another terminal: weir jobs, weir job host   (--config %s)",
		cfg.Interval, filepath.Join(f.Data, "weir.yaml"))
	if err := f.offerReport(cfg.Agent.ReportDir, out); err != nil {
		return err
	}

	folds := processors.NewMetrics(registry) // shared by all stages
	cfg = inuse.WithList(cfg, log)
	s := &services{failure: make(chan error, 1)}
	s.Add("summary lines", func(ctx context.Context) error {
		var failed error
		err := topics.Follow(ctx, cfg, func(l topics.IntervalLine) bool {
			_, failed = fmt.Fprintln(out, l)
			return failed == nil
		})
		return errors.Join(err, failed)
	})
	s.Add("sink", func(ctx context.Context) error { return archive(ctx, cfg, log, registry) })
	f.addOptional(s, cfg, log, registry)
	s.addFind(cfg, log, registry, folds, set)
	s.Add("merge", func(ctx context.Context) error { return processors.Merge(ctx, cfg, log, folds) })
	s.Add("collect", func(ctx context.Context) error { return processors.Collect(ctx, cfg, log, folds) })
	s.Add("balancer", func(ctx context.Context) error {
		return balancer.Run(ctx, cfg, topology.Flat(cfg.Balance.Nodes), f.source(cfg), log,
			balancer.NewMetrics(registry))
	})
	if f.Load.Nodes > 0 {
		s.Add("simulated nodes", func(ctx context.Context) error {
			return producers.SimulateLoad(ctx, cfg, f.Load.Names(), f.Load.Load(), log)
		})
	}
	s.Add("agent", func(ctx context.Context) error { return producers.Run(ctx, cfg, log) })
	return s.wait(ctx)
}

// source returns the source of the jobs: the job file, or one job on this host that never ends. Simulated jobs are
// added.
func (f upFlags) source(cfg config.Config) scheduler.Source {
	var sources []scheduler.Source
	if f.jobs != "" {
		sources = append(sources, scheduler.NewFileSource(f.jobs))
	} else {
		job := schemas.Job{
			JobID: hostJob, Name: "this machine", Nodes: []string{cfg.Agent.Node}, Start: new(int64), State: "RUNNING",
		}
		if gpus := cfg.Machine[0].GPUs; gpus != nil { // it holds all of this host
			job.Gpus = new(int32(*gpus))
		}
		sources = append(sources, scheduler.Fixed(scheduler.Job{Job: job}))
	}
	if f.Load.Nodes > 0 {
		sources = append(sources, f.Load.Jobs(cfg.Interval))
	}
	return scheduler.Join(sources...)
}

// addFind starts find, and notify if one of its channels is on, which is not the default.
func (s *services) addFind(
	cfg config.Config, log *slog.Logger, registry prometheus.Registerer, folds *processors.Metrics, set *rules.Set,
) {
	if notify.On(cfg) {
		s.Add("notify", func(ctx context.Context) error {
			facts, err := factsFor(cfg)
			if err := errors.Join(err, notify.Check(cfg)); err != nil {
				return err
			}
			return notify.Run(ctx, cfg, log, notify.NewMetrics(registry), facts)
		})
	}
	s.Add("find", func(ctx context.Context) error { return find.Run(ctx, cfg, log, folds, set) })
}

// hostJob is the ID of the job on this machine, which runs if no file names jobs.
const hostJob = "host"

// offerReport makes the file in which the job host reports metrics of its own, and prints its path. For jobs of a file,
// the files are made by the program that starts them.
func (f upFlags) offerReport(dir string, out io.Writer) error {
	if dir == "" { // switched off by agent.report_dir
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the directory of the reports: %w", err)
	}
	path := filepath.Join(dir, "JOB.RESTART")
	if f.jobs == "" {
		path = filepath.Join(dir, source.ReportFile(hostJob, 0))
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			return fmt.Errorf("making the file of the reports: %w", err)
		}
	}
	cli.Say(out, "report    export %s=%s   (docs/report.md)", config.ReportVariable, path)
	return nil
}

// prepare makes the topics, and writes the address of the broker for other commands. It returns the configuration, with
// the registry's ids if topics.wire needs them.
func prepare(ctx context.Context, cfg config.Config, dir string) (config.Config, error) {
	if err := CreateTopics(ctx, cfg, io.Discard); err != nil {
		return cfg, err
	}
	text, err := cfg.YAML()
	if err != nil {
		return cfg, err
	}
	head := "# Written by `weir up` at each start, never read by it: " +
		"where the running instance is, for other commands.\n"
	temporary := filepath.Join(dir, ".weir.yaml.tmp")
	if err := os.WriteFile(temporary, append([]byte(head), text...), 0o644); err != nil {
		return cfg, fmt.Errorf("writing the running configuration: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, "weir.yaml")); err != nil {
		return cfg, fmt.Errorf("writing the running configuration: %w", err)
	}
	return kafka.WithRegistryIDs(ctx, cfg)
}

// services run side by side and end one after the other, the last added first. The first that fails ends all.
type services struct {
	started []*service
	failure chan error
}

// service is one part of weir in this process. Its channel done is closed when the part ends.
type service struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Add starts a service. Its context is not the caller's, since wait passes a Ctrl-C on in order.
func (s *services) Add(name string, run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	one := &service{cancel, make(chan struct{})}
	s.started = append(s.started, one)
	go func() {
		defer close(one.done)
		if err := run(ctx); err != nil {
			select {
			case s.failure <- fmt.Errorf("%s: %w", name, err):
			default: // another was first
			}
		}
	}()
}

// wait waits for the end of ctx or a failure, ends all services and returns the failure.
func (s *services) wait(ctx context.Context) error {
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-s.failure:
	}
	for i := len(s.started) - 1; i >= 0; i-- {
		s.started[i].cancel()
		<-s.started[i].done
	}
	if failed != nil {
		return failed
	}
	select {
	case failed = <-s.failure: // a service failed while it ended
	default:
	}
	return failed
}
