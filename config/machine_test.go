package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const machineYAML = `
machine:
  - name: thin
    nodes: n[0001-2048]
    cpus: 96
    threads_per_core: 2
    memory: 206158430208
    peak_flops: 3.0e12
    peak_mem_bw: 256000000000
    gpus: 0
  - {name: other}
find:
  rules: /etc/weir/rules
  off: [serial, io-wait]
  possible: true
`

func TestMachine(t *testing.T) {
	c, err := Load(Source{File: write(t, machineYAML), Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	want := []NodeType{
		{
			Name: "thin", Nodes: "n[0001-2048]", CPUs: 96, ThreadsPerCore: 2, GPUs: new(0), Memory: 192 << 30,
			PeakFlops: 3e12, PeakMemBW: 2.56e11,
		},
		{Name: "other"}, // nothing is told, GPUs neither
	}
	if diff := cmp.Diff(want, c.Machine); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(Find{"/etc/weir/rules", []string{"serial", "io-wait"}, true}, c.Find); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Load(Source{File: write(t, string(text)), Defaults: Default()})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(c, back, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("written and read again:\n%s", diff)
	}
	_, err = Load(Source{Environ: []string{"WEIR_MACHINE=thin"}, Defaults: Default()})
	if !errors.Is(err, errValue) || !strings.Contains(err.Error(), "set it in a file") {
		t.Errorf("sections in a variable: %v", err)
	}
	c, err = Load(Source{Environ: []string{"WEIR_FIND_OFF=serial,io-wait", "WEIR_MACHINE="}, Defaults: c})
	if err != nil || len(c.Find.Off) != 2 || len(c.Machine) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestWrongMachines: each mistake is named by its place, with the value and what may be.
func TestWrongMachines(t *testing.T) {
	const limit = `: out of range: `
	for name, c := range map[string]struct{ old, new, says string }{
		"no name":        {"name: thin", "name: ''", `machine[0].name = "": must match`},
		"same name":      {"name: other", "name: thin", `machine[1].name = "thin": is there twice`},
		"two for others": {"nodes: n[0001-2048]", "", `machine[1].nodes = "": needs another key: a hostlist such as`},
		"no hostlist":    {"n[0001-2048]", `"n\e"`, `machine[0].nodes = "n\x1b": must be a hostlist`},
		"negative cpus":  {"cpus: 96", "cpus: -1", `machine[0].cpus = -1` + limit + "0 to 65536"},
		"threads":        {"threads_per_core: 2", "threads_per_core: 65", `machine[0].threads_per_core = 65` + limit},
		"cores":          {"cpus: 96", "cpus: 97", `cpus = 97: needs another key: a multiple of threads_per_core 2`},
		"gpus":           {"gpus: 0", "gpus: 2000", `machine[0].gpus = 2000` + limit + "0 to 1024"},
		"memory":         {"206158430208", "-1", `machine[0].memory = -1` + limit},
		"memory's unit":  {"206158430208", "192GiB", `machine[0].memory`},
		"flops":          {"3.0e12", "3.0e19", `machine[0].peak_flops = 3e+19` + limit + "0 (not told) to 1e18"},
		"bandwidth":      {"256000000000", ".nan", `machine[0].peak_mem_bw = NaN` + limit},
		"unknown key":    {"cpus: 96", "cores: 96", "cores"},
		"rule's id":      {"[serial, io-wait]", "['a b']", `find.off = "a b": must match`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(machineYAML, c.old, c.new, 1)
			if text == machineYAML {
				t.Fatal("the case changes nothing")
			}
			_, err := Load(Source{File: write(t, text), Defaults: Default()})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	c := Default()
	c.Agent.Node = "n"
	c.Machine = make([]NodeType, 65)
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "machine = 65: out of range: 0 to 64") {
		t.Errorf("%v", err)
	}
}
