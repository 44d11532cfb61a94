package producers

import (
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
