package schemas

import (
	"maps"
	"strconv"
	"time"
)

// Names of the topics, without the prefix.
const (
	TopicCounters      = "counters"
	TopicRoutes        = "routes"
	TopicBalance       = "balance"
	TopicTriggers      = "triggers"
	TopicOrders        = "topology-orders"
	TopicPartials      = "partials"
	TopicJobSummary    = "job-summary"
	TopicJobs          = "jobs"
	TopicProgress      = "progress"
	TopicMergeProgress = "merge-progress"
	TopicRejects       = "rejects"
	TopicSchemas       = "schemas"
	TopicFindings      = "findings"
	TopicFindProgress  = "find-progress"
	TopicFindState     = "find-state"
	TopicFacts         = "facts"
	TopicNotices       = "notices"
)

// The largest record batches that our topics take.
const (
	// MaxMessageBytes holds for every topic but counters. A Tick that lists 100,000 nodes fits.
	MaxMessageBytes = 4 << 20
	// MaxCountersBytes holds for topic counters. A value takes 8 bytes: a node of 4,096 CPUs with 255 metrics of each
	// CPU fits.
	MaxCountersBytes = 8 << 20
)

// The largest records of ours. A batch of one record adds less than 1 KiB. It takes 61 bytes itself, about 30 for the
// record's lengths, and at most 76 for the key.
const (
	// MaxRecordBytes holds for every record but a CounterBatch. Others take up to 35 times their length in memory.
	MaxRecordBytes = MaxMessageBytes - 1<<10
	// MaxBatchBytes holds for a CounterBatch.
	MaxBatchBytes = MaxCountersBytes - 1<<10
)

// MessageBytes returns the largest record batch of a topic. Its name has no prefix.
func MessageBytes(topic string) int {
	if topic == TopicCounters {
		return MaxCountersBytes
	}
	return MaxMessageBytes
}

// callsKept is the retention of a Trigger or a TopologyOrder. No part of weir reads an old one, but `weir tail` may
// show it.
const callsKept = time.Hour

// Kafka compacts no segment that is written to. Readers of these topics begin at their start, so these stay small.
const (
	rewrittenBytes = 64 << 20
	rewrittenFor   = time.Hour
)

// Sizes are the numbers by which one installation's topics differ from another's.
type Sizes struct {
	Collectors, Routes, Partials, JobSummary int           // partitions
	Replication                              int           // 3 for data that must survive a broker
	CountersRetention                        time.Duration // at least three times the longest outage to survive
	SummaryRetention                         time.Duration // of job-summary and rejects
	SegmentBytes                             int64         // 0: the broker's own. findings, find-state: 64 MiB at most
}

// Topic lists the settings that a topic needs for weir to be correct.
type Topic struct {
	Name       string
	Partitions int
	Replicas   int
	Config     map[string]string // Kafka's topic settings
	Key        string            // contents of the records' key
	Values     string            // the records
}

// Topics is the table of topics, with names that begin with prefix.
func Topics(prefix string, z Sizes) []Topic {
	logged := func(retention time.Duration) map[string]string {
		return z.settings(map[string]string{
			"cleanup.policy": "delete", "retention.ms": strconv.FormatInt(retention.Milliseconds(), 10),
		})
	}
	arrival := func(retention time.Duration) map[string]string {
		c := logged(retention)
		c["message.timestamp.type"] = "LogAppendTime" // the broker's clock shows which nodes' clocks are wrong
		return c
	}
	compacted := z.settings(map[string]string{"cleanup.policy": "compact"})
	rewritten := z.settings(map[string]string{ // each key again and again
		"cleanup.policy": "compact", "segment.ms": strconv.FormatInt(rewrittenFor.Milliseconds(), 10),
	})
	if z.SegmentBytes == 0 || z.SegmentBytes > rewrittenBytes {
		rewritten["segment.bytes"] = strconv.Itoa(rewrittenBytes)
	}
	table := []Topic{
		{
			TopicCounters, z.Collectors, 0, arrival(z.CountersRetention),
			"collector key, c<partition>", "CounterBatch, NodeSummary, Gap, Tick",
		},
		{TopicRoutes, z.Routes, 0, compacted, "node", "Route"},
		{TopicBalance, 1, 0, compacted, "", "BalanceState"},
		{TopicTriggers, 1, 0, arrival(callsKept), "", "Trigger"},
		{TopicOrders, 1, 0, arrival(callsKept), "", "TopologyOrder"},
		{TopicPartials, z.Partials, 0, arrival(z.CountersRetention), "job_id/restart", "JobPartial, Watermark"},
		{TopicJobSummary, z.JobSummary, 0, logged(z.SummaryRetention), "job_id/restart", "JobSummary"},
		{TopicJobs, 1, 0, compacted, "job_id/restart", "Job"},
		{TopicProgress, z.Collectors, 0, compacted, "partition", "Progress"},
		{TopicMergeProgress, z.Partials, 0, compacted, "partition", "Progress"},
		{TopicRejects, 1, 0, logged(z.SummaryRetention), "source", "Reject"},
		{TopicFindings, 1, 0, rewritten, "job_id/restart/rule", "Finding"},
		{TopicFindProgress, z.JobSummary, 0, compacted, "partition", "Progress"},
		{TopicFindState, z.JobSummary, 0, rewritten, "job_id/restart", "FindState"},
		{TopicFacts, 1, 0, rewritten, "node, or slurm/node", "NodeFacts"},
		{TopicNotices, 1, 0, rewritten, "job_id/restart/channel, or partition", "Notice, Progress"},
		{TopicSchemas, 1, 0, compacted, "fingerprint", "schema text"},
	}
	for i := range table {
		table[i].Config = maps.Clone(table[i].Config) // some topics share one
		table[i].Config["max.message.bytes"] = strconv.Itoa(MessageBytes(table[i].Name))
		table[i].Name = prefix + table[i].Name
		table[i].Replicas = z.Replication
	}
	return table
}

// settings adds the settings of all topics. It changes the given map.
func (z Sizes) settings(c map[string]string) map[string]string {
	// With three replicas an acknowledged record is on two brokers at least, and one may be away.
	c["min.insync.replicas"] = strconv.Itoa(max(1, z.Replication-1))
	if z.SegmentBytes > 0 {
		c["segment.bytes"] = strconv.FormatInt(z.SegmentBytes, 10)
	}
	return c
}

// CollectorKey is the key of every record of a partition of counters.
func CollectorKey(partition int32) []byte {
	return strconv.AppendInt([]byte{'c'}, int64(partition), 10)
}

// Key is the key of a job's records: job_id/restart.
func (k JobKey) Key() []byte { return []byte(k.String()) }

// String is the form that people type and logs show. It is unique, since no job's id contains a slash.
func (k JobKey) String() string { return k.JobID + "/" + strconv.Itoa(int(k.Restart)) }

// PartitionKey is the key of a partition's Progress.
func PartitionKey(partition int32) []byte { return strconv.AppendInt(nil, int64(partition), 10) }
