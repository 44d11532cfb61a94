package processors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

func wideSummary(job string, metrics int) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: foldtest.Cluster, JobID: job, IntervalStart: foldtest.EpochMs, IntervalMs: foldtest.IntervalMs,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1,
	}
	mean, deciles := 1.0, slices.Repeat([]float64{1}, 11)
	for n := range metrics {
		s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
			Name: fmt.Sprintf("metric_with_a_long_name_that_a_stranger_has_chosen_%d", n), Unit: "1",
			Scope: schemas.ScopeCore, Count: 1, Mean: &mean, Deciles: &deciles,
		})
	}
	return s
}

func TestEveryOutputFits(t *testing.T) {
	wide := wideSummary("whole", 30_000)
	share := foldtest.Partial("two", 0, foldtest.EpochMs, 2)
	for n := range 100_000 {
		share.Shared = append(share.Shared, schemas.SharedNode{Node: fmt.Sprintf("%050d", n)})
	}
	twice := foldtest.Partial("two", 0, foldtest.EpochMs, 2)
	twice.Metrics = append(twice.Metrics, twice.Metrics[0]) // could be written, and not be read
	for what, c := range map[string]struct {
		output  schemas.Record
		surplus int64
		metrics int
	}{
		"as it is":                     {foldtest.Partial("two", 0, foldtest.EpochMs, 2), 0, 1},
		"30,000 metrics":               {wide, 30_000 - 15_000, 15_000},
		"100,000 nodes shared":         {share, 0, 1},
		"a metric that is there twice": {twice, 1, 1},
	} {
		value, surplus, err := encodeOutput(c.output)
		if err != nil || len(value) > schemas.MaxRecordBytes {
			t.Errorf("%s: %d bytes, %v", what, len(value), err)
			continue
		}
		back, err := schemas.Unmarshal(value)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		metrics := 0
		switch back := back.(type) {
		case *schemas.JobSummary:
			metrics = len(back.Metrics)
		case *schemas.JobPartial:
			metrics = len(back.Metrics)
		}
		total := int64(metrics) + surplus
		if surplus < c.surplus || metrics == 0 || total != c.surplus+int64(c.metrics) {
			t.Errorf("%s: %d metrics written, %d left out", what, metrics, surplus)
		}
	}
	if _, _, err := encodeOutput(&schemas.JobSummary{}); err == nil {
		t.Error("a summary of no job is written")
	}
}

func TestProgressDropsItsLoadsBeforeItFails(t *testing.T) {
	p := &schemas.Progress{Position: 9, Hold: 9}
	for n := range 100_000 {
		p.Loads = append(p.Loads, schemas.JobLoad{JobID: fmt.Sprintf("%060d", n), Nodes: 1, Bytes: 1})
	}
	value, err := encodeProgress(p)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := schemas.Unmarshal(value); err != nil || back.(*schemas.Progress).Position != 9 {
		t.Errorf("%v, %v", back, err)
	}
}

func TestReasonsAreBoundedText(t *testing.T) {
	for _, reason := range []string{
		"short", strings.Repeat("ä", 400), "x" + strings.Repeat("ä", 400), "\xff\xfe not UTF-8",
		strings.Repeat("\xff", 4000), "a\x1b[2J\n",
	} {
		got := schemas.CleanText(reason, maxReasonBytes)
		if !utf8.ValidString(got) || len(got) > maxReasonBytes || got != schemas.Printable(got) ||
			reason == "short" && got != reason {
			t.Errorf("%q becomes %q", reason, got)
		}
	}
}
