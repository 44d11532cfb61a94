package simulate

import (
	"testing"
	"time"
)

// BenchmarkFold reports the time that an interval of the machine takes, without its files.
func BenchmarkFold(b *testing.B) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := made(Habits, 1, from, 30, time.Minute)
	start := from.AddDate(0, 0, 9)
	for b.Loop() {
		if _, err := m.fold(start.UnixMilli(), start.Add(time.Hour).UnixMilli()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(60*b.N), "ms/interval")
}
