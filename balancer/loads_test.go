package balancer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

func load(id string, nodes int32, bytes int64) schemas.JobLoad {
	return schemas.JobLoad{JobID: id, Nodes: nodes, Bytes: bytes}
}

func TestLoadsAreMeasuredAndSmoothed(t *testing.T) {
	jobs := []scheduler.Job{job("split", "a", "b", "c"), job("whole", "d"), job("new", "e")}
	l := newLoads(5000)
	of := func(id string) int64 { return l.of(schemas.JobKey{JobID: id}) }
	l.update(nil, jobs)
	if of("split") != 5000 || l.measured {
		t.Errorf("nothing was measured: %d", of("split"))
	}
	said := map[int32]report{
		0: {1000, []schemas.JobLoad{load("split", 1, 4000), load("whole", 1, 600)}},
		3: {1000, []schemas.JobLoad{load("split", 2, 5000), load("gone", 1, 400)}},
	}
	for range 3 { // no more is known by saying it again
		l.update(said, jobs)
		if of("split") != 3000 || of("whole") != 600 || of("new") != 2000 || !l.measured {
			t.Errorf("the first measurement is believed, one of no measurement takes the mean of five nodes: "+
				"%d, %d, %d", of("split"), of("whole"), of("new"))
		}
		said[0].loads[1].Bytes, said[3].loads[1].Bytes = 700, 300
	}
	for i, want := range []int64{3667, 4200, 4627} {
		closed := int64(2000 + i)
		said[0], said[3] = report{closed, []schemas.JobLoad{load("split", 1, 14_000)}},
			report{closed, []schemas.JobLoad{load("split", 2, 5000)}}
		if l.update(said, jobs); of("split") != want {
			t.Errorf("interval %d: %d bytes, want %d", i, of("split"), want)
		}
	}
	l.update(map[int32]report{0: {3000, []schemas.JobLoad{load("whole", 1, 600)}}}, jobs)
	if of("split") != 4627 {
		t.Errorf("nothing came of it, and it is %d", of("split"))
	}
	l.update(nil, jobs[1:])
	if of("split") != 600 {
		t.Errorf("it is over, and still known: %d", of("split"))
	}
	if l = nil; of("split") != 1 {
		t.Error("where nodes are counted, each is one")
	}
}

// TestSteadyLoadsMoveNothing: the loads of jobs waver by a fifth from interval to interval. No job moves while the
// fullest collector has a fifth of its room left, and no collector exceeds the bound. The seed is fixed: how often
// there was room is a matter of chance, and so is how far the loads waver together.
func TestSteadyLoadsMoveNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 0))
	compared := 0
	for range 20 {
		tree := topology.Regular(60, 60, 60, 60)
		l := assign.NewLayout(tree, 6, nil)
		nodes := tree.Nodes()
		rnd.Shuffle(len(nodes), func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
		var jobs []scheduler.Job
		sends := map[schemas.JobKey]float64{} // bytes of a node
		for from := 0; from < len(nodes); {
			n := min(2+rnd.IntN(20), len(nodes)-from)
			j := job(string(rune('a'+len(jobs)%26))+string(rune('a'+len(jobs)/26)), nodes[from:from+n]...)
			jobs, from = append(jobs, j), from+n
			sends[j.Identity()] = 1000 * (1 + 9*rnd.Float64())
		}
		total := 0.
		for i := range jobs {
			total += sends[jobs[i].Identity()] * float64(len(jobs[i].Nodes))
		}
		lim := assign.Limits{LMax: int(total / 6 * 3)}
		loads, log := newLoads(5000), routeLog{}
		moved, before := 0, int64(lim.LMax)
		for interval := range int64(20) {
			said := report{closedMs: interval}
			for i := range jobs {
				bytes := sends[jobs[i].Identity()] * (0.8 + 0.4*rnd.Float64()) * float64(len(jobs[i].Nodes))
				said.loads = append(said.loads, load(jobs[i].JobID, int32(len(jobs[i].Nodes)), int64(bytes)))
			}
			if interval > 0 {
				loads.update(map[int32]report{0: said}, jobs)
			}
			routes, b := plan(l, jobs, loads, lim, log)
			if slices.Max(b.Load) > int64(lim.LMax) && !b.Overloaded {
				t.Fatalf("a collector has %d of %d bytes", slices.Max(b.Load), lim.LMax)
			}
			changed, _ := log.changes(routes, interval*1000, interval)
			for i := range changed {
				log.add(changed[i])
			}
			if interval > 1 && before*5 < int64(lim.LMax)*4 {
				moved += len(changed)
				compared++
			}
			before = slices.Max(b.Load)
		}
		if moved > 0 {
			t.Errorf("%d Routes changed", moved)
		}
	}
	if compared < 100 {
		t.Errorf("there was room for the test in %d intervals", compared)
	}
}

// TestHeavyJobIsSpreadOnceItWasMeasured: a job fits one collector by its nodes, and does not by what collectors say
// that it sends.
func TestHeavyJobIsSpreadOnceItWasMeasured(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	cfg.Balance.LMax, cfg.Balance.LDist, cfg.Balance.NodeBytes = 0, 0, 1000
	cfg.Interval, cfg.Balance.PartitionBytesPerS = 200*time.Millisecond, 100_000 // 10,000 bytes in an interval
	produceProgress(t, cfg, 1, load("of before", 1, 10))
	background(t, func(ctx context.Context) error {
		source := scheduler.Fixed(job("heavy", "a", "b", "c", "d"))
		return Run(ctx, cfg, sixNodes(), source, slog.New(slog.DiscardHandler), unseen())
	})
	r := newReader(t, cfg)
	parts := func() map[int32]bool {
		at := map[int32]bool{}
		for _, n := range []string{"a", "b", "c", "d"} {
			if of := r.routes[n]; len(of) > 0 && len(of[len(of)-1].Entries) == 1 {
				at[of[len(of)-1].Entries[0].Partition] = true
			}
		}
		return at
	}
	r.until("a plan", func() bool { return len(parts()) > 0 && r.atLeast(2)() })
	if len(parts()) != 1 {
		t.Fatalf("the job is at %v before it was measured", parts())
	}
	for p := range parts() {
		produceProgress(t, cfg, p, load("heavy", 4, 16_000))
	}
	r.until("the job at two collectors", func() bool { return len(parts()) == 2 })
}

// produceProgress says what jobs sent to a partition, as its collector does.
func produceProgress(t *testing.T, cfg config.Config, partition int32, said ...schemas.JobLoad) {
	t.Helper()
	cl := kafkatest.Client(t, cfg.Kafka.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	value, err := schemas.Marshal(&schemas.Progress{Closed: new(time.Now().UnixMilli()), Loads: said})
	if err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{
		Topic: cfg.Prefix + schemas.TopicProgress, Partition: partition,
		Key: schemas.PartitionKey(partition), Value: value,
	}
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
