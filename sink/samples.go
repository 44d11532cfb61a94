package sink

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	samplesDir = "samples"
	// samplePage is the size of a page of samples before compression. Larger pages compress better, and here a reader
	// takes values by the million.
	samplePage = 1 << 20

	// Memory in a draft of a batch, of a metric, and of a value.
	batchBytes  = 900
	metricBytes = 150
	valueBytes  = 8

	// leastLate is how late a record may be appended, at least. A later one is listed as undecodable. Otherwise a node
	// with a wrong clock could end a file with every record, each in another date.
	leastLate = time.Hour
)

// sampleRow is a row of archive/samples: the value of one metric on one node, for one job in one interval. Users'
// queries rely on its columns.
type sampleRow struct {
	Cluster       string    `parquet:"cluster,dict"`
	Node          string    `parquet:"node,dict"`
	JobID         string    `parquet:"job_id,dict"`
	Restart       int32     `parquet:"restart"`
	IntervalStart int64     `parquet:"interval_start,timestamp(millisecond)"`
	IntervalMs    int64     `parquet:"interval_ms"`
	Metric        string    `parquet:"metric,dict"`
	Unit          string    `parquet:"unit,dict"`
	Scope         string    `parquet:"scope,dict"`
	CPUs          []int32   `parquet:"cpus,optional,list"` // null for metrics of the node
	Values        []float64 `parquet:"values,list"`        // NaN where a core lacks the metric
	SampledAt     int64     `parquet:"sampled_at,timestamp(microsecond)"`
	Partition     int32     `parquet:"partition"` // partition and position name the record
	Position      int64     `parquet:"position"`
}

// measured is a row in a draft: one metric of a batch. A row itself takes three times as much memory.
type measured struct {
	batch     *schemas.CounterBatch
	metric    int32 // its place in the batch
	partition int32
	position  int64
}

// RunSamples writes the values of the topic counters to the archive until ctx ends, and deletes them after
// samples.retention. It is Run for another stream, with one difference: samples are optional, and so nothing that is
// missing stops it. It records a gap in the chain by itself, and goes on behind it. It passes records that are older
// than since, or than samples.retention if since is 0.
func RunSamples(ctx context.Context, cfg config.Config, since time.Duration, log *slog.Logger, metrics *Metrics) error {
	s := newSink(cfg, samples(cfg), log, metrics, nil)
	return s.runOptional(ctx, newExpiry(cfg, samplesDir, cfg.Samples.Retention, s.log), cfg.Samples.Retention, since)
}

// samples is the stream of the values of all cores.
func samples(cfg config.Config) stream[measured] {
	wanted := map[string]bool{}
	for _, name := range cfg.Samples.Metrics {
		wanted[name] = true
	}
	return stream[measured]{
		dir: samplesDir, topic: cfg.Prefix + schemas.TopicCounters,
		partitions: cfg.Collectors, setting: "collectors",
		decode:   func(r *kgo.Record) item[measured] { return decodeSamples(&cfg, wanted, r) },
		encode:   encodeSamples,
		optional: true,
	}
}

// encodeSamples sorts rows, and writes them as a file. Of all orders that were measured, this takes the fewest bytes.
func encodeSamples(w io.Writer, rows []measured, f *Footer) error {
	slices.SortFunc(rows, compareMeasured)
	chunks := func(yield func([]sampleRow) bool) {
		chunk := make([]sampleRow, 0, chunkRows)
		for some := range slices.Chunk(rows, chunkRows) {
			chunk = chunk[:0]
			for i := range some {
				chunk = append(chunk, some[i].row())
			}
			if !yield(chunk) {
				return
			}
		}
	}
	return encodeChunks(w, chunks, f, parquet.PageBufferSize(samplePage))
}

// compareMeasured orders rows by job, restart, metric, interval and node, and repeated values by position. It stops at
// the first difference: the arguments of cmp.Or would take longer than the rest of the sort.
func compareMeasured(a, b measured) int {
	x, y := a.batch, b.batch
	if c := strings.Compare(x.JobID, y.JobID); c != 0 {
		return c
	}
	if c := cmp.Compare(x.Restart, y.Restart); c != 0 {
		return c
	}
	if c := strings.Compare(x.Metrics[a.metric].Name, y.Metrics[b.metric].Name); c != 0 {
		return c
	}
	if c := cmp.Compare(x.IntervalStart, y.IntervalStart); c != 0 {
		return c
	}
	if c := strings.Compare(x.Node, y.Node); c != 0 {
		return c
	}
	return cmp.Compare(a.position, b.position)
}

// row returns the row as the archive keeps it.
func (m *measured) row() sampleRow {
	b, metric := m.batch, &m.batch.Metrics[m.metric]
	row := sampleRow{
		Cluster: b.Cluster, Node: b.Node, JobID: b.JobID, Restart: b.Restart,
		IntervalStart: b.IntervalStart, IntervalMs: b.IntervalMs,
		Metric: metric.Name, Unit: metric.Unit, Scope: metric.Scope, Values: metric.Values,
		SampledAt: b.SampledAt, Partition: m.partition, Position: m.position,
	}
	if metric.Scope == schemas.ScopeCore {
		row.CPUs = b.Cpus
	}
	return row
}

// decodeSamples makes an item of a record of counters, with the wanted metrics, or with all if none is named. A record
// with an unknown schema is undecodable, and not waited at: any node may write one.
func decodeSamples(cfg *config.Config, wanted map[string]bool, r *kgo.Record) item[measured] {
	it := item[measured]{offset: r.Offset}
	if r.Attrs.IsControl() {
		it.marker = true
		return it
	}
	it.date = dateOf(r.Timestamp.UnixMilli())
	record, err := schemas.Unmarshal(r.Value)
	if err != nil {
		it.reason = err.Error()
	}
	switch b := record.(type) {
	case nil, *schemas.NodeSummary, *schemas.Tick, *schemas.Gap: // they have no values
	case *schemas.CounterBatch:
		if it.reason = misplaced(cfg, &b.NodeHeader, r.Timestamp.UnixMilli()); it.reason == "" {
			keep(b, wanted)
			takeMetrics(&it, b, r)
		}
	default:
		it.reason = fmt.Sprintf("a %T is not a record of counters", record)
	}
	return it.shortened()
}

// keep leaves out the metrics that have no values, or are not wanted; without names all are. If it leaves some out, it
// clones the others, which share their memory with those.
func keep(b *schemas.CounterBatch, wanted map[string]bool) {
	all := len(b.Metrics)
	b.Metrics = slices.DeleteFunc(b.Metrics, func(m schemas.CounterBatchMetric) bool {
		return len(m.Values) == 0 || len(wanted) > 0 && !wanted[m.Name]
	})
	if len(b.Metrics) == all {
		return
	}
	b.Metrics = slices.Clone(b.Metrics)
	for i := range b.Metrics {
		b.Metrics[i].Values = slices.Clone(b.Metrics[i].Values)
	}
}

// takeMetrics gives an item a row for each metric of a batch.
func takeMetrics(it *item[measured], b *schemas.CounterBatch, r *kgo.Record) {
	if len(b.Metrics) == 0 {
		return
	}
	it.start, it.date = b.IntervalStart, dateOf(b.IntervalStart)
	it.rows = make([]measured, len(b.Metrics))
	it.bytes = batchBytes + 4*int64(len(b.Cpus))
	for i := range b.Metrics {
		it.rows[i] = measured{b, int32(i), r.Partition, r.Offset}
		it.bytes += metricBytes + valueBytes*int64(len(b.Metrics[i].Values))
	}
}

// misplaced returns why a record is not of this cluster or not of its time, or nothing.
func misplaced(cfg *config.Config, b *schemas.NodeHeader, appendedMs int64) string {
	ahead := time.Duration(b.IntervalStart+b.IntervalMs-appendedMs) * time.Millisecond
	age := time.Duration(appendedMs-b.IntervalStart) * time.Millisecond
	switch {
	case b.Cluster != cfg.Cluster:
		return fmt.Sprintf("of cluster %s, not %s", b.Cluster, cfg.Cluster)
	case ahead > config.Slack(cfg.Interval):
		return fmt.Sprintf("its interval ends %v after it was appended", ahead)
	case age > max(leastLate, 2*config.Outage*cfg.Interval):
		return fmt.Sprintf("its interval began %v before it was appended", age)
	}
	return ""
}
