package term

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weirhpc/weir/report/view"
)

// TestSampledMetricsAreMarked: metrics that canaries alone measure share a line, with the number of their nodes.
func TestSampledMetricsAreMarked(t *testing.T) {
	j := made()
	var names []string
	for i := range j.Metrics {
		j.Metrics[i].Total.Nodes = view.Nodes{Intervals: 10, With: 960, Reported: 960}
		if i < 2 {
			j.Metrics[i].Total.Nodes.With = 20
			names = append(names, j.Metrics[i].Name)
		}
	}
	var b bytes.Buffer
	if err := Job(&b, j, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	want := "Sampled: 2 of 96 nodes: " + strings.Join(names, ", ") + ".\n"
	if !strings.Contains(b.String(), want) || strings.Count(b.String(), "Sampled") != 1 {
		t.Errorf("%q is not in:\n%s", want, &b)
	}
}
