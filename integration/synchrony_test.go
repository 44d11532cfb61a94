package integration

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

var synchrony = flag.Bool("synchrony", false, "measure how far apart nodes sample, by clock and by triggers")

const (
	synchronyNodes     = 32 // with clocks of each kind, each with Kafka clients and a clock of its own
	synchronyIntervals = 12
	synchronyBusy      = 300 // nodes that publish in addition to create load
)

// offClocks are the kinds of clocks: how far each may be from the truth, evenly in both directions.
var offClocks = []struct {
	name string
	most time.Duration
}{
	{"kept by NTP, ±1 ms", time.Millisecond},
	{"drifted, up to ±0.5 s", 500 * time.Millisecond},
	{"wrong, up to ±5 s", 5 * time.Second},
}

// TestSynchrony repeats a measurement of NWPerf's section 3: the distance from the boundary at which nodes with
// drifting clocks sample. Nodes with good and with bad clocks run beside each other, once by clock and once by
// triggers, idle and under load. All of them are on this host, and its clock is the truth.
func TestSynchrony(t *testing.T) {
	if !*synchrony {
		t.Skip("SYNCHRONY NOT MEASURED: make synchrony does")
	}
	rows := []string{
		"| sampling | load | clocks | distance, median | p99 | spread, median | within 0.6 s | published |",
		"|---|---|---|---|---|---|---|---|",
	}
	for _, loaded := range []bool{false, true} {
		for _, sampling := range []string{"clock", "triggered"} {
			t.Run(fmt.Sprintf("%s, loaded %v", sampling, loaded), func(t *testing.T) {
				rows = append(rows, measureSynchrony(t, sampling, loaded)...)
			})
		}
	}
	t.Logf("%d nodes of each kind, %d intervals of 1 s\n%s",
		synchronyNodes, synchronyIntervals, strings.Join(rows, "\n"))
}

// measureSynchrony returns a row of the table for each kind of clock.
func measureSynchrony(t *testing.T, sampling string, loaded bool) (rows []string) {
	s := newSystem(t)
	s.log = slog.New(slog.DiscardHandler) // a hundred agents log their start
	s.cfg.Agent.Sampling = sampling
	rng := rand.New(rand.NewPCG(15, 15))
	nodes := producers.SimulatedNodes(len(offClocks) * synchronyNodes)
	offs := map[string]time.Duration{}
	for i, node := range nodes {
		most := offClocks[i/synchronyNodes].most
		offs[node] = time.Duration((2*rng.Float64() - 1) * float64(most))
	}
	load := "none"
	var busy []string
	if loaded {
		load = fmt.Sprintf("4 busy processes, %d nodes", synchronyBusy)
		for range 4 {
			keepBusy(t)
		}
		for i := range synchronyBusy {
			busy = append(busy, fmt.Sprintf("busy%04d", i))
		}
		s.startClocks("load", busy, 0)
	}
	s.cfg.Balance.Nodes = append(slices.Clone(nodes), busy...)
	s.start("balancer", func(ctx context.Context) error {
		return balancer.Run(ctx, s.cfg, topology.Flat(s.cfg.Balance.Nodes),
			scheduler.NewSimulated(s.cfg.Balance.Nodes, s.cfg.Interval), s.log,
			balancer.NewMetrics(prometheus.NewRegistry()))
	})
	for node, off := range offs {
		s.startClocks(node, []string{node}, off)
	}
	time.Sleep(8 * time.Second) // until all have routes, and most know their offset
	begin := time.Now().Truncate(s.cfg.Interval).Add(s.cfg.Interval).UnixMilli()
	time.Sleep(time.Duration(synchronyIntervals+7) * s.cfg.Interval) // the slowest clock is 5 s behind

	at := map[string]map[int64]time.Duration{} // by node and interval: the distance from its end, in truth
	for _, r := range s.read(schemas.TopicCounters) {
		v, _ := schemas.Unmarshal(r.Value)
		h := headOf(v)
		if h == nil || offs[h.Node] == 0 {
			continue
		}
		truth := time.UnixMicro(h.SampledAt).Add(-offs[h.Node])
		if at[h.Node] == nil {
			at[h.Node] = map[int64]time.Duration{}
		}
		at[h.Node][h.IntervalStart] = truth.Sub(time.UnixMilli(h.IntervalStart + h.IntervalMs))
	}
	for k, kind := range offClocks {
		of := nodes[k*synchronyNodes : (k+1)*synchronyNodes]
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", sampling, load, kind.name,
			judgeSynchrony(of, at, begin, s.cfg.Interval)))
	}
	return rows
}

// judgeSynchrony writes the results of some nodes in the intervals from begin on.
func judgeSynchrony(
	nodes []string, at map[string]map[int64]time.Duration, begin int64, interval time.Duration,
) string {
	var distances, spreads []time.Duration
	within := 0
	for i := range int64(synchronyIntervals) {
		start := begin + i*interval.Milliseconds()
		var here []time.Duration
		for _, node := range nodes {
			if d, ok := at[node][start]; ok {
				here = append(here, d)
				distances = append(distances, d.Abs())
				if d.Abs() <= 600*time.Millisecond {
					within++
				}
			}
		}
		if len(here) > 1 {
			spreads = append(spreads, slices.Max(here)-slices.Min(here))
		}
	}
	if len(distances) == 0 || len(spreads) == 0 {
		return "- | - | - | - | 0 %"
	}
	slices.Sort(distances)
	slices.Sort(spreads)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
	percent := func(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of)) }
	return strings.Join([]string{
		ms(distances[len(distances)/2]), ms(distances[len(distances)*99/100]), ms(spreads[len(spreads)/2]),
		percent(within, len(distances)), percent(len(distances), len(nodes)*synchronyIntervals),
	}, " | ")
}

// headOf returns the header of a record of a node, or nil.
func headOf(r schemas.Record) *schemas.NodeHeader {
	switch r := r.(type) {
	case *schemas.CounterBatch:
		return &r.NodeHeader
	case *schemas.NodeSummary:
		return &r.NodeHeader
	}
	return nil
}

// keepBusy runs a process that uses a CPU, until the test ends.
func keepBusy(t *testing.T) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}
