package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
)

// TestPositionIsTheEndOfTheChain: of each partition, with small files and compacted ones. The last rows may be of an
// old date. A damaged file makes it earlier, and never later.
func TestPositionIsTheEndOfTheChain(t *testing.T) {
	dir, metric := t.TempDir(), "m"
	type end struct {
		next int64
		date string
	}
	ends := map[int32]end{}
	add := func(partition int32, date string, records int64) {
		t.Helper()
		at, err := time.Parse(time.DateOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		e := ends[partition]
		rows := []schemas.Row{{
			Cluster: "c", JobID: fmt.Sprint(partition), Metric: &metric, IntervalStart: at.UnixMilli() + e.next*1000,
			IntervalMs: 1000,
		}}
		f := sink.Footer{
			Topic: testTopic, Partition: partition, Start: e.next, Next: e.next + records, Rows: 1,
			PreviousDate:  e.date,
			FirstInterval: rows[0].IntervalStart, LastInterval: rows[0].IntervalStart,
		}
		if partition == 1 {
			f.TopicID = "0123456789abcdef0123456789abcdef"
		}
		if err := sink.Append(dir, testTopic, date, rows, f); err != nil {
			t.Fatal(err)
		}
		ends[partition] = end{f.Next, date}
	}
	check := func(state string) {
		t.Helper()
		for partition, e := range ends {
			next, id, ok, err := Position(dir, testTopic, partition)
			if err != nil || !ok || next != e.next || (id != "") != (partition == 1) {
				t.Errorf("%s: partition %d ends at %d, %q, %v, %v, want %d", state, partition, next, id, ok, err,
					e.next)
			}
		}
	}
	for day := range 4 {
		for partition := range int32(3) {
			for range 3 {
				add(partition, fmt.Sprintf("2026-01-%02d", 5+day), int64(10+partition))
			}
		}
	}
	check("small files")
	add(2, "2026-01-07", 4) // late rows end the chain
	run := func() {
		t.Helper()
		if err := compact.Run(t.Context(), compact.Options{Dir: dir, Topic: testTopic}); err != nil {
			t.Fatal(err)
		}
	}
	run()
	check("compacted")
	for range 40 {
		add(2, "2026-01-06", 3)
	}
	check("late rows")
	run()
	check("late rows, compacted")
	if _, _, ok, err := Position(dir, testTopic, 7); ok || err != nil {
		t.Error("a partition without files has an end", err)
	}
	if _, _, ok, err := Position(t.TempDir(), testTopic, 0); ok || err != nil {
		t.Error("an archive of nothing has an end", err)
	}
	add(0, "2026-01-08", 5)
	files, err := filepath.Glob(filepath.Join(dir, "summaries", "date=2026-01-08", testTopic+"-0-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[len(files)-1], []byte("PAR1 damaged PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if next, _, _, err := Position(dir, testTopic, 0); err != nil || next >= ends[0].next {
		t.Errorf("a damaged file: %d, %v", next, err)
	}
}
