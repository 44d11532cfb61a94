package sink

import (
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Metrics are what the sink shows Prometheus.
type Metrics struct {
	position, lag, lastStart, waits         *prometheus.GaugeVec
	rows, files, bytes, conflicts, failures *prometheus.CounterVec
	fileSeconds                             prometheus.Histogram
}

// NewMetrics registers the metrics of this package. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	add, byPartition := promauto.With(registry), []string{"partition"}
	return &Metrics{
		fileSeconds: add.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_sink_file_seconds", Help: "Time to write a file and make it durable.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		position: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_sink_position", Help: "Archived position: where the next file of the partition starts.",
		}, byPartition),
		lag: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_sink_lag_offsets",
			Help: "Offsets between what is archived and the end of the partition as the last fetch had it.",
		}, byPartition),
		lastStart: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_sink_interval_start_seconds",
			Help: "Start of the latest interval in the last file that this process wrote, in Unix time.",
		}, byPartition),
		rows: add.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_sink_rows_total", Help: "Rows that this process archived.",
		}, byPartition),
		files: add.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_sink_files_total", Help: "Files that this process archived.",
		}, byPartition),
		bytes: add.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_sink_bytes_total", Help: "Bytes of the files that this process archived.",
		}, byPartition),
		conflicts: add.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_sink_conflicts_total", Help: "Files that another sink had written first.",
		}, byPartition),
		failures: add.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_sink_failures_total", Help: "Tries to write a file that failed and are repeated.",
		}, byPartition),
		waits: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_sink_waits",
			Help: "1 while the partition waits at a summary with a schema that this sink does not know, else 0.",
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
	if s.waits[p.id] != nil {
		s.metrics.waits.With(l).Set(1)
	} else {
		s.metrics.waits.With(l).Set(0)
	}
	m := s.metrics
	for _, c := range []*prometheus.CounterVec{m.rows, m.files, m.bytes, m.conflicts, m.failures} {
		c.With(l) // at 0, so that a rate sees the first
	}
}

// fetched notes where the partitions end.
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
