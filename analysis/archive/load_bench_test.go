package archive_test

import (
	"testing"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/config"
)

// BenchmarkLoad loads a job of a day from a year: 16 metrics are shown, and rules read 12 others. The goal is 1 s.
func BenchmarkLoad(b *testing.B) {
	dir := archive.YearArchive(b)
	set := &rules.Set{}
	for i := range 12 {
		set.Rules = append(set.Rules, rules.Rule{ID: "r", Needs: []string{"metric_" + string(rune('0'+2+i/10)) + string(rune('0'+i%10))}})
	}
	for b.Loop() {
		j, err := analysis.Load(b.Context(), config.Default(), set, "1000000", analysis.Ask{Dir: dir, Restart: -1})
		if err != nil {
			b.Fatal(err)
		}
		if j.Intervals != 1440 || len(j.Metrics) != 16 || j.IntervalMs != 60_000 || len(j.Metrics[0].Bins) != 240 {
			b.Fatal(j.Intervals, len(j.Metrics), j.IntervalMs, len(j.Metrics[0].Bins))
		}
	}
}
