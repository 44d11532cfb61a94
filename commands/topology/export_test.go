package topology

// What tests of this folder's commands use of its code.
const SysfsName = sysfsName

type AgentsFlags = agentsFlags
type CorrectedJSON = correctedJSON
type MeasureFlags = measureFlags
type Measured = measured
type RendezvousFlags = rendezvousFlags
type ThroughputJSON = throughputJSON

var NewTopologyMeasure = newTopologyMeasure
var NewTopologyStats = newTopologyStats
