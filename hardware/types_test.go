package hardware

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// facts returns a record of an agent.
func facts(node string, change func(*schemas.NodeFacts)) *schemas.NodeFacts {
	f := &schemas.NodeFacts{
		Cluster: "c1", Node: node, Source: schemas.FactsAgent, CPUs: 96, ThreadsPerCore: 2, Memory: 200 << 30,
		PeakFlops: 3e12, PeakMemBW: 2.5e11,
	}
	if change != nil {
		change(f)
	}
	return f
}

// factsOf takes records under their own keys.
func factsOf(t *testing.T, all ...*schemas.NodeFacts) *Facts {
	t.Helper()
	f := NewFacts("c1")
	for _, r := range all {
		value, err := schemas.MarshalChecked(r)
		if err == nil {
			err = f.Take(r.Key(), value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// shown are the types in a line each.
func shown(types []config.NodeType) (lines []string) {
	for _, t := range types {
		gpus := "?"
		if t.GPUs != nil {
			gpus = fmt.Sprint(*t.GPUs)
		}
		lines = append(lines, fmt.Sprintf("%s %s: %d/%d cpus, %s gpus, %d GiB, %.3g FLOP/s, %.3g B/s", t.Name, t.Nodes, t.CPUs,
			t.ThreadsPerCore, gpus, t.Memory>>30, t.PeakFlops, t.PeakMemBW))
	}
	return lines
}

func TestTypes(t *testing.T) {
	slurm := func(f *schemas.NodeFacts) {
		f.Source, f.PeakFlops, f.PeakMemBW, f.Memory = schemas.FactsSlurm, 0, 0, 190<<30
		f.Gpus = make([]schemas.NodeGPU, 4)
	}
	gib := func(n int64) func(f *schemas.NodeFacts) { return func(f *schemas.NodeFacts) { f.Memory = n << 30 } }
	for name, c := range map[string]struct {
		configured []config.NodeType
		facts      []*schemas.NodeFacts
		want       []string
	}{
		"neither": {nil, nil, nil},
		"the configuration alone": {
			[]config.NodeType{{Name: "thin", Nodes: "n[1-2]", CPUs: 8}},
			nil,
			[]string{"thin n[1-2]: 8/0 cpus, ? gpus, 0 GiB, 0 FLOP/s, 0 B/s"},
		},
		"agents alone": {
			nil,
			[]*schemas.NodeFacts{facts("n1", nil), facts("n2", gib(198)), facts("n3", gib(400))},
			[]string{
				"96cpu-198GiB n[1-2]: 96/2 cpus, 0 gpus, 198 GiB, 3e+12 FLOP/s, 2.5e+11 B/s",
				"96cpu-400GiB n3: 96/2 cpus, 0 gpus, 400 GiB, 3e+12 FLOP/s, 2.5e+11 B/s",
			},
		},
		"Slurm fills what no agent reports": {
			nil,
			[]*schemas.NodeFacts{facts("n1", slurm)},
			[]string{"96cpu-190GiB-4gpu n1: 96/2 cpus, 4 gpus, 190 GiB, 0 FLOP/s, 0 B/s"},
		},
		"an agent counts before Slurm": {
			nil,
			[]*schemas.NodeFacts{facts("n1", slurm), facts("n1", nil)},
			[]string{"96cpu-200GiB n1: 96/2 cpus, 0 gpus, 200 GiB, 3e+12 FLOP/s, 2.5e+11 B/s"},
		},
		"the configuration counts before an agent": {
			[]config.NodeType{{Name: "thin", Nodes: "n[1-2]", CPUs: 48, PeakMemBW: 2e11}, {Name: "rest", GPUs: new(1)}},
			[]*schemas.NodeFacts{facts("n1", nil), facts("x", nil)},
			[]string{
				"thin n1: 48/2 cpus, 0 gpus, 200 GiB, 3e+12 FLOP/s, 2e+11 B/s",
				"thin-2 n2: 48/0 cpus, ? gpus, 0 GiB, 0 FLOP/s, 2e+11 B/s",
				"rest-2 x: 96/2 cpus, 1 gpus, 200 GiB, 3e+12 FLOP/s, 2.5e+11 B/s",
				"rest : 0/0 cpus, 1 gpus, 0 GiB, 0 FLOP/s, 0 B/s",
			},
		},
	} {
		if diff := cmp.Diff(c.want, shown(factsOf(t, c.facts...).Types(c.configured))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestContradictions: sources that disagree are named with their nodes. Reserved memory, and peaks that a site has
// measured, are no contradictions.
func TestContradictions(t *testing.T) {
	m, err := factsOf(t, facts("n1", nil), facts("n2", nil), facts("n3", func(f *schemas.NodeFacts) { f.CPUs = 48 })).Machine(
		[]config.NodeType{{Name: "thin", Nodes: "n[1-3]", CPUs: 48, Memory: 205 << 30, PeakFlops: 1e12}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"n[1-2]: cpus is 48 by machine, and 96 by agent"}
	if diff := cmp.Diff(want, m.Contradictions); diff != "" {
		t.Error(diff)
	}
	if from := m.Types[0].From; from[atCPUs][Configured] != 3 || from[atThreads][Agent] != 3 {
		t.Errorf("origins: %v", from)
	}
}

// TestForeignFacts: nobody decides for another node, and a record with impossible numbers changes nothing.
func TestForeignFacts(t *testing.T) {
	f := factsOf(t, facts("n1", nil))
	encoded := func(change func(*schemas.NodeFacts)) []byte {
		b, err := schemas.Marshal(facts("n1", change))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		key   string
		value []byte
		want  error
	}{
		"another node's key":       {"n2", encoded(nil), errKey},
		"Slurm's key":              {"slurm/n1", encoded(nil), errKey},
		"another cluster":          {"n1", encoded(func(f *schemas.NodeFacts) { f.Cluster = "c2" }), errNotFacts},
		"NaN":                      {"n1", encoded(func(f *schemas.NodeFacts) { f.PeakFlops = math.NaN() }), schemas.ErrInvalid},
		"negative":                 {"n1", encoded(func(f *schemas.NodeFacts) { f.Memory = -1 }), schemas.ErrInvalid},
		"huge":                     {"n1", encoded(func(f *schemas.NodeFacts) { f.CPUs = math.MaxInt32 }), schemas.ErrInvalid},
		"a huge text":              {"n1", encoded(func(f *schemas.NodeFacts) { f.Kernel = strings.Repeat("x", 1<<20) }), schemas.ErrInvalid},
		"not a record":             {"n1", []byte("cpus=1"), schemas.ErrNotSingleObject},
		"a record of another kind": {"n1", watermark(t), errNotFacts},
	} {
		if err := f.Take([]byte(c.key), c.value); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if agent, slurm := f.Node("n1"); f.Len() != 1 || slurm != nil || agent.CPUs != 96 {
		t.Errorf("the facts changed: %+v %+v", agent, slurm)
	}
	if err := f.Take([]byte("n1"), nil); err != nil || f.Len() != 0 {
		t.Errorf("a tombstone leaves the facts: %v", err)
	}
}

func watermark(t *testing.T) []byte {
	t.Helper()
	b, err := schemas.Marshal(&schemas.Watermark{IntervalMs: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
