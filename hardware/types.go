package hardware

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

var (
	// errKey is returned for a record whose key is not its own node's: it would speak for another one.
	errKey = errors.New("key and node differ")
	// errNotFacts is returned for another record, or the facts of another cluster.
	errNotFacts = errors.New("not facts of a node of this cluster")
)

// Origin is the source of a fact about a node. Later ones give way to earlier ones.
type Origin string

// The origins of facts.
const (
	Configured Origin = "machine" // of the configuration
	Agent      Origin = "agent"
	Slurm      Origin = "Slurm"
)

// Facts are the newest facts about each node. The zero value knows nothing. One goroutine uses it.
type Facts struct {
	cluster string
	of      map[string]*schemas.NodeFacts // by the key of the record
}

// NewFacts returns the facts about the nodes of a cluster, without any.
func NewFacts(cluster string) *Facts { return &Facts{cluster, map[string]*schemas.NodeFacts{}} }

// Take notes a record of topic facts. A record without a value removes the facts with its key. An error means that the
// record is ignored: the facts stay as they were.
func (f *Facts) Take(key, value []byte) error {
	if len(value) == 0 {
		delete(f.of, string(key))
		return nil
	}
	r, err := schemas.Unmarshal(value)
	if err != nil {
		return fmt.Errorf("decoding facts: %w", err)
	}
	of, is := r.(*schemas.NodeFacts)
	switch {
	case !is || of.Cluster != f.cluster:
		return errNotFacts
	case string(of.Key()) != string(key):
		return fmt.Errorf("%w: %.80q has facts of %s", errKey, key, of.Key())
	}
	f.of[string(key)] = of
	return nil
}

// Len returns the number of records.
func (f *Facts) Len() int { return len(f.of) }

// Node returns the facts that the agent of a node reports, and Slurm's. Each may be nil.
func (f *Facts) Node(name string) (agent, slurm *schemas.NodeFacts) {
	return f.of[name], f.of["slurm/"+name]
}

// Nodes returns the names of all nodes with facts, ascending.
func (f *Facts) Nodes() []string {
	names := map[string]bool{}
	for _, r := range f.of {
		names[r.Node] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Names of the facts that rules use, in the order of Type.From. They are keys of `machine`.
var factNames = [...]string{"cpus", "threads_per_core", "gpus", "memory", "peak_flops", "peak_mem_bw"}

// FactNames returns the names of the facts that a node type consists of.
func FactNames() []string { return factNames[:] }

const (
	atCPUs = iota
	atThreads
	atGPUs
	atMemory
	atFlops
	atBandwidth
	factCount
)

// vector contains the facts of a node type as numbers. NaN is unknown.
type vector [factCount]float64

func vectorOf(t *config.NodeType) vector {
	known := func(v float64) float64 {
		if v > 0 {
			return v
		}
		return math.NaN()
	}
	v := vector{
		known(float64(t.CPUs)), known(float64(t.ThreadsPerCore)), math.NaN(), known(float64(t.Memory)),
		known(t.PeakFlops), known(t.PeakMemBW),
	}
	if t.GPUs != nil {
		v[atGPUs] = float64(*t.GPUs)
	}
	return v
}

// fill sets the facts of a type.
func (v vector) fill(t *config.NodeType) {
	or0 := func(x float64) float64 {
		if math.IsNaN(x) {
			return 0
		}
		return x
	}
	t.CPUs, t.ThreadsPerCore, t.Memory = int(or0(v[atCPUs])), int(or0(v[atThreads])), int64(or0(v[atMemory]))
	t.PeakFlops, t.PeakMemBW, t.GPUs = or0(v[atFlops]), or0(v[atBandwidth]), nil
	if !math.IsNaN(v[atGPUs]) {
		t.GPUs = new(int(v[atGPUs]))
	}
}

// TypeOf returns the facts of a record as a node type without a name.
func TypeOf(f *schemas.NodeFacts) config.NodeType {
	t := config.NodeType{
		CPUs: int(f.CPUs), ThreadsPerCore: int(f.ThreadsPerCore), GPUs: new(len(f.Gpus)), Memory: f.Memory,
		PeakFlops: f.PeakFlops, PeakMemBW: f.PeakMemBW,
	}
	if t.ThreadsPerCore > 0 && t.CPUs%t.ThreadsPerCore != 0 {
		t.ThreadsPerCore = 0
	}
	return t
}

// Memory and peaks of equal nodes differ a little: firmware reserves memory, and clocks are measured.
const (
	alike    = 0.02 // of nodes of one type
	doubtful = 0.1  // between two sources: more is a contradiction
)

// near reports whether two facts are equal, or both unknown. Memory and peaks may differ by a share.
func near(k int, a, b, share float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	if k < atMemory {
		return a == b
	}
	return math.Abs(a-b) <= share*max(a, b)
}

// Type is a node type with the origins of its facts.
type Type struct {
	config.NodeType
	Hosts []string                  // its nodes; nil: all nodes that no other type names
	From  [factCount]map[Origin]int // nodes by the origin of each fact, in the order of FactNames

	facts vector
	base  int // index of its configured type; -1: it has none
}

// Machine is the nodes of a machine by their types.
type Machine struct {
	Types          []Type
	Contradictions []string // facts on which two sources disagree, each with its nodes
}

// Types returns the node types for rules: those of the configuration, completed by the facts about their nodes, and
// further types for nodes that the configuration does not name. Without facts these are the configured types.
func (f *Facts) Types(configured []config.NodeType) []config.NodeType {
	if f == nil || f.Len() == 0 {
		return configured
	}
	m, err := f.Machine(configured)
	if err != nil { // who asks for the types of the configuration gets the error
		return configured
	}
	types := make([]config.NodeType, len(m.Types))
	for i := range m.Types {
		types[i] = m.Types[i].NodeType
	}
	return types
}

// Machine groups the nodes by their hardware. A fact of the configuration counts before the agent's, and the agent's
// before Slurm's. The error is that of a hostlist of the configuration.
func (f *Facts) Machine(configured []config.NodeType) (*Machine, error) {
	of, others := map[string]int{}, -1
	for i := range configured {
		if configured[i].Nodes == "" {
			others = i
			continue
		}
		hosts, err := topology.ExpandHosts(configured[i].Nodes)
		if err != nil {
			return nil, fmt.Errorf("machine[%d].nodes: %w", i, err)
		}
		for _, host := range hosts {
			of[host] = i
		}
	}
	m := merger{facts: f, configured: configured, contradictions: map[string][]string{}}
	names := map[string]bool{}
	for host := range of {
		names[host] = true
	}
	for _, r := range f.of {
		names[r.Node] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		base, named := of[name]
		if !named {
			base = others
		}
		m.add(name, base)
	}
	machine := &Machine{Types: m.finish(others)}
	for _, text := range slices.Sorted(maps.Keys(m.contradictions)) {
		machine.Contradictions = append(machine.Contradictions,
			topology.FoldHosts(m.contradictions[text])+": "+text)
	}
	return machine, nil
}

// merger groups nodes.
type merger struct {
	facts          *Facts
	configured     []config.NodeType
	groups         []*Type
	contradictions map[string][]string // nodes by text
}

// add merges the facts about one node, and puts it into the group of its kind.
func (m *merger) add(name string, base int) {
	type source struct {
		from  Origin
		facts vector
	}
	var sources []source
	if base >= 0 {
		sources = append(sources, source{Configured, vectorOf(&m.configured[base])})
	}
	agent, slurm := m.facts.Node(name)
	for _, s := range []struct {
		from Origin
		of   *schemas.NodeFacts
	}{{Agent, agent}, {Slurm, slurm}} {
		if s.of != nil {
			t := TypeOf(s.of)
			sources = append(sources, source{s.from, vectorOf(&t)})
		}
	}
	var facts vector
	var from [factCount]Origin
	for k := range facts {
		facts[k] = math.NaN()
		for _, s := range sources {
			switch v := s.facts[k]; {
			case math.IsNaN(v):
			case from[k] == "":
				facts[k], from[k] = v, s.from
			case k < atFlops && !near(k, facts[k], v, doubtful): // a site may have measured its peaks
				text := fmt.Sprintf("%s is %.12g by %s, and %.12g by %s", factNames[k], facts[k], from[k], v, s.from)
				m.contradictions[text] = append(m.contradictions[text], name)
			}
		}
	}
	if math.Mod(facts[atCPUs], facts[atThreads]) > 0 { // of two sources
		facts[atThreads], from[atThreads] = math.NaN(), ""
	}
	m.group(base, facts).note(name, facts, from)
}

// group returns the group of a node, which may be new.
func (m *merger) group(base int, facts vector) *Type {
	for _, g := range m.groups {
		same := g.base == base
		for k := range facts {
			same = same && near(k, g.facts[k], facts[k], alike)
		}
		if same {
			return g
		}
	}
	g := &Type{facts: facts, base: base}
	for k := range g.From {
		g.From[k] = map[Origin]int{}
	}
	m.groups = append(m.groups, g)
	return g
}

// note adds a node. The least of numbers that differ a little counts: so much has each of the nodes.
func (g *Type) note(name string, facts vector, from [factCount]Origin) {
	g.Hosts = append(g.Hosts, name)
	for k := range facts {
		if from[k] != "" {
			g.From[k][from[k]]++
		}
		if facts[k] < g.facts[k] {
			g.facts[k] = facts[k]
		}
	}
}

// finish names the groups, and orders them as the configuration does, the largest first. The type of all other nodes
// remains for nodes without facts.
func (m *merger) finish(others int) []Type {
	slices.SortStableFunc(m.groups, func(a, b *Type) int {
		if (a.base < 0) != (b.base < 0) {
			return b.base - a.base // types without a configured one last
		}
		if a.base != b.base {
			return a.base - b.base
		}
		return len(b.Hosts) - len(a.Hosts)
	})
	used := map[string]bool{}
	for i := range m.configured {
		used[m.configured[i].Name] = true
	}
	taken := map[int]bool{}
	var types []Type
	for _, g := range m.groups {
		if g.base == others && others >= 0 && g.equals(vectorOf(&m.configured[others])) {
			continue // the facts add nothing
		}
		t := *g
		if g.base >= 0 {
			t.NodeType = m.configured[g.base]
		}
		if g.base < 0 || g.base == others || taken[g.base] {
			t.Name = unused(used, nameOf(t.Name, g.facts))
		} else { // the largest group keeps the name
			taken[g.base] = true
		}
		t.Nodes = topology.FoldHosts(g.Hosts)
		g.facts.fill(&t.NodeType)
		types = append(types, t)
	}
	if others >= 0 {
		t := Type{NodeType: m.configured[others], base: others, facts: vectorOf(&m.configured[others])}
		for k := range t.From {
			t.From[k] = map[Origin]int{}
			if !math.IsNaN(t.facts[k]) {
				t.From[k][Configured] = 0
			}
		}
		types = append(types, t)
	}
	return types
}

// equals reports whether the facts of a group are exactly these.
func (g *Type) equals(facts vector) bool {
	for k := range facts {
		if !near(k, g.facts[k], facts[k], 0) {
			return false
		}
	}
	return true
}

// nameOf returns a name for a type: that of the configured type, or its hardware, such as 96cpu-502GiB-4gpu.
func nameOf(configured string, v vector) string {
	if configured != "" {
		return configured
	}
	var parts []string
	if !math.IsNaN(v[atCPUs]) {
		parts = append(parts, fmt.Sprintf("%.0fcpu", v[atCPUs]))
	}
	if !math.IsNaN(v[atMemory]) {
		parts = append(parts, fmt.Sprintf("%.0fGiB", v[atMemory]/(1<<30)))
	}
	if v[atGPUs] > 0 {
		parts = append(parts, fmt.Sprintf("%.0fgpu", v[atGPUs]))
	}
	if len(parts) == 0 {
		return "unknown"
	}
	return strings.Join(parts, "-")
}

// unused returns a name that no other type has, and takes it.
func unused(used map[string]bool, name string) string {
	free := name
	for n := 2; used[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	used[free] = true
	return free
}
