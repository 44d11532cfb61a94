package processors

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/schemas"
)

// requests counts the requests of a kind that the broker gets from now on.
func (b *bench) requests(key kmsg.Key) *atomic.Int32 {
	var n atomic.Int32
	b.cluster.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// TestIdlePartitionsCostLittle: while no records come, a broker is asked for them every other second only.
func TestIdlePartitionsCostLittle(t *testing.T) {
	b := newBench(t)
	b.interval(2)
	stop, _ := b.collect()
	b.eventually("the summary", b.summaries(1))
	fetches := b.requests(kmsg.Fetch)
	const idle = 4 * time.Second
	time.Sleep(idle)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n, most := int(fetches.Load()), int(idle/fetchWait)+2; n > most {
		t.Errorf("%d fetches of an idle partition in %v, at most %d", n, idle, most)
	}
}

// TestCollectTakesRecordsTogether: nodes send their records one by one, and collect fetches many of them together. It
// has a Tick that comes after them at once.
func TestCollectTakesRecordsTogether(t *testing.T) {
	b := newBench(t)
	stop, _ := b.collect()
	b.interval(3)
	b.eventually("the first summary", b.summaries(1))
	fetches := b.requests(kmsg.Fetch)
	start := time.Now().UnixMilli()/simT*simT - 2*simT
	records, began := 0, time.Now()
	for ; time.Since(began) < time.Second; records++ {
		b.put(encode(t, batch("n1", "other", start, simT, 1)))
		time.Sleep(2 * time.Millisecond)
	}
	took := time.Since(began)
	n, most := int(fetches.Load()), int(took/collectPause)+10
	if n > most {
		t.Errorf("%d fetches for %d records in %v, at most %d", n, records, took, most)
	}
	time.Sleep(4 * collectPause)
	b.put(encode(t, tickOf(start, false, tickJob("other", 1, "n1"))))
	b.eventually("the second summary", b.summaries(2))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

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
	b.eventually("find's first commit", b.folded(1))
	ends, began := b.requests(kmsg.EndTxn), time.Now()
	for i := range jobs {
		value := encode(t, loadOf(string(rune('a'+i)), start+findT, findT, 1))
		r := &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicJobSummary, Value: value, Key: []byte{byte('a' + i)}}
		if err := b.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.eventually("all summaries", b.folded(1+jobs))
	took := time.Since(began)
	b.stopOrFail(stop)
	if n, most := int(ends.Load()), int(took/findHold)+2; n > most {
		t.Errorf("%d transactions for the summaries of %d jobs in %v, at most %d", n, jobs, took, most)
	}
}
