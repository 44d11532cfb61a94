package integration

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

var (
	benchScaleOut   = flag.Bool("scaleout", false, "measure how several collect processes share the partitions")
	scaleOutBacklog = flag.Duration("scaleout.backlog", 60*time.Second, "how long records are written beforehand")
)

const (
	scaleOutInterval   = time.Second
	scaleOutPartitions = 16 // of counters: two and four processes can share them evenly
)

// TestScaleOut measures how fast one, two and four collect processes work off the same backlog, each with one
// processor. The backlog is a minute of SuperMUC, an interval a second. Then one more process joins two, and takes only
// its share.
func TestScaleOut(t *testing.T) {
	if !*benchScaleOut {
		t.Skip("SCALE-OUT NOT MEASURED: make bench-scaleout does")
	}
	s := systemOn(t, findBrokers(t), func(c *config.Config) {
		c.Interval, c.Grace, c.Collectors = scaleOutInterval, scaleOutInterval/2, scaleOutPartitions
		c.Balance.LMax, c.Balance.LDist = 0, 0
		c.Balance.Nodes = producers.SimulatedNodes(*intervalNodes)
		c.Topics.SegmentBytes = 64 << 20
		c.Partitions = config.Default().Partitions
	})
	s.log = slog.New(slog.DiscardHandler)
	s.startPart("balancer", func(ctx context.Context) error {
		return balancer.Run(ctx, s.cfg, topology.Flat(s.cfg.Balance.Nodes),
			scheduler.NewSuperMUC(s.cfg.Balance.Nodes, *intervalCores, s.cfg.Interval), s.log,
			balancer.NewMetrics(prometheus.NewRegistry()))
	})
	nodes := s.startLoad(producers.Load{SuperMUC: true, Cores: *intervalCores})
	time.Sleep(*scaleOutBacklog)
	nodes.kill()
	s.parts[0]()

	var out strings.Builder
	for _, processes := range []int{1, 2, 4} {
		s.forgetPositions()
		m := newMachine(t)
		d := s.drainBy(m, processes)
		out.WriteString(d.row())
		if processes == 2 {
			s.joinOneMore(m)
		}
		for _, p := range m.all {
			p.kill()
		}
	}
	t.Logf("%s, load %s\n| brokers | processes | values/s | CPU of each process | ns a value | CPU of the brokers | "+
		"measured for |\n|---|---|---|---|---|---|---|\n%s", brokersName(), loadAverage(), out.String())
}

// forgetPositions deletes and makes again the topic of positions, so that the next collect begins at the first record.
func (s *system) forgetPositions() {
	s.t.Helper()
	adm := kadm.NewClient(s.cl)
	deleted, err := adm.DeleteTopics(s.t.Context(), s.cfg.Prefix+schemas.TopicProgress)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.eventually("topic progress is there again", func() bool {
		return kafka.CreateTopics(s.t.Context(), s.cl, kafka.Topics(s.cfg), nil) == nil
	})
}

// drained is the work of a number of processes in the time in which all of them were busy.
type drained struct {
	processes    int
	values       int64
	took         time.Duration
	cpu, brokers time.Duration // cpu is the sum over all processes
}

// sample holds the positions of the partitions at a time, and the CPU time used by then.
type sample struct {
	at           time.Time
	positions    map[int32]int64
	cpu, brokers time.Duration
	balanced     bool
}

func (s *system) drainBy(m *machine, processes int) drained {
	s.t.Helper()
	file := s.configFile()
	for i := range processes {
		m.add(fmt.Sprintf("collect-%d", i), []string{"GOMAXPROCS=1", fmt.Sprintf("WEIR_INSTANCE=scale-%d", i)},
			"collect", "--config", file).start()
	}
	var mu sync.Mutex
	positions, last := map[int32]int64{}, time.Now()
	follow := s.start("reader", func(ctx context.Context) error {
		return followTopic(ctx, s.cfg, schemas.TopicProgress, func(r *kgo.Record) error {
			v, err := schemas.Unmarshal(r.Value)
			mu.Lock()
			defer mu.Unlock()
			if p, is := v.(*schemas.Progress); is && p.Position > positions[r.Partition] {
				positions[r.Partition], last = p.Position, time.Now()
			}
			return err
		})
	})
	defer follow.stop()
	b := &bench{system: s, m: m}
	var samples []sample
	const quiet = 8 * time.Second // more than a group needs to share its partitions anew
	for mu.Lock(); len(positions) < scaleOutPartitions || time.Since(last) < quiet; mu.Lock() {
		now := sample{at: time.Now(), positions: maps.Clone(positions), brokers: s.brokersCPU()}
		mu.Unlock()
		if brokersPids() == nil {
			now.brokers = cpuTime()
		}
		for _, p := range m.all {
			now.cpu += p.cpu()
		}
		now.balanced = len(now.positions) == scaleOutPartitions && fair(b.owners(), processes)
		samples = append(samples, now)
		time.Sleep(100 * time.Millisecond)
	}
	end := maps.Clone(positions)
	mu.Unlock()
	first := slices.IndexFunc(samples, func(x sample) bool { return x.balanced })
	after := slices.IndexFunc(samples, func(x sample) bool {
		for p, n := range x.positions {
			if n >= end[p] {
				return true
			}
		}
		return false
	})
	if first < 0 || after-1 <= first {
		s.t.Fatalf("one of %d processes was done before all had work: -scaleout.backlog is too short", processes)
	}
	from, to := samples[first], samples[after-1]
	d := drained{
		processes: processes, took: to.at.Sub(from.at), cpu: to.cpu - from.cpu, brokers: to.brokers - from.brokers,
	}
	for p, n := range to.positions {
		d.values += (n - from.positions[p]) * int64(*intervalCores*producers.LoadMetrics)
	}
	return d
}

// fair reports whether each process owns its share of the partitions.
func fair(owners map[place]owner, processes int) bool {
	count := map[string]int{}
	for _, o := range owners {
		count[o.name]++
	}
	for _, n := range count {
		if n > (scaleOutPartitions+processes-1)/processes {
			return false
		}
	}
	return len(count) == processes
}

func (d drained) row() string {
	took := d.took.Seconds()
	return fmt.Sprintf("| %s | %d | %.1f M | %.0f %% | %.0f | %.0f %% | %.1f s |\n", brokersName(), d.processes,
		float64(d.values)/took/1e6, 100*d.cpu.Seconds()/took/float64(d.processes),
		float64(d.cpu.Nanoseconds())/float64(d.values), 100*d.brokers.Seconds()/took, took)
}

// joinOneMore starts one more process beside two, and fails if a partition moves without need.
func (s *system) joinOneMore(m *machine) {
	s.t.Helper()
	b := &bench{system: s, m: m}
	before := b.owners()
	m.add("collect-more", []string{"GOMAXPROCS=1", "WEIR_INSTANCE=scale-more"},
		"collect", "--config", s.configFile()).start()
	s.eventually("the third process has its share", func() bool { return fair(b.owners(), 3) })
	time.Sleep(5 * time.Second) // nothing moves any more
	moved := 0
	for at, now := range b.owners() {
		switch {
		case now.name == "collect-more":
			moved++
		case now.name != before[at].name:
			s.t.Errorf("partition %d moved from %s to %s", at.partition, before[at].name, now.name)
		}
	}
	if want := scaleOutPartitions / 3; moved != want {
		s.t.Errorf("%d partitions moved to the third process, want %d", moved, want)
	}
	s.t.Logf("one more beside two: %d of %d partitions moved, all of them to it", moved, scaleOutPartitions)
}
