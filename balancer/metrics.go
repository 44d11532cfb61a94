package balancer

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/schemas"
)

// Metrics are the balancer's metrics for Prometheus.
type Metrics struct {
	active   prometheus.Gauge
	failures prometheus.Counter
	jobs     *prometheus.GaugeVec

	// Only the active balancer knows these.
	nodes, epoch, tickStart, overloaded, needed, fullest, nodeBytes *gauge

	planSeconds prometheus.Histogram
}

// gauge has no series while its value is unknown, because a 0 would be read as the value.
type gauge struct {
	prometheus.Gauge
	known atomic.Bool
}

// Set implements prometheus.Gauge.
func (g *gauge) Set(v float64) {
	g.Gauge.Set(v)
	g.known.Store(true)
}

// Collect implements prometheus.Collector.
func (g *gauge) Collect(to chan<- prometheus.Metric) {
	if g.known.Load() {
		g.Gauge.Collect(to)
	}
}

// NewMetrics registers the metrics of this package, which a registry takes once.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	add := promauto.With(registry)
	known := func(name, help string) *gauge {
		g := &gauge{Gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})}
		registry.MustRegister(g)
		return g
	}
	return &Metrics{
		active: add.NewGauge(prometheus.GaugeOpts{
			Name: "weir_balancer_active", Help: "1 while the group lets this balancer plan, 0 while it stands by.",
		}),
		failures: add.NewCounter(prometheus.CounterOpts{
			Name: "weir_balancer_source_failures_total",
			Help: "How often the list of jobs could not be read: it is asked twice an interval.",
		}),
		jobs: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_balancer_jobs",
			Help: "Jobs that the source lists, by state; SKIPPED are those that cannot be followed.",
		}, []string{"state"}),
		nodes: known("weir_balancer_nodes", "Nodes of the machine that is planned for."),
		epoch: known("weir_balancer_epoch", "Plans that changed a Route, from the beginning."),
		tickStart: known("weir_balancer_tick_interval_start_seconds",
			"Start of the last interval that was closed by Ticks, in Unix time."),
		overloaded: known("weir_balancer_overloaded", "1 while the jobs exceed what the collectors may take, else 0."),
		needed: known("weir_balancer_collectors_needed",
			"Collectors that it takes at the least for all jobs, each no more than l_max."),
		fullest: known("weir_balancer_fullest_ratio",
			"What jobs send to the fullest collector, as a fraction of l_max."),
		nodeBytes: known("weir_balancer_node_bytes",
			"What a node of a job sends to its collector in an interval, the mean of all jobs."),
		planSeconds: add.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_balancer_plan_seconds",
			Help:    "Time to ask for the jobs, plan an interval and publish what changed.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
}

// standsBy hides the series that only the active balancer knows.
func (m *Metrics) standsBy() {
	m.active.Set(0)
	m.jobs.Reset()
	for _, g := range []*gauge{m.nodes, m.epoch, m.tickStart, m.overloaded, m.needed, m.fullest, m.nodeBytes} {
		g.known.Store(false)
	}
}

// showLoad shows the load of the plan that was made, with jobs that the collectors may not have met yet.
func (m *Metrics) showLoad(l *loads, b assign.Assignment, lMax int) {
	overloaded := 0.0
	if b.Overloaded {
		overloaded = 1
	}
	m.overloaded.Set(overloaded)
	m.needed.Set(float64(b.Needed))
	m.fullest.Set(float64(slices.Max(b.Load)) / float64(lMax))
	if l.measured {
		m.nodeBytes.Set(l.usual)
	}
}

// showJobs counts the jobs by state, skipped jobs included. However a job ended, it counts as COMPLETED. It counts a
// failure if a list of jobs failed.
func (m *Metrics) showJobs(jobs []scheduler.Job, skipped int, failed bool) {
	if failed {
		m.failures.Inc()
	}
	count := map[string]int{
		schemas.StatePending: 0, schemas.StateRunning: 0, schemas.StateCompleted: 0, schemas.StateSkipped: skipped,
	}
	for i := range jobs {
		state := jobs[i].State
		if schemas.Over(state) {
			state = schemas.StateCompleted
		}
		count[state]++
	}
	for state, n := range count {
		m.jobs.WithLabelValues(state).Set(float64(n))
	}
}
