package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	intervalPage  = "../docs/performance.md"
	intervalFile  = "testdata/interval.jsonl" // measurements of make bench-interval, written by TestInterval
	intervalBegin = "<!-- interval: begin -->\n"
	intervalEnd   = "<!-- interval: end -->\n"
)

// TestIntervalTables: docs/performance.md shows the recorded measurements, and nothing else.
func TestIntervalTables(t *testing.T) {
	withoutBrokers(t)
	page, err := os.ReadFile(intervalPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), intervalBegin)
	_, after, closed := strings.Cut(rest, intervalEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the tables", intervalPage)
	}
	want := before + intervalBegin + "\n" + intervalTables(t) + "\n" + intervalEnd + after
	if *intervalWrite {
		if err := os.WriteFile(intervalPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s differs from %s: go test ./integration -run TestIntervalTables -interval.write writes it anew",
			intervalPage, intervalFile)
	}
}

// intervalTables returns the tables of the measurements.
func intervalTables(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(intervalFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []measurement
	for line := range bytes.Lines(text) {
		var m measurement
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, %d values, %.1f MB, %d partitions of counters; medians of %d intervals.\n\n",
		all[0].Nodes, all[0].Values, float64(all[0].Bytes)/1e6, all[0].Collectors, all[0].Intervals)
	b.WriteString("| brokers | the nodes publish by | wall, ms | produce | summary | slowest | cold | " +
		"late | CPU ms: weir | nodes | brokers |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range all {
		brokers := "in weir's"
		if m.BrokersMs > 0 {
			brokers = fmt.Sprintf("%.0f", m.BrokersMs)
		}
		late := float64(100*m.LateNodes) / float64(m.Nodes*m.Intervals)
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f %% | %.0f | %.0f | %s |\n",
			m.Brokers, m.Way, m.WallMs, m.ProduceMs, m.SummaryMs, m.WallMaxMs, m.ColdMs, late,
			m.CPUMs, m.LoadMs, brokers)
	}
	b.WriteString("\n| CPU ms of an interval |")
	for _, m := range all {
		fmt.Fprintf(&b, " %s, %s |", m.Brokers, m.Way)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	rows := map[string]bool{}
	for _, m := range all {
		for name, ms := range m.PartsMs {
			rows[name] = rows[name] || ms >= 2
		}
	}
	for _, name := range sortedKeys(rows) {
		if !rows[name] || name == "reader" {
			continue
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, m := range all {
			if ms, there := m.PartsMs[name]; there {
				fmt.Fprintf(&b, " %.0f |", ms)
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
