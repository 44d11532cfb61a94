package schemas

// Times in records are Unix milliseconds (sampled_at: microseconds), as they travel. The fold compares and divides
// them, so a time.Time would be made for every record only to be taken apart again.

// Scopes of a metric.
const (
	ScopeCore   = "core"   // one value per logical CPU
	ScopeSocket = "socket" // one value per socket or memory controller group of a node
	ScopeGPU    = "gpu"    // one value per GPU
	ScopeJob    = "job"    // one value per node, of the job alone
	ScopeNode   = "node"   // one value per node, for all jobs on it together
)

// Methods of a JobSummary.
const (
	MethodNode      = "NODE"      // reduced on the job's only node
	MethodExact     = "EXACT"     // from all values, at one collector
	MethodEstimated = "ESTIMATED" // merged from the shares of several collectors
)

// Modes of a RouteEntry.
const (
	ModeCollect = "COLLECT" // send the values
	ModeLocal   = "LOCAL"   // reduce on the node, send a NodeSummary
)

// The pseudo-jobs: the cores that no job held, and the whole machine.
const (
	JobRest   = "_rest"
	JobSystem = "_system"
)

// JobKey names one life of a job within a cluster.
type JobKey struct {
	JobID   string
	Restart int32
}

// JobOfLists is the job_id of the Job that holds the faults of the lists of jobs as a whole. All sources share it.
const JobOfLists = "_jobs-file"

// NodeHeader contains the fields that CounterBatch and NodeSummary share.
type NodeHeader struct {
	Cluster       string  `avro:"cluster"`
	Node          string  `avro:"node"`
	BootID        string  `avro:"boot_id"`
	RunID         string  `avro:"run_id"`
	Seq           int64   `avro:"seq"`
	IntervalStart int64   `avro:"interval_start"`
	IntervalMs    int64   `avro:"interval_ms"`
	SampledAt     int64   `avro:"sampled_at"` // microseconds
	SentAt        int64   `avro:"sent_at"`
	JobID         string  `avro:"job_id"`
	Restart       int32   `avro:"restart"`
	Epoch         int64   `avro:"epoch"`
	Cpus          []int32 `avro:"cpus"`
}

// Job returns the job that the record belongs to.
func (h *NodeHeader) Job() JobKey { return JobKey{h.JobID, h.Restart} }

// CounterBatch contains the values of one node for one job in one interval.
type CounterBatch struct {
	NodeHeader
	Metrics  []CounterBatchMetric `avro:"metrics"`
	Reported []string             `avro:"reported"` // names of the metrics that the job reported, ascending
}

// CounterBatchMetric contains one value for each of the batch's Cpus (ScopeCore), for each socket or GPU, or a single
// one. NaN is missing.
type CounterBatchMetric struct {
	Name   string    `avro:"name"`
	Unit   string    `avro:"unit"`
	Scope  string    `avro:"scope"`
	Values []float64 `avro:"values"`
}

// NodeSummary is a job of one node, reduced on its node.
type NodeSummary struct {
	NodeHeader
	Metrics  []NodeSummaryMetric `avro:"metrics"`
	Reported []string            `avro:"reported"` // as in CounterBatch
}

// NodeSummaryMetric is a JobSummaryMetric that always includes the certified summary, which a merge needs.
type NodeSummaryMetric struct {
	JobSummaryMetric
	Certified Certified `avro:"certified"`
}

// Gap reports the records that an agent's ring had to drop.
type Gap struct {
	Node               string `avro:"node"`
	RunID              string `avro:"run_id"`
	FirstIntervalStart int64  `avro:"first_interval_start"`
	LastIntervalStart  int64  `avro:"last_interval_start"`
	Records            int64  `avro:"records"`
	Reason             string `avro:"reason"`
}

// Tick closes an interval in one partition of counters. If its jobs do not fit into one record, several Ticks of the
// interval share them, in one transaction; all but the last set More.
type Tick struct {
	IntervalStart int64     `avro:"interval_start"`
	IntervalMs    int64     `avro:"interval_ms"`
	Epoch         int64     `avro:"epoch"`
	Jobs          []TickJob `avro:"jobs"`
	Shared        []string  `avro:"shared"`
	More          bool      `avro:"more"`
	MachineNodes  int32     `avro:"machine_nodes"`
}

// TickJob is one partition's share of a job. Parts 0: planned, but ended before the interval did.
type TickJob struct {
	JobID    string   `avro:"job_id"`
	Restart  int32    `avro:"restart"`
	Parts    int32    `avro:"parts"`
	JobNodes int32    `avro:"job_nodes"`
	Nodes    []string `avro:"nodes"`
}

// Route directs the records of a node: which job's values go to which partition.
type Route struct {
	Node          string       `avro:"node"`
	Epoch         int64        `avro:"epoch"`
	IntervalStart int64        `avro:"interval_start"`
	Home          int32        `avro:"home"`
	Entries       []RouteEntry `avro:"entries"`
}

// RouteEntry is one job on the node. Empty Cpus: all of the node, with all GPUs.
type RouteEntry struct {
	JobID     string  `avro:"job_id"`
	Restart   int32   `avro:"restart"`
	Cpus      []int32 `avro:"cpus"`
	Partition int32   `avro:"partition"`
	Mode      string  `avro:"mode"`
	Gpus      []int32 `avro:"gpus"`   // minor numbers, ascending
	Cgroup    string  `avro:"cgroup"` // name of the directory of the job's cgroup; empty: job_ and the job's number
}

// SendsRest reports whether the node sends a _rest record to its home partition. It does unless a job holds all of the
// node. Balancer and agent both use this function, so that the Tick expects exactly the records that the agent sends.
func (r *Route) SendsRest() bool {
	for i := range r.Entries {
		if len(r.Entries[i].Cpus) == 0 {
			return false
		}
	}
	return true
}

// BalanceState names the last interval with committed Ticks.
type BalanceState struct {
	Epoch         int64 `avro:"epoch"`
	IntervalStart int64 `avro:"interval_start"`
	IntervalMs    int64 `avro:"interval_ms"`
}

// Trigger calls the agents to sample now, if agent.sampling is triggered. Its delivery is not guaranteed: a lost one
// costs the two intervals that it separates.
type Trigger struct {
	Cluster       string `avro:"cluster"`
	IntervalStart int64  `avro:"interval_start"` // the boundary
	IntervalMs    int64  `avro:"interval_ms"`
	SentAt        int64  `avro:"sent_at"`
}

// TopologyOrder calls agents to measure latencies, if agent.topology.enabled is set. Its delivery is not guaranteed: an
// agent that does not read it in time is missing from the measurement.
type TopologyOrder struct {
	Cluster     string   `avro:"cluster"`
	OrderedAt   int64    `avro:"ordered_at"`
	Coordinator string   `avro:"coordinator"` // host:port
	Secret      []byte   `avro:"secret"`
	Seconds     int64    `avro:"seconds"`
	Nodes       []string `avro:"nodes"` // empty: all
}

// Sources of NodeFacts.
const (
	FactsAgent = "AGENT" // the node's agent
	FactsSlurm = "SLURM" // the balancer, from Slurm's list of nodes
)

// NodeFacts describes the hardware of one node. 0, and an empty text, stand for unknown. GPUs are known: without any,
// the list is empty.
type NodeFacts struct {
	Cluster        string    `avro:"cluster"`
	Node           string    `avro:"node"`
	Source         string    `avro:"source"`
	BootID         string    `avro:"boot_id"`
	ReadAt         int64     `avro:"read_at"`
	Version        string    `avro:"version"` // weir's
	Kernel         string    `avro:"kernel"`
	CPUModel       string    `avro:"cpu_model"`
	CPUs           int32     `avro:"cpus"` // logical ones
	ThreadsPerCore int32     `avro:"threads_per_core"`
	Sockets        int32     `avro:"sockets"`
	NumaNodes      int32     `avro:"numa_nodes"`
	Memory         int64     `avro:"memory"`     // bytes
	PeakFlops      float64   `avro:"peak_flops"` // FLOP/s
	PeakFlopsFrom  string    `avro:"peak_flops_from"`
	PeakMemBW      float64   `avro:"peak_mem_bw"` // bytes/s
	PeakMemBWFrom  string    `avro:"peak_mem_bw_from"`
	Gpus           []NodeGPU `avro:"gpus"`
	Nics           []NodeNIC `avro:"nics"`
}

// Key is the key of the record: the node, so that an agent and Slurm each have their own.
func (f *NodeFacts) Key() []byte {
	if f.Source == FactsSlurm {
		return []byte("slurm/" + f.Node) // no node's name contains a slash
	}
	return []byte(f.Node)
}

// NodeGPU is one GPU of a node.
type NodeGPU struct {
	Model  string `avro:"model"`
	Memory int64  `avro:"memory"` // bytes
}

// NodeNIC is one network port of a node.
type NodeNIC struct {
	Name string `avro:"name"`
	Rate int64  `avro:"rate"` // bit/s
}

// JobSummary is how one job used its hardware in one interval.
type JobSummary struct {
	Cluster       string             `avro:"cluster"`
	JobID         string             `avro:"job_id"`
	Restart       int32              `avro:"restart"`
	IntervalStart int64              `avro:"interval_start"`
	IntervalMs    int64              `avro:"interval_ms"`
	Method        string             `avro:"method"`
	Parts         int32              `avro:"parts"`
	PartsReported int32              `avro:"parts_reported"`
	NodesExpected int32              `avro:"nodes_expected"`
	NodesReported int32              `avro:"nodes_reported"`
	Metrics       []JobSummaryMetric `avro:"metrics"`
}

// JobSummaryMetric is the distribution of one metric over a job. Fields without values are nil.
type JobSummaryMetric struct {
	Name       string     `avro:"name"`
	Unit       string     `avro:"unit"`
	Scope      string     `avro:"scope"`
	Count      int64      `avro:"count"`
	Invalid    int64      `avro:"invalid"`
	Nodes      int32      `avro:"nodes"`
	Mean       *float64   `avro:"mean"`
	Stddev     *float64   `avro:"stddev"`
	NodeStddev *float64   `avro:"node_stddev"`
	LowNode    *string    `avro:"low_node"`
	HighNode   *string    `avro:"high_node"`
	Deciles    *[]float64 `avro:"deciles"`
	RankError  *float64   `avro:"rank_error"`
	Lo         *[]float64 `avro:"lo"`
	Hi         *[]float64 `avro:"hi"`
	Certified  *Certified `avro:"certified"`

	// The means of LowNode and HighNode. Only a JobSummary sets them: a NodeSummary describes one node, and its mean is
	// Mean.
	LowNodeMean  *float64 `avro:"low_node_mean"`
	HighNodeMean *float64 `avro:"high_node_mean"`
}

// JobPartial is one collector's share of a split job.
type JobPartial struct {
	Cluster       string             `avro:"cluster"`
	JobID         string             `avro:"job_id"`
	Restart       int32              `avro:"restart"`
	IntervalStart int64              `avro:"interval_start"`
	IntervalMs    int64              `avro:"interval_ms"`
	Collector     int32              `avro:"collector"`
	Parts         int32              `avro:"parts"`
	JobNodes      int32              `avro:"job_nodes"`
	NodesExpected int32              `avro:"nodes_expected"`
	NodesReported int32              `avro:"nodes_reported"`
	Metrics       []JobPartialMetric `avro:"metrics"`
	Shared        []SharedNode       `avro:"shared"`
}

// SharedNode is a node that several collectors expect, in a share of _system.
type SharedNode struct {
	Node     string `avro:"node"`
	Reported bool   `avro:"reported"`
}

// JobPartialMetric carries the moments of the values and of the node means, to be merged by Chan's formula, and a
// certified summary of the values.
type JobPartialMetric struct {
	Name         string    `avro:"name"`
	Unit         string    `avro:"unit"`
	Scope        string    `avro:"scope"`
	Count        int64     `avro:"count"`
	Invalid      int64     `avro:"invalid"`
	Nodes        int32     `avro:"nodes"`
	Mean         *float64  `avro:"mean"`
	M2           *float64  `avro:"m2"`
	NodeMean     *float64  `avro:"node_mean"`
	NodeM2       *float64  `avro:"node_m2"`
	LowNode      *string   `avro:"low_node"`
	LowNodeMean  *float64  `avro:"low_node_mean"`
	HighNode     *string   `avro:"high_node"`
	HighNodeMean *float64  `avro:"high_node_mean"`
	Certified    Certified `avro:"certified"`
	NodeMeans    int64     `avro:"node_means"`
}

// Watermark follows all partials of a collector up to an interval.
type Watermark struct {
	Collector     int32 `avro:"collector"`
	IntervalStart int64 `avro:"interval_start"`
	IntervalMs    int64 `avro:"interval_ms"`
}

// Reject is a record that could not be used.
type Reject struct {
	Topic     string `avro:"topic"`
	Partition int32  `avro:"partition"`
	Offset    int64  `avro:"offset"`
	Reason    string `avro:"reason"`
	Hash      string `avro:"hash"`
	Head      []byte `avro:"head"`
}

// ReasonUnlisted is part of the reason of a job that vanished from the lists. How it ended nobody knows.
const ReasonUnlisted = "no list names it any more: its end may be earlier"

// States of a Job. A job that has ended is StateCompleted, unless its scheduler reports another outcome.
const (
	StatePending     = "PENDING"
	StateRunning     = "RUNNING"
	StateSkipped     = "SKIPPED"
	StateCompleted   = "COMPLETED"
	StateFailed      = "FAILED"
	StateTimeout     = "TIMEOUT"
	StateOutOfMemory = "OUT_OF_MEMORY"
	StateCancelled   = "CANCELLED"
)

// Over reports whether a job in this state has ended.
func Over(state string) bool {
	switch state {
	case StateCompleted, StateFailed, StateTimeout, StateOutOfMemory, StateCancelled:
		return true
	}
	return false
}

// Job is the scheduler's description of a job. Fields that the scheduler does not report are nil.
type Job struct {
	JobID   string   `avro:"job_id"`
	Restart int32    `avro:"restart"`
	Name    string   `avro:"name"`
	User    string   `avro:"user"`
	Account string   `avro:"account"`
	Queue   string   `avro:"queue"`
	Nodes   []string `avro:"nodes"`
	Cpus    []int32  `avro:"cpus"`
	Submit  *int64   `avro:"submit"`
	Start   *int64   `avro:"start"`
	End     *int64   `avro:"end"`
	State   string   `avro:"state"`
	Reason  string   `avro:"reason"`

	Cores             *int64 `avro:"cores"` // logical CPUs, in all
	Gpus              *int32 `avro:"gpus"`  // in all
	TimeLimitS        *int64 `avro:"time_limit_s"`
	MemRequestedBytes *int64 `avro:"mem_requested_bytes"` // on each node
	Exclusive         *bool  `avro:"exclusive"`

	ArrayJob  *string `avro:"array_job"` // the array's number, if the job is one of its tasks
	ArrayTask *int32  `avro:"array_task"`
}

// Identity returns the job's key in other records.
func (j *Job) Identity() JobKey { return JobKey{j.JobID, j.Restart} }
