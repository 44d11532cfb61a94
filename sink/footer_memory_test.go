package sink

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestFootersTakeLittleMemory: a list of files does not keep the bytes of their footers, which are 5 kB each.
func TestFootersTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	dir := t.TempDir()
	files := int64(kafkatest.Cases(400, 100))
	add, err := Appender(dir, "weir.job-summary")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		rows := []schemas.Row{{Cluster: "c", JobID: fmt.Sprint(i)}}
		f := Footer{Topic: "weir.job-summary", Start: i, Next: i + 1, Rows: 1, PreviousDate: "1970-01-01"}
		if err := add("1970-01-01", rows, f); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools hold
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	all, err := Files(dir+"/summaries", "weir.job-summary")
	if err != nil || int64(len(all)) != files {
		t.Fatalf("%d files, %v", len(all), err)
	}
	if each := (heap() - before) / files; each > 2500 {
		t.Errorf("a file of the list takes %d bytes", each)
	}
	runtime.KeepAlive(all)
}
