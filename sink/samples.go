package sink

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	samplesDir = "samples"
	// samplePage is the size of a page of samples before compression. Larger pages compress better, and here a reader
	// takes values by the million.
	samplePage = 1 << 20

	// Memory of a row of samples in a draft: the row, its texts, and an element of its lists.
	sampleBytes  = 320
	elementBytes = 8

	// leastLate is how late a record may be appended, at least. Every record that is later is listed as undecodable:
	// otherwise one node with a wrong clock could end a file with every record, each in another date.
	leastLate = time.Hour
)

// sampleRow is a row of archive/samples: what one node measured of one metric, for one job in one interval. Users'
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

// RunSamples writes the values of the topic counters to the archive until ctx ends, and deletes them after
// samples.retention. It is Run for another table, with one difference: samples are optional, and so nothing that is
// missing stops it. It records a gap in the chain by itself, and goes on behind it. It passes records that are older
// than since, or than samples.retention if since is 0.
func RunSamples(ctx context.Context, cfg config.Config, since time.Duration, log *slog.Logger, metrics *Metrics) error {
	s := newSink(cfg, samples(cfg), log, metrics, nil)
	if since == 0 {
		since = cfg.Samples.Retention
	}
	s.since = time.Now().Add(-since)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error {
		newExpiry(cfg, s.log).run(ctx)
		return nil
	})
	g.Go(func() error {
		defer cancel()
		return s.run(ctx)
	})
	return g.Wait()
}

// samples is the table of the topic counters.
func samples(cfg config.Config) table[sampleRow] {
	wanted := map[string]bool{}
	for _, name := range cfg.Samples.Metrics {
		wanted[name] = true
	}
	return table[sampleRow]{
		dir: samplesDir, topic: cfg.Prefix + schemas.TopicCounters,
		partitions: cfg.Collectors, setting: "collectors",
		decode:   func(r *kgo.Record) item[sampleRow] { return decodeSamples(&cfg, wanted, r) },
		sort:     sortSamples,
		options:  []parquet.WriterOption{parquet.PageBufferSize(samplePage)},
		optional: true,
	}
}

// sortSamples brings rows into the order of a file. Of the orders that were measured this one takes the fewest bytes.
func sortSamples(rows []sampleRow) {
	slices.SortStableFunc(rows, func(a, b sampleRow) int {
		return cmp.Or(
			cmp.Compare(a.JobID, b.JobID),
			cmp.Compare(a.Restart, b.Restart),
			cmp.Compare(a.Metric, b.Metric),
			cmp.Compare(a.IntervalStart, b.IntervalStart),
			cmp.Compare(a.Node, b.Node))
	})
}

// decodeSamples makes an item of a record of counters, with the wanted metrics, or with all if none is named. A record
// with an unknown schema is undecodable, and not waited at: any node may write one.
func decodeSamples(cfg *config.Config, wanted map[string]bool, r *kgo.Record) item[sampleRow] {
	it := item[sampleRow]{offset: r.Offset}
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
		if it.reason = misplaced(cfg, b, r.Timestamp.UnixMilli()); it.reason != "" {
			break
		}
		if it.rows = sampleRows(b, wanted, r); len(it.rows) > 0 {
			it.start, it.date = b.IntervalStart, dateOf(b.IntervalStart)
		}
		for i := range it.rows {
			it.bytes += sampleBytes + elementBytes*int64(len(it.rows[i].Values))
		}
	default:
		it.reason = fmt.Sprintf("a %T is not a record of counters", record)
	}
	it.reason = it.reason[:min(len(it.reason), maxReasonBytes)]
	return it
}

// misplaced returns why a batch is not of this cluster or not of its time, or nothing.
func misplaced(cfg *config.Config, b *schemas.CounterBatch, appendedMs int64) string {
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

// sampleRows returns a row for each wanted metric of a batch that has values. The rows share memory with it.
func sampleRows(b *schemas.CounterBatch, wanted map[string]bool, r *kgo.Record) []sampleRow {
	head := sampleRow{
		Cluster: b.Cluster, Node: b.Node, JobID: b.JobID, Restart: b.Restart,
		IntervalStart: b.IntervalStart, IntervalMs: b.IntervalMs, SampledAt: b.SampledAt,
		Partition: r.Partition, Position: r.Offset,
	}
	var rows []sampleRow
	for i := range b.Metrics {
		m := &b.Metrics[i]
		if len(m.Values) == 0 || len(wanted) > 0 && !wanted[m.Name] {
			continue
		}
		row := head
		row.Metric, row.Unit, row.Scope, row.Values = m.Name, m.Unit, m.Scope, m.Values
		if m.Scope == schemas.ScopeCore {
			row.CPUs = b.Cpus
		}
		rows = append(rows, row)
	}
	return rows
}
