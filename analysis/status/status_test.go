package status

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// says is what a scenario changes: nil parts are as they should be.
type says struct {
	lengthMs int64                                                 // of the balancer; 0: as configured
	batch    func(b *schemas.CounterBatch) (sent bool)             // before the Tick
	after    func(b *schemas.CounterBatch) (sent bool)             // after it, the same records again
	row      func(r *schemas.JobSummary)                           // of the job
	tick     func(tick *schemas.Tick)                              // of partition 0
	progress func(p *schemas.Progress, i *topicstest.Installation) // of partition 0
}

// run writes the six intervals.
func run(i *topicstest.Installation, c says) {
	length := i.Config.Interval.Milliseconds()
	if c.lengthMs > 0 {
		length = c.lengthMs
	}
	for _, n := range []string{"n1", "n2"} {
		i.Put(schemas.TopicRoutes, 0, &schemas.Route{Node: n, Epoch: 1, IntervalStart: i.Starts[0]})
	}
	for _, start := range i.Starts {
		send := func(change func(*schemas.CounterBatch) bool) {
			for _, n := range []string{"n1", "n2"} {
				b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
					Cluster: "c", Node: n, RunID: "r", IntervalStart: start, IntervalMs: i.Config.Interval.Milliseconds(),
					JobID: "j",
				}}
				if change(b) {
					i.Put(schemas.TopicCounters, 0, b)
				}
			}
		}
		if c.batch == nil {
			c.batch = func(*schemas.CounterBatch) bool { return true }
		}
		send(c.batch)
		tick := &schemas.Tick{IntervalStart: start, IntervalMs: length, Epoch: 1, Jobs: []schemas.TickJob{
			{JobID: "j", Parts: 1, JobNodes: 2, Nodes: []string{"n1", "n2"}},
		}}
		if c.tick != nil {
			c.tick(tick)
		}
		i.Put(schemas.TopicCounters, 0, tick)
		i.Put(schemas.TopicCounters, 1, &schemas.Tick{IntervalStart: start, IntervalMs: length, Epoch: 1})
		if c.after != nil {
			send(c.after)
		}
		row := &schemas.JobSummary{
			Cluster: "c", JobID: "j", IntervalStart: start, IntervalMs: length, Method: schemas.MethodExact,
			Parts: 1, PartsReported: 1, NodesExpected: 2, NodesReported: 2,
		}
		if c.row != nil {
			c.row(row)
		}
		i.Put(schemas.TopicJobSummary, 0, row)
	}
	last := i.Starts[len(i.Starts)-1]
	for partition := range int32(2) {
		p := &schemas.Progress{Position: 1, Closed: &last, ClosedIntervalMs: length}
		if partition == 0 && c.progress != nil {
			c.progress(p, i)
		}
		i.Put(schemas.TopicProgress, partition, p)
	}
	i.Put(schemas.TopicBalance, 0, &schemas.BalanceState{Epoch: 1, IntervalStart: last, IntervalMs: length})
}

// Every situation that an administrator has to mend is in `weir status`, with its remedy, and what is in order is not.
func TestStatusSays(t *testing.T) {
	n2 := func(b *schemas.CounterBatch) bool { return b.Node == "n2" }
	later := time.Now().Add(150*time.Minute).UnixMilli() / 60_000 * 60_000
	for name, c := range map[string]struct {
		says says
		also func(i *topicstest.Installation)
		want []string // words of one line; none: no line but that nobody owns the partitions
	}{
		"all is well": {},
		"balancer of another interval": {
			says{lengthMs: 30_000}, nil, []string{
				"the balancer's interval is 30s, this configuration has 1m0s",
				"set `interval`",
			},
		},
		"agent of another interval": {
			says{batch: func(b *schemas.CounterBatch) bool {
				if b.Node == "n2" {
					b.IntervalMs = 1000
				}
				return true
			}}, nil, []string{
				"1 nodes have another interval than this configuration's 1m0s: [n2 1s]",
				"set `interval`",
			},
		},
		"no node reports": {
			says{row: func(r *schemas.JobSummary) { r.NodesReported = 0 }},
			nil,
			[]string{"no node reported in the last 2 intervals, of 4 expected", "are agents running"},
		},
		"incomplete rows": {
			says{row: func(r *schemas.JobSummary) { r.NodesReported = 1 }, batch: n2},
			nil,
			[]string{"1 jobs are incomplete in 3 rows in a row: [j/0 1/2 nodes without [n1]]", "agents"},
		},
		"a silent collector of a split job": {
			says{row: func(r *schemas.JobSummary) { r.Parts = 2 }},
			nil,
			[]string{"1 jobs are incomplete in 3 rows in a row: [j/0 2/2 nodes 1/2 parts]", "look at"},
		},
		"late in every interval": {
			says{after: n2}, nil, []string{
				"3 records of the last 3 intervals came after the Tick, from [n2]",
				"clocks",
			},
		},
		"misrouted in every interval": {
			says{batch: func(b *schemas.CounterBatch) bool {
				if b.Node == "n2" {
					b.JobID = "gone"
				}
				return true
			}}, nil, []string{
				"3 records of the last 3 intervals are of jobs that no Tick lists, from [n2]",
				"Their logs say",
			},
		},
		"ended, all of it": {
			says{tick: func(t *schemas.Tick) { t.Jobs[0].Parts = 0 }},
			nil,
			[]string{
				"6 records of the last 3 intervals, more than half, are of jobs that ended within",
				"set the clock",
			},
		},
		"rejects": {
			says{}, func(i *topicstest.Installation) {
				for offset := range int64(3) {
					i.Put(schemas.TopicRejects, 0, &schemas.Reject{
						Topic: "test.counters", Partition: 1,
						Offset: offset, Reason: "of cluster d",
					})
				}
			}, []string{
				"3 records were rejected in the last 5m0s, from [test.counters-1 (3)]", "of cluster d",
				"`weir tail rejects`",
			},
		},
		"topic made anew": {
			says{progress: func(p *schemas.Progress, _ *topicstest.Installation) {
				p.TopicID = "000102030405060708090a0b0c0d0e0f"
			}},
			nil,
			[]string{
				"collect: partition 0 is stopped: its topic was deleted and made anew",
				"delete its topic of Progress too",
			},
		},
		"a partition that its owner stopped": {
			says{progress: func(p *schemas.Progress, _ *topicstest.Installation) {
				p.Stopped = "too many rejected records; mend what writes them"
			}},
			nil,
			[]string{"collect: partition 0 is stopped, 17 offsets behind: too many rejected records; mend what " +
				"writes them"},
		},
		"topic made anew, shorter": {
			says{progress: func(p *schemas.Progress, _ *topicstest.Installation) { p.Position = 1000 }},
			nil,
			[]string{"collect: partition 0 is stopped: its topic was deleted and made anew"},
		},
		"unreadable archive": {
			says{}, func(i *topicstest.Installation) {
				dir := filepath.Join(i.Config.Sink.Dir, "summaries", "date=2026-01-01")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					i.T.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "test.job-summary-0-00000000000000000000.parquet"),
					[]byte("rubbish"), 0o600); err != nil {
					i.T.Fatal(err)
				}
			}, []string{"sink: archive", "cannot be read", "sink.dir"},
		},
		"balancer's clock ahead": {
			says{}, func(i *topicstest.Installation) {
				i.Put(schemas.TopicBalance, 0, &schemas.BalanceState{
					Epoch: 2, IntervalStart: later, IntervalMs: 60_000,
				})
			}, []string{"the last closed interval ends in 2h", "set the clock"},
		},
		"a list of jobs that hangs": {
			says{}, func(i *topicstest.Installation) {
				i.Put(schemas.TopicJobs, 0, &schemas.Job{
					JobID: schemas.JobOfLists, State: schemas.StateSkipped, Reason: "no answer (since 5)",
				})
			}, []string{"a list of jobs cannot be read", "no answer (since 5)"},
		},
		"routes from the future": {
			says{}, func(i *topicstest.Installation) {
				i.Put(schemas.TopicRoutes, 0, &schemas.Route{Node: "n1", Epoch: 2, IntervalStart: later})
			}, []string{"a plan is valid only in 2h", "set the clock"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := topicstest.New(t)
			i.Every(time.Minute) // no load of the machine makes the last one old
			run(i, c.says)
			if c.also != nil {
				c.also(i)
			}
			s, err := Read(t.Context(), i.Config)
			if err != nil {
				t.Fatal(err)
			}
			var lines, found []string
			for _, w := range s.Wrong {
				if strings.Contains(w, "nobody owns") {
					continue
				}
				lines = append(lines, w)
				if len(c.want) > 0 && strings.Contains(w, c.want[0]) {
					found = append(found, w)
				}
			}
			if len(c.want) == 0 && len(lines) > 0 || len(c.want) > 0 && len(found) != 1 {
				t.Fatalf("wrong is\n%s\nwant %q", strings.Join(lines, "\n"), c.want)
			}
			for _, w := range c.want {
				if !strings.Contains(found[0], w) {
					t.Errorf("%q lacks %q", found[0], w)
				}
			}
		})
	}
}

// TestStatusNamesAnOwnerThatCommitsNothing: a member that never commits owns the partition, as one does that died while
// the group takes it for alive. Nothing was ever committed of it, so only its first record tells how long it has
// waited.
func TestStatusNamesAnOwnerThatCommitsNothing(t *testing.T) {
	i := topicstest.NewOn(t, 1)
	last := i.Starts[len(i.Starts)-1]
	value, err := schemas.Marshal(&schemas.Tick{
		IntervalStart: last, IntervalMs: i.Config.Interval.Milliseconds(),
		Epoch: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	wrote := time.Now().Add(-90 * time.Second)
	first := &kgo.Record{Topic: "test.counters", Value: value, Timestamp: wrote}
	if err := i.Client.ProduceSync(t.Context(), first).FirstErr(); err != nil {
		t.Fatal(err)
	}
	i.Put(schemas.TopicBalance, 0, &schemas.BalanceState{
		Epoch: 1, IntervalStart: last,
		IntervalMs: i.Config.Interval.Milliseconds(),
	})
	owns := make(chan struct{})
	kafkatest.Client(t, i.Config.Kafka.Brokers, kgo.ClientID("weir"), kgo.ConsumerGroup("test.collect"),
		kgo.ConsumeTopics("test.progress"), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { close(owns) }))
	select {
	case <-owns:
	case <-time.After(90 * time.Second):
		t.Fatal("the member owns nothing")
	}
	s, err := Read(t.Context(), i.Config)
	if err != nil {
		t.Fatal(err)
	}
	wants := regexp.MustCompile(`collect: partition 0 is stopped at offset 0, 1 offsets behind: ` +
		`the log of weir/127\.0\.0\.1:\d+ says why, it has committed nothing for (\S+); ` +
		`where it does not run, start another .weir collect.: the group then shares its partitions out anew`)
	text := strings.Join(s.Wrong, "\n")
	found := wants.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("%s\nwant %s", text, wants)
	}
	silent, err := time.ParseDuration(found[1])
	if most := time.Since(wrote) + time.Second; err != nil || silent < 90*time.Second || silent > most {
		t.Errorf("silent for %s, want 1m30s to %v: %v", found[1], most, err)
	}
}

// counting counts the connections that it accepts.
type counting struct {
	net.Listener
	accepted *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

func countConnections(accepted *atomic.Int64) kfake.Opt {
	return kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return counting{l, accepted}, err
	})
}

// TestStatusOpensFewConnections: a status of many partitions must not be a load for the brokers. One client dials the
// address that it was given, and the broker. It may dial again for each of the nine topics that it reads, since a fetch
// that is abandoned ends its connection. The limit leaves room for as many again. A client for each partition would
// open a thousand.
func TestStatusOpensFewConnections(t *testing.T) {
	const partitions, most = 256, 32
	var accepted atomic.Int64
	i := topicstest.NewOn(t, partitions, countConnections(&accepted))
	run(i, says{})
	last := i.Starts[len(i.Starts)-1]
	for p := range int32(partitions) {
		i.Put(schemas.TopicCounters, p, &schemas.Tick{
			IntervalStart: last, IntervalMs: i.Config.Interval.Milliseconds(),
			Epoch: 1,
		})
		i.Put(schemas.TopicProgress, p, &schemas.Progress{
			Position: 1, Closed: &last,
			ClosedIntervalMs: i.Config.Interval.Milliseconds(),
		})
	}
	before := accepted.Load()
	s, err := Read(t.Context(), i.Config)
	if err != nil {
		t.Fatal(err)
	}
	if n := accepted.Load() - before; n > most || len(s.Partitions) != partitions+1 {
		t.Errorf("%d connections for %d partitions, want at most %d", n, len(s.Partitions), most)
	}
}

// TestStatusOfAnEmptyInstallation names what is not running, and is no error.
func TestStatusOfAnEmptyInstallation(t *testing.T) {
	i := topicstest.New(t)
	i.Config.Balance.Nodes = []string{"n1"}
	s, err := Read(t.Context(), i.Config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(s.Wrong, "\n")
	for _, want := range []string{
		"no interval was ever closed", "collect: nobody owns partition 1",
		"1 nodes have no route: [n1]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if len(s.Wrong) != 5 || len(s.Partitions) != 3 || s.TickMs != nil || s.PlannedMs != nil || s.NodesExpected != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRoutesOfNodesThatAreGone are none, although topic routes had them before.
func TestRoutesOfNodesThatAreGone(t *testing.T) {
	i := topicstest.New(t)
	i.Config.Balance.Nodes = []string{"n1", "n2"}
	for _, n := range []string{"n1", "n2"} {
		i.WriteNow(schemas.TopicRoutes, n, &schemas.Route{Node: n, Epoch: 7, IntervalStart: 1})
	}
	i.WriteNow(schemas.TopicRoutes, "n1", nil)
	s, err := Read(t.Context(), i.Config)
	if err != nil || !slices.Equal(s.Routeless, []string{"n1"}) || s.Epoch != 7 || s.PlannedMs == nil ||
		*s.PlannedMs != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestStatusNamesOwners by their instance, or by their client and host, each for the partitions that it has.
func TestStatusNamesOwners(t *testing.T) {
	i := topicstest.NewOn(t, 4)
	run(i, says{})
	for _, name := range []string{"left", "right"} {
		opts := []kgo.Opt{
			kgo.ClientID(name), kgo.ConsumerGroup(i.Config.Prefix + "collect"),
			kgo.ConsumeTopics(i.Config.Prefix + schemas.TopicCounters),
		}
		if name == "left" {
			opts = append(opts, kgo.InstanceID("left-1"))
		}
		member := kafkatest.Client(t, i.Config.Kafka.Brokers, opts...)
		go func() {
			for t.Context().Err() == nil && !member.PollFetches(t.Context()).IsClientClosed() {
			}
		}()
	}
	adm := kadm.NewClient(i.Client)
	var owners map[int32]string
	kafkatest.Eventually(t, "two partitions of each", func() bool {
		var err error
		owners, err = ownersOf(t.Context(), adm, i.Config.Prefix+"collect", i.Config.Prefix+schemas.TopicCounters)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, owner := range owners {
			count[owner]++
		}
		return len(owners) == 4 && count["left-1"] == 2 && len(count) == 2
	})
	var names []string
	for _, owner := range owners {
		names = append(names, owner)
	}
	slices.Sort(names)
	if len(names) != 4 || names[0] != "left-1" || names[1] != "left-1" || !strings.HasPrefix(names[2], "right") ||
		names[2] != names[3] {
		t.Errorf("%v", owners)
	}
	if owners, err := ownersOf(t.Context(), adm, "nobody", i.Config.Prefix+schemas.TopicCounters); err != nil ||
		len(owners) > 0 {
		t.Errorf("%v, %v", owners, err)
	}
}

// TestStatusWithoutBrokers is the error of a first contact, with the brokers and a remedy.
func TestStatusWithoutBrokers(t *testing.T) {
	cfg := config.Default()
	cfg.Kafka.Brokers = []string{"127.0.0.1:1"} // a port that no other test is given
	_, err := Read(t.Context(), cfg)
	for _, want := range []string{"no broker answers", cfg.Kafka.Brokers[0], "weir up"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ended, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("of a call that nobody waits for: %v", err)
	}
}
