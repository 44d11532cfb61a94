package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

func sixNodes() *topology.Tree { return topology.Flat([]string{"a", "b", "c", "d", "e", "f"}) }

func TestRunFromEmptyAndRestart(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	var out kafkatest.Log
	source := scheduler.Join(scheduler.Fixed(
		scheduler.Job{Job: schemas.Job{JobID: "big", Nodes: []string{"a", "b", "c", "d", "e"}}},
		scheduler.Job{Job: schemas.Job{JobID: "one", Nodes: []string{"f"}, Cpus: []int32{1, 0}}},
		scheduler.Job{Job: schemas.Job{JobID: "lost", Nodes: []string{"nowhere"}}},
	))
	run := func(ctx context.Context) error { return Run(ctx, cfg, sixNodes(), source, out.Logger(), unseen()) }
	r := newReader(t, cfg)
	stop := background(t, run)
	r.until("three Ticks and a plan", func() bool { return len(r.ticks[0]) >= 3 && len(r.routes) == 6 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	n := len(r.ticks[0])
	stop = background(t, run)
	r.until("four Ticks after the restart", r.more(4))
	r.until("all partitions", func() bool { return len(r.ticks[1]) > n && len(r.ticks[2]) > n })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.checkTicks(cfg)

	nodes, parts := map[string][]string{}, map[string]int32{}
	last := min(len(r.ticks[0]), len(r.ticks[1]), len(r.ticks[2])) - 1
	for p := range int32(3) {
		for _, j := range r.ticks[p][last].Jobs {
			nodes[j.JobID] = append(nodes[j.JobID], j.Nodes...)
			parts[j.JobID]++
			if j.Restart != 0 || j.Parts < 1 {
				t.Errorf("partition %d: %+v", p, j)
			}
		}
	}
	for id := range nodes {
		slices.Sort(nodes[id])
	}
	want := map[string][]string{"big": {"a", "b", "c", "d", "e"}, "one": {"f"}, schemas.JobRest: {"f"}}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Error(diff)
	}
	if parts["big"] < 2 || parts["one"] != 1 {
		t.Errorf("parts %v", parts)
	}
	for node, routes := range r.routes {
		if len(routes) != 1 || routes[0].Epoch != 1 {
			t.Errorf("node %s has %d Routes where nothing changed", node, len(routes))
		}
	}
	if len(r.routes) != 6 {
		t.Errorf("%d Routes", len(r.routes))
	}
	if j := r.jobs["lost/0"]; j == nil || j.State != schemas.StateSkipped || j.Reason != "unknown node nowhere" {
		t.Errorf("the job on an unknown node: %+v", j)
	}
	if j := r.jobs["big/0"]; j == nil || j.State != schemas.StateRunning {
		t.Errorf("the big job: %+v", j)
	}
	if n := out.Count("unknown node"); n != 2 {
		t.Errorf("the skipped job was logged %d times in two runs", n)
	}
}

// waking is a scheduler that does not answer at first.
type waking struct {
	answers atomic.Bool
	jobs    []scheduler.Job
}

func (w *waking) Jobs(time.Time) ([]scheduler.Job, []scheduler.Fault) {
	if !w.answers.Load() {
		return nil, []scheduler.Fault{{Reason: "it does not answer", Unread: true}}
	}
	return w.jobs, nil
}

// TestRoutesOutlastAStartBesideASilentScheduler: nobody says that jobs are over because nobody says anything. What
// another source says is done meanwhile.
func TestRoutesOutlastAStartBesideASilentScheduler(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	source := &waking{jobs: []scheduler.Job{job("goes-on", "a", "b"), job("ends", "c", "d")}}
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	file := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("jobs: []")
	run := func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.Join(source, scheduler.NewFileSource(path)),
			slog.New(slog.DiscardHandler), unseen())
	}
	r := newReader(t, cfg)
	lists := func(id string) bool {
		last := false
		for _, ticks := range r.ticks {
			if len(ticks) > 0 && slices.ContainsFunc(ticks[len(ticks)-1].Jobs,
				func(j schemas.TickJob) bool { return j.JobID == id }) {
				last = true
			}
		}
		return last
	}
	stop := background(t, run)
	r.until("routes without jobs, for there are none of before", func() bool { return len(r.routes) == 6 })
	source.answers.Store(true)
	r.until("jobs", func() bool {
		return lists("goes-on") && lists("ends") && !slices.Contains(r.entries("a", "b", "c", "d"), 0)
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	source.answers.Store(false)
	source.jobs = source.jobs[:1]
	background(t, run)
	routes := len(r.routes["a"]) + len(r.routes["c"])
	r.until("Ticks beside a silent scheduler", r.more(4))
	if !lists("goes-on") || !lists("ends") || len(r.routes["a"])+len(r.routes["c"]) != routes {
		t.Errorf("routes of nodes a and c: %d before, %d now", routes, len(r.routes["a"])+len(r.routes["c"]))
	}
	file("jobs:\n  - {id: other, nodes: [e]}\n")
	r.until("a job of the file", func() bool {
		return lists("other") && lists("goes-on") && r.jobs["_jobs-file/0"] != nil
	})
	if j := r.jobs["ends/0"]; j == nil || j.State != schemas.StateRunning {
		t.Errorf("the job may run for all we know: %+v", j)
	}
	if j := r.jobs["_jobs-file/0"]; j == nil || j.State != schemas.StateSkipped {
		t.Errorf("the list of jobs cannot be read: %+v", j)
	}
	source.answers.Store(true)
	r.until("the end of the job", func() bool {
		return lists("goes-on") && !lists("ends") && r.jobs["ends/0"].State == schemas.StateCompleted
	})
}

// TestTicksGoOnBesideAHungJobFile: the file system of the jobs file stops answering. Every interval is closed with the
// last known jobs, and topic jobs and the log contain the time since which it hangs.
func TestTicksGoOnBesideAHungJobFile(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(path, []byte("jobs:\n  - {id: known, nodes: [a, b]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out kafkatest.Log
	r := newReader(t, cfg)
	background(t, func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.NewFileSource(path), out.Logger(), unseen())
	})
	known := func() bool {
		return slices.ContainsFunc([]int32{0, 1, 2}, func(p int32) bool {
			n := len(r.ticks[p])
			return n > 0 && len(r.ticks[p][n-1].Jobs) > 0 && r.ticks[p][n-1].Jobs[0].JobID == "known"
		})
	}
	r.until("the job", known)
	end := kafkatest.Hang(t, dir)
	unread := func() bool {
		j := r.jobs["_jobs-file/0"]
		return j != nil && j.State == schemas.StateSkipped && strings.Contains(j.Reason, "no answer")
	}
	r.until("Ticks beside the hung file", r.more(4))
	r.until("a record that has since when", unread)
	r.until("Ticks later", r.more(4))
	if !known() {
		t.Error("the job of before is in no Tick")
	}
	if text := out.String(); !strings.Contains(text, "list of jobs cannot be read") ||
		!strings.Contains(text, "no answer") {
		t.Error(text)
	}
	end()
	r.until("a record without it", func() bool { return !unread() })
	r.checkTicks(cfg)
}

// TestJobsStayWhereTheyAre: a job for which there was no room at home stays where it went when there is room again. It
// stays through a restart of the balancer too. Only PerSyst's algorithms move it.
func TestJobsStayWhereTheyAre(t *testing.T) {
	big, small := on(job("big", "a", "b", "c"), 0), on(job("small", "a", "b"), 1)
	for algorithm, want := range map[string]string{
		"weir": "at 0, then at 1; at 1; at 1", "literal": "at 0, then at 1; at 0; at 0",
	} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			_, cfg := broker(t)
			cfg.Balance.Algorithm = algorithm
			r := newReader(t, cfg)
			var got []string
			for i, jobs := range [][]scheduler.Job{{big, small}, {small}, {small}} {
				stop := background(t, func(ctx context.Context) error {
					return Run(ctx, cfg, sixNodes(), scheduler.Fixed(jobs...), slog.New(slog.DiscardHandler), unseen())
				})
				some := r.more(3)
				r.until("the plan of these jobs, and some Ticks", func() bool {
					return r.entries("a")[0] == len(jobs) && some()
				})
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				last := r.routes["a"][len(r.routes["a"])-1]
				if i == 0 {
					got = append(got, fmt.Sprintf("at %d, then at %d",
						last.Entries[0].Partition, last.Entries[1].Partition))
				} else {
					got = append(got, fmt.Sprintf("at %d", last.Entries[0].Partition))
				}
			}
			if s := strings.Join(got, "; "); s != want {
				t.Errorf("%s; want %s", s, want)
			}
		})
	}
}

// TestHomesAreWhereTheBrokersStand: the rack of a partition's preferred leader, as the brokers have it, decides.
func TestHomesAreWhereTheBrokersStand(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	adm := kadm.NewClient(kafkatest.Client(t, cfg.Kafka.Brokers))
	brokers, err := adm.ListBrokers(t.Context())
	if err != nil || brokers[0].Rack == nil {
		t.Skipf("NOT TESTED: the in-process broker has no rack (%v), so nothing tells where collectors stand", err)
	}
	for racks, want := range map[string][]int32{
		fmt.Sprintf("[%q]", *brokers[0].Rack): {1, 1, 1}, "[elsewhere]": {0, 1, 1},
	} {
		tree, err := topology.ReadYAML(strings.NewReader("root: m\nislands:\n  - {name: i, nodes: [a, b]}\n" +
			"  - {name: j, nodes: [c, d, e], racks: " + racks + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		b := newBalancer(cfg, tree, scheduler.Fixed(), slog.New(slog.DiscardHandler), unseen())
		l, err := b.locate(t.Context(), adm)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, l.Sync); diff != "" {
			t.Errorf("racks %s: islands of the collectors: %s", racks, diff)
		}
	}
}

// TestOverloadIsSaidOnce: the log names the collectors that would do, when it begins and when it is over.
func TestOverloadIsSaidOnce(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	cfg.Balance.LMax, cfg.Balance.LDist = 2, 1
	cfg.Collectors = 1
	var out kafkatest.Log
	b := newBalancer(cfg, sixNodes(), scheduler.Fixed(), out.Logger(), unseen())
	l := assign.NewLayout(sixNodes(), 1, nil)
	for _, jobs := range [][]scheduler.Job{
		{job("1", "a", "b", "c")}, {job("1", "a", "b", "c")}, {job("2", "a", "b")}, nil,
	} {
		_, verdict := plan(l, jobs, nil, b.limits(), routeLog{})
		b.judge(1000, verdict)
	}
	if out.Count("collectors_needed=2") != 1 || out.Count("level=WARN") != 1 ||
		out.Count("may take all jobs again") != 1 {
		t.Errorf("log: %s", out.String())
	}
}

func TestRoutePartitionIsKafkas(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	b := newBalancer(cfg, sixNodes(), scheduler.Fixed(), slog.New(slog.DiscardHandler), unseen())
	// Of the Java client's Utils.murmur2: "21" -> -973932308, "foobar" -> -790332482, "abc" -> 479470107.
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "abc": 479470107} {
		if got, want := b.routeRecord(key, nil).Partition, (hash&0x7fffffff)%5; got != want {
			t.Errorf("key %s: partition %d, want %d", key, got, want)
		}
	}
}

func TestOnlyOneIsActive(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	var first, second kafkatest.Log
	r := newReader(t, cfg)
	stopFirst := background(t, func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.Fixed(), first.Logger(), unseen())
	})
	r.until("the first balancer", r.atLeast(1))
	background(t, func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.Fixed(), second.Logger(), unseen())
	})
	r.until("some Ticks beside a second balancer", r.more(8))
	if first.Count("balancer is active")+second.Count("balancer is active") != 1 ||
		first.Count("WARN")+second.Count("WARN") != 0 {
		t.Errorf("both were active, or fought: %s %s", first.String(), second.String())
	}
	if err := stopFirst(); err != nil {
		t.Fatal(err)
	}
	r.until("Ticks of the second balancer", r.more(4))
	if second.Count("balancer is active") != 1 {
		t.Error("the second balancer did not take over")
	}
	r.checkTicks(cfg)
}

// TestStandbyWritesTicksAtOnce: agents drain their rings after the brokers were away. If only the active balancer was
// away, there is nothing to wait for.
func TestStandbyWritesTicksAtOnce(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	cfg.Interval, cfg.BackoffCap = 500*time.Millisecond, 20*time.Second
	r := newReader(t, cfg)
	start := func(b *balancer) func() error { return background(t, b.active) }
	anew := func() *balancer {
		return newBalancer(cfg, sixNodes(), scheduler.Fixed(), slog.New(slog.DiscardHandler), unseen())
	}
	stop := start(anew())
	r.until("a Tick", r.atLeast(1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	second := anew()
	second.standby.since = time.Now().Add(-time.Minute)
	time.Sleep(3 * time.Second) // its group finds out that the first one is gone
	began := time.Now()
	start(second)
	r.until("Ticks of the standby", r.more(4))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the standby wrote overdue Ticks after %v", took)
	}
	r.checkTicks(cfg)
}

// TestOneIsActiveWhereTheTopicHasMorePartitions: who has the first one is, and once.
func TestOneIsActiveWhereTheTopicHasMorePartitions(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	adm := kadm.NewClient(kafkatest.Client(t, cfg.Kafka.Brokers))
	if _, err := adm.UpdatePartitions(t.Context(), 3, cfg.Prefix+schemas.TopicBalance); err != nil {
		t.Fatal(err)
	}
	var out kafkatest.Log
	r := newReader(t, cfg)
	background(t, func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.Fixed(), out.Logger(), unseen())
	})
	r.until("some Ticks", r.atLeast(8))
	if out.Count("balancer is active") != 1 || out.Count("WARN") > 0 {
		t.Errorf("it fights itself: %s", out.String())
	}
	r.checkTicks(cfg)
}

func TestTheOlderOneIsFenced(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	r := newReader(t, cfg)
	ended := make(chan error, 1)
	go func() { // as if the group had given it the topic for ever
		b := newBalancer(cfg, sixNodes(), scheduler.Fixed(), slog.New(slog.DiscardHandler), unseen())
		ended <- b.active(t.Context())
	}()
	r.until("Ticks of the older one", r.atLeast(2))
	stop := background(t, func(ctx context.Context) error {
		return newBalancer(cfg, sixNodes(), scheduler.Fixed(), slog.New(slog.DiscardHandler), unseen()).active(ctx)
	})
	// The last error is that of a commit whose transaction the newer one has ended, after its records were there.
	if err := <-ended; !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) &&
		!errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("the older one ended with %v", err)
	}
	r.until("Ticks of the newer one", r.more(3))
	if err := stop(); err != nil {
		t.Errorf("the newer one ended with %v", err)
	}
	r.checkTicks(cfg)
}

func TestRestartAfterDaysWritesAtMostOutage(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	ms := cfg.Interval.Milliseconds()
	old := (time.Now().UnixMilli() - 3*24*3600*1000) / ms * ms
	produce(t, cfg, &schemas.BalanceState{Epoch: 7, IntervalStart: old, IntervalMs: ms})
	r := newReader(t, cfg)
	var out kafkatest.Log
	up := time.Now().UnixMilli()
	stop := background(t, func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.Fixed(), out.Logger(), unseen())
	})
	r.until("the last overdue Tick, and a plan", func() bool {
		n, k := len(r.ticks[0]), len(r.states)
		return n > 0 && r.ticks[0][n-1].IntervalStart >= up && len(r.routes) == 6 && r.states[k-1].Epoch != 7
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	overdue := 0
	for _, tick := range r.ticks[0] {
		if tick.IntervalStart+ms <= up {
			overdue++
		}
	}
	if overdue > config.Outage {
		t.Errorf("%d overdue Ticks", overdue)
	}
	// When it wrote the first Tick, this was the newest overdue one.
	newest := newSchedule(cfg).containing(r.began.Add(-cfg.Grace)) - ms
	if first := r.ticks[0][0].IntervalStart; first > newest-(config.Outage-1)*ms {
		t.Errorf("the first Tick is of %d, of %d overdue ones at most", first, (newest-first)/ms+1)
	}
	for p := range int32(3) {
		wantSkipsLogged(t, r.ticks[p], old+ms, ms, out.String())
	}
	if e := r.states[len(r.states)-1].Epoch; e != 8 {
		t.Errorf("epoch %d after the first plan, from 7", e)
	}
}

// wantSkipsLogged wants a Tick for each interval from start on, but for those that the log calls skipped. Where the
// machine stands still for a moment, the balancer may skip more of them than at its start.
func wantSkipsLogged(t *testing.T, ticks []*schemas.Tick, start, ms int64, log string) {
	t.Helper()
	skips := map[int64]int64{} // how many, by the first of them
	for line := range strings.Lines(log) {
		if _, at, skipped := strings.Cut(line, `msg="intervals too long ago stay without ticks" `); skipped {
			var from, count int64
			if _, err := fmt.Sscanf(at, "interval_start=%d count=%d", &from, &count); err != nil || skips[from] > 0 {
				t.Errorf("%v, or logged twice: %s", err, line)
			}
			skips[from] = count
		}
	}
	if skips[start] == 0 {
		t.Error("the intervals that were skipped at the start are not logged")
	}
	for _, tick := range ticks {
		start += skips[start] * ms
		if tick.IntervalStart != start || tick.IntervalMs != ms {
			t.Fatalf("a Tick of %d (%d ms), want %d (%d ms); skipped: %v",
				tick.IntervalStart, tick.IntervalMs, start, ms, skips)
		}
		start += ms
	}
}

func TestBrokerAway(t *testing.T) {
	t.Parallel()
	cluster, cfg := broker(t)
	var out kafkatest.Log
	r := newReader(t, cfg)
	stop := background(t, func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.Fixed(), out.Logger(), unseen())
	})
	r.until("a Tick", r.atLeast(1))
	cluster.Close()
	if err := stop(); err != nil {
		t.Errorf("ended with %v while the broker was away", err)
	}
}

func TestCommitNoticesALostRecord(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	cfg.Collectors = 4 // topic counters has three partitions
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	err := newBalancer(cfg, sixNodes(), scheduler.Fixed(), slog.New(slog.DiscardHandler), unseen()).active(ctx)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("a Tick without a partition: %v", err)
	}
	cfg.Collectors, cfg.Partitions.Routes = 3, 4
	b := newBalancer(cfg, sixNodes(), scheduler.Fixed(), slog.New(slog.DiscardHandler), unseen())
	if err := b.active(ctx); !errors.Is(err, kafka.ErrTopics) {
		t.Errorf("a wrong number of partitions of routes: %v", err)
	}
}
