package balancer

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/weirhpc/weir/schemas"
)

// They are without labels but vectors, so that they are absent from a process that is no balancer, and those that only the
// active one knows from one that stands by.
var (
	activeNow = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_active", Help: "1 while the group lets this balancer plan, 0 while it stands by.",
	}, nil)
	machineNodes = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_nodes", Help: "Nodes of the machine that is planned for.",
	}, nil)
	jobsListed = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_jobs", Help: "Jobs that the source lists, by state; SKIPPED are those that cannot be followed.",
	}, []string{"state"})
	sourceFailures = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_balancer_source_failures_total", Help: "How often the list of jobs could not be read: it is asked twice an interval.",
	}, nil)
	planEpoch = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_epoch", Help: "Plans that changed a Route, from the beginning.",
	}, nil)
	tickStart = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_tick_interval_start_seconds", Help: "Start of the last interval that was closed by Ticks, in Unix time.",
	}, nil)
	overloadedNow = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_overloaded", Help: "1 while the jobs exceed what the collectors may take, else 0.",
	}, nil)
	collectorsNeeded = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_collectors_needed", Help: "Collectors that it takes at the least for all jobs, each no more than l_max.",
	}, nil)
	fullest = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_fullest_ratio", Help: "What jobs send to the fullest collector, as a share of l_max.",
	}, nil)
	nodeBytes = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_balancer_node_bytes", Help: "What a node of a job sends to its collector in an interval, the mean of all jobs.",
	}, nil)
	planSeconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "weir_balancer_plan_seconds", Help: "Time to ask for the jobs, plan an interval and publish what changed.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, nil)
)

// shows begins to show what the active balancer knows.
func (b *balancer) shows() {
	activeNow.WithLabelValues().Set(1)
	machineNodes.WithLabelValues().Set(float64(len(b.layout.nodes)))
}

// standsBy takes away what only the active balancer knows.
func standsBy() {
	activeNow.WithLabelValues().Set(0)
	sourceFailures.WithLabelValues() // at 0, so that a rate sees the first
	machineNodes.Reset()
	jobsListed.Reset()
	planEpoch.Reset()
	tickStart.Reset()
	overloadedNow.Reset()
	collectorsNeeded.Reset()
	fullest.Reset()
	nodeBytes.Reset()
}

func showLoad(l *loads, b bounded, lMax int) {
	overloaded := 0.0
	if b.overloaded {
		overloaded = 1
	}
	overloadedNow.WithLabelValues().Set(overloaded)
	collectorsNeeded.WithLabelValues().Set(float64(b.needed))
	fullest.WithLabelValues().Set(float64(slices.Max(b.load)) / float64(lMax))
	if l.measured {
		nodeBytes.WithLabelValues().Set(l.usual)
	}
}

// showJobs counts the jobs by state, those that were skipped among them, and whether a list of them failed.
func showJobs(jobs []schemas.Job, skipped int, failed bool) {
	if failed {
		sourceFailures.WithLabelValues().Inc()
	}
	count := map[string]int{schemas.StatePending: 0, schemas.StateRunning: 0, schemas.StateCompleted: 0, schemas.StateSkipped: skipped}
	for i := range jobs {
		count[jobs[i].State]++
	}
	for state, n := range count {
		jobsListed.WithLabelValues(state).Set(float64(n))
	}
}
