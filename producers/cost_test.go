package producers

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/schemas"
)

// TestIdleAgentAsksRarely: an agent asks for new routes twice a minute, since a broker answers at once when there is
// one. Ten thousand agents would otherwise send thousands of requests a second for nothing.
func TestIdleAgentAsksRarely(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		cluster := l.startBroker(t, t.TempDir())
		var fetches atomic.Int64
		cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			fetches.Add(1)
			return nil, nil, false
		})
		l.simulate(t, 1)
		time.Sleep(2 * time.Minute)
		if n := fetches.Load(); n < 2 || n > 6 {
			t.Errorf("%d fetches in two minutes", n)
		}
		l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2})
		began := time.Now()
		l.gather(t, func(all []counter) bool { return from(all, "sim0001") > 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("a new route had a record after %v", took)
		}
	})
}

// TestRecordsLeaveAtOnce: the records of a node leave together, without a wait in the client.
func TestRecordsLeaveAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		cluster := l.startBroker(t, t.TempDir())
		var mu sync.Mutex
		left := map[int64]int{} // requests by when they reached the broker
		cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			mu.Lock()
			defer mu.Unlock()
			left[time.Now().UnixMilli()]++
			return nil, nil, false
		})
		var jobs []schemas.RouteEntry
		for cpu := range int32(simulatedCPUs) {
			jobs = append(jobs, entry(fmt.Sprintf("job%d", cpu), cpu%4, schemas.ModeCollect, cpu))
		}
		l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1, Home: 2, Entries: jobs})
		_, _, stop := l.simulate(t, 1)
		all := l.gather(t, func(all []counter) bool { return from(all, "sim0001") >= 10*len(jobs) })
		stop()
		mu.Lock()
		defer mu.Unlock()
		requests := map[int64]int{}
		for _, k := range all {
			if requests[k.head.SentAt] = left[k.head.SentAt]; left[k.head.SentAt] < 1 {
				t.Fatalf("a record was sent at %d, and no request left then: %+v", k.head.SentAt, left)
			}
		}
		// How many requests take the records of an instant is up to Go's scheduler too, so one instant may have more.
		n := slices.Sorted(maps.Values(requests))
		if n[len(n)/2] > 3 {
			t.Errorf("half of the instants have %d requests or more, of %d jobs: %+v", n[len(n)/2], len(jobs), left)
		}
	})
}
