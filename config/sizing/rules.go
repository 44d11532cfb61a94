package sizing

// Rules of thumb. None of them follows from another number, so each is shown beside its result.
const (
	NodesOfAJob       = 50   // nodes
	PartitionFill     = .5   // of l_max
	LeastPartitions   = 4    // partitions
	PartitionsPerCore = 3    // partitions
	ClientFactor      = 2.0  // of the fold's time
	Busy              = .5   // of a core
	CoresPerProcess   = 8    // cores
	HeapFactor        = 2.0  // of the live heap
	ProcessBytes      = 64e6 // bytes
	BrokerBytesPerS   = 50e6 // bytes a second
	BrokerBurstPerS   = 250e6
	AgentConnections  = 3
	BrokerConnections = 10_000
	QuotaRoom         = 1.25
	DiskFull          = .7      // of a disk
	SegmentBytes      = 1 << 30 // bytes: log.segment.bytes
	SegmentSeconds    = 7 * 86_400
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
		{"partition_fill", PartitionFill, "of l_max", "a partition's mean load; the rest lets jobs stay whole"},
		{"least_partitions", LeastPartitions, "partitions", "two for each of two processes"},
		{"partitions_per_core", PartitionsPerCore, "partitions", "all cores have work; docs/deploy.md says 2 to 4"},
		{"client_factor", ClientFactor, "of the fold", "Kafka's client takes as much time as the fold"},
		{"busy", Busy, "of a core", "the other half catches up after an outage"},
		{"cores_per_process", CoresPerProcess, "cores", "and two processes at least: one takes over from the other"},
		{"heap_factor", HeapFactor, "of what is held", "Go collects when the heap has doubled"},
		{"process_bytes", ProcessBytes, "B", "a collect process without records, with what it fetches"},
		{"broker_sustained", BrokerBytesPerS, "B/s", "a broker writes, replicas included; any disk does it"},
		{"broker_burst", BrokerBurstPerS, "B/s", "while all agents send, replicas included; 10 GbE has 1.2 GB/s"},
		{"agent_connections", AgentConnections, "connections", "of an agent"},
		{"broker_connections", BrokerConnections, "connections", "of a broker"},
		{"quota_room", QuotaRoom, "of the bytes", "of an agent's quota, for requests and nodes with several jobs"},
		{"disk_full", DiskFull, "of a disk", "may be used"},
		{"segment_bytes", SegmentBytes, "B", "Kafka deletes whole segments; topics.segment_bytes changes it"},
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
