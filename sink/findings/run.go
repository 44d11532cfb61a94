package findings

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// Metrics are what the archive of findings shows Prometheus.
type Metrics struct {
	pending  prometheus.Gauge
	failures prometheus.Counter
}

// NewMetrics registers the metrics of this package. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	return &Metrics{
		pending: factory.NewGauge(prometheus.GaugeOpts{
			Name: "weir_sink_findings_pending",
			Help: "Final findings that are not known to be in the archive.",
		}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "weir_sink_findings_failures_total",
			Help: "Tries to write findings that failed and are repeated, and files of findings that cannot be used.",
		}),
	}
}

// Run keeps the final findings of topic findings in the archive until ctx ends, as sink.Follower does.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics) {
	newFollower(cfg, log, metrics).Run(ctx)
}

func newFollower(cfg config.Config, log *slog.Logger, metrics *Metrics) *sink.Follower[key, Row] {
	f := sink.NewFollower[key, Row](cfg, log, schemas.TopicFindings, table)
	s := store{dir: cfg.Sink.Dir, topic: f.Topic}
	f.Write, f.Pending, f.Failures = s.write, metrics.pending, metrics.failures
	f.Position = func(r *Row) *int64 { return &r.Position }
	f.Date = (*Row).date
	f.Row = func(record schemas.Record, offset int64) (k key, row Row, final bool, err error) {
		finding, is := record.(*schemas.Finding)
		if !is {
			return k, row, false, fmt.Errorf("%w: a %T does not belong here", schemas.ErrInvalid, record)
		}
		row, final = rowOf(finding, offset)
		return row.key(), row, final, nil
	}
	return f
}
