package table

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the gauges and counters of a table for Prometheus.
type Metrics struct {
	pending  prometheus.Gauge   // rows that are not known to be in the archive
	failures prometheus.Counter // tries to write that failed, and files that cannot be used
}

// NewMetrics registers the metrics of a table. pending is the help of the gauge. A registry accepts a table only once.
func NewMetrics(registry prometheus.Registerer, table, pending string) *Metrics {
	factory := promauto.With(registry)
	return &Metrics{
		pending: factory.NewGauge(prometheus.GaugeOpts{Name: "weir_sink_" + table + "_pending", Help: pending}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "weir_sink_" + table + "_failures_total",
			Help: "Tries to write " + table + " that failed and are repeated, and files of " + table +
				" that cannot be used.",
		}),
	}
}
