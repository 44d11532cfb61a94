package producers

import (
	"context"
	"log/slog"
	"maps"
	"net"
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

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

func TestRecordsFollowTheirRoute(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.Agent.StateDir = t.TempDir()
		l.startBroker(t, t.TempDir())
		l.plan(t,
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
		_, logged, stop := l.simulate(t, 3)
		all := l.gather(t, func(all []counter) bool { return from(all, "sim0001") >= 3 && from(all, "sim0002") >= 6 })
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
			wantCpus := make([]int32, SimulatedCPUs)
			for c := range wantCpus {
				wantCpus[c] = int32(c)
			}
			switch job := k.head.JobID; {
			case k.head.Node == "sim0001" && job == "local" && k.partition == 2 && k.head.Epoch == 7 &&
				k.head.Restart == 1:
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
			if n := logged.Count(text); n != times {
				t.Errorf("%q was logged %d times, want %d", text, n, times)
			}
		}
		if r, err := loadRoute(l.Agent.StateDir, "sim0002"); err != nil || r == nil || r.Epoch != 8 {
			t.Errorf("saved route %+v, %v", r, err)
		}
		if _, err := os.Stat(routePath(l.Agent.StateDir, "sim0004")); err == nil {
			t.Error("another's route was saved")
		}
	})
}

// A route that begins later is there from its interval on, to the interval exactly.
func TestRoutesSwitchAtTheBoundary(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.startBroker(t, t.TempDir())
		at := time.Now().Add(1500*time.Millisecond).UnixMilli() / 200 * 200
		l.plan(t,
			&schemas.Route{Node: "sim0001", Epoch: 1, IntervalStart: 0, Home: 0},
			&schemas.Route{Node: "sim0001", Epoch: 2, IntervalStart: at, Home: 1},
		)
		l.simulate(t, 1)
		epochs := map[int64]int{}
		all := l.gather(t, func(all []counter) bool {
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
	})
}

// Kafka is away at the start: the route on disk forms records. The ring drops its oldest, and reports them in a Gap
// when Kafka comes. Every record that was formed arrives, or a Gap has it. Then Kafka goes away again, with its data,
// and returns.
func TestKafkaAway(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.Agent.StateDir = t.TempDir()
		if err := saveRoute(l.Agent.StateDir, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2}); err != nil {
			t.Fatal(err)
		}
		logged := &kafkatest.Log{}
		f := l.newFleet(t, []member{{"sim0001", &simulated{node: "sim0001"}}}, logged.Logger())
		f.nodes[0].ring.capacity = 3
		stop := start(t, logged, f.serve)
		kafkatest.Eventually(t, "a full ring", func() bool { return logged.Count("ring is full") > 0 })
		dir := t.TempDir()
		cluster := l.startBroker(t, dir)
		l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2})
		all := l.gather(t, func(all []counter) bool { return from(all, "sim0001") > 6 && len(gaps(all)) > 0 })
		first := len(gaps(all))

		cluster.Close()
		kafkatest.Eventually(t, "a full ring again", func() bool { return logged.Count("ring is full") > 1 })
		l.startBroker(t, dir)
		l.gather(t, func(all []counter) bool { return len(gaps(all)) > first })
		stop()
		all = l.gather(t, func(all []counter) bool { return int64(from(all, "sim0001")) >= accounted(f, all) })

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
		if n := logged.Count("brokers do not serve"); n > 4 {
			t.Errorf("two outages were said %d times:\n%s", n, logged)
		}
	})
}

// TestCountersMadeAgain: an agent goes on by itself where the topic of counters was deleted and made again.
func TestCountersMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		cluster := l.startBroker(t, t.TempDir())
		l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2})
		_, _, stop := l.simulate(t, 1)
		some := func(all []counter) bool { return from(all, "sim0001") > 2 }
		l.gather(t, some)
		topic := l.Prefix + schemas.TopicCounters
		if err := cluster.DeleteTopic(topic); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // while records are refused; no condition shows that
		if err := cluster.CreateTopic(topic, int32(l.Collectors), nil); err != nil {
			t.Fatal(err)
		}
		l.gather(t, some)
		stop()
	})
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
	inBubble(t, func(t *testing.T, l *lab) {
		cluster := l.startBroker(t, t.TempDir())
		l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2},
			// There is no partition 9: the client itself refuses.
			&schemas.Route{
				Node: "sim0002", Epoch: 1, Home: 3,
				Entries: []schemas.RouteEntry{entry("j", 9, schemas.ModeCollect, 1)},
			})
		produce := []kmsg.Key{kmsg.Produce}
		cluster.Fault(kfake.Fault{
			Keys: produce, Topic: l.Prefix + schemas.TopicCounters, Partitions: []int32{2},
			Err: kerr.MessageTooLarge, Count: 1,
		})
		_, logged, _ := l.simulate(t, 2)

		reasons := map[string]int64{}
		before := l.gather(t, func(all []counter) bool {
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
		kafkatest.Eventually(t, "the refusal", func() bool { return logged.Count("TOPIC_AUTHORIZATION_FAILED") > 0 })
		forbidden.Remove()
		all := l.gather(t, func(all []counter) bool { return from(all, "sim0001") > from(before, "sim0001")+3 })
		for _, g := range gaps(all) {
			if strings.Contains(g.Reason, "AUTHORIZATION") {
				t.Errorf("a record was given up: %+v", g)
			}
		}
	})
}

// The agent of this machine publishes what its kernel counts. It has a real clock and network, and so does a simulated
// node beside it. A reading may be late by a tenth of the interval, so the interval is longer here.
func TestRunThisHost(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("no /proc here")
	}
	l := newLab(t)
	l.network = nil
	l.Interval, l.Grace, l.PlanMargin = time.Second, 500*time.Millisecond, 250*time.Millisecond
	l.startBroker(t, t.TempDir())
	l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1}, &schemas.Route{
		Node: "host1", Epoch: 1, Home: 1,
		Entries: []schemas.RouteEntry{entry("host", 1, schemas.ModeCollect)},
	})
	var host, simulation kafkatest.Log
	start(t, &host, func(ctx context.Context) error { return Run(ctx, l.Config, host.Logger()) })
	start(t, &simulation, func(ctx context.Context) error {
		return Simulate(ctx, l.Config, SimulatedNodes(1), simulation.Logger())
	})
	all := l.gather(t, func(all []counter) bool { return from(all, "host1") > 1 && from(all, "sim0001") > 1 })
	i := slices.IndexFunc(all, func(k counter) bool { return k.head.Node == "host1" })
	b := all[i].record.(*schemas.CounterBatch)
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
	l := newLab(t)
	l.Kafka.Brokers = nil
	if err := Simulate(t.Context(), l.Config, SimulatedNodes(1), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error")
	}
}

// TestAgentNamesItself: each agent has a client id of its own, by which brokers bound what it sends.
func TestAgentNamesItself(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"": "weir-agent-n7", "ours": "ours"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		cfg := config.Default()
		cfg.Agent.Node, cfg.Kafka.ClientID, cfg.Kafka.Brokers = "n7", set, []string{listener.Addr().String()}
		logged := &kafkatest.Log{}
		stop := start(t, logged, func(ctx context.Context) error { return Run(ctx, cfg, logged.Logger()) })
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 1024)
		n, err := conn.Read(first) // length, API, version and correlation; then the client's name
		if err != nil || n < 14+len(want) || string(first[14:14+len(want)]) != want {
			t.Errorf("client_id %q: the first request is %q, %v", set, first[:n], err)
		}
		conn.Close()
		stop()
	}
}
