package page

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhpc/weir/analysis/view"
)

var pages = flag.String("pages", "", "write the made-up pages into this `DIR`, for a browser")

var options = Options{Now: time.UnixMilli(dayStart + dayMs).UTC(), Version: "v0"}

func render(t testing.TB, j *view.Job, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Job(&b, j, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPages writes the pages that the tests with a browser look at.
func TestPages(t *testing.T) {
	if *pages == "" {
		t.Skip("-pages names no directory")
	}
	o := options
	o.Peers = madeUpPeers()
	for name, j := range map[string]*view.Job{"day": madeUp(240)} {
		if err := os.WriteFile(filepath.Join(*pages, name+".html"), render(t, j, o), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkJob(b *testing.B) {
	j := madeUp(240)
	o := options
	o.Peers = madeUpPeers()
	size := len(render(b, j, o))
	b.ReportMetric(float64(size), "bytes")
	for b.Loop() {
		render(b, j, o)
	}
}
