package integration

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/topology"
)

var (
	benchInterval  = flag.Bool("interval", false, "measure an interval of a whole machine")
	intervalNodes  = flag.Int("interval.nodes", 9288, "nodes of the machine")
	intervalCores  = flag.Int("interval.cores", producers.LoadCores, "cores of a node")
	intervalRuns   = flag.Int("interval.n", 12, "intervals to measure")
	intervalWarm   = flag.Duration("interval.warm", 20*time.Second, "how long to run before")
	intervalLength = flag.Duration("interval.length", 4*time.Second, "interval")
	intervalParts  = flag.Int("interval.collectors", 16, "partitions of counters")
	intervalJSON   = flag.String("interval.json", "", "file to add what was measured to, a JSON object a line")
	intervalWrite  = flag.Bool("interval.write", false, "write the tables of docs/performance.md anew")
)

// ways are the ways in which nodes publish. The last one replaces collect, merge, find and sink by the naive pipeline.
var ways = []struct {
	name  string
	load  producers.Load
	naive bool
}{
	{"one client", producers.Load{}, false},
	{"500 clients, a request a node", producers.Load{Clients: 500, RequestPerNode: true}, false},
	{"one client, naive pipeline", producers.Load{}, true},
}

// TestInterval measures an interval of a whole machine on the available brokers: the time from the first record to the
// last committed summary, and the CPU time of each part. Everything runs in this process except the nodes and a real
// Kafka. Labels of a CPU profile distinguish the parts.
func TestInterval(t *testing.T) {
	if !*benchInterval {
		t.Skip("INTERVAL NOT MEASURED: make bench-interval does")
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			m := measureInterval(t, way.load, way.naive)
			m.Way = way.name
			t.Log(m.table())
			m.append(t, *intervalJSON)
		})
	}
}

// measurement is the result of TestInterval for one way to publish. Times are medians in milliseconds.
type measurement struct {
	Way         string `json:"way"`
	Brokers     string `json:"brokers"`
	Nodes       int    `json:"nodes"`
	Values      int    `json:"values"`
	Bytes       int64  `json:"bytes"` // of an interval's records
	Collectors  int    `json:"collectors"`
	Intervals   int    `json:"intervals"`
	LoadAverage string `json:"load_average"`

	ColdMs    float64            `json:"cold_ms"`     // of the first interval: as WallMs
	ProduceMs float64            `json:"produce_ms"`  // from the first record sent to the last one in the log
	SummaryMs float64            `json:"summary_ms"`  // from the Tick to the last summary, as a reader sees it
	WallMs    float64            `json:"wall_ms"`     // both, without the wait for the Tick
	WallMaxMs float64            `json:"wall_max_ms"` // of the slowest interval
	LateNodes int                `json:"late_nodes"`  // records behind their Tick, of all intervals
	Summaries int                `json:"summaries"`   // of an interval
	CPUMs     float64            `json:"cpu_ms"`      // of this process
	LoadMs    float64            `json:"load_cpu_ms"` // of the load generator
	BrokersMs float64            `json:"brokers_cpu_ms,omitempty"`
	Threads   map[string]float64 `json:"brokers_threads_cpu_ms,omitempty"`
	Requests  map[string]float64 `json:"requests,omitempty"` // of an interval, to the embedded broker
	PartsMs   map[string]float64 `json:"parts_cpu_ms"`
	GarbageMs float64            `json:"garbage_ms"` // of CPUMs and LoadMs
}

// interval holds the facts about one interval. Times are in milliseconds since 1970.
type interval struct {
	sent, appended, tick int64 // the first record's, the last record's, the last Tick's
	summary              int64 // when a reader had the last one
	records, late        int
	summaries            int
	bytes                int64
}

func measureInterval(t *testing.T, load producers.Load, simple bool) *measurement {
	t.Helper()
	load.SuperMUC, load.Cores = true, *intervalCores
	var s *system
	var requests requestCounts
	labelled("broker", func() {
		at := findBrokers(t)
		if at.cluster != nil {
			requests.count(at.cluster)
		}
		s = systemOn(t, at, func(c *config.Config) {
			c.Interval, c.Grace, c.Collectors = *intervalLength, *intervalLength/2, *intervalParts
			c.Balance.LMax, c.Balance.LDist = 0, 0
			c.Balance.Nodes = producers.SimulatedNodes(*intervalNodes)
			c.Topics.SegmentBytes = 16 << 20
			c.Partitions = config.Default().Partitions
		})
	})
	s.log = slog.New(slog.DiscardHandler)
	seen := &summariesSeen{at: map[int64]interval{}}
	started := time.Now()
	s.startPart("reader", func(ctx context.Context) error { return seen.follow(ctx, s.cfg) })
	s.startPart("balancer", func(ctx context.Context) error {
		return balancer.Run(ctx, s.cfg, topology.Flat(s.cfg.Balance.Nodes),
			scheduler.NewSuperMUC(s.cfg.Balance.Nodes, *intervalCores, s.cfg.Interval), s.log,
			balancer.NewMetrics(prometheus.NewRegistry()))
	})
	if simple {
		s.startPart("naive", func(ctx context.Context) error { return runNaive(ctx, s.cfg, seen) })
	} else {
		folds := processors.NewMetrics(prometheus.NewRegistry())
		s.startPart("sink", func(ctx context.Context) error {
			return sink.Run(ctx, s.cfg, s.log, sink.NewMetrics(prometheus.NewRegistry()))
		})
		s.startPart("merge", func(ctx context.Context) error { return processors.Merge(ctx, s.cfg, s.log, folds) })
		s.startPart("collect", func(ctx context.Context) error { return processors.Collect(ctx, s.cfg, s.log, folds) })
	}
	nodes := s.startLoad(load)
	time.Sleep(*intervalWarm)
	// In the middle of an interval nothing is on its way.
	half := func() {
		now := time.Now()
		time.Sleep(now.Truncate(s.cfg.Interval).Add(s.cfg.Interval + s.cfg.Interval*3/4).Sub(now))
	}
	half()
	var profile bytes.Buffer
	from, before, nodesBefore, brokersBefore := time.Now(), cpuTime(), nodes.cpu(), s.brokersCPU()
	threadsBefore, requestsBefore := brokersThreads(), requests.copy()
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	for range *intervalRuns {
		half()
	}
	pprof.StopCPUProfile()
	to, used := time.Now(), cpuTime()-before
	nodesUsed, brokersUsed := nodes.cpu()-nodesBefore, s.brokersCPU()-brokersBefore
	nodes.kill()
	for _, stop := range slices.Backward(s.parts) {
		stop()
	}
	m := &measurement{
		Brokers: brokersName(), Nodes: *intervalNodes, Collectors: *intervalParts, Intervals: *intervalRuns,
		Values: *intervalNodes * *intervalCores * producers.LoadMetrics,
	}
	m.LoadAverage = loadAverage()
	m.judge(t, s.intervals(seen), started, from, to)
	m.divide(t, profile.Bytes(), used, *intervalRuns)
	m.BrokersMs = brokersUsed.Seconds() * 1000 / float64(*intervalRuns)
	m.Requests = map[string]float64{}
	for key, n := range requests.copy() {
		m.Requests[key] = float64(n-requestsBefore[key]) / float64(*intervalRuns)
	}
	m.Threads = map[string]float64{}
	for name, after := range brokersThreads() {
		if ms := (after - threadsBefore[name]).Seconds() * 1000 / float64(*intervalRuns); ms >= 1 {
			m.Threads[name] = ms
		}
	}
	m.LoadMs = nodesUsed.Seconds() * 1000 / float64(*intervalRuns)
	return m
}

// startLoad starts the simulated nodes in a process of their own, since their garbage would be ours. All send at once.
func (s *system) startLoad(load producers.Load) *process {
	args := []string{
		"simulate", "--config", s.configFile(), "--mix", "supermuc", "--nodes", strconv.Itoa(*intervalNodes),
		"--cores", strconv.Itoa(load.Cores), "--clients", strconv.Itoa(max(1, load.Clients)),
	}
	if load.RequestPerNode {
		args = append(args, "--request-per-node")
	}
	p := newMachine(s.t).add("simulate", []string{"WEIR_GRACE=1ms"}, args...)
	p.start()
	return p
}

// cpu returns the CPU time of the process so far.
func (p *process) cpu() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cpuOf(p.t, strconv.Itoa(p.cmd.Process.Pid))
}

// cpuOf returns the CPU time of a process so far, by its id.
func cpuOf(t *testing.T, pid string) time.Duration {
	t.Helper()
	used, err := statTime(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// statTime returns the CPU time of a process or a thread so far, from its stat file.
func statTime(file string) (sum time.Duration, err error) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, ticks := range fields[11:13] {
		n, err := strconv.ParseInt(ticks, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum, nil
}

// labelled runs a function, and all goroutines that it starts, under a label of the CPU profile.
func labelled(name string, run func()) {
	pprof.Do(context.Background(), pprof.Labels("part", name), func(context.Context) { run() })
}

func (s *system) startPart(name string, run func(ctx context.Context) error) {
	labelled(name, func() { s.parts = append(s.parts, s.start(name, run).stop) })
}

// intervals adds the facts in the log of counters to the reader's observations.
func (s *system) intervals(seen *summariesSeen) map[int64]interval {
	adm := kadm.NewClient(s.cl)
	all := seen.at
	topic := s.cfg.Prefix + schemas.TopicCounters
	for p := range int32(s.cfg.Collectors) {
		start, end, err := kafka.Bounds(s.t.Context(), adm, topic, p)
		if err != nil {
			s.t.Fatal(err)
		}
		ticked := map[int64]bool{}
		err = kafka.ReadPartition(s.t.Context(), s.cfg, topic, p, start, end, func(r *kgo.Record) error {
			at := r.Timestamp.UnixMilli()
			v, err := schemas.Unmarshal(r.Value)
			if tick, is := v.(*schemas.Tick); is {
				i := all[tick.IntervalStart]
				i.tick = max(i.tick, at)
				all[tick.IntervalStart], ticked[tick.IntervalStart] = i, true
			}
			h := headOf(v)
			if err != nil || h == nil {
				return err
			}
			i := all[h.IntervalStart]
			if i.sent == 0 || h.SentAt < i.sent {
				i.sent = h.SentAt
			}
			i.appended = max(i.appended, at)
			i.records++
			i.bytes += int64(len(r.Value))
			if ticked[h.IntervalStart] {
				i.late++
			}
			all[h.IntervalStart] = i
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return all
}

// judge takes the times of the intervals that ended between from and to, and of the first complete one.
func (m *measurement) judge(t *testing.T, all map[int64]interval, started, from, to time.Time) {
	t.Helper()
	var produce, summary, wall []float64
	length := intervalLength.Milliseconds()
	for _, start := range sortedKeys(all) {
		i := all[start]
		if i.records < m.Nodes*9/10 || i.summary == 0 || i.tick == 0 {
			continue // before all nodes had routes, or the end
		}
		took := float64(i.appended - i.sent + i.summary - i.tick)
		if m.ColdMs == 0 && start+length > started.UnixMilli() {
			m.ColdMs = took
		}
		if end := start + length; end < from.UnixMilli() || end+length/2 > to.UnixMilli() {
			continue
		}
		produce, summary = append(produce, float64(i.appended-i.sent)), append(summary, float64(i.summary-i.tick))
		wall = append(wall, took)
		m.LateNodes += i.late
		m.Bytes, m.Summaries = i.bytes, i.summaries
	}
	if len(wall) < *intervalRuns*2/3 {
		t.Fatalf("%d intervals were measured, want %d", len(wall), *intervalRuns)
	}
	m.ProduceMs, m.SummaryMs = medianOf(produce), medianOf(summary)
	m.WallMs, m.WallMaxMs = medianOf(wall), slices.Max(wall)
}

func medianOf(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// stages assign stacks to parts of the work: the first stage counts that matches a function in the stack, from the
// innermost on.
var stages = []struct {
	stage    string
	function *regexp.Regexp
}{
	{"garbage", functions(`^runtime\.(gcBgMarkWorker|bgsweep|bgscavenge|gcAssistAlloc|gcStart|gcMarkTermination)`)},
	{"select", functions(`quantile\.(selectRanks|selectFrom|sortValues|partition|sort16|network)`,
		`quantile\.(pivot|middle|key|unkey)`)},
	{"decode", functions(`schemas\.\(\*(BatchReader|PackedBatch)\)`, `schemas\.Unmarshal`,
		`goavro.*Binary.*Native`, `nativeFromBinary`)},
	{"sort", functions(`slices\.(Sort|pdq)`, `naive.*summary`)},
	{"encode", functions(`schemas\.Marshal`)},
	{"summary", functions(`weir/quantile\.`, `processors/fold\.\(\*(column|output)\)`, `processors/fold\.(newColumns|gather)`,
		`processors/fold\.mergePartials`)},
	{"window", functions(`processors/fold\.\(\*(Collector|Merger)\)`, `naive`)},
	{"archive", functions(`parquet`, `weir/sink`)},
	{"fetch", functions(`(?i:decompress)`, `kgo\.\(\*(source|consumer|cursor)`, `PollRecords`, `PollFetches`,
		`kgo\.\(\*ProcessFetchPartitionOpts`, `handleReqResp.*Fetch`)},
	{"produce", functions(`kgo\.`)},
}

// functions matches the names that have one of the patterns.
func functions(patterns ...string) *regexp.Regexp {
	return regexp.MustCompile(strings.Join(patterns, "|"))
}

// divide shares the CPU time that was used among the parts, by the samples of the profile.
func (m *measurement) divide(t *testing.T, profile []byte, used time.Duration, intervals int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profile")
	if err := os.WriteFile(file, profile, 0o600); err != nil {
		t.Fatal(err)
	}
	if keep := os.Getenv("INTERVAL_PROFILE"); keep != "" {
		_ = os.WriteFile(keep, profile, 0o600)
	}
	out, err := exec.Command("go", "tool", "pprof", "-traces", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	all, total := map[string]float64{}, 0.0
	for sample := range strings.SplitSeq(string(out), "-----------+") {
		part, stack, took := parseTrace(sample)
		total += took
		stage := "other"
	found:
		for _, function := range stack {
			for _, s := range stages {
				if s.function.MatchString(function) {
					stage = s.stage
					break found
				}
			}
		}
		switch {
		case stage == "garbage":
			all["garbage"] += took
		case part == "broker", part == "reader", part == "sink", part == "balancer":
			all[part] += took
		default:
			all[cmp.Or(part, "runtime")+" "+stage] += took
		}
	}
	each := used.Seconds() * 1000 / float64(intervals) / total
	m.PartsMs = map[string]float64{}
	for name, took := range all {
		ms := took * each
		m.PartsMs[name] = float64(int(10*ms)) / 10
		if name != "reader" {
			m.CPUMs += ms
		}
	}
	m.GarbageMs = all["garbage"] * each
}

// parseTrace reads one sample of go tool pprof -traces: its label, its functions from the innermost on, and its time.
func parseTrace(text string) (part string, stack []string, seconds float64) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "--"):
		case strings.HasPrefix(fields[0], "part:"):
			part = strings.TrimPrefix(fields[0], "part:")
			if part == "" && len(fields) > 1 {
				part = fields[1]
			}
		case seconds == 0:
			if d, err := time.ParseDuration(fields[0]); err == nil && len(fields) > 1 {
				seconds = d.Seconds()
				stack = append(stack, fields[1])
			}
		default:
			stack = append(stack, fields[0])
		}
	}
	return part, stack, seconds
}

// cpuTime returns the CPU time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // does not fail for ourselves
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// brokersCPU returns the CPU time of the brokers of bin/kafka so far.
func (s *system) brokersCPU() (sum time.Duration) {
	for _, pid := range brokersPids() {
		sum += cpuOf(s.t, pid)
	}
	return sum
}

// brokersPids returns the ids of the processes of bin/kafka; none with the embedded broker.
func brokersPids() (pids []string) {
	text, err := os.ReadFile(filepath.Join(os.Getenv("KAFKA_DIR"), "pids"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		pid, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		pids = append(pids, pid)
	}
	return pids
}

func brokersName() string {
	if seeds := os.Getenv("KAFKA_SEEDS"); seeds != "" {
		return fmt.Sprintf("Kafka of %d", len(strings.Split(seeds, ",")))
	}
	return "embedded broker"
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return fmt.Sprintf("%s on %d CPUs", one, runtime.NumCPU())
}

// summariesSeen is when a reader of committed summaries had the last one of an interval.
type summariesSeen struct {
	mu sync.Mutex
	at map[int64]interval
}

func (s *summariesSeen) note(start int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.at[start]
	i.summary = time.Now().UnixMilli()
	i.summaries++
	s.at[start] = i
}

func (s *summariesSeen) follow(ctx context.Context, cfg config.Config) error {
	return followTopic(ctx, cfg, schemas.TopicJobSummary, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		if summary, is := v.(*schemas.JobSummary); is {
			s.note(summary.IntervalStart)
		}
		return err
	})
}

// followTopic passes the committed records of a topic to f until ctx ends.
func followTopic(ctx context.Context, cfg config.Config, topic string, f func(r *kgo.Record) error) error {
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(cfg.Prefix+topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		for r := range cl.PollFetches(ctx).RecordsAll() {
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// runNaive runs the naive pipeline on a topic of counters. Its summaries go to a topic that nobody else uses in that
// case.
func runNaive(ctx context.Context, cfg config.Config, seen *summariesSeen) error {
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return err
	}
	producer, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer producer.Close()
	partitions := map[int32]*naive{}
	return followTopic(ctx, cfg, schemas.TopicCounters, func(r *kgo.Record) error {
		n := partitions[r.Partition]
		if n == nil {
			if n, err = newNaive(); err != nil {
				return err
			}
			partitions[r.Partition] = n
		}
		summaries, err := n.add(r.Value)
		if err != nil || len(summaries) == 0 {
			return err
		}
		start := int64(0)
		if v, _ := schemas.Unmarshal(r.Value); v != nil {
			start = v.(*schemas.Tick).IntervalStart
		}
		for _, b := range summaries {
			producer.Produce(ctx, &kgo.Record{Topic: cfg.Prefix + schemas.TopicRejects, Value: b},
				func(_ *kgo.Record, err error) {
					if err == nil {
						seen.note(start)
					}
				})
		}
		return nil
	})
}

// table is the measurement for a person.
func (m *measurement) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s: %d nodes, %d values, %.1f MB, %d collectors, %d intervals, load average %s\n",
		m.Brokers, m.Way, m.Nodes, m.Values, float64(m.Bytes)/1e6, m.Collectors, m.Intervals, m.LoadAverage)
	fmt.Fprintf(&b,
		"wall: %.0f ms, at most %.0f, cold %.0f; produce %.0f, Tick to last of %d summaries %.0f; %d late\n",
		m.WallMs, m.WallMaxMs, m.ColdMs, m.ProduceMs, m.Summaries, m.SummaryMs, m.LateNodes)
	fmt.Fprintf(&b, "CPU of an interval: %.0f ms, load generator %.0f ms, brokers %.0f ms, garbage %.0f ms\n",
		m.CPUMs, m.LoadMs, m.BrokersMs, m.GarbageMs)
	for _, name := range sortedKeys(m.PartsMs) {
		if m.PartsMs[name] >= 1 {
			fmt.Fprintf(&b, "  %-20s %6.1f ms\n", name, m.PartsMs[name])
		}
	}
	for _, name := range sortedKeys(m.Requests) {
		fmt.Fprintf(&b, "  %-30s %6.1f requests\n", name, m.Requests[name])
	}
	for _, name := range sortedKeys(m.Threads) {
		fmt.Fprintf(&b, "  brokers' %-20s %6.0f ms\n", name, m.Threads[name])
	}
	return b.String()
}

// append adds the measurement to a file, if there is one.
func (m *measurement) append(t *testing.T, file string) {
	t.Helper()
	if file == "" {
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}

// brokersThreads returns the CPU time of the brokers' threads so far, by group, to show the cause of their load.
func brokersThreads() map[string]time.Duration {
	used := map[string]time.Duration{}
	for _, pid := range brokersPids() {
		tasks, _ := filepath.Glob(filepath.Join("/proc", pid, "task", "*"))
		for _, task := range tasks {
			name, err := os.ReadFile(filepath.Join(task, "comm"))
			if err != nil {
				continue // the thread has ended
			}
			took, err := statTime(filepath.Join(task, "stat"))
			if err != nil {
				continue
			}
			used[threadNumber.ReplaceAllString(strings.TrimSpace(string(name)), "")] += took
		}
	}
	return used
}

var threadNumber = regexp.MustCompile(`[-#]?\d+$`)

// requestCounts counts the requests of each kind that the embedded broker got.
type requestCounts struct {
	mu    sync.Mutex
	byKey map[string]int
}

func (c *requestCounts) count(cluster *kfake.Cluster) {
	cluster.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.byKey == nil {
			c.byKey = map[string]int{}
		}
		c.byKey[kmsg.NameForKey(r.Key())]++
		return nil, nil, false
	})
}

func (c *requestCounts) copy() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byKey)
}
