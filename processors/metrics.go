package processors

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// Metrics are the metrics of the collectors, mergers and finders of one process.
type Metrics struct {
	owned, position, lag, closed, stopped, clocksOff, findings                         *prometheus.GaugeVec
	read, bytes, folding, fates, outputs, clockAhead, otherInterval, commits, restarts *prometheus.CounterVec
	commitSeconds                                                                      *prometheus.HistogramVec
	leftOut                                                                            *prometheus.CounterVec
}

// NewMetrics registers the metrics of this package. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	add := promauto.With(registry)
	byPartition := []string{"stage", "partition"} // a series for each partition while this process owns it
	gauge := func(name, help string) *prometheus.GaugeVec {
		return add.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, byPartition)
	}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return add.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(more, byPartition...))
	}
	return &Metrics{
		owned: gauge("weir_partition_owned",
			"1 while this process folds the partition, 0 while it has it and starts or starts again."),
		position: gauge("weir_position", "Committed position: the offset behind everything that was folded."),
		lag: gauge("weir_lag_offsets",
			"Offsets between what was read and the end of the partition as the last fetch had it."),
		closed: gauge("weir_closed_interval_start_seconds",
			"Start of the last interval that is closed, in Unix time."),
		read: counter("weir_records_read_total", "Records that this process read, those of a replay among them."),
		bytes: counter("weir_bytes_read_total",
			"Bytes of the records that this process read, before compression."),
		folding: counter("weir_fold_seconds_total",
			"Time that this process took to decode and fold what it read, without reading and committing."),
		fates: counter("weir_records_total",
			"Committed records by fate, counted from the partition's beginning, whoever folded them.", "fate"),
		outputs: counter("weir_outputs_total",
			"Committed summaries, partials and findings, counted from the partition's beginning, whoever made them."),
		clockAhead: counter("weir_records_clock_ahead_total",
			"Committed records sent by a clock ahead of the broker's, counted as weir_records_total."),
		leftOut: counter("weir_metrics_left_out_total",
			"Metrics that summaries had no room for, counted as weir_records_total."),
		clocksOff: gauge("weir_clock_off_nodes",
			"Nodes whose clock is off by more than a tenth of the interval, by their records of the last intervals."),
		stopped: gauge("weir_partition_stopped",
			"1 while the partition stands still until an administrator looks at it, else 0."),
		otherInterval: counter("weir_records_other_interval_total",
			"Records and Ticks read whose interval_ms is not this process's interval."),
		commits: counter("weir_commits_total", "Transactions that this process committed."),
		restarts: counter("weir_loop_restarts_total",
			"How often this process started again from what is committed, after an error."),
		findings: add.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_findings_open", Help: "Open findings of the partition's jobs, by class.",
		}, append([]string{"class"}, byPartition...)),
		commitSeconds: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_commit_seconds", Help: "Time from the beginning of a transaction to its commit.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"stage"}),
	}
}

// meter sets the metrics of a partition while this process owns it.
type meter struct {
	all    *Metrics
	labels prometheus.Labels
	shown  map[prometheus.Counter]int64 // of the counters that show committed totals
}

// meter begins to show a partition.
func (all *Metrics) meter(stage string, partition int32) *meter {
	labels := prometheus.Labels{"stage": stage, "partition": strconv.Itoa(int(partition))}
	m := &meter{all, labels, map[prometheus.Counter]int64{}}
	all.owned.With(m.labels).Set(0)
	all.stopped.With(m.labels).Set(0)
	for _, c := range []*prometheus.CounterVec{
		all.read, all.bytes, all.folding, all.otherInterval, all.commits, all.restarts,
	} {
		c.With(m.labels) // at 0, so that a rate sees the first
	}
	return m
}

// forget removes the series of the partition, which its next owner shows.
func (m *meter) forget() {
	all := m.all
	for _, v := range []*prometheus.GaugeVec{
		all.owned, all.stopped, all.position, all.lag, all.closed, all.clocksOff, all.findings,
	} {
		v.DeletePartialMatch(m.labels)
	}
	for _, v := range []*prometheus.CounterVec{
		all.read, all.bytes, all.folding, all.fates, all.outputs,
		all.clockAhead, all.otherInterval, all.commits, all.restarts, all.leftOut,
	} {
		v.DeletePartialMatch(m.labels)
	}
}

// owns shows whether this process folds the partition.
func (m *meter) owns(folding bool) {
	n := 0.
	if folding {
		n = 1
	}
	m.all.owned.With(m.labels).Set(n)
}

// stops shows whether the partition stands still until an administrator looks at it.
func (m *meter) stops(still bool) {
	n := 0.
	if still {
		n = 1
	}
	m.all.stopped.With(m.labels).Set(n)
}

// wrongClocks shows how many nodes have a clock that is off.
func (m *meter) wrongClocks(n int) { m.all.clocksOff.With(m.labels).Set(float64(n)) }

// found shows how many findings are open, by class.
func (m *meter) found(open map[string]int) {
	findings := m.all.findings.MustCurryWith(m.labels)
	for _, class := range []string{schemas.ClassLow, schemas.ClassMed, schemas.ClassHigh} {
		findings.WithLabelValues(class).Set(float64(open[class]))
	}
}

// otherInterval counts n entries with another interval_ms than ours.
func (m *meter) otherInterval(n int64) { m.all.otherInterval.With(m.labels).Add(float64(n)) }

// lags shows how far the end of the partition is from the last record that was read.
func (m *meter) lags(end, read int64) { m.all.lag.With(m.labels).Set(float64(max(0, end-read))) }

// restarts counts a new start of the loop.
func (m *meter) restarts() { m.all.restarts.With(m.labels).Inc() }

// folded counts n folded records.
func (m *meter) folded(n, bytes int, took time.Duration) {
	m.all.read.With(m.labels).Add(float64(n))
	m.all.bytes.With(m.labels).Add(float64(bytes))
	m.all.folding.With(m.labels).Add(took.Seconds())
}

// reached shows the lag after a poll.
func (m *meter) reached(fetches kgo.Fetches, read int64) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 { // an answer with an error has no end
			m.lags(p.HighWatermark, read)
		}
	})
}

// committed counts a transaction, and shows its Progress.
func (m *meter) committed(p *schemas.Progress, took time.Duration) {
	m.all.commits.With(m.labels).Inc()
	m.all.commitSeconds.WithLabelValues(m.labels["stage"]).Observe(took.Seconds())
	m.stands(p)
}

// stands shows the last committed Progress. Its counts go on from one owner to the next, and so do the counters made
// from them.
func (m *meter) stands(p *schemas.Progress) {
	m.all.position.With(m.labels).Set(float64(p.Position))
	if p.Closed != nil {
		m.all.closed.With(m.labels).Set(float64(*p.Closed) / 1000)
	}
	c := p.Counts
	m.raise(m.all.outputs.With(m.labels), c.Outputs)
	m.raise(m.all.clockAhead.With(m.labels), c.ClockAhead)
	m.raise(m.all.leftOut.With(m.labels), c.Surplus)
	fates := m.all.fates.MustCurryWith(m.labels)
	for fate, n := range map[string]int64{
		"summarized": c.Summarized, "rejected": c.Rejected, "late": c.Late, "dropped": c.Dropped,
		"duplicate": c.Duplicate, "misrouted": c.Misrouted, "ended": c.Ended, "lost": c.Lost,
	} {
		m.raise(fates.WithLabelValues(fate), n)
	}
}

// raise brings a counter to a total. A smaller one is left alone: counters never fall.
func (m *meter) raise(c prometheus.Counter, total int64) {
	if by := total - m.shown[c]; by > 0 {
		c.Add(float64(by))
		m.shown[c] = total
	}
}
