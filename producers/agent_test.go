package producers

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/schemas"
)

func TestRecordsFollowTheirRoute(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.Agent.StateDir = t.TempDir()
	startBroker(t, c, t.TempDir())
	plan(t, c,
		&schemas.Route{
			Node: "sim0001", Epoch: 7, Home: 0,
			Entries: []schemas.RouteEntry{entry("local", 2, schemas.ModeLocal)},
		},
		&schemas.Route{
			Node: "sim0002", Epoch: 8, Home: 3,
			Entries: []schemas.RouteEntry{entry("half", 1, schemas.ModeCollect, 0, 1, 2, 3)},
		},
		&schemas.Route{Node: "sim0004", Epoch: 8, Home: 3}, // nobody's here
	)
	logged, stop := start(t, func(ctx context.Context, log *slog.Logger) error {
		return Simulate(ctx, c, SimulatedNodes(3), log)
	})
	all := gather(t, c, func(all []counter) bool { return from(all, "sim0001") >= 3 && from(all, "sim0002") >= 6 })
	stop()

	seqs := map[string][]int64{}
	for _, k := range all {
		if k.head == nil {
			t.Fatalf("a gap: %+v", k.record)
		}
		seqs[k.head.Node] = append(seqs[k.head.Node], k.head.Seq)
		if k.key != string(schemas.CollectorKey(k.partition)) {
			t.Errorf("key %s in partition %d", k.key, k.partition)
		}
		if h := k.head; h.IntervalMs != 200 || h.SentAt < h.IntervalStart+200 ||
			h.SampledAt/1000 < h.IntervalStart+200 || h.RunID == "" {
			t.Errorf("header %+v", h)
		}
		wantCpus := make([]int32, simulatedCPUs)
		for c := range wantCpus {
			wantCpus[c] = int32(c)
		}
		switch job := k.head.JobID; {
		case k.head.Node == "sim0001" && job == "local" && k.partition == 2 && k.head.Epoch == 7 && k.head.Restart == 1:
			checkLocal(t, k.record.(*schemas.NodeSummary))
		case k.head.Node == "sim0002" && job == "half" && k.partition == 1 && k.head.Epoch == 8:
			wantCpus = wantCpus[:4]
			checkValues(t, k.record.(*schemas.CounterBatch))
		case k.head.Node == "sim0002" && job == schemas.JobRest && k.partition == 3:
			wantCpus = wantCpus[4:]
			checkValues(t, k.record.(*schemas.CounterBatch))
		default:
			t.Errorf("%s of %s in partition %d", job, k.head.Node, k.partition)
		}
		if diff := cmp.Diff(wantCpus, k.head.Cpus); diff != "" {
			t.Errorf("cpus (-want +got):\n%s", diff)
		}
	}
	for node, s := range seqs {
		slices.Sort(s)
		if s[0] != 1 || s[len(s)-1] != int64(len(s)) {
			t.Errorf("sequence numbers of %s: %v", node, s)
		}
	}
	for text, times := range map[string]int{"nodes without a route": 1, "route is skipped": 1, "level=ERROR": 0} {
		if n := strings.Count(logged.String(), text); n != times {
			t.Errorf("%q was logged %d times, want %d", text, n, times)
		}
	}
	if r, err := loadRoute(c.Agent.StateDir, "sim0002"); err != nil || r == nil || r.Epoch != 8 {
		t.Errorf("saved route %+v, %v", r, err)
	}
	if _, err := os.Stat(routePath(c.Agent.StateDir, "sim0004")); err == nil {
		t.Error("another's route was saved")
	}
}

// A route that begins later is there from its interval on, to the interval exactly.
func TestRoutesSwitchAtTheBoundary(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	startBroker(t, c, t.TempDir())
	at := time.Now().Add(1500*time.Millisecond).UnixMilli() / 200 * 200
	plan(t, c,
		&schemas.Route{Node: "sim0001", Epoch: 1, IntervalStart: 0, Home: 0},
		&schemas.Route{Node: "sim0001", Epoch: 2, IntervalStart: at, Home: 1},
	)
	start(t, func(ctx context.Context, log *slog.Logger) error { return Simulate(ctx, c, SimulatedNodes(1), log) })
	epochs := map[int64]int{}
	all := gather(t, c, func(all []counter) bool {
		clear(epochs)
		for _, k := range all {
			epochs[k.head.Epoch]++
		}
		return epochs[1] > 0 && epochs[2] > 2
	})
	for _, k := range all {
		want := int32(0)
		if k.head.IntervalStart >= at {
			want = 1
		}
		if k.partition != want || k.head.Epoch != int64(want+1) {
			t.Errorf("interval %d by epoch %d is in partition %d; the switch is at %d",
				k.head.IntervalStart, k.head.Epoch, k.partition, at)
		}
	}
}

// Kafka is away at the start: the route on disk forms records. The ring drops its oldest, and reports them in a Gap
// when Kafka comes. Every record that was formed arrives, or a Gap has it. Then Kafka goes away again, with its data,
// and returns.
func TestKafkaAway(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.Agent.StateDir = t.TempDir()
	if err := saveRoute(c.Agent.StateDir, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2}); err != nil {
		t.Fatal(err)
	}
	var f *fleet
	logged, stop := start(t, func(ctx context.Context, log *slog.Logger) error {
		var err error
		if f, err = newFleet(c, []member{{"sim0001", &simulated{node: "sim0001"}}}, log); err != nil {
			return err
		}
		f.nodes[0].ring.capacity = 3
		return f.serve(ctx)
	})
	waitFor(t, func() bool { return strings.Contains(logged.String(), "ring is full") })
	dir := t.TempDir()
	cluster := startBroker(t, c, dir)
	plan(t, c, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2})
	all := gather(t, c, func(all []counter) bool { return from(all, "sim0001") > 6 && len(gaps(all)) > 0 })
	first := len(gaps(all))

	cluster.Close()
	waitFor(t, func() bool { return strings.Count(logged.String(), "ring is full") > 1 })
	startBroker(t, c, dir)
	gather(t, c, func(all []counter) bool { return len(gaps(all)) > first })
	stop()
	all = gather(t, c, func(all []counter) bool { return int64(from(all, "sim0001")) >= accounted(f, all) })

	var lost int64
	for _, g := range gaps(all) {
		lost += g.Records
		if g.Reason != reasonFull || g.Node != "sim0001" || g.FirstIntervalStart > g.LastIntervalStart {
			t.Errorf("gap %+v", g)
		}
	}
	seen := map[int64]bool{}
	for _, k := range all {
		if k.partition != 2 {
			t.Errorf("a record in partition %d", k.partition)
		}
		if k.head != nil {
			if seen[k.head.Seq] {
				t.Errorf("record %d is there twice", k.head.Seq)
			}
			seen[k.head.Seq] = true
		}
	}
	if formed := f.nodes[0].head.Seq; int64(len(seen))+lost != formed {
		t.Errorf("%d records and %d in gaps, of %d formed", len(seen), lost, formed)
	}
	if n := strings.Count(logged.String(), "brokers do not serve"); n > 4 {
		t.Errorf("two outages were said %d times", n)
	}
}

// TestCountersMadeAgain: an agent goes on by itself where the topic of counters was deleted and made again.
func TestCountersMadeAgain(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	cluster := startBroker(t, c, t.TempDir())
	plan(t, c, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2})
	_, stop := start(t, func(ctx context.Context, log *slog.Logger) error {
		f, err := newFleet(c, []member{{"sim0001", &simulated{node: "sim0001"}}}, log)
		if err != nil {
			return err
		}
		return f.serve(ctx)
	})
	some := func(all []counter) bool { return from(all, "sim0001") > 2 }
	gather(t, c, some)
	topic := c.Prefix + schemas.TopicCounters
	if err := cluster.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := cluster.CreateTopic(topic, int32(c.Collectors), nil); err != nil {
		t.Fatal(err)
	}
	gather(t, c, some)
	stop()
}

// accounted is how many records must be there: those formed, without those that gaps name.
func accounted(f *fleet, all []counter) int64 {
	want := f.nodes[0].head.Seq
	for _, g := range gaps(all) {
		want -= g.Records
	}
	return want
}

// A record that the broker refuses for good is in a Gap with its reason. One that it may accept later is kept.
func TestRefusedAndForbidden(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	cluster := startBroker(t, c, t.TempDir())
	plan(t, c, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2},
		// There is no partition 9: the client itself refuses.
		&schemas.Route{
			Node: "sim0002", Epoch: 1, Home: 3,
			Entries: []schemas.RouteEntry{entry("j", 9, schemas.ModeCollect, 1)},
		})
	produce := []kmsg.Key{kmsg.Produce}
	cluster.Fault(kfake.Fault{
		Keys: produce, Topic: c.Prefix + schemas.TopicCounters, Partitions: []int32{2},
		Err: kerr.MessageTooLarge, Count: 1,
	})
	logged, _ := start(t, func(ctx context.Context, log *slog.Logger) error {
		return Simulate(ctx, c, SimulatedNodes(2), log)
	})

	reasons := map[string]int64{}
	before := gather(t, c, func(all []counter) bool {
		clear(reasons)
		for _, g := range gaps(all) {
			reasons[g.Node+" "+g.Reason] += g.Records
		}
		return len(reasons) >= 2 && from(all, "sim0001") > 2 && from(all, "sim0002") > 2
	})
	if reasons["sim0001 MESSAGE_TOO_LARGE"] != 1 {
		t.Errorf("gaps: %v", reasons)
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(reasons)),
		func(r string) bool { return strings.HasPrefix(r, "sim0002 no such partition") }) {
		t.Errorf("gaps: %v", reasons)
	}

	forbidden := cluster.Fault(kfake.Fault{
		Keys: produce, Partitions: []int32{2}, Err: kerr.TopicAuthorizationFailed,
		Count: -1,
	})
	waitFor(t, func() bool { return strings.Contains(logged.String(), "TOPIC_AUTHORIZATION_FAILED") })
	forbidden.Remove()
	all := gather(t, c, func(all []counter) bool { return from(all, "sim0001") > from(before, "sim0001")+3 })
	for _, g := range gaps(all) {
		if strings.Contains(g.Reason, "AUTHORIZATION") {
			t.Errorf("a record was given up: %+v", g)
		}
	}
}

// The agent of this machine publishes what its kernel counts.
func TestRunThisHost(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("no /proc here")
	}
	c := testConfig(t)
	startBroker(t, c, t.TempDir())
	plan(t, c, &schemas.Route{
		Node: "host1", Epoch: 1, Home: 1,
		Entries: []schemas.RouteEntry{entry("host", 1, schemas.ModeCollect)},
	})
	start(t, func(ctx context.Context, log *slog.Logger) error { return Run(ctx, c, log) })
	all := gather(t, c, func(all []counter) bool { return from(all, "host1") > 1 })
	b := all[0].record.(*schemas.CounterBatch)
	var names []string
	for _, m := range b.Metrics {
		names = append(names, m.Name)
		if m.Name == "cpu_idle" && (len(m.Values) != len(b.Cpus) || len(b.Cpus) == 0) {
			t.Errorf("%d values of %d CPUs", len(m.Values), len(b.Cpus))
		}
	}
	want := []string{"cpu_idle", "cpu_load", "cpu_user", "mem_used", "weir_agent_cpu_ms", "weir_agent_rss"}
	missing := slices.DeleteFunc(want, func(n string) bool { return slices.Contains(names, n) })
	if diff := cmp.Diff([]string{}, missing, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if b.BootID == "" {
		t.Error("no boot id")
	}
}

// A configuration without brokers is the one fault that ends a run.
func TestRunWithoutBrokers(t *testing.T) {
	c := testConfig(t)
	c.Kafka.Brokers = nil
	if err := Simulate(t.Context(), c, SimulatedNodes(1), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error")
	}
}
