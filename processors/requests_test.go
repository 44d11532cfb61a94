package processors

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/processors/foldtest"
)

// TestIdlePartitionsCostLittle: while no records come, a broker is asked for them every other second only.
func TestIdlePartitionsCostLittle(t *testing.T) {
	b := newBench(t)
	b.Interval(2)
	stop, _ := b.collect()
	b.Eventually("the summary", b.Summaries(1))
	fetches := b.Requests(kmsg.Fetch)
	const idle = 4 * time.Second
	time.Sleep(idle)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n, most := int(fetches.Load()), int(idle/FetchWait)+2; n > most {
		t.Errorf("%d fetches of an idle partition in %v, at most %d", n, idle, most)
	}
}

// TestCollectTakesRecordsTogether: nodes send their records one by one, and collect fetches many of them together. It
// has a Tick that comes after them at once.
func TestCollectTakesRecordsTogether(t *testing.T) {
	b := newBench(t)
	stop, _ := b.collect()
	b.Interval(3)
	b.Eventually("the first summary", b.Summaries(1))
	fetches := b.Requests(kmsg.Fetch)
	start := time.Now().UnixMilli()/foldtest.IntervalMs*foldtest.IntervalMs - 2*foldtest.IntervalMs
	records, began := 0, time.Now()
	for ; time.Since(began) < time.Second; records++ {
		b.Put(foldtest.Encode(t, foldtest.Batch("n1", "other", start, foldtest.IntervalMs, 1)))
		time.Sleep(2 * time.Millisecond)
	}
	took := time.Since(began)
	n, most := int(fetches.Load()), int(took/collectPause)+10
	if n > most {
		t.Errorf("%d fetches for %d records in %v, at most %d", n, records, took, most)
	}
	time.Sleep(4 * collectPause)
	b.Put(foldtest.Encode(t, foldtest.Tick(start, false, foldtest.TickJob("other", 1, "n1"))))
	b.Eventually("the second summary", b.Summaries(2))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
