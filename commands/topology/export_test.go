package topology

// What tests of this folder's commands use of its code.
const SysfsName = sysfsName

type (
	AgentsFlags     = agentsFlags
	CorrectedJSON   = correctedJSON
	MeasureFlags    = measureFlags
	Measured        = measured
	RendezvousFlags = rendezvousFlags
	ThroughputJSON  = throughputJSON
)

var (
	NewTopologyMeasure = newTopologyMeasure
	NewTopologyStats   = newTopologyStats
)
