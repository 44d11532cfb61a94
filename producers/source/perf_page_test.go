package source

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// eventsOfPage describes the tables as the page of hardware counters shows them.
func eventsOfPage(t *testing.T) string {
	t.Helper()
	listed := []struct {
		arch     architecture
		counters int
	}{
		{skylakeSP, 4},
		{iceLakeSP, 8},
		{sapphireRapids, 8},
		{otherIntel, 8},
		{zen2, 6},
		{zen3, 6},
		{zen4, 6},
		{zen5, 6},
		{neoverseN1, 6},
		{neoverseV1, 6},
		{neoverseV2, 6},
		{otherCPU, 4},
	}
	var page strings.Builder
	for _, l := range listed {
		k := newFakeKernel(1)
		k.counters = l.counters
		f, _ := newPerfForm(k.calls(), coreMetrics(), describedHere(l.arch.groups), 0, 8)
		fmt.Fprintf(&page, "**%s**\n\n| metrics | events of the group |\n|---|---|\n", l.arch.name)
		for i, g := range f.groups {
			var metrics, events []string
			for j, give := range g.gives {
				if f.places[i][j] >= 0 {
					metrics = append(metrics, "`"+give.metric+"`")
				}
			}
			for _, e := range g.events {
				if e.kind == unix.PERF_TYPE_RAW {
					events = append(events, fmt.Sprintf("%s `%#x`", e.name, e.config))
				} else {
					events = append(events, e.name)
				}
			}
			slices.Sort(metrics)
			fmt.Fprintf(&page, "| %s | %s |\n", strings.Join(metrics, ", "), strings.Join(events, ", "))
		}
		page.WriteString("\n")
	}
	return page.String()
}

// TestPageOfHardwareCounters: the page shows the tables that the program has. UPDATE=1 writes it anew.
func TestPageOfHardwareCounters(t *testing.T) {
	const path, begin, end = "../../docs/hardware-counters.md",
		"<!-- events: made by TestPageOfHardwareCounters -->\n", "<!-- end of events -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the page has no place for the events")
	}
	want := head + begin + eventsOfPage(t) + end + tail
	if want == string(text) {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatal("the page is not of these tables: run this test with UPDATE=1")
	}
	write(t, path, want)
}
