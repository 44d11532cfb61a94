package archive_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/rules"
)

// BenchmarkLoad loads a job of a day from a year: 16 metrics are shown, and rules read 12 others. The goal is 1 s.
func BenchmarkLoad(b *testing.B) {
	dir := archive.YearArchive(b)
	var text strings.Builder
	text.WriteString("metrics: [{name: metric_00, unit: \"1\", scope: core}")
	for i := range 12 {
		fmt.Fprintf(&text, ", {name: metric_%d, unit: \"1\", scope: core}", 20+i)
	}
	text.WriteString("]\nrules:\n")
	for i := range 12 {
		fmt.Fprintf(&text, "- {id: rule-%d, title: t, needs: [metric_%d], each: metric_%[2]d.lo5 > 0.1, hint: h, "+
			"severity: {of: metric_%[2]d.mean, from: 0, to: 10}}\n", i, 20+i)
	}
	set, err := rules.Compile(nil, shipped(), rules.Source{Name: "x", Text: []byte(text.String())})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		j, err := analysis.Load(b.Context(), config.Default(), analysis.Viewer{All: true}, set, "1000000", analysis.Ask{Dir: dir, Restart: -1})
		if err != nil {
			b.Fatal(err)
		}
		if j.Intervals != 1440 || len(j.Metrics) != 16 || j.IntervalMs != 60_000 || len(j.Metrics[0].Bins) != 240 {
			b.Fatal(j.Intervals, len(j.Metrics), j.IntervalMs, len(j.Metrics[0].Bins))
		}
	}
}

// shipped returns the ids of the shipped rules, which name metrics that are not there.
func shipped() (ids []string) {
	for line := range strings.Lines(string(rules.Shipped())) {
		if id, is := strings.CutPrefix(strings.TrimSpace(line), "- id: "); is {
			ids = append(ids, id)
		}
	}
	return ids
}

// monthOfTotals adds the totals of a month to the archive of a year: 370 jobs a day with 40 metrics.
func monthOfTotals(b *testing.B, dir string, month time.Time) {
	b.Helper()
	r := rand.New(rand.NewPCG(16, 7))
	unit, scope, node, share := "1", "core", "i01r01c01s01", 0.25
	names := []string{"cpu_idle", "cpu_user", "mem_used"}
	for m := len(names); m < 40; m++ {
		names = append(names, fmt.Sprintf("metric_%02d", m))
	}
	slices.Sort(names)
	for date := month; date.Month() == month.Month(); date = date.AddDate(0, 0, 1) {
		path := totals.Path(dir, date.Format(time.DateOnly))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		w := parquet.NewGenericWriter[totals.Total](f, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
			parquet.MaxRowsPerRowGroup(64<<10), parquet.PageBufferSize(32<<10),
			parquet.DefaultEncodingFor(parquet.Double, &parquet.ByteStreamSplit))
		for job := range 370 {
			id := fmt.Sprint(2_000_000 + 400*(date.YearDay()-1) + job)
			rows := make([]totals.Total, len(names))
			for m := range rows {
				var d [13]float64
				for k := range d {
					d[k] = r.Float64()
				}
				slices.Sort(d[:11])
				rows[m] = totals.Total{
					Cluster: "c", JobID: id, Metric: &names[m], Unit: &unit, Scope: &scope, Intervals: 720,
					IntervalsMeasured: 720, MeasuredS: 43_200, NodesExpectedSum: 11_520, NodesReportedSum: 11_520,
					Count: 552_960, Mean: &d[11], Stddev: &d[12], LowNode: &node, HighNode: &node, LowNodeShare: &share,
					HighNodeShare: &share, D0: &d[0], D1: &d[1], D2: &d[2], D3: &d[3], D4: &d[4], D5: &d[5], D6: &d[6],
					D7: &d[7], D8: &d[8], D9: &d[9], D10: &d[10], RankError: &share, Lo: d[:11], Hi: d[:11],
					Final: true,
				}
			}
			if _, err := w.Write(rows); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLines lists the jobs of a month, sorted by a metric. The goal is 2 s.
func BenchmarkLines(b *testing.B) {
	dir := archive.YearArchive(b)
	month := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	monthOfTotals(b, dir, month)
	for b.Loop() {
		l, err := analysis.LoadLines(b.Context(), config.Default(), analysis.Viewer{All: true},
			analysis.ListAsk{Dir: dir, Since: month, Sort: "metric_17.d5"})
		if err != nil || len(l.Rows) < 31*300 || l.Rows[0].Busy == nil || l.Rows[0].Of["metric_17.d5"] == nil {
			b.Fatal(len(l.Rows), err)
		}
	}
}
