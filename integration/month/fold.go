package month

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/schemas"
)

// collectors is how many collectors the machine has. A job of more than a quarter of the machine is split.
const collectors = 4

// machine is what is simulated.
type machine struct {
	cluster    string
	nodes      int
	intervalMs int64
	sketch     int
	jobs       []job
}

// home returns the collector of a node that no job holds, and of a share of a split job.
func (m *machine) home(node int) int32 { return int32(node * collectors / m.nodes) }

// fold returns the summaries of the intervals [startMs, endMs). The nodes' records go through the collectors' fold, and
// shares through merge's, as they would on topics.
func (m *machine) fold(startMs, endMs int64) ([]*schemas.JobSummary, error) {
	f := folds{merger: processors.NewMerger(m.cluster, collectors, nil)}
	f.merger.Sketch = m.sketch
	for p := range int32(collectors) {
		c := processors.NewCollector(m.cluster, p, collectors, nil)
		c.Sketch = m.sketch
		f.collectors = append(f.collectors, c)
	}
	first, _ := slices.BinarySearchFunc(m.jobs, endMs, func(j job, end int64) int {
		return int(min(max(*j.Start-end, -1), 1))
	})
	for start := startMs; start < endMs; start += m.intervalMs {
		var running []*job
		for i := range m.jobs[:first] {
			if m.jobs[i].covers(start, m.intervalMs) {
				running = append(running, &m.jobs[i])
			}
		}
		if err := m.interval(&f, start, running); err != nil {
			return nil, err
		}
	}
	return f.summaries, nil
}

// interval sends the records of one interval, and its Ticks.
func (m *machine) interval(f *folds, start int64, running []*job) error {
	ticks := make([]schemas.Tick, collectors)
	at := map[schemas.JobKey]map[int32][]string{}
	held := make([]*job, m.nodes)
	for _, j := range running {
		for _, n := range j.on {
			held[n] = j
		}
	}
	for n, j := range held {
		key, p, state := schemas.JobKey{JobID: schemas.JobRest}, m.home(n), stateOf(nil, 0, n, 0)
		if j != nil {
			k := slices.Index(j.on, n)
			key, state = j.Identity(), stateOf(j, k, n, start-*j.Start)
			if 4*len(j.on) <= m.nodes {
				p = m.home(j.on[0])
			}
		}
		if at[key] == nil {
			at[key] = map[int32][]string{}
		}
		at[key][p] = append(at[key][p], nodeName(n))
		batch := &schemas.CounterBatch{NodeHeader: m.header(n, key, start), Metrics: state.metrics(uint64(start), n)}
		if err := f.send(p, batch, start+m.intervalMs); err != nil {
			return err
		}
	}
	for key, shares := range at {
		total := 0
		for _, nodes := range shares {
			total += len(nodes)
		}
		for p, nodes := range shares {
			ticks[p].Jobs = append(ticks[p].Jobs, schemas.TickJob{
				JobID: key.JobID, Restart: key.Restart, Parts: int32(len(shares)), JobNodes: int32(total), Nodes: nodes,
			})
		}
	}
	for p := range ticks {
		t := &ticks[p]
		t.IntervalStart, t.IntervalMs = start, m.intervalMs
		slices.SortFunc(t.Jobs, func(a, b schemas.TickJob) int { return strings.Compare(a.JobID, b.JobID) })
		if err := f.send(int32(p), t, start+m.intervalMs); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) header(node int, key schemas.JobKey, start int64) schemas.NodeHeader {
	h := schemas.NodeHeader{
		Cluster: m.cluster, Node: nodeName(node), BootID: "simulated", RunID: "simulated", Seq: 1,
		IntervalStart: start, IntervalMs: m.intervalMs, SampledAt: 1000 * (start + m.intervalMs),
		SentAt: start + m.intervalMs, JobID: key.JobID, Restart: key.Restart, Cpus: make([]int32, nodeCPUs),
	}
	for c := range h.Cpus {
		h.Cpus[c] = int32(c)
	}
	return h
}

// folds are the stages between the agents and the sink.
type folds struct {
	collectors []*processors.Collector
	merger     *processors.Merger
	offsets    [collectors + 1]int64
	summaries  []*schemas.JobSummary
}

// send hands a record to a collector, and what comes of it to merge.
func (f *folds) send(p int32, r schemas.Record, nowMs int64) error {
	return f.apply(f.collectors[p], int(p), r, nowMs)
}

func (f *folds) apply(to processors.Fold, topic int, r schemas.Record, nowMs int64) error {
	value, err := schemas.MarshalChecked(r)
	if err != nil {
		return err
	}
	fx := to.Apply(processors.Entry{Offset: f.offsets[topic], AppendedMs: nowMs, Value: value})
	f.offsets[topic]++
	if n := fx.Counts.Rejected + fx.Counts.Late + fx.Counts.Misrouted; n > 0 {
		return fmt.Errorf("a made-up record was refused: %+v", fx.Counts)
	}
	for _, out := range fx.Outputs {
		if s, is := out.(*schemas.JobSummary); is {
			f.summaries = append(f.summaries, s)
			continue
		}
		if err := f.apply(f.merger, collectors, out, nowMs); err != nil {
			return err
		}
	}
	return nil
}
