package integration

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

var (
	hostileFor = flag.Duration("hostile.for", 0,
		"how long random bytes and mutants are written to every topic; 0: no hostile input at all")
	hostileSeed  = flag.Uint64("hostile.seed", 0, "seed of the hostile input; 0: by the clock")
	hostilePhase = flag.String("hostile.phase", ".", "pattern of the phases to run")
)

// Partitions of counters that receive hostile records. Jobs of simulated nodes with their home in another partition
// must never miss an interval.
const (
	extreme = 0 // gets everything, but no more than a partition bears
	rubbish = 1 // gets more than a partition bears: it may stop
)

const (
	ghosts   = 160  // nodes that only have jobs, all in one island
	ghostCPU = 32   // jobs of each
	listed   = 20e3 // jobs of the longest Tick
)

// patience bounds each wait for an expected event. The test goes on as soon as the event occurs.
const patience = time.Minute

// hostile is a system under hostile input.
type hostile struct {
	*system
	m        *machine
	services map[string]*process
	rng      *rand.Rand
	jobs     string // file
	from     int64  // first interval that is judged
	said     map[string]bool

	mu      sync.Mutex
	written map[spot]string
	refused map[spot]bool
	quiet   map[string]int64
	peak    map[string]int64
	calm    bool // the memory of the processes by now is their quiet memory
}

// TestHostile feeds a live installation through a plain Kafka client. It sends extremes that are legal, records that
// are not, and bytes that are no records. A judge looks at it after each phase, and is broken on purpose at the end.
func TestHostile(t *testing.T) {
	if *hostileFor == 0 {
		t.Skip("SKIPPED: NOTHING HOSTILE WAS WRITTEN: make hostile does")
	}
	phases := regexp.MustCompile(*hostilePhase)
	h := newHostile(t)
	all := time.Now()
	h.warmUp()
	var stop []func()
	for _, phase := range []struct {
		name string
		run  func()
	}{
		{"names that are not UTF-8", h.namesOutsideUTF8},
		{"wrong clocks and clusters", func() { stop = append(stop, h.wrongNodes()) }},
		{"one-node jobs", h.oneNodeJobs},
		{"a Tick of 20,000 jobs", h.longTick},
		{"loads of 12,000 jobs", h.manyLoads},
		{"metric names", h.metricNames},
		{"rubbish", h.rubbish},
		{"state from the future", h.stateFromTheFuture},
		{"mutants and random bytes", h.mutantsAndNoise},
		{"restart of everything", h.restartAll},
	} {
		if !phases.MatchString(phase.name) {
			continue
		}
		began := time.Now()
		phase.run()
		h.report(phase.name, h.gather(false), time.Since(began))
	}
	for _, end := range stop {
		end()
	}
	h.readToEnd()
	e := h.gather(true)
	h.report("all phases", e, time.Since(all))
	h.closesAccounts()
	e.seesBreakages(t)
	for _, phase := range []struct {
		name string
		run  func()
	}{
		{"a summary of an unknown schema", h.unknownSchema},
		{"topics made again", h.topicsMadeAgain},
	} {
		if phases.MatchString(phase.name) {
			began := time.Now()
			phase.run()
			t.Logf("%s: %.0f s", phase.name, time.Since(began).Seconds())
		}
	}
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	seed := *hostileSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	t.Logf("seed %d: repeat it with -hostile.seed=%d", seed, seed)
	h := &hostile{
		m: newMachine(t), rng: rand.New(rand.NewPCG(seed, 0)), jobs: filepath.Join(t.TempDir(), "jobs.yaml"),
		said:    map[string]bool{},
		written: map[spot]string{}, refused: map[spot]bool{}, quiet: map[string]int64{}, peak: map[string]int64{},
	}
	at, _ := h.m.findBrokers()
	h.system = systemOn(t, at)
	h.cfg.Balance.JobsFile, h.cfg.Balance.TreeFile = h.jobs, h.treeFile()
	h.cfg.Collect.MaxRejects = 3000 // a minute: the other writes in rubbish's partition stay below
	h.listJobs(0)
	h.services = h.m.addServices(h.configFile())
	return h
}

// treeFile gives each partition an island of a quarter of the simulated nodes, and the first one all ghosts too.
func (h *hostile) treeFile() string {
	h.t.Helper()
	nodes := producers.SimulatedNodes(simulated)
	each := len(nodes) / h.cfg.Collectors
	text := strings.Builder{}
	text.WriteString("root: machine\nislands:\n")
	for i := range h.cfg.Collectors {
		island := slices.Clone(nodes[i*each : (i+1)*each])
		if i == extreme {
			for g := range ghosts {
				island = append(island, ghost(g))
			}
		}
		fmt.Fprintf(&text, "  - {name: i%d, nodes: [%s]}\n", i, strings.Join(island, ", "))
	}
	file := filepath.Join(h.t.TempDir(), "tree.yaml")
	h.put(file, text.String())
	return file
}

func ghost(n int) string { return fmt.Sprintf("g%d", n) }

func (h *hostile) put(file, text string) {
	h.t.Helper()
	if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
		h.t.Fatal(err)
	}
}

// listJobs puts jobs of one node and one CPU into the jobs file. Their names are short: a Tick of them is dense.
func (h *hostile) listJobs(n int) {
	h.t.Helper()
	text := strings.Builder{}
	text.WriteString("jobs:\n")
	for j := range n {
		fmt.Fprintf(&text, "  - {id: j%d, nodes: [%s], cpus: [%d]}\n", j, ghost(j/ghostCPU), j%ghostCPU)
	}
	if n == 0 {
		text.WriteString("  []\n")
	}
	h.put(h.jobs, text.String())
}

// untouched are the partitions of counters that only weir writes to.
func (h *hostile) untouched() (partitions []int32) {
	for p := range int32(h.cfg.Collectors) {
		if p != extreme && p != rubbish {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

// warmUp starts everything, and measures the usage while nothing happens.
func (h *hostile) warmUp() {
	h.t.Helper()
	for _, p := range h.services {
		p.start()
	}
	stop := make(chan struct{})
	h.t.Cleanup(func() { close(stop) })
	h.calm = true
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(250 * time.Millisecond):
				h.weigh()
			}
		}
	}()
	h.eventually("the first summaries", func() bool { return len(h.read(schemas.TopicJobSummary)) > 30 })
	h.from = h.interval(time.Now()) + h.cfg.Interval.Milliseconds()
	time.Sleep(15 * time.Second) // the sink writes a file within ten
	h.report("warm-up", h.gather(false), 15*time.Second)
	h.mu.Lock()
	h.calm = false
	h.mu.Unlock()
}

func (h *hostile) interval(at time.Time) int64 {
	ms := h.cfg.Interval.Milliseconds()
	return at.UnixMilli() / ms * ms
}

// weigh notes the memory of all processes but the embedded broker, which keeps all topics in its own.
func (h *hostile) weigh() {
	for name, p := range h.services {
		pid := p.pid()
		if pid == 0 {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it ends
		}
		for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 2 || fields[0] != "VmRSS:" {
				continue
			}
			if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				h.mu.Lock()
				h.peak[name] = max(h.peak[name], kib<<10)
				if h.calm {
					h.quiet[name] = h.peak[name]
				}
				h.mu.Unlock()
			}
		}
	}
}

// report logs the actions of a phase, and fails the test for each new complaint.
func (h *hostile) report(phase string, e *evidence, took time.Duration) {
	h.t.Helper()
	fresh := 0
	for _, fault := range e.complaints() {
		if h.said[fault] {
			continue
		}
		h.said[fault] = true
		if fresh++; fresh <= 10 {
			h.t.Errorf("%s: %s", phase, fault)
		}
	}
	summaries := 0
	for _, p := range e.untouched {
		for _, jobs := range e.ticks[p] {
			summaries += len(jobs)
		}
	}
	var memory []string
	for _, name := range slices.Sorted(maps.Keys(e.peak)) {
		memory = append(memory, fmt.Sprintf("%s %d/%d", name, e.peak[name]>>20, e.quiet[name]>>20))
	}
	h.t.Logf("%s: %.0f s, %d new complaints; %d intervals, %d summaries of untouched partitions; "+
		"%d records by hand, %d to refuse, %d rejects; stopped %v; MiB at most and in quiet: %s",
		phase, took.Seconds(), fresh, (e.to-e.from)/e.intervalMs+1, summaries,
		len(e.written), len(e.refused), len(e.rejects), e.stopped, strings.Join(memory, ", "))
}

// write produces records by hand. With certain set they are illegal even if the codec accepts them.
func (h *hostile) write(certain bool, records ...hostileRecord) {
	h.t.Helper()
	batch := make([]*kgo.Record, len(records))
	for i, r := range records {
		key := r.key
		if key == nil {
			key = []byte("hostile") // compacted topics want one
		}
		batch[i] = &kgo.Record{Topic: h.cfg.Prefix + r.topic, Partition: r.partition, Key: key, Value: r.value}
	}
	results := h.cl.ProduceSync(h.t.Context(), batch...)
	at := map[*kgo.Record]int{}
	for i, r := range batch {
		at[r] = i
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, result := range results {
		r := records[at[result.Record]]
		if result.Err != nil {
			h.t.Errorf("%s to %s: %v", r.kind, r.topic, result.Err)
			continue
		}
		where := spot{r.topic, r.partition, result.Record.Offset}
		h.written[where] = r.kind
		if certain || h.refuses(r.topic, r.value) {
			h.refused[where] = slices.Contains([]string{
				schemas.TopicCounters, schemas.TopicPartials,
				schemas.TopicJobSummary,
			}, r.topic)
		}
		if !h.refused[where] {
			delete(h.refused, where)
		}
	}
}

// hostileRecord is something to write.
type hostileRecord struct {
	kind, topic string
	partition   int32
	key, value  []byte
}

// refuses reports whether nobody who reads a topic may use a value.
func (h *hostile) refuses(topic string, value []byte) bool {
	r, err := schemas.Unmarshal(value)
	if err != nil {
		return true
	}
	cluster := h.cfg.Cluster
	wants := ""
	switch r := r.(type) {
	case *schemas.CounterBatch:
		wants, cluster = schemas.TopicCounters, r.Cluster
	case *schemas.NodeSummary:
		wants, cluster = schemas.TopicCounters, r.Cluster
	case *schemas.Gap, *schemas.Tick:
		wants = schemas.TopicCounters
	case *schemas.JobPartial:
		wants, cluster = schemas.TopicPartials, r.Cluster
	case *schemas.Watermark:
		wants = schemas.TopicPartials
	case *schemas.JobSummary:
		wants, cluster = schemas.TopicJobSummary, r.Cluster
	}
	return wants != topic || cluster != h.cfg.Cluster
}

// encode makes a value without validating it.
func (h *hostile) encode(r schemas.Record) []byte {
	h.t.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		h.t.Fatal(err)
	}
	return value
}

// batch returns a legal record of a simulated node of the touched partition for the running interval. It arrives before
// the node's own record, and so it is the one that counts.
func (h *hostile) batch(node int, change func(b *schemas.CounterBatch)) *schemas.CounterBatch {
	b := &schemas.CounterBatch{
		NodeHeader: schemas.NodeHeader{
			Cluster: h.cfg.Cluster, Node: producers.SimulatedNodes(simulated)[node], JobID: schemas.JobRest,
			RunID:         "hostile",
			IntervalStart: h.interval(time.Now()), IntervalMs: h.cfg.Interval.Milliseconds(), Cpus: []int32{0},
		},
		Metrics: []schemas.CounterBatchMetric{{
			Name: "sim_load", Unit: "1", Scope: schemas.ScopeNode,
			Values: []float64{1},
		}},
	}
	change(b)
	return b
}

func (h *hostile) counter(kind string, r schemas.Record) hostileRecord {
	return hostileRecord{
		kind: kind, topic: schemas.TopicCounters, partition: extreme,
		key: schemas.CollectorKey(extreme), value: h.encode(r),
	}
}

// namesOutsideUTF8 writes units and names that are not UTF-8 to every topic with such fields.
func (h *hostile) namesOutsideUTF8() {
	const latin = "caf\xe9"
	one, name := 1.0, latin
	ten := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	b := h.batch(0, func(b *schemas.CounterBatch) { b.Metrics[0].Unit = latin })
	metric := schemas.JobSummaryMetric{
		Name: "m", Unit: "1", Scope: schemas.ScopeNode, Count: 1, Nodes: 1, Mean: &one, LowNode: &name,
		HighNode: &name, Deciles: &ten,
	}
	start, ms := b.IntervalStart, b.IntervalMs
	summary := func(m schemas.JobSummaryMetric) []byte {
		return h.encode(&schemas.JobSummary{
			Cluster: h.cfg.Cluster, JobID: "latin", IntervalStart: start, IntervalMs: ms, Method: schemas.MethodExact,
			Parts: 1, PartsReported: 1,
			NodesExpected: 1, NodesReported: 1, Metrics: []schemas.JobSummaryMetric{m},
		})
	}
	unit := metric
	unit.Unit, unit.LowNode, unit.HighNode = latin, nil, nil
	certified := schemas.Certified{Atoms: []schemas.Atom{{Value: 1, Count: 1}}}
	h.write(true,
		h.counter("unit of a CounterBatch", b),
		h.counter("low_node of a NodeSummary", &schemas.NodeSummary{
			NodeHeader: b.NodeHeader,
			Metrics:    []schemas.NodeSummaryMetric{{JobSummaryMetric: metric, Certified: certified}},
		}),
		h.counter("unit of a NodeSummary", &schemas.NodeSummary{
			NodeHeader: b.NodeHeader,
			Metrics:    []schemas.NodeSummaryMetric{{JobSummaryMetric: unit, Certified: certified}},
		}),
		h.counter("node of a Tick", &schemas.Tick{
			IntervalStart: start, IntervalMs: ms,
			Jobs: []schemas.TickJob{{JobID: "latin", Parts: 1, JobNodes: 1, Nodes: []string{latin}}},
		}),
		hostileRecord{kind: "unit of a JobPartial", topic: schemas.TopicPartials, value: h.encode(&schemas.JobPartial{
			Cluster: h.cfg.Cluster, JobID: "latin", IntervalStart: start, IntervalMs: ms, Parts: 2, JobNodes: 1,
			NodesExpected: 1, NodesReported: 1,
			Metrics: []schemas.JobPartialMetric{{Name: "m", Unit: latin, Scope: schemas.ScopeNode}},
		})},
		hostileRecord{kind: "low_node of a JobSummary", topic: schemas.TopicJobSummary, value: summary(metric)},
		hostileRecord{kind: "unit of a JobSummary", topic: schemas.TopicJobSummary, value: summary(unit)},
	)
}

// wrongNodes writes the records of eight nodes with a wrong clock and eight with a wrong cluster, until it is stopped.
func (h *hostile) wrongNodes() (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var records []hostileRecord
			for n := range 8 {
				records = append(records, h.counter("wrong clock", h.batch(0, func(b *schemas.CounterBatch) {
					b.Node, b.IntervalStart = ghost(n), b.IntervalStart+3_600_000
				})), h.counter("wrong cluster", h.batch(0, func(b *schemas.CounterBatch) {
					b.Node, b.Cluster = ghost(n), "elsewhere"
				})))
			}
			h.write(true, records...)
			select {
			case <-ended:
				return
			case <-time.After(h.cfg.Interval):
			}
		}
	}()
	return func() { close(ended); <-done }
}

// oneNodeJobs lets the balancer plan thousands of jobs of one node in one partition.
func (h *hostile) oneNodeJobs() {
	h.listJobs(ghosts * ghostCPU)
	h.eventually("a Tick of thousands of jobs", func() bool {
		for _, r := range h.read(schemas.TopicCounters) {
			if r.Partition == extreme && len(r.Value) > ghosts*ghostCPU*10 {
				return true
			}
		}
		return false
	})
	time.Sleep(3 * h.cfg.Interval) // the jobs run for some intervals
	h.listJobs(0)
	h.summarized("j", ghosts*ghostCPU)
}

// summarized waits for summaries of many jobs with the same prefix in their names.
func (h *hostile) summarized(prefix string, jobs int) {
	h.t.Helper()
	count := 0
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Second) {
		seen := map[string]bool{}
		for _, r := range h.read(schemas.TopicJobSummary) {
			if strings.HasPrefix(string(r.Key), prefix) {
				seen[string(r.Key)] = true
			}
		}
		if count = len(seen); count >= jobs {
			return
		}
	}
	h.t.Errorf("%d of %d jobs with one node, whose names begin with %s, have a summary", count, jobs, prefix)
}

func (h *hostile) longTick() {
	tick := &schemas.Tick{IntervalStart: h.interval(time.Now()), IntervalMs: h.cfg.Interval.Milliseconds()}
	for j := range int(listed) {
		tick.Jobs = append(tick.Jobs, schemas.TickJob{
			JobID: fmt.Sprintf("t%d", j), Parts: 1, JobNodes: 1,
			Nodes: []string{ghost(j % ghosts)},
		})
	}
	h.write(false, h.counter("a long Tick", tick))
	h.summarized("t", listed)
}

// manyLoads closes an interval in which 12,000 jobs have sent records. Then it makes the partition's next owner read
// the Progress with the loads of all of them. No other Tick closes an interval meanwhile, since this one is ahead.
func (h *hostile) manyLoads() {
	tick := &schemas.Tick{
		IntervalStart: h.interval(time.Now()) + 6*h.cfg.Interval.Milliseconds(),
		IntervalMs:    h.cfg.Interval.Milliseconds(),
	}
	var records []hostileRecord
	for j := range 12_000 {
		job := fmt.Sprintf("w%d", j)
		records = append(records, h.counter("a small record", h.batch(0, func(b *schemas.CounterBatch) {
			b.Node, b.JobID, b.IntervalStart = ghost(j%ghosts), job, tick.IntervalStart
		})))
		tick.Jobs = append(tick.Jobs, schemas.TickJob{
			JobID: job, Parts: 1, JobNodes: 1,
			Nodes: []string{ghost(j % ghosts)},
		})
	}
	h.write(false, append(records, h.counter("a Tick of many loads", tick))...)
	h.summarized("w", 12_000)
	h.fence(fmt.Sprintf("%scollect-%d", h.cfg.Prefix, extreme))
	h.commits(extreme)
}

// commits fails the test if a partition of counters commits nothing from now on.
func (h *hostile) commits(partition int32) {
	h.t.Helper()
	now := time.Now()
	for deadline := now.Add(patience); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		for _, r := range h.read(schemas.TopicProgress) {
			if r.Partition == partition && r.Timestamp.After(now) && !h.writtenAt(schemas.TopicProgress, r) {
				return
			}
		}
	}
	h.t.Errorf("partition %d commits nothing in %v", partition, patience)
}

// metricNames writes records with as many metrics as there may be, and with far more. Three nodes with other names each
// have more in all than a row takes.
func (h *hostile) metricNames() {
	named := func(node, n int) hostileRecord {
		return h.counter(fmt.Sprintf("%d metrics", n), h.batch(node, func(b *schemas.CounterBatch) {
			b.Metrics = nil
			for m := range n {
				b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
					Name: fmt.Sprintf("node%d_a_rather_long_name_%05d", node, m), Unit: "1", Scope: schemas.ScopeNode,
					Values: []float64{float64(m)},
				})
			}
		}))
	}
	for range 3 {
		h.write(true, named(0, 15_000), named(1, 15_000))
		h.write(false, named(2, 1024), named(3, 1024), named(4, 1024), named(5, 1024))
		time.Sleep(h.cfg.Interval) // the same in the next interval
	}
	thirty := h.batch(0, func(b *schemas.CounterBatch) {
		b.Metrics = nil
		for m := range 30_000 {
			b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
				Name:  fmt.Sprintf("metric_%08d", m),
				Scope: schemas.ScopeNode, Values: []float64{1},
			})
		}
	})
	h.write(true, h.counter("30,000 metrics", thirty))
	h.commits(extreme)
}

// rubbish writes thousands of values that are not records into one partition.
func (h *hostile) rubbish() {
	var records []hostileRecord
	for range 5000 {
		records = append(records, hostileRecord{
			kind: "rubbish", topic: schemas.TopicCounters, partition: rubbish, key: schemas.CollectorKey(rubbish),
			value: h.bytes(200),
		})
	}
	h.write(true, records...)
	time.Sleep(5 * h.cfg.Interval) // in which the other partitions have to go on
}

// bytes are random. They never begin as a record does: no schema is unknown by chance.
func (h *hostile) bytes(most int) []byte {
	value := make([]byte, h.rng.IntN(most))
	for i := range value {
		value[i] = byte(h.rng.Uint32())
	}
	if len(value) > 0 && value[0] == 0xC3 {
		value[0] = 0
	}
	return value
}

// stateFromTheFuture writes the state of a balancer with its clock two hours ahead, and kills both balancers.
func (h *hostile) stateFromTheFuture() {
	ahead := h.interval(time.Now()) + 2*3_600_000
	ms := h.cfg.Interval.Milliseconds()
	records := []hostileRecord{{
		kind: "BalanceState from the future", topic: schemas.TopicBalance, key: []byte{},
		value: h.encode(
			&schemas.BalanceState{Epoch: 1_000_000, IntervalStart: ahead, IntervalMs: ms}),
	}}
	routes := map[string]*kgo.Record{}
	for _, r := range h.read(schemas.TopicRoutes) {
		routes[string(r.Key)] = r
	}
	for n := range int64(9) { // an agent remembers eight
		for node, r := range routes {
			if v, err := schemas.Unmarshal(r.Value); err == nil {
				route := v.(*schemas.Route)
				route.IntervalStart, route.Epoch, route.Entries = ahead+n*ms, 1_000_000+n, nil
				records = append(records, hostileRecord{
					kind: "Route from the future", topic: schemas.TopicRoutes, partition: r.Partition,
					key: []byte(node), value: h.encode(route),
				})
			}
		}
	}
	h.write(false, records...)
	for _, name := range []string{"balance-a", "balance-b"} {
		h.services[name].kill()
	}
	// The last state on the topic has to be the one from the future, no matter what was written in between.
	h.write(false, records[0])
	for _, name := range []string{"balance-a", "balance-b"} {
		h.services[name].start()
	}
	time.Sleep(12 * time.Second) // a session, in which a successor is found, and some intervals to close
}

// samples returns the newest records of each schema on the topics, with the topic where they belong.
func (h *hostile) samples() map[string]sampled {
	h.t.Helper()
	all := map[string]sampled{}
	for _, topic := range []string{
		schemas.TopicCounters, schemas.TopicRoutes, schemas.TopicBalance, schemas.TopicPartials,
		schemas.TopicJobSummary, schemas.TopicJobs,
		schemas.TopicProgress, schemas.TopicMergeProgress, schemas.TopicRejects,
		schemas.TopicFindings, schemas.TopicFindProgress, schemas.TopicFindState,
	} {
		for _, r := range h.read(topic) {
			if h.writtenAt(topic, r) || len(r.Value) == 0 {
				continue
			}
			v, err := schemas.Unmarshal(r.Value)
			if err != nil {
				continue
			}
			name := strings.TrimPrefix(fmt.Sprintf("%T", v), "*schemas.")
			if _, ok := v.(*schemas.Tick); ok && r.Partition != extreme {
				continue // it would list the jobs of an untouched partition in another
			}
			if len(r.Value) < 100_000 {
				all[name] = sampled{topic, r.Key, v}
			}
		}
	}
	gap := &schemas.Gap{Node: ghost(0), RunID: "r", Records: 3, Reason: "full"}
	all["Gap"] = sampled{schemas.TopicCounters, schemas.CollectorKey(extreme), gap}
	return all
}

type sampled struct {
	topic  string
	key    []byte
	record schemas.Record
}

// current moves a record of counters to the running interval, so that it is not simply late.
func (h *hostile) current(r schemas.Record) {
	at := h.interval(time.Now())
	switch r := r.(type) {
	case *schemas.CounterBatch:
		r.IntervalStart = at
	case *schemas.NodeSummary:
		r.IntervalStart = at
	case *schemas.Tick:
		r.IntervalStart = at
	}
}

// allowed reports whether a mutant may be written. Some legal mutants do harm that no reader can know: another home for
// a node of an untouched partition, a position that nobody committed. A summary of an unknown schema makes the sink
// wait.
func allowed(topic string, value []byte) bool {
	r, err := schemas.Unmarshal(value)
	if topic == schemas.TopicJobSummary {
		return !errors.Is(err, schemas.ErrUnknownSchema)
	}
	if _, ok := r.(*schemas.Progress); ok && err == nil && (topic == schemas.TopicProgress ||
		topic == schemas.TopicMergeProgress || topic == schemas.TopicFindProgress) {
		return false
	}
	route, ok := r.(*schemas.Route)
	return !ok || !slices.Contains(producers.SimulatedNodes(simulated)[simulated/4:], route.Node)
}

// mutantsAndNoise writes mutants of all records to all topics, and random bytes between them. All of it goes to
// partition 0 of a topic, except for topics that are read only at a start: there it goes to partitions that may stop.
func (h *hostile) mutantsAndNoise() {
	h.t.Helper()
	samples := h.samples()
	topics := []string{
		schemas.TopicCounters, schemas.TopicRoutes, schemas.TopicBalance, schemas.TopicPartials,
		schemas.TopicJobSummary, schemas.TopicJobs,
		schemas.TopicProgress, schemas.TopicMergeProgress, schemas.TopicRejects, schemas.TopicSchemas,
		schemas.TopicFindings, schemas.TopicFindProgress, schemas.TopicFindState,
	}
	type job struct{ schema, topic string }
	var kinds []job
	var at []int // index among the schema's mutants; -1: unchanged, on another topic
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		for i := range mutants(name, h.encode(samples[name].record)) {
			kinds, at = append(kinds, job{name, samples[name].topic}), append(at, i)
		}
		for _, topic := range topics {
			kinds, at = append(kinds, job{name, topic}), append(at, -1)
		}
	}
	if len(samples) < 11 || len(kinds) < 1000 {
		h.t.Errorf("%d kinds of mutants, of %d schemas", len(kinds), len(samples))
	}
	order := h.rng.Perm(len(kinds))
	order = order[:min(len(order), max(1300, int(h.forSeconds()*40)))]
	began, written, noise := time.Now(), map[string]bool{}, 0
	for n, k := range order {
		time.Sleep(time.Until(began.Add(*hostileFor * time.Duration(n) / time.Duration(len(order)))))
		r, topic := samples[kinds[k].schema], kinds[k].topic
		h.current(r.record)
		m := mutant{kinds[k].schema + " on " + topic, h.encode(r.record)}
		if at[k] >= 0 {
			all := mutants(kinds[k].schema, m.value)
			m = all[min(at[k], len(all)-1)]
		}
		var records []hostileRecord
		if allowed(topic, m.value) {
			written[m.kind] = true
			records = append(records, hostileRecord{m.kind, topic, h.target(topic), r.key, m.value})
		}
		for _, topic := range topics {
			if h.rng.IntN(2) == 0 {
				noise++
				records = append(records, hostileRecord{"random bytes", topic, h.target(topic), nil, h.noise(topic)})
			}
		}
		h.write(false, records...)
	}
	h.t.Logf("%d kinds of mutants of %d schemas, and %d times random bytes", len(written), len(samples), noise)
	if len(written) < 1000 {
		h.t.Errorf("only %d kinds of mutants were written", len(written))
	}
}

func (h *hostile) forSeconds() float64 { return hostileFor.Seconds() }

// noise returns random bytes, often behind the beginning of a record, and sometimes nothing.
func (h *hostile) noise(topic string) []byte {
	value := h.bytes(2000)
	all := schemas.All()
	s := all[h.rng.IntN(len(all))]
	if h.rng.IntN(2) == 0 {
		fingerprint, err := hex.DecodeString(s.Fingerprint)
		if err != nil {
			h.t.Fatal(err)
		}
		slices.Reverse(fingerprint)
		return slices.Concat([]byte{0xC3, 0x01}, fingerprint, value)
	}
	if h.rng.IntN(20) == 0 && topic != schemas.TopicJobSummary {
		return nil
	}
	return value
}

// target is the partition of a topic that is written to.
func (h *hostile) target(topic string) int32 {
	if topic == schemas.TopicProgress {
		return rubbish
	}
	return 0
}

// restartAll ends every process and starts it again, so that it reads everything on the topics.
func (h *hostile) restartAll() {
	for _, name := range slices.Sorted(maps.Keys(h.services)) {
		h.services[name].end()
		h.services[name].start()
	}
	time.Sleep(8 * time.Second) // a session, and some intervals to close
	// A mutant may be a BalanceState of a minute ago. The balancer then catches up on intervals that it believes to be
	// overdue.
	restarted := h.interval(time.Now().Add(-3 * h.cfg.Interval))
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(time.Second) {
		e := h.gather(false)
		if !slices.ContainsFunc(h.untouched(), func(p int32) bool { return !e.hasTick(p, restarted) }) {
			return
		}
	}
}

// readToEnd waits until every partition that may not stop is read up to now.
func (h *hostile) readToEnd() {
	h.t.Helper()
	adm := kadm.NewClient(h.cl)
	behind := func() (late []string) {
		stopped := h.stopped()
		for input, progress := range map[string]string{
			schemas.TopicCounters:   schemas.TopicProgress,
			schemas.TopicPartials:   schemas.TopicMergeProgress,
			schemas.TopicJobSummary: schemas.TopicFindProgress,
		} {
			positions := h.positions(progress)
			ends, err := adm.ListCommittedOffsets(h.t.Context(), h.cfg.Prefix+input)
			if err != nil {
				h.t.Fatal(err)
			}
			for _, end := range ends[h.cfg.Prefix+input] {
				last := int64(-1)
				h.mu.Lock()
				for at := range h.written {
					if at.topic == input && at.partition == end.Partition {
						last = max(last, at.offset)
					}
				}
				h.mu.Unlock()
				name := fmt.Sprintf("%s-%d", input, end.Partition)
				if positions[end.Partition] <= last && !slices.Contains(stopped, name) {
					late = append(late, fmt.Sprintf("%s is read up to %d, of %d", name, positions[end.Partition],
						last+1))
				}
			}
		}
		return late
	}
	var late []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Second) {
		if late = behind(); len(late) == 0 {
			return
		}
	}
	h.t.Errorf("not read to the end, and not called stopped: %v", late)
}

// positions are the last of each partition, as weir committed them.
func (h *hostile) positions(topic string) map[int32]int64 {
	positions := map[int32]int64{}
	for p, progress := range h.progress(topic) {
		positions[p] = progress.Position
	}
	return positions
}

func (h *hostile) progress(topic string) map[int32]*schemas.Progress {
	h.t.Helper()
	last := map[int32]*schemas.Progress{}
	for _, r := range h.read(topic) {
		v, err := schemas.Unmarshal(r.Value)
		if h.writtenAt(topic, r) || err != nil {
			continue
		}
		if p, ok := v.(*schemas.Progress); ok {
			last[r.Partition] = p
		}
	}
	return last
}

func (h *hostile) writtenAt(topic string, r *kgo.Record) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ours := h.written[spot{topic, r.Partition, r.Offset}]
	return ours
}

// stopped returns the partitions that a log calls stopped, for too many rejects or for an invalid Progress.
func (h *hostile) stopped() []string {
	h.t.Helper()
	seen := map[string]bool{}
	line := regexp.MustCompile(`(counters|partials)-(\d+).*too many rejected`)
	other := regexp.MustCompile(`(merge-progress|progress)-(\d+)`)
	partition := regexp.MustCompile(`\bpartition=(\d+)`)
	for name, p := range h.services {
		b, err := os.ReadFile(p.log)
		if err != nil {
			h.t.Fatal(err)
		}
		for text := range strings.Lines(string(b)) {
			if service(name) != "collect" && service(name) != "merge" || !strings.Contains(text, "level=WARN") &&
				!strings.Contains(text, "level=ERROR") {
				continue
			}
			input := map[string]string{"collect": schemas.TopicCounters, "merge": schemas.TopicPartials}[service(name)]
			if f := line.FindStringSubmatch(text); f != nil {
				seen[f[1]+"-"+f[2]] = true
			} else if f := partition.FindStringSubmatch(text); f != nil &&
				(strings.Contains(text, "too many rejected") || other.MatchString(text)) {
				seen[input+"-"+f[1]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// gather reads the evidence. With whole set it waits for the end of everything written, and reads the archive too.
func (h *hostile) gather(whole bool) *evidence {
	h.t.Helper()
	ms := h.cfg.Interval.Milliseconds()
	now := time.Now()
	e := &evidence{
		from: h.from, to: h.interval(now.Add(-latest * time.Millisecond / 2)), intervalMs: ms, untouched: h.untouched(),
		ticks: map[int32]map[int64][]window{}, heard: map[int32]map[int64]int{}, summaries: map[window]int{},
		wrong:  map[window]string{},
		lateMs: map[window]int64{}, rejects: map[spot]string{}, stopped: h.stopped(), behind: map[string]int64{},
	}
	if whole {
		time.Sleep(5 * time.Second) // the last records of the nodes become summaries
	}
	oracle := h.readCounters(e)
	for tries := 0; !e.ticked() && tries < 60; tries++ { // a busy machine writes Ticks late
		time.Sleep(time.Second)
		clear(e.ticks)
		clear(e.heard)
		oracle = h.readCounters(e)
	}
	h.readSummaries(e, oracle)
	h.readRejects(e)
	if whole {
		h.readFooters(e)
	}
	for p, at := range h.positions(schemas.TopicProgress) {
		e.behind[fmt.Sprintf("%s-%d", schemas.TopicCounters, p)] = at
	}
	for p, at := range h.positions(schemas.TopicMergeProgress) {
		e.behind[fmt.Sprintf("%s-%d", schemas.TopicPartials, p)] = at
	}
	for _, p := range h.m.all {
		p.mu.Lock()
		if p.cmd == nil && !p.wanted {
			e.ended = append(e.ended, p.name)
		}
		p.mu.Unlock()
	}
	e.panics = h.m.listen().panics
	h.mu.Lock()
	defer h.mu.Unlock()
	e.written, e.refused = maps.Clone(h.written), map[spot]bool{}
	e.quiet, e.peak = maps.Clone(h.quiet), maps.Clone(h.peak)
	if whole { // before, some are still on their way
		e.refused = maps.Clone(h.refused)
	}
	return e
}

// readCounters notes the Ticks and records of the untouched partitions, and lets the oracle compute the expected
// summaries.
func (h *hostile) readCounters(e *evidence) *oracle {
	h.t.Helper()
	var log []*kgo.Record
	lastTick, more := map[int32]int64{}, map[int32]bool{}
	begins := map[*kgo.Record]int64{} // their intervals
	for _, r := range h.read(schemas.TopicCounters) {
		if !slices.Contains(e.untouched, r.Partition) {
			continue
		}
		p := r.Partition
		if e.ticks[p] == nil {
			e.ticks[p], e.heard[p] = map[int64][]window{}, map[int64]int{}
		}
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			h.t.Fatalf("%s-%d at %d: %v", schemas.TopicCounters, p, r.Offset, err)
		}
		start := int64(0)
		switch v := v.(type) {
		case *schemas.Tick:
			start = v.IntervalStart
			if start > e.to || start < lastTick[p] || start == lastTick[p] && !more[p] {
				continue // a second one closes nothing
			}
			jobs := e.ticks[p][start]
			more[p] = v.More
			for _, j := range v.Jobs {
				if j.Parts == 1 {
					jobs = append(jobs, window{j.JobID, int(j.Restart), start})
				}
			}
			e.ticks[p][start], lastTick[p] = jobs, start
		case *schemas.CounterBatch:
			start = v.IntervalStart
			e.heard[p][start]++
		case *schemas.NodeSummary:
			start = v.IntervalStart
			e.heard[p][start]++
		}
		if begins[r] = start; start <= e.to {
			log = append(log, r)
		}
	}
	// Records without a Tick are left to the judge.
	log = slices.DeleteFunc(log, func(r *kgo.Record) bool { return begins[r] > lastTick[r.Partition] })
	return newOracle(h.t, h.cfg.Cluster, log)
}

func (h *hostile) readSummaries(e *evidence, o *oracle) {
	h.t.Helper()
	expected := map[window]bool{}
	for _, ticks := range e.ticks {
		for _, jobs := range ticks {
			for _, w := range jobs {
				expected[w] = true
			}
		}
	}
	for _, r := range h.read(schemas.TopicJobSummary) {
		v, err := schemas.Unmarshal(r.Value)
		if h.writtenAt(schemas.TopicJobSummary, r) {
			continue
		}
		if err != nil {
			e.rejects[spot{schemas.TopicJobSummary, r.Partition, r.Offset}] = err.Error()
			continue
		}
		sum := v.(*schemas.JobSummary)
		w := windowOf(sum)
		if !expected[w] || w.start < e.from || w.start > e.to {
			continue
		}
		e.summaries[w]++
		e.lateMs[w] = r.Timestamp.UnixMilli() - sum.IntervalStart - sum.IntervalMs
		if err := o.check(sum); err != nil {
			e.wrong[w] = err.Error()
		}
	}
}

func (h *hostile) readRejects(e *evidence) {
	h.t.Helper()
	for _, r := range h.read(schemas.TopicRejects) {
		if h.writtenAt(schemas.TopicRejects, r) {
			continue
		}
		v, err := schemas.Unmarshal(r.Value)
		x, ok := v.(*schemas.Reject)
		if err != nil || !ok {
			h.t.Errorf("%s at %d: %v", schemas.TopicRejects, r.Offset, err)
			continue
		}
		at := spot{strings.TrimPrefix(x.Topic, h.cfg.Prefix), x.Partition, x.Offset}
		if e.rejects[at] != "" {
			h.t.Errorf("%s was rejected twice", at)
		}
		e.rejects[at] = x.Reason
	}
}

// readFooters adds the records that the sink could not read, from the footers of its files.
func (h *hostile) readFooters(e *evidence) {
	h.t.Helper()
	err := filepath.WalkDir(filepath.Join(h.cfg.Sink.Dir, "summaries"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".parquet" {
				return err
			}
			_, footer, err := sink.ReadFile(path)
			for _, u := range footer.Undecodable {
				e.rejects[spot{schemas.TopicJobSummary, footer.Partition, u.Offset}] = u.Reason
			}
			return err
		})
	if err != nil {
		h.t.Error(err)
	}
}

// closesAccounts requires exactly one fate, or none yet, for every record of counters that was read.
func (h *hostile) closesAccounts() {
	h.t.Helper()
	last := h.progress(schemas.TopicProgress)
	records := map[int32]int64{}
	for _, r := range h.read(schemas.TopicCounters) {
		if p := last[r.Partition]; p != nil && r.Offset < p.Position {
			records[r.Partition]++
		}
	}
	for p, progress := range last {
		c := progress.Counts
		sum := c.Summarized + c.Rejected + c.Late + c.Dropped + c.Duplicate + c.Misrouted + c.Ended + c.Gaps +
			c.Ticks + progress.Open
		if sum != records[p] {
			h.t.Errorf("partition %d: %d records were read, and %d have a fate or are open: %+v", p, records[p], sum, c)
		}
	}
	h.closesFind()
}

// closesFind requires exactly one fate for every summary that find has read.
func (h *hostile) closesFind() {
	h.t.Helper()
	last := h.progress(schemas.TopicFindProgress)
	records := map[int32]int64{}
	for _, r := range h.read(schemas.TopicJobSummary) {
		if p := last[r.Partition]; p != nil && r.Offset < p.Position {
			records[r.Partition]++
		}
	}
	total := schemas.ProgressCounts{}
	for p, progress := range last {
		c := progress.Counts
		if sum := c.Summarized + c.Rejected + c.Late + c.Duplicate; sum != records[p] || c.Lost > 0 {
			h.t.Errorf("find, partition %d: %d summaries were read, and %d have a fate: %+v", p, records[p], sum, c)
		}
		total.Summarized += c.Summarized
		total.Rejected += c.Rejected
	}
	h.t.Logf("find: %d summaries folded, %d rejected", total.Summarized, total.Rejected)
	if total.Summarized == 0 {
		h.t.Error("find folded nothing")
	}
}

// unknownSchema writes a summary that only a later release could read. The sink has to wait for that release, and
// report it.
func (h *hostile) unknownSchema() {
	h.t.Helper()
	before := h.logSizes()
	h.write(false, hostileRecord{
		kind: "unknown schema", topic: schemas.TopicJobSummary, partition: 0,
		value: append([]byte{0xC3, 1, 1, 2, 3, 4, 5, 6, 7, 8}, "a newer summary"...),
	})
	h.logged(before, "sink", `unknown schema.*since|since.*unknown schema`)
	h.alive("sink")
	h.logged(before, "find", `record cannot be used.*unknown schema`) // find is no archive, so it goes on
	h.alive("find")
}

// logSizes returns the lengths of the logs.
func (h *hostile) logSizes() map[string]int {
	h.t.Helper()
	sizes := map[string]int{}
	for name, p := range h.services {
		b, err := os.ReadFile(p.log)
		if err != nil {
			h.t.Fatal(err)
		}
		sizes[name] = len(b)
	}
	return sizes
}

// logged waits for a text that the logs of a service gained since before.
func (h *hostile) logged(before map[string]int, kind, pattern string) {
	h.t.Helper()
	wanted := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		for name, p := range h.services {
			if b, err := os.ReadFile(p.log); err == nil && service(name) == kind && wanted.Match(b[before[name]:]) {
				return
			}
		}
	}
	h.t.Errorf("no %s logs %q", kind, pattern)
}

// alive fails the test if no process of a kind runs.
func (h *hostile) alive(kinds ...string) {
	h.t.Helper()
	for name, p := range h.services {
		if slices.Contains(kinds, service(name)) && p.pid() == 0 {
			h.t.Errorf("%s does not run", name)
		}
	}
}

// topicsMadeAgain deletes a topic and makes it again. Its readers have to stop and report the remedy, and all others
// have to go on.
func (h *hostile) topicsMadeAgain() {
	h.t.Helper()
	adm := kadm.NewClient(h.cl)
	topics := schemas.Topics(h.cfg.Prefix, schemas.Sizes{
		Collectors: h.cfg.Collectors, Routes: h.cfg.Partitions.Routes, Partials: h.cfg.Partitions.Partials,
		JobSummary:  h.cfg.Partitions.JobSummary,
		Replication: h.cfg.Topics.Replication, CountersRetention: time.Hour, SummaryRetention: time.Hour,
	})
	remedy := `deleted and made (anew|again)|was made again`
	for _, topic := range []struct{ name, reader string }{
		{schemas.TopicJobSummary, "sink"}, {schemas.TopicPartials, "merge"}, {schemas.TopicCounters, "collect"},
	} {
		for name, p := range h.services {
			if service(name) == topic.reader {
				p.mu.Lock()
				p.wanted = true // it may end
				p.mu.Unlock()
			}
		}
		before := h.logSizes()
		deleteTopics(h.t, adm, []schemas.Topic{{Name: h.cfg.Prefix + topic.name}})
		h.eventually(topic.name+" is made again", func() bool {
			return kafka.CreateTopics(h.t.Context(), h.cl, topics, nil) == nil
		})
		h.logged(before, topic.reader, remedy)
		if topic.name == schemas.TopicJobSummary {
			h.logged(before, "find", remedy)
		}
		for _, kind := range []string{"simulate", "balance", "collect", "merge", "find", "sink"} {
			if kind != "sink" && (kind != "merge" || topic.reader == "sink") && kind != topic.reader {
				h.alive(kind)
			}
		}
	}
	if n := h.m.listen().panics; n > 0 {
		h.t.Errorf("%d panics", n)
	}
}
