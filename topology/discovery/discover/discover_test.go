package discover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// TestCases finds the networks of the thesis's tables, and of made-up matrices.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.csv")
	if err != nil || len(files) < 17 {
		t.Fatalf("%d cases: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".csv"), func(t *testing.T) {
			m, err := latency.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			base := strings.TrimSuffix(file, ".csv")
			answer := base + ".tree"
			if _, err := os.Stat(answer); err != nil {
				answer = base + ".edges"
			}
			want, err := network.ReadFile(answer)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Build(m)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s offsets %v %+v", got.Kind, got.Offsets, got.Confidence)
			if !network.Equal(got.Network, want) {
				t.Error(network.Compare(got.Network, want))
			}
		})
	}
}
