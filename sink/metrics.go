package sink

import (
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"
)

var byPartition = []string{"partition"}

var (
	positionArchived = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_sink_position", Help: "Archived position: where the next file of the partition starts.",
	}, byPartition)
	lagOffsets = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_sink_lag_offsets", Help: "Offsets between what is archived and the end of the partition as the last fetch had it.",
	}, byPartition)
	lastStart = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_sink_interval_start_seconds", Help: "Start of the latest interval in the last file that this process wrote, in Unix time.",
	}, byPartition)
	rowsWritten = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_sink_rows_total", Help: "Rows that this process archived.",
	}, byPartition)
	filesWritten = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_sink_files_total", Help: "Files that this process archived.",
	}, byPartition)
	bytesWritten = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_sink_bytes_total", Help: "Bytes of the files that this process archived.",
	}, byPartition)
	conflicts = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_sink_conflicts_total", Help: "Files that another sink had written first.",
	}, byPartition)
	failedWrites = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_sink_failures_total", Help: "Tries to write a file that failed and are repeated.",
	}, byPartition)
	waiting = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_sink_waits", Help: "1 while the partition waits at a summary with a schema that this sink does not know, else 0.",
	}, byPartition)
	// Without labels, but absent from a process that is no sink.
	fileSeconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "weir_sink_file_seconds", Help: "Time to write a file and make it durable.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, nil)
)

func labels(partition int32) prometheus.Labels {
	return prometheus.Labels{"partition": strconv.Itoa(int(partition))}
}

// measure shows how far a partition is archived.
func (s *sink) measure(p *part) {
	l := labels(p.id)
	positionArchived.With(l).Set(float64(p.start))
	lagOffsets.With(l).Set(float64(max(s.ends[p.id], p.next) - p.start))
	if s.waits[p.id] != nil {
		waiting.With(l).Set(1)
	} else {
		waiting.With(l).Set(0)
	}
	for _, c := range []*prometheus.CounterVec{rowsWritten, filesWritten, bytesWritten, conflicts, failedWrites} {
		c.With(l) // at 0, so that a rate sees the first
	}
}

// fetched notes where the partitions end.
func (s *sink) fetched(fetches kgo.Fetches) {
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(f.Records) > 0 {
			s.ends[f.Partition] = f.HighWatermark
			s.measure(s.parts[f.Partition])
		}
	})
}

// wrote notes a file of a partition that was committed.
func (s *sink) wrote(p *part, f Footer, took time.Duration) {
	l := labels(p.id)
	filesWritten.With(l).Inc()
	rowsWritten.With(l).Add(float64(f.Rows))
	fileSeconds.WithLabelValues().Observe(took.Seconds())
	if f.Rows > 0 {
		lastStart.With(l).Set(float64(f.LastInterval) / 1000)
	}
	// Already gone if somebody deletes dates: then its bytes are not counted.
	if info, err := os.Stat(s.archive.path(p.date, p.id, f.Start)); err == nil {
		bytesWritten.With(l).Add(float64(info.Size()))
	}
}
