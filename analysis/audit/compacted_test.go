package audit

import (
	"testing"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
)

// TestCompactedFilesAreLinks: around midnight two dates lie between each other. After a compaction the chain is still
// without a hole, and a file that is taken away leaves one.
func TestCompactedFilesAreLinks(t *testing.T) {
	dir := t.TempDir()
	const topic = "weir." + schemas.TopicJobSummary
	previous := ""
	for i, date := range []string{"2026-01-05", "2026-01-06", "2026-01-05", "2026-01-06", "2026-01-07"} {
		f := sink.Footer{Topic: topic, Start: int64(i), Next: int64(i + 1), Rows: 1, PreviousDate: previous}
		rows := []schemas.Row{{Cluster: "c", JobID: "7", IntervalStart: int64(i)}}
		if err := sink.Append(dir, topic, date, rows, f); err != nil {
			t.Fatal(err)
		}
		previous = date
	}
	if err := compact.Run(t.Context(), compact.Options{Dir: dir, Topic: topic}); err != nil {
		t.Fatal(err)
	}
	files, err := List(dir, topic, "")
	if err != nil {
		t.Fatal(err)
	}
	of := files[0]
	if len(of) != 5 || of[0].Path != of[2].Path || of[4].Compacted != nil {
		t.Fatalf("links: %+v", of)
	}
	var r Report
	if r.contiguous(of, "2026-01-05"); r.Found != 0 {
		t.Errorf("a chain of compacted files: %v", r.Differences)
	}
	if r.contiguous(append(of[:1:1], of[2:]...), "2026-01-05"); r.Found != 1 {
		t.Errorf("a chain without a link: %d differences", r.Found)
	}
}
