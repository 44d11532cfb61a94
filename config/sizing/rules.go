package sizing

// Rules of thumb. None of them follows from another number, so each is shown beside its result.
const (
	NodesOfAJob       = 50   // nodes
	partitionFill     = .5   // of l_max
	leastPartitions   = 4    // partitions
	partitionsPerCore = 3    // partitions
	clientFactor      = 2.0  // of the fold's time
	busy              = .5   // of a core
	coresPerProcess   = 8    // cores
	heapFactor        = 2.0  // of the live heap
	processBytes      = 64e6 // bytes
	brokerBytesPerS   = 50e6 // bytes a second
	brokerBurstPerS   = 250e6
	agentConnections  = 3
	brokerConnections = 10_000
	quotaRoom         = 1.25
	diskFull          = .7      // of a disk
	segmentBytes      = 1 << 30 // bytes: log.segment.bytes
	segmentSeconds    = 7 * 86_400
	RowBytes          = 85.0 // bytes
	RowCertified      = .77  // of the encoded bytes
)

// quotaWindowS is the time over which brokers average a client's rate, by default: quota.window.num seconds.
const quotaWindowS = 10

// pseudoJobs have summaries too: _rest and _system.
const pseudoJobs = 2

// Rule is a rule of thumb, for a person who may know better.
type Rule struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Why   string  `json:"why"`
}

// Rules returns the rules of thumb, and the measurements.
func Rules(g Growth) []Rule {
	return append([]Rule{
		{"nodes_of_a_job", NodesOfAJob, "nodes", "without --jobs; 9,288 nodes of SuperMUC had 185 jobs"},
		{"partition_fill", partitionFill, "of l_max", "a partition's mean load; the rest lets jobs stay whole"},
		{"least_partitions", leastPartitions, "partitions", "two for each of two processes"},
		{"partitions_per_core", partitionsPerCore, "partitions", "all cores have work; docs/deploy.md says 2 to 4"},
		{"client_factor", clientFactor, "of the fold", "Kafka's client takes as much time as the fold"},
		{"busy", busy, "of a core", "the other half catches up after an outage"},
		{"cores_per_process", coresPerProcess, "cores", "and two processes at least: one takes over from the other"},
		{"heap_factor", heapFactor, "of what is held", "Go collects when the heap has doubled"},
		{"process_bytes", processBytes, "B", "a collect process without records, with what it fetches"},
		{"broker_sustained", brokerBytesPerS, "B/s", "a broker writes, replicas included; any disk does it"},
		{"broker_burst", brokerBurstPerS, "B/s", "while all agents send, replicas included; 10 GbE has 1.2 GB/s"},
		{"agent_connections", agentConnections, "connections", "of an agent"},
		{"broker_connections", brokerConnections, "connections", "of a broker"},
		{"quota_room", quotaRoom, "of the bytes", "of an agent's quota, for requests and nodes with several jobs"},
		{"disk_full", diskFull, "of a disk", "may be used"},
		{"segment_bytes", segmentBytes, "B", "Kafka deletes whole segments; topics.segment_bytes changes it"},
		{"row_bytes", RowBytes, "B", "a metric of a job and interval in the archive, without its certified summary"},
		{"row_certified", RowCertified, "of its bytes", "a certified summary takes in the archive, compressed"},
	}, fitted(g)...)
}

// fitted are the numbers that make bench-growth measured.
func fitted(g Growth) []Rule {
	all := []Rule{
		{"held", g.Held.Byte, "B", "of heap for a byte of records until its Tick; " + g.Command},
		{"held_record", g.Held.Record, "B", "of heap for a record, besides"},
		{"kept", g.Kept.Byte, "B", "of heap for a byte of records after the Tick"},
		{"kept_record", g.Kept.Record, "B", "of heap for a record after the Tick, besides"},
	}
	for i, r := range []Rule{
		{"value", 0, "s", "processor time of a value"},
		{"record", 0, "s", "of a record"},
		{"column", 0, "s", "of a metric of a record"},
		{"summary", 0, "s", "of a metric of a job"},
		{"rank", 0, "s", "of a rank that a certified summary looks at"},
		{"share", 0, "s", "of a metric of a partition's share of _system"},
		{"partition", 0, "s", "of a partition"},
	} {
		if r.Value = g.Constants.list()[i]; r.Value > 0 {
			all = append(all, r)
		}
	}
	return all
}
