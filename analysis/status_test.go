package analysis

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// installation is a broker with our topics, and what a balancer, two nodes and a collector wrote in six intervals.
type installation struct {
	t      testing.TB
	cfg    config.Config
	cl     *kgo.Client
	starts []int64 // of the intervals, oldest first
}

// install starts one, of two nodes that one job has.
func install(t *testing.T) *installation {
	t.Helper()
	return installOn(t, 2)
}

// installOn starts one with this many partitions of counters.
func installOn(t testing.TB, collectors int, opts ...kfake.Opt) *installation {
	t.Helper()
	cfg := config.Default()
	cfg.Cluster, cfg.Prefix, cfg.Collectors = "c", "test.", collectors
	cfg.Partitions = config.Partitions{Routes: 1, Partials: 1, JobSummary: 1}
	cfg.Grace, cfg.PlanMargin = time.Second, 500*time.Millisecond
	cfg.Sink.Dir = filepath.Join(t.TempDir(), "none")
	cluster := kafkatest.Broker(t, opts...)
	cfg.Kafka.Brokers = cluster.ListenAddrs()
	kafkatest.CreateTopics(t, cluster, cfg)
	i := &installation{t: t, cfg: cfg}
	i.cl = kafkatest.Client(t, cfg.Kafka.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	i.every(2 * time.Second)
	return i
}

// every sets the interval, and the starts of the six that are closed.
func (i *installation) every(interval time.Duration) {
	i.cfg.Interval = interval
	ms := interval.Milliseconds()
	last := time.Now().UnixMilli()/ms*ms - 2*ms
	i.starts = nil
	for n := range int64(6) {
		i.starts = append(i.starts, last-(5-n)*ms)
	}
}

func (i *installation) put(topic string, partition int32, r schemas.Record) {
	i.t.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		i.t.Fatal(err)
	}
	record := &kgo.Record{Topic: i.cfg.Prefix + topic, Partition: partition, Key: []byte("k"), Value: value}
	if j, is := r.(*schemas.Job); is {
		record.Key = j.Identity().Key()
	}
	if err := i.cl.ProduceSync(i.t.Context(), record).FirstErr(); err != nil {
		i.t.Fatal(err)
	}
}

// says is what a scenario changes: nil parts are as they should be.
type says struct {
	lengthMs int64                                      // of the balancer; 0: as configured
	batch    func(b *schemas.CounterBatch) (sent bool)  // before the Tick
	after    func(b *schemas.CounterBatch) (sent bool)  // after it, the same records again
	row      func(r *schemas.JobSummary)                // of the job
	tick     func(tick *schemas.Tick)                   // of partition 0
	progress func(p *schemas.Progress, i *installation) // of partition 0
}

// run writes the six intervals.
func (i *installation) run(c says) {
	length := i.cfg.Interval.Milliseconds()
	if c.lengthMs > 0 {
		length = c.lengthMs
	}
	for _, n := range []string{"n1", "n2"} {
		i.put(schemas.TopicRoutes, 0, &schemas.Route{Node: n, Epoch: 1, IntervalStart: i.starts[0]})
	}
	for _, start := range i.starts {
		send := func(change func(*schemas.CounterBatch) bool) {
			for _, n := range []string{"n1", "n2"} {
				b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
					Cluster: "c", Node: n, RunID: "r", IntervalStart: start, IntervalMs: i.cfg.Interval.Milliseconds(),
					JobID: "j",
				}}
				if change(b) {
					i.put(schemas.TopicCounters, 0, b)
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
		i.put(schemas.TopicCounters, 0, tick)
		i.put(schemas.TopicCounters, 1, &schemas.Tick{IntervalStart: start, IntervalMs: length, Epoch: 1})
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
		i.put(schemas.TopicJobSummary, 0, row)
	}
	last := i.starts[len(i.starts)-1]
	for partition := range int32(2) {
		p := &schemas.Progress{Position: 1, Closed: &last, ClosedIntervalMs: length}
		if partition == 0 && c.progress != nil {
			c.progress(p, i)
		}
		i.put(schemas.TopicProgress, partition, p)
	}
	i.put(schemas.TopicBalance, 0, &schemas.BalanceState{Epoch: 1, IntervalStart: last, IntervalMs: length})
}

// Every situation that an administrator has to mend is in `weir status`, with its remedy, and what is in order is not.
func TestStatusSays(t *testing.T) {
	n2 := func(b *schemas.CounterBatch) bool { return b.Node == "n2" }
	later := time.Now().Add(150*time.Minute).UnixMilli() / 60_000 * 60_000
	for name, c := range map[string]struct {
		says says
		also func(i *installation)
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
			[]string{"no node reported in the last 3 intervals, of 6 expected", "are agents running"},
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
			says{}, func(i *installation) {
				for offset := range int64(3) {
					i.put(schemas.TopicRejects, 0, &schemas.Reject{
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
			says{progress: func(p *schemas.Progress, _ *installation) {
				p.TopicID = "000102030405060708090a0b0c0d0e0f"
			}},
			nil,
			[]string{
				"collect: partition 0 is stopped: its topic was deleted and made anew",
				"delete its topic of Progress too",
			},
		},
		"a partition that its owner stopped": {
			says{progress: func(p *schemas.Progress, _ *installation) {
				p.Stopped = "too many rejected records; mend what writes them"
			}},
			nil,
			[]string{"collect: partition 0 is stopped, 17 offsets behind: too many rejected records; mend what " +
				"writes them"},
		},
		"topic made anew, shorter": {
			says{progress: func(p *schemas.Progress, _ *installation) { p.Position = 1000 }},
			nil,
			[]string{"collect: partition 0 is stopped: its topic was deleted and made anew"},
		},
		"unreadable archive": {
			says{}, func(i *installation) {
				dir := filepath.Join(i.cfg.Sink.Dir, "summaries", "date=2026-01-01")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					i.t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "test.job-summary-0-00000000000000000000.parquet"),
					[]byte("rubbish"), 0o600); err != nil {
					i.t.Fatal(err)
				}
			}, []string{"sink: archive", "cannot be read", "sink.dir"},
		},
		"balancer's clock ahead": {
			says{}, func(i *installation) {
				i.put(schemas.TopicBalance, 0, &schemas.BalanceState{
					Epoch: 2, IntervalStart: later, IntervalMs: 60_000,
				})
			}, []string{"the last closed interval ends in 2h", "set the clock"},
		},
		"a list of jobs that hangs": {
			says{}, func(i *installation) {
				i.put(schemas.TopicJobs, 0, &schemas.Job{
					JobID: schemas.JobOfLists, State: schemas.StateSkipped, Reason: "no answer (since 5)",
				})
			}, []string{"a list of jobs cannot be read", "no answer (since 5)"},
		},
		"routes from the future": {
			says{}, func(i *installation) {
				i.put(schemas.TopicRoutes, 0, &schemas.Route{Node: "n1", Epoch: 2, IntervalStart: later})
			}, []string{"a plan is valid only in 2h", "set the clock"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.every(time.Minute) // no load of the machine makes the last one old
			i.run(c.says)
			if c.also != nil {
				c.also(i)
			}
			s, err := ReadStatus(t.Context(), i.cfg)
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
	i := installOn(t, 1)
	last := i.starts[len(i.starts)-1]
	value, err := schemas.Marshal(&schemas.Tick{
		IntervalStart: last, IntervalMs: i.cfg.Interval.Milliseconds(),
		Epoch: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	wrote := time.Now().Add(-90 * time.Second)
	first := &kgo.Record{Topic: "test.counters", Value: value, Timestamp: wrote}
	if err := i.cl.ProduceSync(t.Context(), first).FirstErr(); err != nil {
		t.Fatal(err)
	}
	i.put(schemas.TopicBalance, 0, &schemas.BalanceState{
		Epoch: 1, IntervalStart: last,
		IntervalMs: i.cfg.Interval.Milliseconds(),
	})
	owns := make(chan struct{})
	kafkatest.Client(t, i.cfg.Kafka.Brokers, kgo.ClientID("weir"), kgo.ConsumerGroup("test.collect"),
		kgo.ConsumeTopics("test.progress"), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { close(owns) }))
	select {
	case <-owns:
	case <-time.After(90 * time.Second):
		t.Fatal("the member owns nothing")
	}
	s, err := ReadStatus(t.Context(), i.cfg)
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
