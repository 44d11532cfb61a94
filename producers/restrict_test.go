package producers

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// What a thousandth of the nodes go on measuring. TestCanary of package config has these names.
const (
	ofTheList = "n0001"
	canary    = "n0681"
	free      = "free" // has no list
)

// published is what a node sent: the names of its metrics, its records and their bytes.
type published struct {
	names          map[string]bool
	records, bytes int
}

// sentBy lets nodes of this kind run until each has sent enough records, and returns what they sent.
func sentBy(t *testing.T, l *lab, members []member) map[string]*published {
	t.Helper()
	l.startBroker(t, t.TempDir())
	for _, m := range members {
		l.plan(t, &schemas.Route{
			Node: m.name, Epoch: 1, Entries: []schemas.RouteEntry{{JobID: "1", Mode: schemas.ModeCollect}},
		})
	}
	logged := &kafkatest.Log{}
	start(t, logged, l.newFleet(t, members, logged.Logger()).serve)
	by := map[string]*published{}
	l.gather(t, func(all []counter) bool {
		clear(by)
		for _, k := range all {
			b, is := k.record.(*schemas.CounterBatch)
			if !is {
				continue
			}
			of := by[b.Node]
			if of == nil {
				of = &published{names: map[string]bool{}}
				by[b.Node] = of
			}
			text, err := schemas.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			of.records, of.bytes = of.records+1, of.bytes+len(text)
			for _, m := range b.Metrics {
				of.names[m.Name] = true
			}
		}
		return len(by) == len(members) && !slices.ContainsFunc(slices.Collect(maps.Values(by)),
			func(s *published) bool { return s.records < 8 })
	})
	return by
}

// own leaves out what agents measure of themselves, some of which is there only at times.
func own(names map[string]bool) (all []string) {
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if !strings.HasPrefix(n, "weir_") {
			all = append(all, n)
		}
	}
	return all
}

// stillProc is this host's counters as files that stand still, so that each reading has the same metrics.
func stillProc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"stat", "loadavg", "meminfo", "vmstat", "diskstats", "pressure/cpu", "pressure/memory", "pressure/io",
		"self/statm", "net/dev",
	} {
		text, err := os.ReadFile(filepath.Join("/proc", name))
		if err != nil {
			continue // this kernel lacks it
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRestrictedAgents: of agents on this host that send to a broker, one with a list sends the metrics of the list
// alone, in fewer bytes. A canary and an agent without a list send all that the host has.
func TestRestrictedAgents(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.Agent.Perf, l.Agent.ProcPath, l.Agent.SysPath = false, stillProc(t), t.TempDir()
		list := &config.MetricList{Keep: []string{"cpu_load", "mem_used", "psi_cpu"}, Canary: 0.001}
		var members []member
		for name, list := range map[string]*config.MetricList{ofTheList: list, canary: list, free: nil} {
			cfg := l.Agent
			cfg.Node, cfg.List = name, list
			h := source.Open(cfg, slog.New(slog.DiscardHandler))
			t.Cleanup(h.Close)
			members = append(members, member{name, h})
		}
		by := sentBy(t, l, members)
		all := own(by[free].names)
		if len(all) < 10 {
			t.Fatalf("an agent without a list sends %q alone", all)
		}
		want := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return !slices.Contains(list.Keep, n) })
		if diff := cmp.Diff(want, own(by[ofTheList].names)); diff != "" || len(want) < 2 {
			t.Errorf("metrics of the list (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(all, own(by[canary].names)); diff != "" {
			t.Errorf("a canary (-want +got):\n%s", diff)
		}
		few, whole := by[ofTheList].bytes/by[ofTheList].records, by[canary].bytes/by[canary].records
		if 4*few > 3*whole {
			t.Errorf("a record has %d bytes with a list of three metrics, and %d with all", few, whole)
		}
		t.Logf("bytes of a record: %d with the list, %d of the canary", few, whole)
	})
}

// TestRestrictedSimulation: simulated nodes obey the list too.
func TestRestrictedSimulation(t *testing.T) {
	list := &config.MetricList{Keep: []string{"sim_load", "sim_tail"}, Canary: 0.001}
	for name, want := range map[string]int{ofTheList: 2, canary: len(shapes())} {
		sampler := &simulated{node: name, shapes: measuredShapes(shapes(), list, name)}
		sampler.Read(source.Vitals{BoundaryMs: 1000})
		sampler.Read(source.Vitals{BoundaryMs: 2000})
		_, columns := sampler.Interval(time.Second)
		if len(columns) != want {
			t.Errorf("%s has %d columns, want %d", name, len(columns), want)
		}
		for _, c := range columns {
			if v := SimulatedValue(name, c.Name, 0, 1000); c.Values[0] != v && v == v {
				t.Errorf("%s of %s is %g, want %g", c.Name, name, c.Values[0], v)
			}
		}
	}
	none := measuredShapes(shapes(), &config.MetricList{Keep: []string{"cpu_user"}}, ofTheList)
	if none == nil || len(none) > 0 {
		t.Errorf("without a simulated metric in the list a node measures %d of %v", len(none), none == nil)
	}
}
