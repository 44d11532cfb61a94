package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// TestStatusOfFind: an installation that runs no find lacks nothing, with its topics or without. One that ran it is
// told where it no longer does, and how many summaries wait.
func TestStatusOfFind(t *testing.T) {
	i := topicstest.New(t)
	i.Every(time.Minute)
	old := &kgo.Record{Topic: "test." + schemas.TopicJobSummary, Timestamp: time.Now().Add(-time.Hour)}
	if err := i.Client.ProduceSync(t.Context(), old).FirstErr(); err != nil {
		t.Fatal(err)
	}
	run(i, says{})
	look := func() (find []Partition, wrong []string, counts map[string]int64) {
		t.Helper()
		s, err := Read(t.Context(), i.Config)
		if err != nil {
			t.Fatal(err)
		}
		find = slices.DeleteFunc(s.Partitions, func(p Partition) bool { return p.Stage != "find" })
		wrong = slices.DeleteFunc(s.Wrong, func(w string) bool { return !strings.Contains(w, "find") })
		return find, wrong, s.Find
	}
	topics := []string{
		"test." + schemas.TopicFindProgress, "test." + schemas.TopicFindState, "test." + schemas.TopicFindings,
	}
	for range 2 { // with its topics, then without
		if find, wrong, counts := look(); len(find)+len(wrong) > 0 || counts != nil {
			t.Errorf("without find: %+v, %q, %v", find, wrong, counts)
		}
		if deleted, err := kadm.NewClient(i.Client).DeleteTopics(t.Context(), topics...); err != nil || len(deleted) == 0 {
			t.Fatal(deleted, err)
		}
	}
	if _, err := kadm.NewClient(i.Client).CreateTopics(t.Context(), 1, 1, nil, topics...); err != nil {
		t.Fatal(err)
	}
	for position, behind := range []bool{true, false} {
		i.Put(schemas.TopicFindProgress, 0, &schemas.Progress{
			Position: int64(position), Counts: schemas.ProgressCounts{Summarized: 4, Outputs: 1},
		})
		find, _, counts := look()
		if len(find) != 1 || find[0].Lag != 7-int64(position) || find[0].Behind != behind || counts["summarized"] != 4 {
			t.Errorf("position %d: %+v, %v", position, find, counts)
		}
	}
	if _, wrong, _ := look(); len(wrong) != 1 || wrong[0] != "find: nobody owns partition 0: start `weir find --live`" {
		t.Errorf("wrong is %q", wrong)
	}
}
