package latency

import (
	"path/filepath"
	"testing"
)

// TestReadsTheCases: all triangles of the thesis and of made-up networks are read.
func TestReadsTheCases(t *testing.T) {
	files, err := filepath.Glob("../discover/testdata/cases/*.csv")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		m, err := ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := m.Len() * (m.Len() - 1) / 2; len(m.Values()) != want || m.Names()[0] != "n0" {
			t.Errorf("%s: %d nodes with %d latencies, want %d", file, m.Len(), len(m.Values()), want)
		}
		t.Logf("%s: %d nodes, tick %g", file, m.Len(), m.Tick())
	}
}
