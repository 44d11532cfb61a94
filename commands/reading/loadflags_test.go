package reading_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/producers"

	"github.com/weirhpc/weir/commands/reading"
)

// TestLoadFlags: what is not given comes from the machine, then from the mix. The test mix alone has limits of its own.
func TestLoadFlags(t *testing.T) {
	type resolved struct {
		Nodes int
		Load  producers.Load
		LMax  int
	}
	test := func(metrics int) resolved { return resolved{24, producers.Load{Cores: 32, Metrics: metrics}, 6} }
	muc := func(cores, metrics int) producers.Load {
		return producers.Load{SuperMUC: true, Cores: cores, Metrics: metrics}
	}
	for name, c := range map[string]struct {
		args []string
		want resolved
	}{
		"test mix":     {[]string{"--nodes", "24"}, test(10)},
		"few metrics":  {[]string{"--nodes", "24", "--metrics", "3"}, test(3)},
		"SuperMUC mix": {[]string{"--nodes", "24", "--mix", "supermuc"}, resolved{24, muc(16, 37), 77}},
		"sizes": {
			[]string{"--nodes", "24", "--mix", "supermuc", "--cores", "8", "--metrics", "200"},
			resolved{24, muc(8, 200), 77},
		},
		"SuperMUC":    {[]string{"--machine", "supermuc"}, resolved{9288, muc(16, 37), 77}},
		"Frontier":    {[]string{"--machine", "frontier"}, resolved{9408, muc(64, 37), 77}},
		"El Capitan":  {[]string{"--machine", "elcapitan"}, resolved{11_136, muc(96, 37), 77}},
		"ten million": {[]string{"--machine", "ten-million"}, resolved{78_125, muc(128, 37), 77}},
		"part of it": {
			[]string{"--machine", "frontier", "--nodes", "100", "--cores", "4", "--metrics", "5"},
			resolved{100, muc(4, 5), 77},
		},
	} {
		var f reading.LoadFlags
		command := &cobra.Command{}
		command.Flags().IntVar(&f.Nodes, "nodes", 0, "")
		f.Add(command)
		f.AddMetrics(command)
		if err := command.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := f.Resolve(command, "nodes"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lMax, _ := f.Limits(77, 0)
		if diff := cmp.Diff(c.want, resolved{f.Nodes, f.Load(), lMax}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
