package find

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// TestFindCommitsTogether: the summaries of an interval come one after the other, and one transaction has what find
// makes of them.
func TestFindCommitsTogether(t *testing.T) {
	b, start := newBench(t), lifeStart()
	const jobs = 10
	for i := range jobs {
		b.tells(&schemas.Job{JobID: string(rune('a' + i)), User: "alice", State: schemas.StateRunning, Start: &start})
	}
	_, stop := b.find()
	b.load("a", start, 1)
	b.Eventually("find's first commit", b.folded(1))
	ends, began := b.Requests(kmsg.EndTxn), time.Now()
	for i := range jobs {
		value := foldtest.Encode(t, loadOf(string(rune('a'+i)), start+findT, findT, 1))
		r := &kgo.Record{Topic: b.Config.Prefix + schemas.TopicJobSummary, Value: value, Key: []byte{byte('a' + i)}}
		if err := b.Kafka.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Eventually("all summaries", b.folded(1+jobs))
	took := time.Since(began)
	b.StopOrFail(stop)
	if n, most := int(ends.Load()), int(took/findHold)+2; n > most {
		t.Errorf("%d transactions for the summaries of %d jobs in %v, at most %d", n, jobs, took, most)
	}
}
