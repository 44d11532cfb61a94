package sink

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	nodesDir = "nodes"
	hourMs   = 3_600_000

	// Memory of a draft: of a job in an hour, of a node in it, of an interval of a node, of a metric, and of a metric
	// on a node.
	hourBytes       = 600
	hourNodeBytes   = 200
	hourStartBytes  = 8
	hourMetricBytes = 300
	hourSumBytes    = 64
)

// NodeHour is a row of archive/nodes: one metric of a job in an hour of UTC, with lists that have a value for each node
// in Nodes. Rows of the same hour add up: a file has those records of an hour that it was made of. Users' queries rely
// on its columns.
type NodeHour struct {
	Cluster   string    `parquet:"cluster,dict"`
	JobID     string    `parquet:"job_id,dict"`
	Restart   int32     `parquet:"restart"`
	Hour      int64     `parquet:"hour,timestamp(millisecond)"`
	Metric    string    `parquet:"metric,dict"`
	Unit      string    `parquet:"unit,dict"`
	Scope     string    `parquet:"scope,dict"`
	Nodes     []string  `parquet:"nodes,list,dict"`
	Intervals []int32   `parquet:"intervals,list"` // with a value
	Counts    []int64   `parquet:"counts,list"`    // of values
	Means     []float64 `parquet:"means,list"`     // of all values of the node in the hour
	Mins      []float64 `parquet:"mins,list"`
	Maxs      []float64 `parquet:"maxs,list"`
}

// hourKey names a job in an hour.
type hourKey struct {
	job     string
	restart int32
	hour    int64
}

// metricKey names a metric.
type metricKey struct{ name, unit, scope string }

// nodeSum is one metric of one node.
type nodeSum struct {
	count          int64
	intervals      int32
	mean, min, max float64
}

// add takes count values of an interval.
func (s *nodeSum) add(count int64, mean, least, most float64) {
	if s.count == 0 {
		s.min, s.max = least, most
	}
	s.count += count
	s.intervals++
	s.mean += (mean - s.mean) * float64(count) / float64(s.count)
	s.min, s.max = min(s.min, least), max(s.max, most)
}

// jobHour is a job in an hour. Its nodes have numbers, by which the sums are ordered.
type jobHour struct {
	numbers map[string]int32
	names   []string
	starts  [][]int64 // intervals of each node, ascending
	metrics map[metricKey]*metricHour
}

// metricHour is a row in a draft.
type metricHour struct {
	cluster string
	hourKey
	metricKey
	of   *jobHour
	sums []nodeSum // by the number of the node; one of count 0 has no value
}

// nodesIndex finds the rows of a draft.
type nodesIndex map[hourKey]*jobHour

// nodeRecord is what the table needs of a CounterBatch or a NodeSummary.
type nodeRecord struct {
	schemas.NodeHeader
	metrics []nodeValues
}

// nodeValues is one metric of a record.
type nodeValues struct {
	metricKey
	count             int64
	mean, least, most float64
}

// RunNodes writes the hourly numbers of each node of each job from the topic counters to the archive until ctx ends,
// and deletes them after nodes.retention. It is RunSamples for another table: what is missing does not stop it.
func RunNodes(ctx context.Context, cfg config.Config, since time.Duration, log *slog.Logger, metrics *Metrics) error {
	s := newSink(cfg, nodeHours(cfg), log, metrics, nil)
	return s.runOptional(ctx, newExpiry(cfg, nodesDir, cfg.Nodes.Retention, s.log), cfg.Nodes.Retention, since)
}

// nodeHours is the stream of the numbers of the nodes.
func nodeHours(cfg config.Config) stream[*metricHour] {
	wanted := map[string]bool{}
	for _, name := range cfg.Nodes.Metrics {
		wanted[name] = true
	}
	return stream[*metricHour]{
		dir: nodesDir, topic: cfg.Prefix + schemas.TopicCounters,
		partitions: cfg.Collectors, setting: "collectors",
		decode:   func(r *kgo.Record) item[*metricHour] { return decodeNode(&cfg, wanted, r) },
		encode:   encodeNodes,
		optional: true,
	}
}

// decodeNode makes an item of a record of counters. A record with an unknown schema is undecodable, and not waited at:
// any node may write one.
func decodeNode(cfg *config.Config, wanted map[string]bool, r *kgo.Record) item[*metricHour] {
	it := item[*metricHour]{offset: r.Offset}
	if r.Attrs.IsControl() {
		it.marker = true
		return it
	}
	it.date = dateOf(r.Timestamp.UnixMilli())
	record, err := schemas.Unmarshal(r.Value)
	if err != nil {
		it.reason = err.Error()
	}
	of := nodeRecord{}
	switch b := record.(type) {
	case nil, *schemas.Tick, *schemas.Gap: // they have no values
		return it.shortened()
	case *schemas.CounterBatch:
		of.NodeHeader = b.NodeHeader
		of.takeBatch(b, wanted)
	case *schemas.NodeSummary:
		of.NodeHeader = b.NodeHeader
		of.takeSummary(b, wanted)
	default:
		it.reason = fmt.Sprintf("a %T is not a record of counters", record)
		return it.shortened()
	}
	it.reason = misplaced(cfg, &of.NodeHeader, r.Timestamp.UnixMilli())
	if it.reason == "" && len(of.metrics) > 0 && of.JobID != schemas.JobRest {
		it.start, it.date = of.IntervalStart, dateOf(of.IntervalStart)
		it.fold = of.fold
	}
	return it.shortened()
}

// takeBatch reduces the values of each wanted metric.
func (n *nodeRecord) takeBatch(b *schemas.CounterBatch, wanted map[string]bool) {
	for i := range b.Metrics {
		m := &b.Metrics[i]
		if !wanted[m.Name] {
			continue
		}
		v := nodeValues{metricKey: metricKey{m.Name, m.Unit, m.Scope}, least: math.Inf(1), most: math.Inf(-1)}
		for _, x := range m.Values {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				continue
			}
			v.count++
			v.mean += (x - v.mean) / float64(v.count)
			v.least, v.most = min(v.least, x), max(v.most, x)
		}
		n.take(v)
	}
}

// takeSummary takes the numbers of each wanted metric of a job that its node reduced.
func (n *nodeRecord) takeSummary(b *schemas.NodeSummary, wanted map[string]bool) {
	for i := range b.Metrics {
		m := &b.Metrics[i]
		if wanted[m.Name] && m.Mean != nil && m.Deciles != nil && len(*m.Deciles) == 11 {
			n.take(nodeValues{
				metricKey{m.Name, m.Unit, m.Scope}, m.Count, *m.Mean, (*m.Deciles)[0], (*m.Deciles)[10],
			})
		}
	}
}

// take keeps the numbers of a metric with values.
func (n *nodeRecord) take(v nodeValues) {
	if v.count > 0 && !math.IsNaN(v.mean) && !math.IsInf(v.mean, 0) {
		n.metrics = append(n.metrics, v)
	}
}

// fold adds a record to the rows of a draft, and returns how much memory that takes. An interval of a node that is
// there already counts once.
func (n *nodeRecord) fold(rows []*metricHour, state *any) ([]*metricHour, int64) {
	index, is := (*state).(nodesIndex)
	if !is {
		index = nodesIndex{}
		*state = index
	}
	key := hourKey{n.JobID, n.Restart, n.IntervalStart - n.IntervalStart%hourMs}
	bytes := int64(0)
	of := index[key]
	if of == nil {
		key.job = strings.Clone(key.job) // a text of a record may keep all of it in memory
		of = &jobHour{numbers: map[string]int32{}, metrics: map[metricKey]*metricHour{}}
		index[key], bytes = of, hourBytes
	}
	number, known := of.numbers[n.Node]
	if !known {
		name := strings.Clone(n.Node)
		number = int32(len(of.names))
		of.numbers[name], of.names, of.starts = number, append(of.names, name), append(of.starts, nil)
		bytes += hourNodeBytes
	}
	at, again := slices.BinarySearch(of.starts[number], n.IntervalStart)
	if again {
		return rows, bytes
	}
	of.starts[number] = slices.Insert(of.starts[number], at, n.IntervalStart)
	bytes += hourStartBytes
	for i := range n.metrics {
		v := &n.metrics[i]
		row := of.metrics[v.metricKey]
		if row == nil {
			metric := metricKey{strings.Clone(v.name), strings.Clone(v.unit), strings.Clone(v.scope)}
			row = &metricHour{cluster: strings.Clone(n.Cluster), hourKey: key, metricKey: metric, of: of}
			of.metrics[metric] = row
			rows, bytes = append(rows, row), bytes+hourMetricBytes
		}
		if grown := int(number) + 1 - len(row.sums); grown > 0 {
			row.sums = append(row.sums, make([]nodeSum, grown)...)
			bytes += int64(grown) * hourSumBytes
		}
		row.sums[number].add(v.count, v.mean, v.least, v.most)
	}
	return rows, bytes
}

// encodeNodes sorts rows by job, restart, metric and hour, and writes them as a file.
func encodeNodes(w io.Writer, rows []*metricHour, f *Footer) error {
	slices.SortFunc(rows, func(a, b *metricHour) int {
		return cmp.Or(strings.Compare(a.job, b.job), cmp.Compare(a.restart, b.restart), strings.Compare(a.name, b.name),
			cmp.Compare(a.hour, b.hour), strings.Compare(a.unit, b.unit), strings.Compare(a.scope, b.scope))
	})
	chunks := func(yield func([]NodeHour) bool) {
		for some := range slices.Chunk(rows, chunkRows) {
			chunk := make([]NodeHour, len(some))
			for i, row := range some {
				chunk[i] = row.row()
			}
			if !yield(chunk) {
				return
			}
		}
	}
	return encodeChunks(w, chunks, f, parquet.PageBufferSize(samplePage))
}

// row returns the row as the archive keeps it, with its nodes in the order of their names.
func (m *metricHour) row() NodeHour {
	row := NodeHour{
		Cluster: m.cluster, JobID: m.job, Restart: m.restart,
		Hour: m.hour, Metric: m.name, Unit: m.unit, Scope: m.scope,
	}
	var numbers []int
	for i := range m.sums {
		if m.sums[i].count > 0 {
			numbers = append(numbers, i)
		}
	}
	slices.SortFunc(numbers, func(a, b int) int { return strings.Compare(m.of.names[a], m.of.names[b]) })
	for _, i := range numbers {
		s := &m.sums[i]
		row.Nodes = append(row.Nodes, m.of.names[i])
		row.Intervals, row.Counts = append(row.Intervals, s.intervals), append(row.Counts, s.count)
		row.Means = append(row.Means, s.mean)
		row.Mins, row.Maxs = append(row.Mins, s.min), append(row.Maxs, s.max)
	}
	return row
}

// NodesWriter writes table nodes of an archive as the service does with a log of one partition.
type NodesWriter struct {
	archive *archive
	of      stream[*metricHour]
	draft   *draft[*metricHour]
}

// NewNodesWriter returns a writer of the archive in dir, with nodes.metrics of a configuration. There must be no table
// nodes yet.
func NewNodesWriter(cfg config.Config, dir string) (*NodesWriter, error) {
	w := &NodesWriter{of: nodeHours(cfg), draft: newDraft[*metricHour](0, tail{})}
	w.archive = newArchive(dir, w.of.topic, nil)
	w.archive.root = filepath.Join(dir, w.of.dir)
	return w, w.archive.open()
}

// Add takes a record, which was appended when its interval ended. A file ends with a date.
func (w *NodesWriter) Add(b *schemas.CounterBatch) error {
	value, err := schemas.MarshalChecked(b)
	if err != nil {
		return err
	}
	at := time.UnixMilli(b.IntervalStart + b.IntervalMs)
	it := w.of.decode(&kgo.Record{Value: value, Offset: w.draft.next, Timestamp: at})
	if w.draft.ends(it) {
		if err := w.End(); err != nil {
			return err
		}
	}
	w.draft.add(it, at)
	return nil
}

// End ends the file.
func (w *NodesWriter) End() error {
	p := w.draft
	if p.empty() {
		return nil
	}
	w.draft = newDraft[*metricHour](0, tail{next: p.next, date: p.date})
	return w.archive.commitFile(p.date, p.footer(w.of.topic), w.of.encoder(p.rows))
}
