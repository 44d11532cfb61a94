package inuse_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/report/page"
	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/inuse"
	"github.com/weirhpc/weir/commands/reading"
)

// TestNamedIsWhatTheCodeNeeds: the table of metrics in use is that of the rules and the reports. An agent reads the
// table, so that it links neither. -update writes it.
func TestNamedIsWhatTheCodeNeeds(t *testing.T) {
	set, err := reading.CompileRules(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	put := func(who string, names ...string) {
		for _, name := range names {
			lines = append(lines, who+"\t"+name+"\n")
		}
	}
	for i := range set.Rules {
		r := &set.Rules[i]
		put("rule "+r.ID, slices.Concat(r.Needs, r.Uses)...)
	}
	put("weir job", view.Metrics()...)
	put("table by node", view.NodeMetrics()...)
	put("roofline", page.RooflineMetrics()...)
	put("weir jobs", analysis.LineMetrics()...)
	put("energy", view.PowerMetrics()...)
	put("weir top", inuse.TopMetric)
	put("weir report system", machine.Metrics()...)
	slices.Sort(lines)
	want := strings.Join(slices.Compact(lines), "")
	const file = "commands/inuse/named.tsv"
	if *clitest.Update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := clitest.Page(t, file); got != want {
		t.Errorf("%s differs from the code: go test ./commands/inuse -run TestNamedIsWhatTheCodeNeeds -update", file)
	}
}
