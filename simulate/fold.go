package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// collectors is the number of collectors of the machine. A job on more than a quarter of the machine is split.
const collectors = 4

// machine is the simulated machine with its jobs.
type machine struct {
	cluster    string
	intervalMs int64
	sketch     int
	layout
	jobs []job
	// measure returns the metrics of the pieces of a node in an interval, or nil if its agent is silent.
	measure func(node int, pieces []piece, start int64) [][]schemas.CounterBatchMetric
}

// home returns the collector for a node's CPUs outside of jobs, and for a node's share of a split job.
func (m *machine) home(node int) int32 { return int32(node * collectors / len(m.names)) }

// fold returns the summaries of the intervals [startMs, endMs). The nodes' records go through the collectors' fold, and
// shares through merge's, as they would on topics.
func (m *machine) fold(startMs, endMs int64) ([]*schemas.JobSummary, error) {
	f := folds{merger: fold.NewMerger(m.cluster, collectors, nil)}
	f.merger.Sketch = m.sketch
	for p := range int32(collectors) {
		c := fold.NewCollector(m.cluster, p, collectors, nil)
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
	at := map[schemas.JobKey]map[int32][]string{}
	held := make([]*job, len(m.slots))
	for _, j := range running {
		for _, s := range j.on {
			held[s] = j
		}
	}
	for n, name := range m.names {
		pieces := m.pieces(n, held)
		metrics := m.measure(n, pieces, start)
		for i := range pieces {
			key, p := schemas.JobKey{JobID: schemas.JobRest}, m.home(n)
			if j := pieces[i].job; j != nil {
				key = j.Identity()
				if 4*len(j.nodes) <= len(m.names) {
					p = m.home(j.nodes[0])
				}
			}
			if at[key] == nil {
				at[key] = map[int32][]string{}
			}
			at[key][p] = append(at[key][p], name)
			if metrics == nil {
				continue
			}
			batch := &schemas.CounterBatch{NodeHeader: m.header(name, key, start, pieces[i].cpus), Metrics: metrics[i]}
			if err := f.send(p, batch, start+m.intervalMs); err != nil {
				return err
			}
		}
	}
	return m.close(f, start, at)
}

// close sends the Ticks of an interval. Each lists the jobs with records at its collector, and their nodes.
func (m *machine) close(f *folds, start int64, at map[schemas.JobKey]map[int32][]string) error {
	ticks := make([]schemas.Tick, collectors)
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

func (m *machine) header(node string, key schemas.JobKey, start int64, cpus []int32) schemas.NodeHeader {
	return schemas.NodeHeader{
		Cluster: m.cluster, Node: node, BootID: "simulated", RunID: "simulated", Seq: 1,
		IntervalStart: start, IntervalMs: m.intervalMs, SampledAt: 1000 * (start + m.intervalMs),
		SentAt: start + m.intervalMs, JobID: key.JobID, Restart: key.Restart, Cpus: cpus,
	}
}

// folds are the stages between the agents and the sink.
type folds struct {
	collectors []*fold.Collector
	merger     *fold.Merger
	offsets    [collectors + 1]int64
	summaries  []*schemas.JobSummary
}

// send hands a record to a collector, and the collector's output to merge.
func (f *folds) send(p int32, r schemas.Record, nowMs int64) error {
	return f.apply(f.collectors[p], int(p), r, nowMs)
}

func (f *folds) apply(to fold.Fold, topic int, r schemas.Record, nowMs int64) error {
	value, err := schemas.MarshalChecked(r)
	if err != nil {
		return err
	}
	fx := to.Apply(fold.Entry{Offset: f.offsets[topic], AppendedMs: nowMs, Value: value})
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
