package sink

import (
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Metrics are the Prometheus metrics of the sink, or of the samples or nodes service.
type Metrics struct {
	position, lag, lastStart, waits               *prometheus.GaugeVec
	rows, files, bytes, conflicts, failures, lost *prometheus.CounterVec
	fileSeconds                                   prometheus.Histogram
	// damaged has no labels. It is a vector, so that it is absent before the first look.
	damaged *prometheus.GaugeVec
}

// NewMetrics registers the metrics of the sink. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := newMetrics(registry, "weir_sink_")
	m.waits = promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_sink_waits",
		Help: "1 while the partition waits at a summary with a schema that this sink does not know, else 0.",
	}, []string{"partition"})
	return m
}

// NewSamplesMetrics registers the metrics of the samples service. A registry accepts them only once.
func NewSamplesMetrics(registry prometheus.Registerer) *Metrics {
	return newOptionalMetrics(registry, "weir_samples_", "samples")
}

// NewNodesMetrics registers the metrics of the nodes service. A registry accepts them only once.
func NewNodesMetrics(registry prometheus.Registerer) *Metrics {
	return newOptionalMetrics(registry, "weir_nodes_", "values")
}

// newOptionalMetrics registers the metrics of a service that records gaps in its archive. The help names its contents.
func newOptionalMetrics(registry prometheus.Registerer, prefix, contents string) *Metrics {
	m := newMetrics(registry, prefix)
	m.lost = promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "lost_offsets_total",
		Help: "Offsets of gaps that this process recorded: their " + contents + " are not in the archive.",
	}, []string{"partition"})
	return m
}

// newMetrics registers the metrics that all three services export, under names that begin with prefix.
func newMetrics(registry prometheus.Registerer, prefix string) *Metrics {
	add, byPartition := promauto.With(registry), []string{"partition"}
	return &Metrics{
		fileSeconds: add.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "file_seconds", Help: "Time to write a file and make it durable.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		damaged: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "damaged_files", Help: "Files of the archive that could not be read at the last look.",
		}, nil),
		position: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "position", Help: "Archived position: where the next file of the partition starts.",
		}, byPartition),
		lag: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "lag_offsets",
			Help: "Offsets between what is archived and the end of the partition as the last fetch had it.",
		}, byPartition),
		lastStart: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "interval_start_seconds",
			Help: "Start of the latest interval in the last file that this process wrote, in Unix time.",
		}, byPartition),
		rows: add.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "rows_total", Help: "Rows that this process archived.",
		}, byPartition),
		files: add.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "files_total", Help: "Files that this process archived.",
		}, byPartition),
		bytes: add.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "bytes_total", Help: "Bytes of the files that this process archived.",
		}, byPartition),
		conflicts: add.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "conflicts_total", Help: "Files that another sink had written first.",
		}, byPartition),
		failures: add.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "failures_total", Help: "Tries to write a file that failed and are repeated.",
		}, byPartition),
	}
}

func labels(partition int32) prometheus.Labels {
	return prometheus.Labels{"partition": strconv.Itoa(int(partition))}
}

// measure sets the gauges of a partition.
func (s *sink[R]) measure(p *draft[R]) {
	l := labels(p.id)
	s.metrics.position.With(l).Set(float64(p.start))
	s.metrics.lag.With(l).Set(float64(max(s.ends[p.id], p.next) - p.start))
	m := s.metrics
	if m.waits != nil {
		waits := 0.0
		if s.waits[p.id] != nil {
			waits = 1
		}
		m.waits.With(l).Set(waits)
	}
	for _, c := range []*prometheus.CounterVec{m.rows, m.files, m.bytes, m.conflicts, m.failures, m.lost} {
		if c != nil {
			c.With(l) // at 0, so that a rate sees the first
		}
	}
}

// fetched notes the ends of the partitions.
func (s *sink[R]) fetched(fetches kgo.Fetches) {
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) > 0 {
			s.ends[f.Partition] = f.HighWatermark
			s.measure(s.drafts[f.Partition])
		}
	})
}

// wrote counts a committed file of a partition.
func (s *sink[R]) wrote(p *draft[R], f Footer, took time.Duration) {
	l := labels(p.id)
	s.metrics.files.With(l).Inc()
	s.metrics.rows.With(l).Add(float64(f.Rows))
	s.metrics.fileSeconds.Observe(took.Seconds())
	if f.Rows > 0 {
		s.metrics.lastStart.With(l).Set(float64(f.LastInterval) / 1000)
	}
	// A user may have deleted the date already. Then its bytes are not counted.
	if info, err := os.Stat(s.archive.path(p.date, p.id, f.Start)); err == nil {
		s.metrics.bytes.With(l).Add(float64(info.Size()))
	}
}
