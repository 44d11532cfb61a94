package sizing

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// Bounds of a machine. Larger ones are mistakes in typing.
const (
	maxNodes = 1_000_000
	maxCores = 4096 // logical CPUs of a node
)

// maxCollectors is the most partitions that a configuration takes.
const maxCollectors = 10_000

// ErrMachine is returned for a machine that cannot be, or that weir cannot take.
var ErrMachine = errors.New("this machine cannot be sized")

// Machine is the machine to size. Every metric has a value for each logical CPU, and every job holds its nodes alone.
type Machine struct {
	Nodes   int      `json:"nodes"`
	Cores   int      `json:"cores"` // logical CPUs of a node
	Metrics int      `json:"metrics"`
	Jobs    int      `json:"jobs"` // that run at a time; 0: a job for each NodesOfAJob nodes
	Names   []Metric `json:"-"`    // as long as the names of the metrics to be measured
}

// Needs lists weir's needs for a machine. Bytes are before compression, which makes real counters smaller.
type Needs struct {
	Machine
	IntervalMs    int64   `json:"interval_ms"`
	ValuesPerS    float64 `json:"values_per_s"`
	RecordBytes   int64   `json:"record_bytes"`   // of a node in an interval
	IntervalBytes int64   `json:"interval_bytes"` // of all records in an interval
	SummaryBytes  int64   `json:"summary_bytes"`  // of a job in an interval

	Partitions        int     `json:"partitions"`
	PartitionsBy      string  `json:"partitions_by"` // which rule decided
	CPUSeconds        float64 `json:"cpu_seconds"`   // of an interval, of collect and merge, without Kafka's client
	CollectCores      int     `json:"collect_cores"`
	CollectProcesses  int     `json:"collect_processes"`
	MemoryBytes       int64   `json:"memory_bytes"`        // of all collect processes together
	MemoryOutageBytes int64   `json:"memory_outage_bytes"` // while no balancer closes intervals

	Brokers   int    `json:"brokers"`
	BrokersBy string `json:"brokers_by"` // which rule decided

	InBytesPerS      float64 `json:"in_bytes_per_s"`        // agents to brokers, on average
	BurstBytesPerS   float64 `json:"burst_bytes_per_s"`     // the same, while agents send
	QuotaBytesPerS   float64 `json:"quota_bytes_per_s"`     // producer_byte_rate that an agent never reaches
	ReplicaBytesPerS float64 `json:"replica_bytes_per_s"`   // among brokers, on average
	CollectBytesPerS float64 `json:"collect_bytes_per_s"`   // brokers to collect
	SamplesBytesPerS float64 `json:"samples_bytes_per_s"`   // brokers to weir samples, if it runs
	SummaryBytesPerS float64 `json:"summaries_bytes_per_s"` // collect and merge to brokers, and to each reader

	CountersBytes   float64 `json:"counters_bytes"`    // of topic counters, with its replicas
	SummaryTopic    float64 `json:"job_summary_bytes"` // of topic job-summary, likewise
	PartialsBytes   float64 `json:"partials_bytes"`    // of topic partials, likewise
	BrokerDiskBytes float64 `json:"broker_disk_bytes"` // of each broker, with room to spare

	ArchiveDayBytes  float64 `json:"archive_day_bytes"`
	ArchiveWeekBytes float64 `json:"archive_week_bytes"`
	ValuesWeekBytes  float64 `json:"values_week_bytes"` // all values of a week, 8 bytes each
	Reduction        float64 `json:"reduction"`         // the fraction of these that the archive does not need
	ReductionBare    float64 `json:"reduction_bare"`    // the same without certified summaries
}

// Size computes the needs of a machine under a loaded configuration.
func Size(m Machine, cfg config.Config, g Growth) (Needs, error) {
	if m.Jobs == 0 {
		m.Jobs = (m.Nodes + NodesOfAJob - 1) / NodesOfAJob
	}
	if err := m.check(); err != nil {
		return Needs{}, err
	}
	n := Needs{Machine: m, IntervalMs: cfg.Interval.Milliseconds()}
	seconds, values := cfg.Interval.Seconds(), float64(m.Nodes)*float64(m.Cores)*float64(m.Metrics)
	n.ValuesPerS = values / seconds
	bytes, err := n.encoded(cfg)
	if err != nil {
		return Needs{}, err
	}
	if err := n.collect(cfg, g); err != nil {
		return Needs{}, err
	}
	shareBytes, err := size(partial(metrics(m.Names, m.Metrics), max(1, m.Nodes/n.Partitions), m.Cores, n.IntervalMs))
	if err != nil {
		return Needs{}, err
	}
	n.network(cfg, float64(shareBytes)*float64(n.Partitions)/seconds)
	n.brokers(cfg)
	n.archive(seconds, values, bytes)
	return n, nil
}

func (m Machine) check() error {
	switch {
	case m.Nodes < 1 || m.Nodes > maxNodes:
		return fmt.Errorf("%w: %d nodes, not 1 to %d", ErrMachine, m.Nodes, maxNodes)
	case m.Cores < 1 || m.Cores > maxCores:
		return fmt.Errorf("%w: %d cores a node, not 1 to %d", ErrMachine, m.Cores, maxCores)
	case m.Metrics < 1 || m.Metrics > schemas.MaxMetrics:
		return fmt.Errorf("%w: %d metrics, not 1 to %d", ErrMachine, m.Metrics, schemas.MaxMetrics)
	case m.Jobs < 1 || m.Jobs > m.Nodes:
		return fmt.Errorf("%w: %d jobs on %d nodes, not 1 to one a node", ErrMachine, m.Jobs, m.Nodes)
	}
	return nil
}

// encoded finds the bytes of records by encoding some. It returns the bytes of the certified summary of a metric.
func (n *Needs) encoded(cfg config.Config) (certifiedBytes float64, err error) {
	names := metrics(n.Names, n.Metrics)
	if n.RecordBytes, err = size(record(names, n.Cores, n.IntervalMs)); err != nil {
		return 0, err
	}
	if n.RecordBytes > schemas.MaxBatchBytes {
		return 0, fmt.Errorf("%w: a node sends %d bytes in an interval, and a record has %d at most: measure fewer "+
			"metrics", ErrMachine, n.RecordBytes, schemas.MaxBatchBytes)
	}
	n.IntervalBytes = n.RecordBytes * int64(n.Nodes)
	nodes := max(1, n.Nodes/n.Jobs)
	if n.SummaryBytes, err = size(summary(names, nodes, n.Cores, cfg.Collect.Sketch, n.IntervalMs)); err != nil {
		return 0, err
	}
	bare, err := size(summary(names, nodes, n.Cores, 0, n.IntervalMs))
	return float64(n.SummaryBytes-bare) / float64(n.Metrics), err
}

// collect decides on partitions and on the processes that fold them.
func (n *Needs) collect(cfg config.Config, g Growth) error {
	most := float64(cfg.CollectorBytes())
	if cfg.Balance.LMax > 0 {
		most = float64(cfg.Balance.LMax) * float64(n.RecordBytes)
	}
	byBytes := int(math.Ceil(float64(n.IntervalBytes) / (most * partitionFill)))
	// Partitions cost time, and the time determines the partitions. The second turn uses the partitions of the first.
	n.Partitions = max(byBytes, leastPartitions)
	for range 2 {
		n.CPUSeconds = g.Constants.seconds(n.shape(most))
		cores := n.CPUSeconds * clientFactor / cfg.Interval.Seconds() / busy
		n.CollectCores = int(math.Ceil(cores))
		n.Partitions = max(n.Partitions, partitionsPerCore*n.CollectCores)
	}
	switch n.Partitions {
	case leastPartitions:
		n.PartitionsBy = "least_partitions"
	case byBytes:
		n.PartitionsBy = "partition_fill"
	default:
		n.PartitionsBy = "partitions_per_core"
	}
	if n.Partitions > maxCollectors {
		return fmt.Errorf("%w: it takes %d partitions of counters, and %d are the most: use a longer interval, fewer "+
			"metrics, or partitions that sustain more (balance.partition_bytes_per_s)", ErrMachine, n.Partitions,
			maxCollectors)
	}
	n.CollectProcesses = max(2, (n.CollectCores+coresPerProcess-1)/coresPerProcess)
	held, kept := g.Held.Bytes(n.IntervalBytes, n.Nodes), g.Kept.Bytes(n.IntervalBytes, n.Nodes)
	idle := float64(n.CollectProcesses) * processBytes
	n.MemoryBytes = int64(idle + heapFactor*(held+kept))
	n.MemoryOutageBytes = int64(idle + heapFactor*((config.Outage+1)*held+kept))
	return nil
}

// shape returns the interval in the terms of the model. A job with more bytes than most is split. Sizes are not rounded
// to nodes, so that a larger machine never needs less.
func (n *Needs) shape(most float64) Shape {
	ranks, parts := 0.0, 0.0
	weights, sum := jobWeights(n.Jobs)
	for _, w := range weights {
		nodes := 1 + float64(n.Nodes-n.Jobs)*w/sum
		ranks += min(nodes*float64(n.Cores), float64(quantile.Large.Ranks))
		parts += math.Ceil(nodes * float64(n.RecordBytes) / most)
	}
	return Shape{
		Nodes: n.Nodes, Cores: n.Cores, Metrics: n.Metrics, Jobs: n.Jobs, Parts: int(parts), Ranks: int(ranks),
		Partitions: n.Partitions,
	}
}

// network finds the bytes a second, and the bytes of the topics. partials is the output of collect for merge, in bytes
// a second.
func (n *Needs) network(cfg config.Config, partials float64) {
	seconds, replicas := cfg.Interval.Seconds(), float64(cfg.Topics.Replication)
	n.InBytesPerS = float64(n.IntervalBytes) / seconds
	n.BurstBytesPerS = float64(n.IntervalBytes) / min(seconds, cfg.Grace.Seconds()/2)
	n.SummaryBytesPerS = float64(n.SummaryBytes) * float64(n.Jobs+pseudoJobs) / seconds
	// After an outage an agent sends the content of its ring and the records of the meantime at once.
	intervals := config.Outage/2 + quotaWindowS/seconds
	n.QuotaBytesPerS = quotaRoom * intervals * float64(n.RecordBytes) / quotaWindowS
	n.ReplicaBytesPerS = (replicas - 1) * (n.InBytesPerS + n.SummaryBytesPerS + partials)
	n.CollectBytesPerS, n.SamplesBytesPerS = n.InBytesPerS, n.InBytesPerS

	segment := float64(cfg.Topics.SegmentBytes)
	if segment == 0 {
		segment = segmentBytes
	}
	// Kafka deletes whole segments, so a partition keeps up to one segment beyond its retention.
	topic := func(bytesPerS, retention float64, partitions int) float64 {
		more := min(segment*float64(partitions), bytesPerS*segmentSeconds)
		return replicas * (bytesPerS*retention + more)
	}
	kept := cfg.Topics.CountersRetention.Seconds()
	n.CountersBytes = topic(n.InBytesPerS, kept, n.Partitions)
	n.PartialsBytes = topic(partials, kept, cfg.Partitions.Partials)
	n.SummaryTopic = topic(n.SummaryBytesPerS, cfg.Topics.SummaryRetention.Seconds(), cfg.Partitions.JobSummary)
}

// brokers decides on the number of brokers. Each rule gives one, and the largest counts.
func (n *Needs) brokers(cfg config.Config) {
	replicas := float64(cfg.Topics.Replication)
	for _, rule := range []struct {
		name  string
		needs float64
	}{
		{"replication", replicas},
		{"broker_sustained", (n.InBytesPerS*replicas + n.SummaryBytesPerS*replicas) / brokerBytesPerS},
		{"broker_burst", n.BurstBytesPerS * replicas / brokerBurstPerS},
		{"broker_connections", float64(n.Nodes) * agentConnections / brokerConnections},
	} {
		if needs := int(math.Ceil(rule.needs)); needs > n.Brokers {
			n.Brokers, n.BrokersBy = needs, rule.name
		}
	}
	n.BrokerDiskBytes = (n.CountersBytes + n.PartialsBytes + n.SummaryTopic) / float64(n.Brokers) / diskFull
}

// archive finds the bytes that the sink keeps. It compares them with keeping every value as a number of 8 bytes.
func (n *Needs) archive(seconds, values, certifiedBytes float64) {
	const day, week = 86_400, 7
	rows := float64(n.Jobs+pseudoJobs) * float64(n.Metrics)
	n.ArchiveDayBytes = rows * (RowBytes + RowCertified*certifiedBytes) * day / seconds
	n.ArchiveWeekBytes = week * n.ArchiveDayBytes
	n.ValuesWeekBytes = 8 * values * day * week / seconds
	n.Reduction = 1 - n.ArchiveWeekBytes/n.ValuesWeekBytes
	n.ReductionBare = 1 - rows*RowBytes/(8*values)
}
