package producers

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	// LoadCores is the number of cores of a thin node of SuperMUC phase 1, and the default for a node of the load.
	LoadCores = 16
	// LoadMetrics is the default number of metrics of a node of the load.
	LoadMetrics = 37
	// MaxCores bounds a record, with MaxMetrics, to half of a broker's default limit.
	MaxCores = 256
	// MaxMetrics is the number of metrics of the load.
	MaxMetrics = 200
	// TestMetrics is the number of metrics of the test mix.
	TestMetrics = 10

	loadPrefix = "load_"
)

// Load describes simulated nodes, and how they publish. The zero value is the test mix, by one client.
type Load struct {
	SuperMUC bool // values with the shapes of recorded counters, in place of the test mix
	Cores    int  // logical CPUs of a node; 0: SimulatedCPUs, or LoadCores for SuperMUC. The test mix allows no others
	Metrics  int  // that a node measures; 0: TestMetrics, or LoadMetrics for SuperMUC

	// Clients is the number of Kafka clients that the nodes are divided among, each with connections of its own; 0:
	// one.
	Clients int
	// RequestPerNode makes the nodes of a client publish one after the other. As with real nodes, a node's records
	// leave in requests of their own. The next node's turn begins when these are acknowledged.
	RequestPerNode bool
}

// withDefaults replaces zeros by the defaults.
func (l Load) withDefaults() Load {
	cores, metrics := SimulatedCPUs, TestMetrics
	if l.SuperMUC {
		cores, metrics = LoadCores, LoadMetrics
	}
	l.Cores, l.Metrics, l.Clients = cmp.Or(l.Cores, cores), cmp.Or(l.Metrics, metrics), max(l.Clients, 1)
	return l
}

// members makes the simulated nodes.
func (l Load) members(list *config.MetricList, nodes []string, tellsClock bool) []member {
	l = l.withDefaults()
	all := shapes()
	if l.SuperMUC {
		all = loadShapes()
	}
	members := make([]member, len(nodes))
	for i, name := range nodes {
		members[i] = member{name, &simulated{
			node: name, cores: l.Cores, tellsClock: tellsClock, shapes: measuredShapes(all[:l.Metrics], list, name),
		}}
	}
	return members
}

// announce logs a description of the simulation.
func (l Load) announce(nodes int, log *slog.Logger) {
	l = l.withDefaults()
	way := "one client of all nodes, in batches"
	switch {
	case l.RequestPerNode:
		way = "each client one node after the other, a request a node"
	case l.Clients > 1:
		way = "several clients, in batches"
	}
	log.Info("nodes are simulated", "nodes", nodes, "cores", l.Cores, "metrics", l.Metrics,
		"clients", min(l.Clients, nodes), "publishing", way)
}

// The kinds of a metric of the load, in the order in which metrics have them.
const (
	kindIdle     = "idle"     // nearly all zero
	kindBimodal  = "bimodal"  // two modes
	kindTail     = "tail"     // few values are many times the median
	kindTies     = "ties"     // small whole numbers
	kindNormal   = "normal"   // nearly normal, around a level that each node draws for itself
	kindConstant = "constant" // all cores of a node have one value at all times
)

var kinds = []string{kindIdle, kindBimodal, kindTail, kindTies, kindNormal, kindConstant}

// recordedTable contains the quantiles of real counters; a line gives one quantile, k/steps. The counters were read
// once a second on a machine of two cores, for 784 seconds in which two applications and a disturber ran.
// TestRecordedTable makes it from selection/study/testdata/real_1s.csv.gz.
//
// The recording shows how the values of a counter are distributed over time. In the model all cores draw from it
// independently. Real cores resemble each other, and their own values of a second ago.
//
//go:embed recorded.csv
var recordedTable string

const (
	stepBits = 7
	steps    = 1 << stepBits
)

// recording is the distribution of a counter that was recorded.
type recording struct {
	kind, counter string
	quantiles     [steps + 1]float64
	spread        float64 // between nodes; 0: they have the same distribution
}

var errTable = errors.New("not a table of recorded quantiles")

// readRecordings reads a table of quantiles.
func readRecordings(table string) ([]recording, error) {
	var all []recording
	for line := range strings.Lines(table) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if len(fields) != 2+steps+1 {
			return nil, fmt.Errorf("%w: %d fields", errTable, len(fields))
		}
		r := recording{kind: fields[0], counter: fields[1]}
		for k, text := range fields[2:] {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errTable, err)
			}
			r.quantiles[k] = v
		}
		if r.kind == kindNormal { // nodes differ by as much as the values of one do
			r.spread = r.quantiles[steps*84/100] - r.quantiles[steps*16/100]
		}
		all = append(all, r)
	}
	return all, nil
}

// loadShapes returns the metrics of the load, ascending by name. The caller must not change the slice. Metric i is
// of kind i modulo their number, and the metrics of a kind take its recordings in turn.
var loadShapes = sync.OnceValue(func() []shape {
	recordings, err := readRecordings(recordedTable)
	if err != nil {
		panic(err) // the table is part of the program
	}
	of := map[string][]*recording{}
	for i := range recordings {
		of[recordings[i].kind] = append(of[recordings[i].kind], &recordings[i])
	}
	all := make([]shape, MaxMetrics)
	for i := range all {
		kind := kinds[i%len(kinds)]
		name := fmt.Sprintf("%s%03d_%s", loadPrefix, i, kind)
		all[i] = shape{
			testShape: testShape{name: name, unit: "1", scope: schemas.ScopeCore}, hash: hashOf(name),
			recorded: of[kind][i/len(kinds)%len(of[kind])],
		}
	}
	return all
})

// at returns the value of a draw: the quantile that the draw stands for, interpolated. A table costs a fraction of a
// logarithm.
func (r *recording) at(draw uint64) float64 {
	k := draw >> (64 - stepBits)
	below := r.quantiles[k]
	return below + unit(draw<<stepBits)*(r.quantiles[k+1]-below)
}

// fill makes the values of CPUs from the first one on, of a draw for the node and metric and one for the interval.
func (r *recording) fill(values []float64, first int, node, interval uint64) {
	base := (node ^ interval) + uint64(first)*cpuStride
	switch r.kind {
	case kindConstant:
		v := r.at(node)
		for i := range values {
			values[i] = v
		}
	case kindTies: // a value between two that were recorded would be no tie
		for i := range values {
			values[i] = r.quantiles[mix(base+uint64(i)*cpuStride)>>(64-stepBits)]
		}
	default:
		level := r.spread * (unit(mix(node)) - 0.5)
		for i := range values {
			values[i] = level + r.at(mix(base+uint64(i)*cpuStride))
		}
	}
}

// cpuStride is between the draws of neighbouring CPUs: odd, so that no two of them are the same.
const cpuStride = 0xd1342543de82ef95
