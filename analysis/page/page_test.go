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

// madeUpPages are pages of jobs of all kinds, by name.
func madeUpPages() map[string]func(testing.TB) []byte {
	of := func(j *view.Job, p *view.Peers) func(testing.TB) []byte {
		o := options
		o.Peers = p
		return func(t testing.TB) []byte { return render(t, j, o) }
	}
	return map[string]func(testing.TB) []byte{
		"day": of(madeUp(240), madeUpPeers()), "hostile": of(hostile(), hostilePeers()), "bare": of(bare(), nil),
		"short": of(short(), nil), "year": of(year(), madeUpPeers()),
	}
}

// TestPages writes the pages that the tests with a browser look at.
func TestPages(t *testing.T) {
	if *pages == "" {
		t.Skip("-pages names no directory")
	}
	for name, page := range madeUpPages() {
		if err := os.WriteFile(filepath.Join(*pages, name+".html"), page(t), 0o644); err != nil {
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
