package integration

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

var (
	benchTakeover = flag.Bool("takeover", false, "measure how long a takeover takes")
	soakFor       = flag.Duration("soak.for", 0,
		"how long to restart processes while the others are watched; 0: not at all")
)

const (
	takeoverRuns = 3
	// A measured takeover ends with a Tick: on average half of this is waiting for it.
	takeoverInterval = 250 * time.Millisecond
)

// TestTakeover measures the cost of an outage of one process, three times each, and prints a table. A measure above its
// goal fails the test.
func TestTakeover(t *testing.T) {
	if !*benchTakeover {
		t.Skip("TAKEOVER NOT MEASURED: make bench-takeover does")
	}
	b := newBench(t, func(cfg *config.Config) {
		cfg.Interval, cfg.PlanMargin, cfg.Grace = takeoverInterval, 0, 0
		cfg.Sink.RollBytes = 1 << 20 // so that a file is due by its size, several times a second, and not by time
	})
	b.begin("sink-b")
	for run := range takeoverRuns {
		load, _ := os.ReadFile("/proc/loadavg")
		t.Logf("run %d of %d, load average %s", run+1, takeoverRuns, load)
		b.measureCommits()
		for _, kind := range []string{"collect", "merge"} {
			b.measureProcessor(kind)
		}
		b.measureSink()
		b.measureEnds()
	}
	if b.broker != nil {
		for range takeoverRuns {
			b.measureHungEnds()
		}
	}
	t.Logf("%s, interval %v\n%s", b.where, takeoverInterval, b.table())
}

// bench is a running system with its measurements.
type bench struct {
	*system
	m        *machine
	services map[string]*process
	broker   *process // embedded; nil on a Kafka
	where    string
	named    bool // processors started from now on have a name in their group
	started  map[string]time.Time
	watcher  *watcher
	rows     []*measure
}

// measure is a row of the table.
type measure struct {
	what string
	goal time.Duration // 0: no goal
	runs []time.Duration
}

// newBench starts a system with a changed configuration.
func newBench(t *testing.T, change func(cfg *config.Config)) *bench {
	t.Helper()
	b := &bench{m: newMachine(t), where: "embedded broker", started: map[string]time.Time{}}
	at, embedded := b.m.findBrokers()
	if len(embedded) > 0 {
		b.broker = embedded[0]
	} else {
		b.where = fmt.Sprintf("Kafka of %d brokers", len(at.seeds))
	}
	b.system = systemOn(t, at)
	change(&b.cfg)
	b.services = b.m.addServices(b.configFile())
	for name, p := range b.services {
		with(p, func(cmd *exec.Cmd) {
			b.started[name] = time.Now()
			cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "WEIR_INSTANCE=") })
			if kind, instance, _ := strings.Cut(name, "-"); b.named && (kind == "collect" || kind == "merge") {
				cmd.Env = append(cmd.Env, "WEIR_INSTANCE="+instance)
			}
		})
	}
	b.watcher = watch(t, b.system)
	return b
}

// begin starts all services but some.
func (b *bench) begin(without ...string) {
	b.t.Helper()
	for name, p := range b.services {
		if !slices.Contains(without, name) {
			p.start()
		}
	}
	b.steady("collect")
	b.steady("merge")
}

// with changes how a process is started.
func with(p *process, change func(cmd *exec.Cmd)) {
	before := p.make
	p.make = func() *exec.Cmd {
		cmd := before()
		change(cmd)
		return cmd
	}
}

// measureCommits is how long the commits of ten quiet seconds took, of both stages.
func (b *bench) measureCommits() {
	b.t.Helper()
	from := time.Now()
	time.Sleep(10 * time.Second)
	took := b.watcher.durations(from)
	if len(took) < 100 {
		b.t.Fatalf("only %d commits in ten seconds: the machine is too busy to measure anything", len(took))
	}
	goal := time.Duration(0)
	if b.broker == nil {
		goal = 15 * time.Millisecond
	}
	b.add("commit, p50", goal, took[len(took)/2])
	b.add("commit, p99", 0, took[len(took)*99/100])
}

// measureProcessor takes a stage's processes away in every way.
func (b *bench) measureProcessor(kind string) {
	b.t.Helper()
	for _, named := range []bool{true, false} {
		b.rename(kind, named)
		who := kind + " without a name"
		if named {
			who = kind + " with a name"
			p := b.victim(kind)
			b.add(who+", kill -9, restarted at once", time.Second, b.takeover(p, func() { p.kill(); p.start() }))
			b.steady(kind)
		}
		p := b.victim(kind)
		b.add(who+", kill -9, left dead", 8*time.Second, b.takeover(p, func() { p.kill() }))
		p.start()
		b.steady(kind)
		p = b.victim(kind)
		b.add(who+", SIGTERM, another goes on", time.Second, b.takeover(p, func() { p.signal(syscall.SIGTERM) }))
		b.eventually(p.name+" ends", func() bool { return p.pid() == 0 })
		p.start()
		b.steady(kind)
	}
}

// rename starts both processes of a stage again, with names in their group or without.
func (b *bench) rename(kind string, named bool) {
	b.t.Helper()
	b.named = named
	both := []*process{b.services[kind+"-a"], b.services[kind+"-b"]}
	endAll(both...)
	for _, p := range both {
		p.start()
	}
	b.steady(kind)
}

// victim is the process of a stage that owns a partition in which there are commits.
func (b *bench) victim(kind string) *process {
	b.t.Helper()
	busy := b.watcher.busy(kind)
	for at, owner := range b.owners() {
		if slices.Contains(busy, at) {
			return b.services[owner.name]
		}
	}
	b.t.Fatalf("no process of %s commits", kind)
	return nil
}

// takeover does something to a process and returns how long the takeover took from then. It ends when a reader of the
// progress topic sees the first commit of an owner after it. Of several busy partitions the last one counts.
func (b *bench) takeover(p *process, do func()) time.Duration {
	b.t.Helper()
	busy := b.watcher.busy(service(p.name))
	var lost []place
	for at, owner := range b.owners() {
		if owner.name == p.name && slices.Contains(busy, at) {
			lost = append(lost, at)
		}
	}
	if len(lost) == 0 {
		b.t.Fatalf("%s owns nothing to lose", p.name)
	}
	began := time.Now()
	do()
	var owned, took time.Duration
	b.eventually("commits after "+p.name, func() bool {
		owners := b.owners()
		owned, took = 0, 0
		for _, at := range lost {
			next := owners[at]
			seen, ok := b.watcher.firstAfter(at, next.since)
			if !ok || !next.since.After(began) {
				return false
			}
			owned, took = max(owned, next.since.Sub(began)), max(took, seen.Sub(began))
		}
		return true
	})
	b.t.Logf("%s: %d partitions, owned again after %v, committed after %v", p.name, len(lost), owned, took)
	return took
}

// steady waits until both processes of a stage own partitions, all of them since their last start, and commit.
func (b *bench) steady(kind string) {
	b.t.Helper()
	b.eventually(kind+" is shared between both", func() bool {
		names := map[string]bool{}
		owners, busy := b.owners(), b.watcher.busy(kind)
		if len(busy) == 0 || kind == "collect" && len(busy) < b.cfg.Collectors {
			return false
		}
		for at, owner := range owners {
			if at.stage != kind {
				continue
			}
			names[owner.name] = true
			if owner.since.Before(b.started[owner.name]) || time.Since(owner.since) < time.Second {
				return false
			}
			if _, ok := b.watcher.firstAfter(at, owner.since); !ok && slices.Contains(busy, at) {
				return false
			}
		}
		return len(names) == 2
	})
}

// place is a partition of a stage.
type place struct {
	stage     string
	partition int32
}

// owner is a process that logged its ownership of a partition, and the time.
type owner struct {
	name  string
	since time.Time
}

var ownedLine = regexp.MustCompile(`time=(\S+) .*msg="partition is ours" stage=(\w+) partition=(\d+)`)

// owners returns the last process to log its ownership of each partition. A process logs it after fencing its
// predecessor, so all later commits are its own.
func (b *bench) owners() map[place]owner {
	b.t.Helper()
	owners := map[place]owner{}
	for _, p := range b.m.all {
		text, err := os.ReadFile(p.log)
		if err != nil {
			continue // it was not started yet
		}
		for _, f := range ownedLine.FindAllStringSubmatch(string(text), -1) {
			at, err := time.Parse(time.RFC3339, f[1])
			if err != nil {
				b.t.Fatal(err)
			}
			n, _ := strconv.Atoi(f[3]) // digits, by the pattern
			if where := (place{f[2], int32(n)}); at.After(owners[where].since) {
				owners[where] = owner{p.name, at}
			}
		}
	}
	return owners
}

// measureSink takes a sink away while so many summaries come that files are due by their size. The measure ends when
// every partition has a new file.
func (b *bench) measureSink() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.feed(ctx) })
	defer wg.Wait()
	defer cancel()
	one, other := b.services["sink-a"], b.services["sink-b"]
	b.untilFiles("the first files", func() {})
	b.add("next files, nothing happens", 0, b.untilFiles("files", func() {}))
	b.add("sink, kill -9, restarted at once", 2*time.Second,
		b.untilFiles("files after a restart", func() { one.kill(); one.start() }))
	other.start()
	time.Sleep(2 * time.Second) // until it stands by
	b.add("sink, kill -9, the one that stands by goes on", 2*time.Second,
		b.untilFiles("files of the other", func() { one.kill() }))
	one.start()
	time.Sleep(2 * time.Second) // until it stands by
	b.add("sink, SIGTERM, the one that stands by goes on", 0,
		b.untilFiles("files of the other", func() { other.end() }))
}

// feed produces summaries, five times a second, until ctx ends.
func (b *bench) feed(ctx context.Context) {
	summaries := b.read(schemas.TopicJobSummary)
	value := slices.MaxFunc(summaries, func(x, y *kgo.Record) int {
		return cmp.Compare(len(x.Value), len(y.Value))
	}).Value
	for ctx.Err() == nil {
		var records []*kgo.Record
		for i := range 300 {
			records = append(records, &kgo.Record{
				Topic: b.cfg.Prefix + schemas.TopicJobSummary, Partition: int32(i % b.cfg.Partitions.JobSummary),
				Value: value,
			})
		}
		if err := b.cl.ProduceSync(ctx, records...).FirstErr(); err != nil && ctx.Err() == nil {
			b.t.Errorf("feeding the sink: %v", err)
			return
		}
		retry.Pause(ctx, 200*time.Millisecond)
	}
}

// untilFiles does something and returns how long it took, from then, until each partition of summaries had a file that
// was not there right after.
func (b *bench) untilFiles(what string, do func()) time.Duration {
	b.t.Helper()
	began := time.Now()
	do()
	before := b.archived()
	b.eventually(what, func() bool {
		now := b.archived()
		for p := range b.cfg.Partitions.JobSummary {
			if now[p] == before[p] {
				return false
			}
		}
		return true
	})
	return time.Since(began)
}

// archived returns the number of files in each partition of summaries.
func (b *bench) archived() map[int]int {
	b.t.Helper()
	count := map[int]int{}
	for p := range b.cfg.Partitions.JobSummary {
		files, err := filepath.Glob(filepath.Join(b.cfg.Sink.Dir, "summaries", "*", fmt.Sprintf("*-%d-*.parquet", p)))
		if err != nil {
			b.t.Fatal(err)
		}
		count[p] = len(files)
	}
	return count
}

// measureEnds is how long each service takes to end at SIGTERM, under load.
func (b *bench) measureEnds() {
	b.t.Helper()
	for _, name := range []string{"simulate-a", "balance-a", "collect-a", "merge-a", "find-a", "sink-a"} {
		p := b.services[name]
		if p.pid() == 0 {
			p.start()
			time.Sleep(2 * time.Second) // until it works
		}
		p.awaitSignals() // not a part of the measurement
		began := time.Now()
		p.end()
		b.add(service(name)+", SIGTERM, until it has ended", 5*time.Second, time.Since(began))
		p.start()
	}
	b.steady("collect")
	b.steady("merge")
}

// measureHungEnds is the same while the broker hangs: it neither answers nor goes away.
func (b *bench) measureHungEnds() {
	b.t.Helper()
	b.broker.signal(syscall.SIGSTOP)
	defer b.steady("merge")
	defer b.steady("collect")
	defer b.broker.signal(syscall.SIGCONT)
	time.Sleep(takeoverInterval * 4) // until all wait for an answer
	var wg sync.WaitGroup
	var mu sync.Mutex
	took := map[string]time.Duration{}
	names := []string{"simulate-a", "balance-a", "collect-a", "merge-a", "find-a", "sink-a"}
	for _, name := range names {
		p := b.services[name]
		wg.Go(func() {
			began := time.Now()
			ended, _ := p.signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(time.Minute):
				b.t.Errorf("%s does not end within a minute of SIGTERM while the broker hangs", name)
				p.kill()
			}
			mu.Lock()
			defer mu.Unlock()
			took[name] = time.Since(began)
		})
	}
	wg.Wait()
	for _, name := range names {
		b.add(service(name)+", SIGTERM while the broker hangs, until it has ended", 5*time.Second, took[name])
		b.services[name].start()
	}
}

// add puts a measured time into its row.
func (b *bench) add(what string, goal, took time.Duration) {
	b.t.Helper()
	i := slices.IndexFunc(b.rows, func(m *measure) bool { return m.what == what })
	if i < 0 {
		i = len(b.rows)
		b.rows = append(b.rows, &measure{what: what, goal: goal})
	}
	b.rows[i].runs = append(b.rows[i].runs, took)
	if goal > 0 && took > goal {
		b.t.Errorf("%s: %v, the goal is %v", what, took.Round(time.Millisecond), goal)
	}
}

func (b *bench) table() string {
	var out strings.Builder
	out.WriteString("| measure | goal | run 1 | run 2 | run 3 |\n|---|---|---|---|---|\n")
	for _, m := range b.rows {
		goal := ""
		if m.goal > 0 {
			goal = fmt.Sprintf("%v", m.goal)
		}
		fmt.Fprintf(&out, "| %s | %s |", m.what, goal)
		for _, took := range m.runs {
			fmt.Fprintf(&out, " %v |", took.Round(time.Millisecond))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// watcher reads the progress topics as any consumer would, read committed, and notes the time of each sighting.
type watcher struct {
	interval time.Duration

	mu   sync.Mutex
	seen map[place][]sighting
}

// sighting is a Progress: when its owner made it, which is when its transaction began, and when it could be read.
type sighting struct{ made, seen time.Time }

func watch(t *testing.T, s *system) *watcher {
	t.Helper()
	opts, err := kafka.ClientOpts(context.Background(), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]string{
		s.cfg.Prefix + schemas.TopicProgress: "collect", s.cfg.Prefix + schemas.TopicMergeProgress: "merge",
	}
	cl, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(s.cfg.Prefix+schemas.TopicProgress,
		s.cfg.Prefix+schemas.TopicMergeProgress),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{interval: s.cfg.Interval, seen: map[place][]sighting{}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			now := time.Now()
			w.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				at := place{stages[r.Topic], r.Partition}
				w.seen[at] = append(w.seen[at], sighting{r.Timestamp, now})
			})
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait(); cl.Close() })
	return w
}

// firstAfter is when the first Progress that was made after a time could be read.
func (w *watcher) firstAfter(at place, made time.Time) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.seen[at], func(s sighting) bool { return !s.made.Before(made) })
	if i < 0 {
		return time.Time{}, false
	}
	return w.seen[at][i].seen, true
}

// busy returns the partitions of a stage with news in every interval. A partition of partials without a split job has
// none.
func (w *watcher) busy(stage string) []place {
	w.mu.Lock()
	defer w.mu.Unlock()
	var busy []place
	for at, seen := range w.seen {
		if at.stage == stage && len(seen) > 10 && time.Since(seen[len(seen)-10].made) < 20*w.interval {
			busy = append(busy, at)
		}
	}
	return busy
}

// durations are, in order, how long commits took from a time on: from making Progress until it could be read.
func (w *watcher) durations(from time.Time) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	for _, seen := range w.seen {
		for _, s := range seen {
			if s.made.After(from) {
				all = append(all, s.seen.Sub(s.made))
			}
		}
	}
	slices.Sort(all)
	return all
}

const (
	soakPause     = 3 * time.Second // between two restarts
	soakRetention = 4 * time.Minute // about the least that an interval of a second allows
	soakGrowth    = 1.10            // at most, of the last third of the time over the second
)

// TestSoak kills and ends processes, one every few seconds, and watches the surviving ones, which must not grow with
// the number of restarts. It prints their usage by the minute.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("NOT SOAKED: make bench-soak does")
	}
	b := newBench(t, func(cfg *config.Config) {
		// Retention is short, so that the embedded broker does not hold all records.
		cfg.Topics.CountersRetention, cfg.Topics.SummaryRetention = soakRetention, soakRetention
	})
	b.retain(soakRetention)
	var all []*watched
	for _, name := range []string{"simulate-a", "balance-a", "collect-a", "merge-a", "find-a", "sink-a"} {
		all = append(all, b.watchProcess(b.services[name]))
	}
	b.begin()
	if b.broker != nil {
		all = append(all, &watched{process: b.broker})
	}
	var victims []*process
	for _, name := range []string{"collect-b", "merge-b", "sink-b", "balance-b", "find-b"} {
		victims = append(victims, b.services[name])
	}
	restarts := 0
	for began := time.Now(); time.Since(began) < *soakFor; restarts++ {
		p := victims[restarts%len(victims)]
		if restarts/len(victims)%2 == 0 {
			p.kill()
		} else {
			p.end()
		}
		p.start()
		time.Sleep(soakPause)
		for _, w := range all {
			w.sample(t, time.Since(began))
		}
	}
	t.Logf("%s, %d restarts in %v, half of them kill -9\n%s", b.where, restarts, *soakFor, soakTable(all))
	for _, w := range all {
		if w.process != b.broker { // which is for trying weir, and keeps its log in memory
			w.judge(t)
		}
	}
	b.steady("collect")
	b.steady("merge")
	if heard := b.m.listen(); heard.panics > 0 {
		t.Errorf("%d processes panicked", heard.panics)
	}
}

// retain shortens the retention of the topics.
func (b *bench) retain(retention time.Duration) {
	b.t.Helper()
	var topics []string
	for _, name := range []string{
		schemas.TopicCounters, schemas.TopicPartials, schemas.TopicJobSummary,
		schemas.TopicRejects,
	} {
		topics = append(topics, b.cfg.Prefix+name)
	}
	ms := strconv.FormatInt(retention.Milliseconds(), 10)
	altered, err := kadm.NewClient(b.cl).AlterTopicConfigs(b.t.Context(),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &ms}}, topics...)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range altered {
		if a.Err != nil {
			b.t.Fatal(a.Err)
		}
	}
}

// watched is a process that must not grow.
type watched struct {
	*process
	metrics string // URL; empty: without metrics
	samples []usage
}

// usage is the usage of a process.
type usage struct {
	at                                 time.Duration
	rssMiB, goroutines, threads, files float64 // goroutines 0: not known
}

// watchProcess lets a process serve its metrics, from its next start on.
func (b *bench) watchProcess(p *process) *watched {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil { // the process listens there
		b.t.Fatal(err)
	}
	with(p, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "WEIR_METRICS_LISTEN="+address) })
	return &watched{process: p, metrics: "http://" + address + "/metrics"}
}

var (
	statusRSS     = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)
	statusThreads = regexp.MustCompile(`Threads:\s+(\d+)`)
	goGoroutines  = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)
)

// sample measures the present usage of the process.
func (w *watched) sample(t *testing.T, at time.Duration) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", w.pid())
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	u := usage{
		at: at, rssMiB: number(statusRSS, status) / 1024, threads: number(statusThreads, status),
		files: float64(len(files)),
	}
	if w.metrics != "" {
		scraper := http.Client{Timeout: 5 * time.Second}
		if answer, err := scraper.Get(w.metrics); err == nil { // the simulated nodes listen on nothing
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			u.goroutines = number(goGoroutines, text)
		}
	}
	w.samples = append(w.samples, u)
}

// number returns the number that a pattern finds in a text, or 0.
func number(pattern *regexp.Regexp, text []byte) float64 {
	f := pattern.FindSubmatch(text)
	if f == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(string(f[1]), 64) // digits, by the patterns
	return n
}

// mean is the mean of the samples from a time up to another.
func (w *watched) mean(from, to time.Duration) (m usage) {
	n := 0.0
	for _, u := range w.samples {
		if u.at >= from && u.at < to {
			n++
			m.rssMiB, m.goroutines = m.rssMiB+u.rssMiB, m.goroutines+u.goroutines
			m.threads, m.files = m.threads+u.threads, m.files+u.files
		}
	}
	return usage{from, m.rssMiB / n, m.goroutines / n, m.threads / n, m.files / n}
}

// judge compares the last third of the time with the second; in the first the process warms up.
func (w *watched) judge(t *testing.T) {
	t.Helper()
	end := w.samples[len(w.samples)-1].at + 1
	second, last := w.mean(end/3, end*2/3), w.mean(end*2/3, end)
	if len(w.samples) < 15 {
		t.Fatalf("%s: %d samples say nothing: give it more time", w.name, len(w.samples))
	}
	flat := func(what string, second, last float64) {
		verdict := "flat"
		if last > second*soakGrowth {
			verdict = "GROWS"
			t.Errorf("%s grows in %s", w.name, what)
		}
		t.Logf("%s: %s %.1f in the second third of the time, %.1f in the last: %s", w.name, what, second, last, verdict)
	}
	flat("MiB resident", second.rssMiB, last.rssMiB)
	flat("open files", second.files, last.files)
	if last.goroutines > 0 {
		flat("goroutines", second.goroutines, last.goroutines)
	} else { // the runtime starts a thread now and then and never ends one, which makes threads a poor measure
		t.Logf("%s: GOROUTINES NOT KNOWN, it shows no metrics", w.name)
		flat("threads", second.threads, last.threads)
	}
}

// soakTable writes the usage of each process by minute: MiB resident, goroutines, open files.
func soakTable(all []*watched) string {
	var out strings.Builder
	out.WriteString("MiB resident / goroutines / open files\n| minute |")
	for _, w := range all {
		fmt.Fprintf(&out, " %s |", w.name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for from := time.Duration(0); from+time.Minute/2 < all[0].samples[len(all[0].samples)-1].at; from += time.Minute {
		fmt.Fprintf(&out, "| %d |", int(from.Minutes())+1)
		for _, w := range all {
			m := w.mean(from, from+time.Minute)
			goroutines := "–"
			if m.goroutines > 0 {
				goroutines = fmt.Sprintf("%.0f", m.goroutines)
			}
			fmt.Fprintf(&out, " %.1f / %s / %.0f |", m.rssMiB, goroutines, m.files)
		}
		out.WriteString("\n")
	}
	return out.String()
}
