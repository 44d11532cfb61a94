package producers

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// pending returns the intervals that wait in a ring, oldest first, relative to one of them.
func pending(r *ring, from int64) []int64 {
	var starts []int64
	for i := range r.batches {
		starts = append(starts, r.batches[i].start-from)
	}
	return starts
}

// A clock that was two hours ahead is set right. The next whole interval is published without a restart. Records from
// the future make room for it, and a Gap reports them. A small step back publishes no interval twice.
func TestClockSetBack(t *testing.T) {
	l := newLab(t)
	var logged bytes.Buffer
	f := l.newFleet(t, []member{{"sim0001", &simulated{node: "sim0001"}}}, slog.New(slog.NewTextHandler(&logged, nil)))
	n := f.nodes[0]
	n.routes.known = []*schemas.Route{{Node: n.name, Epoch: 1}}
	ms := l.Interval.Milliseconds()
	ahead := time.Now().UnixMilli() / ms * ms
	right := ahead - 2*time.Hour.Milliseconds()
	publish := func(start int64) {
		t.Helper()
		at := func(boundary int64) moment {
			return moment{boundary: boundary, start: time.UnixMilli(boundary), end: time.UnixMilli(boundary)}
		}
		f.sampled(t, at(start), at(start+ms))
	}
	for i := range int64(40) { // more than the ring holds
		publish(ahead + (i-40)*ms)
	}
	publish(ahead - 3*ms) // a small step back
	if got := len(n.ring.batches); got != 32 || n.head.Seq != 40 {
		t.Errorf("%d intervals wait, %d records were formed", got, n.head.Seq)
	}
	if strings.Contains(logged.String(), "set back") {
		t.Errorf("a small step is a warning:\n%s", logged.String())
	}
	publish(right)
	publish(right + ms)
	if diff := cmp.Diff([]int64{0, ms}, pending(&n.ring, right)); diff != "" {
		t.Errorf("intervals that wait (-want +got):\n%s", diff)
	}
	at := slices.IndexFunc(n.ring.gaps, func(g *schemas.Gap) bool { return g.Reason == "clock was ahead" })
	if at < 0 {
		t.Fatalf("gaps %+v", n.ring.gaps)
	}
	if g := n.ring.gaps[at]; g.Records != 32 || g.FirstIntervalStart != ahead-32*ms || g.LastIntervalStart != ahead-ms {
		t.Errorf("gap %+v", g)
	}
	var said []string
	for line := range strings.Lines(logged.String()) {
		if strings.Contains(line, "clock was set back") {
			said = append(said, line)
		}
	}
	utc := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05") }
	if len(said) != 1 || !strings.Contains(said[0], utc(right)) || !strings.Contains(said[0], utc(ahead-ms)) {
		t.Errorf("the log has %q", said)
	}
}

// sampled does what the agent does once two readings bound an interval.
func (f *fleet) sampled(t *testing.T, from, to moment) {
	t.Helper()
	f.notice(from.boundary)
	if _, ok := f.formAll(t.Context(), from, to); !ok {
		t.Fatal("forming was interrupted")
	}
}

// A sleep is measured by the monotonic clock: one that began before the wall clock was set back ends in time.
func TestSleepIsSteady(t *testing.T) {
	now := time.Now()
	at := steady(now, time.UnixMilli(now.UnixMilli()+500))
	if !strings.Contains(at.String(), " m=") || at.Sub(now) > 500*time.Millisecond ||
		at.Sub(now) < 499*time.Millisecond {
		t.Errorf("%v after %v", at, now)
	}
}

// follows is a fleet of one node, whose follower has read its topic to the end.
func follows(t *testing.T, dir string) (n *node, put func(*schemas.Route), r *follower) {
	t.Helper()
	l := newLab(t)
	l.Agent.StateDir = dir
	f := l.newFleet(t, []member{{"sim0001", &simulated{node: "sim0001"}}}, slog.New(slog.DiscardHandler))
	f.loadRoutes()
	r = &follower{fleet: f, caughtUp: make(chan struct{})}
	return f.nodes[0], func(route *schemas.Route) {
		t.Helper()
		value, err := schemas.Marshal(route)
		if err != nil {
			t.Fatal(err)
		}
		r.apply(&kgo.Record{Key: []byte(route.Node), Value: value})
		r.save()
	}, r
}

// A balancer whose clock was two hours ahead wrote a Route in every interval. The earlier Route stays in force, on disk
// too. The Route of the mended balancer wins, then and two hours later.
func TestRoutesFromTheFuture(t *testing.T) {
	dir := t.TempDir()
	n, put, _ := follows(t, dir)
	now := time.Now().UnixMilli()
	later := now + 2*time.Hour.Milliseconds()
	inForce := func(when string, n *node, at int64, want int32) {
		t.Helper()
		if got := n.routes.at(at); got == nil || got.Home != want {
			t.Errorf("%s: the route at %+d ms is %+v, want home %d", when, at-now, got, want)
		}
	}
	put(&schemas.Route{Node: "sim0001", Epoch: 1, IntervalStart: now - 60_000, Home: 1})
	for i := range int64(20) {
		put(&schemas.Route{Node: "sim0001", Epoch: 2 + i, IntervalStart: later + i*200, Home: 2})
	}
	inForce("wrong clock", n, now, 1)
	again, _, _ := follows(t, dir)
	inForce("wrong clock, restarted without Kafka", again, now, 1)

	put(&schemas.Route{Node: "sim0001", Epoch: 22, IntervalStart: now + 200, Home: 3})
	inForce("mended, the running interval", n, now, 1)
	inForce("mended", n, now+200, 3)
	inForce("mended, two hours later", n, later+10_000, 3)
	again, _, _ = follows(t, dir)
	inForce("mended, restarted without Kafka, two hours later", again, later+10_000, 3)
}

// The compacted topic has nothing but a route from the future: the one on disk stays in force.
func TestOnlyARouteFromTheFuture(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().UnixMilli()
	if err := saveRoute(dir,
		&schemas.Route{Node: "sim0001", Epoch: 1, IntervalStart: now - 60_000, Home: 1}); err != nil {
		t.Fatal(err)
	}
	n, put, r := follows(t, dir)
	r.gathered = map[*node]*routes{}
	put(&schemas.Route{Node: "sim0001", Epoch: 9, IntervalStart: now + time.Hour.Milliseconds(), Home: 2})
	r.reach(nil)
	if got := n.routes.at(now); got == nil || got.Home != 1 {
		t.Errorf("%+v is in force", got)
	}
	if got, err := loadRoute(dir, "sim0001"); err != nil || got == nil || got.Home != 1 {
		t.Errorf("%+v is on disk: %v", got, err)
	}
}

// A balancer with a clock ahead is logged once, with what an administrator has to know. Records go by the earlier
// Route.
func TestTroubleWithRoutesIsSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.startBroker(t, t.TempDir())
		l.plan(t,
			&schemas.Route{Node: "sim0001", Epoch: 1},
			&schemas.Route{Node: "sim0002", Epoch: 1},
			&schemas.Route{Node: "sim0002", Epoch: 2, IntervalStart: time.Now().Add(2 * time.Hour).UnixMilli()},
		)
		_, logged, stop := l.simulate(t, 2)
		l.gather(t, func(all []counter) bool { return from(all, "sim0001") >= 3 && from(all, "sim0002") >= 3 })
		stop()
		for _, words := range [][]string{
			{"route from the future is not used", "node=sim0002", "count=1", "clock", "set it"},
		} {
			lines := slices.DeleteFunc(strings.Split(logged.String(), "\n"), func(l string) bool {
				return !strings.Contains(l, words[0])
			})
			if len(lines) != 1 {
				t.Errorf("%q was logged %d times", words[0], len(lines))
				continue
			}
			for _, w := range words {
				if !strings.Contains(lines[0], w) {
					t.Errorf("%q lacks %q", lines[0], w)
				}
			}
		}
	})
}
