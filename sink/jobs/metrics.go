package jobs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are what the archive of jobs shows Prometheus.
type Metrics struct {
	pending  prometheus.Gauge
	failures prometheus.Counter
}

// NewMetrics registers the metrics of this package. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	return &Metrics{
		pending: factory.NewGauge(prometheus.GaugeOpts{
			Name: "weir_sink_jobs_pending",
			Help: "Jobs that have ended and are not known to be in the archive.",
		}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "weir_sink_jobs_failures_total",
			Help: "Tries to write jobs that failed and are repeated, and files of jobs that cannot be used.",
		}),
	}
}
