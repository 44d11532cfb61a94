package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

var bigSizes = []struct{ nodes, jobs int }{{1000, 160}, {10_000, 1600}, {100_000, 16_000}}

// BenchmarkSticky is everything that an interval costs the balancer but Kafka: jobs in, changed Routes out, at 2 %
// churn.
func BenchmarkSticky(b *testing.B) {
	for _, s := range bigSizes {
		b.Run(fmt.Sprintf("nodes=%d/jobs=%d", s.nodes, s.jobs), func(b *testing.B) {
			b.ReportAllocs()
			c := newChurning(s.nodes, s.jobs)
			for b.Loop() {
				c.step(b, 0.02)
			}
		})
	}
}

// bigJobs returns the nodes of so many exclusive jobs, of neighbours mostly, one in a hundred of them many times as big
// as others.
func bigJobs(r *rand.Rand, nodes, jobs int) [][]int {
	var all [][]int
	mean := float64(nodes) / float64(jobs)
	for at := 0; at < nodes && len(all) < jobs; {
		size := 1 + int(r.ExpFloat64()*(mean-1)*0.8)
		if r.IntN(100) == 0 {
			size *= 10
		}
		job := make([]int, min(size, nodes-at))
		for i := range job {
			job[i] = at + i
		}
		all, at = append(all, job), at+len(job)
	}
	for range nodes / 50 { // a node of one job for a node of another
		a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
		i, k := r.IntN(len(a)), r.IntN(len(b))
		a[i], b[k] = b[k], a[i]
	}
	return all
}

// churning is a balancer without Kafka: jobs that end and start, and the Routes as they stand.
type churning struct {
	r      *rand.Rand
	layout *assign.Layout
	jobs   []scheduler.Job
	log    routeLog
	epoch  int64
	births int64 // how often jobs were replaced
}

func newChurning(nodes, jobs int) *churning {
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%06d.cluster", i)
	}
	c := &churning{
		r:      rand.New(rand.NewPCG(1, 22)),
		layout: assign.NewLayout(topology.Flat(names), max(1, nodes/43), nil), log: routeLog{},
	}
	for _, job := range bigJobs(c.r, nodes, jobs) {
		j := scheduler.Job{Job: schemas.Job{JobID: fmt.Sprint(1_000_000 + len(c.jobs))}}
		for _, n := range job {
			j.Nodes = append(j.Nodes, names[n])
		}
		c.jobs = append(c.jobs, j)
	}
	return c
}

// churn replaces a fraction of the jobs by others on the same nodes.
func (c *churning) churn(fraction float64) {
	c.jobs = slices.Clone(c.jobs)
	c.births++
	for j := range c.jobs {
		if c.r.Float64() < fraction {
			c.jobs[j].JobID = fmt.Sprint(1_000_000*(c.births+1) + int64(j))
		}
	}
}

// step replaces a fraction of the jobs, plans, and returns the Routes that changed.
func (c *churning) step(tb testing.TB, fraction float64) []schemas.Route {
	tb.Helper()
	if c.epoch++; c.epoch > 1 {
		c.churn(fraction)
	}
	want, _ := plan(c.layout, c.jobs, nil, assign.Limits{LMax: 10_000, LDist: 9000}, c.log)
	changed, gone := c.log.changes(want, c.epoch*10_000, c.epoch)
	if len(gone) > 0 {
		tb.Fatal("a node is gone")
	}
	for _, r := range changed {
		c.log.add(r)
	}
	c.log.forget(c.epoch * 10_000)
	return changed
}

// TestRoutesAtScale measures what is published, and what an agent reads of it, on 10,000 nodes. In each interval 2 % of
// the jobs end and others start.
func TestRoutesAtScale(t *testing.T) {
	t.Parallel()
	const nodes, intervals = 10_000, 20
	c := newChurning(nodes, nodes/6)
	c.step(t, 0)
	routes, bytes := 0, 0
	for range intervals {
		changed := c.step(t, 0.02)
		for i := range changed {
			value, err := schemas.Marshal(&changed[i])
			if err != nil {
				t.Fatal(err)
			}
			routes++
			bytes += len(value) + len(changed[i].Node) + 8 // with the key, and what a record has around them
		}
	}
	perAgent := float64(bytes) / intervals / nodes
	t.Logf("per interval: %d of %d routes change, %d bytes in all, %.1f bytes per agent",
		routes/intervals, nodes, bytes/intervals, perAgent)
	for _, partitions := range []int{16, 64, 256, 1024} {
		t.Logf("with %d partitions of routes an agent reads %.0f bytes per interval",
			partitions, float64(bytes)/intervals/float64(partitions))
	}
	if perAgent > 100 {
		t.Errorf("%.1f bytes per agent and interval, the goal is 100", perAgent)
	}
	if share := float64(routes) / intervals / nodes; share < 0.005 || share > 0.05 {
		t.Errorf("%.3f of the routes change in an interval", share)
	}
}

// TestPlanReachesAgents measures the time from the moment that a plan is due until the last changed Route is read from
// its partition. It includes asking for jobs, planning, the transaction and the fetch. The broker is in the process.
func TestPlanReachesAgents(t *testing.T) {
	const nodes, intervals = 10_000, 10
	_, cfg := broker(t)
	c := newChurning(nodes, nodes/6)
	tree := topology.Flat(c.layout.Nodes)
	b := newBalancer(cfg, tree, c, slog.New(slog.DiscardHandler), unseen())
	producer, err := b.newProducer(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	agents := kafkatest.Client(t, cfg.Kafka.Brokers, kgo.ConsumeTopics("t."+schemas.TopicRoutes),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	m, err := b.begin(t.Context(), producer)
	if err != nil {
		t.Fatal(err)
	}
	var slowest time.Duration
	read := 0
	for i := range int64(intervals + 1) {
		if i > 0 {
			c.churn(0.02)
		}
		begun, epoch, want := time.Now(), m.epoch, 0
		if err := b.planInterval(t.Context(), producer, m, (i+1)*b.ms); err != nil {
			t.Fatal(err)
		}
		for _, routes := range m.routes {
			if routes[len(routes)-1].Epoch > epoch {
				want++
			}
		}
		for got := 0; got < want; {
			fetches := agents.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			got += fetches.NumRecords()
		}
		if i > 0 { // the first is of all nodes, and once in a balancer's life
			slowest = max(slowest, time.Since(begun))
			read += want
		} else {
			t.Logf("the first plan: %d Routes in %v", want, time.Since(begun))
		}
	}
	t.Logf("%d Routes an interval, the slowest plan of %d was read by all after %v", read/intervals, intervals, slowest)
	if read < intervals*nodes/200 {
		t.Errorf("only %d Routes changed", read)
	}
	if slowest > 20*time.Second { // on an idle machine it takes a hundredth of plan_margin, which is 1 s
		t.Errorf("the slowest plan took %v", slowest)
	}
}

// Jobs implements scheduler.Source.
func (c *churning) Jobs(time.Time) ([]scheduler.Job, []scheduler.Fault) { return c.jobs, nil }
