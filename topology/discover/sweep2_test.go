package discover

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/latency"
	"github.com/weirhpc/weir/topology/network"
)

func TestJudge(t *testing.T) {
	files, _ := filepath.Glob(os.Getenv("JUDGE"))
	good := 0
	for _, file := range files {
		m, err := latency.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(file, ".csv")
		want, err := network.ReadFile(base + ".tree")
		if err != nil {
			want, err = network.ReadFile(base + ".edges")
		}
		start := time.Now()
		got, _ := Build(m)
		ok := err == nil && network.Equal(got.Network, want)
		if ok {
			good++
		}
		if !ok || got.Confidence.Level == Low || time.Since(start) > time.Second {
			fmt.Println(filepath.Base(file), ok, got.Kind, got.Offsets, time.Since(start), got.Confidence)
		}
	}
	fmt.Println(good, "of", len(files))
}
