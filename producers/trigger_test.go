package producers

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// A reading at a trigger is judged by the broker's clock where that is known, and by the time since the last one. The
// node's own clock may show anything.
func TestWholeByTriggers(t *testing.T) {
	wrong := time.UnixMilli(5_000_000) // what the node's clock shows
	at := func(boundary, after, skewed int64) moment {
		start := wrong.Add(time.Duration(after) * time.Millisecond)
		return moment{boundary: boundary, start: start, end: start, called: true, skewed: time.Duration(skewed) * 1e6}
	}
	good := at(10_000, 0, 5)
	long := at(11_000, 1000, 5)
	long.end = long.start.Add(96 * time.Millisecond)
	for name, c := range map[string]struct {
		from, to moment
		want     bool
	}{
		"in time":                    {good, at(11_000, 1000, 5), true},
		"as late as may be":          {good, at(11_000, 1095, 100), true},
		"late by the broker's clock": {good, at(11_000, 1100, 101), false},
		"the offset is not known":    {at(10_000, 0, 0), at(11_000, 1200, 0), true},
		"late by its own time alone": {at(10_000, 0, 0), at(11_000, 1201, 0), false},
		"a trigger was lost":         {good, at(12_000, 2000, 5), false},
		"the reading took long":      {good, long, false},
	} {
		if got := whole(c.from, c.to, time.Second); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A node that is 9 s ahead follows triggers. It names its intervals by them. Two triggers of one boundary count once. A
// boundary without a trigger costs the intervals on both sides. What is no trigger of this cluster is skipped.
func TestTriggers(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.Agent.Sampling = "triggered"
		cluster := l.startBroker(t, t.TempDir())
		kafka.StampArrival(cluster)
		l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1})
		var logged kafkatest.Log
		n := member{"sim0001", &simulated{node: "sim0001", tellsClock: true}}
		f := l.newFleet(t, []member{n}, logged.Logger())
		f.setClock(func() time.Time { return time.Now().Add(9 * time.Second) })
		stop := start(t, &logged, f.serve)
		retry.Pause(t.Context(), time.Second) // it listens

		const calls, lost = 20, 8
		interval := l.Interval.Milliseconds()
		first := boundaryAfter(time.Now(), l.Interval)
		cl := l.client(t, kgo.DefaultProduceTopic(l.Prefix+schemas.TopicTriggers))
		call := func(boundary int64, cluster string) {
			t.Helper()
			value, err := schemas.Marshal(&schemas.Trigger{
				Cluster: cluster, IntervalStart: boundary, IntervalMs: interval,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range [][]byte{value, []byte("rubbish")} {
				if err := cl.ProduceSync(context.Background(), &kgo.Record{Value: v}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range int64(calls) {
			boundary := first + i*interval
			retry.Pause(t.Context(), time.Until(time.UnixMilli(boundary)))
			if i == lost {
				call(boundary, "another")
				continue
			}
			call(boundary, l.Cluster)
			if i%5 == 0 {
				retry.Pause(t.Context(), l.Interval/3)
				call(boundary, l.Cluster) // another balancer's
			}
		}
		const want = calls - 1 - 2 // one less than readings, and two next to the lost one
		all := l.gather(t, func(all []counter) bool { return from(all, "sim0001") >= want })
		stop()

		var starts []int64
		for i, c := range all {
			b, ok := c.record.(*schemas.CounterBatch)
			if !ok {
				t.Fatalf("%T", c.record)
			}
			starts = append(starts, (b.IntervalStart-first)/interval)
			at := b.SampledAt - (b.IntervalStart+interval)*1000 // by the node's clock
			if math.Abs(float64(at-9_000_000)) > 20_000 {
				t.Errorf("interval %d was sampled %d us behind its end, by a clock that is 9 s ahead", starts[i], at)
			}
			for _, m := range b.Metrics {
				if m.Name == schemas.MetricInWindow && m.Values[0] != 1 {
					t.Errorf("interval %d is not in the window", starts[i])
				}
			}
		}
		expected := []int64{}
		for i := range int64(calls - 1) {
			if i != lost && i+1 != lost {
				expected = append(expected, i)
			}
		}
		if !slices.Equal(starts, expected) {
			t.Errorf("intervals %v, want %v", starts, expected)
		}
		if logged.Count("trigger is skipped") == 0 {
			t.Error("rubbish is not logged")
		}
	})
}

// What is no call of this machine for now is skipped. The interval is 200 ms; a boundary may be 10 s from its append.
func TestTriggersThatAreNone(t *testing.T) {
	l := newLab(t)
	f := l.newFleet(t, []member{{"sim0001", &simulated{node: "sim0001"}}}, slog.New(slog.DiscardHandler))
	appended := time.UnixMilli(1_700_000_000_000)
	call := func(cluster string, start, length int64) schemas.Record {
		return &schemas.Trigger{Cluster: cluster, IntervalStart: start, IntervalMs: length}
	}
	for name, c := range map[string]struct {
		record schemas.Record
		want   error
	}{
		"a call":           {call(l.Cluster, 1_700_000_010_000, 200), nil},
		"another cluster":  {call("b", 1_700_000_000_000, 200), errNotTrigger},
		"another interval": {call(l.Cluster, 1_700_000_000_000, 1000), errNotTrigger},
		"another record":   {&schemas.Watermark{IntervalMs: 200}, errNotTrigger},
		"from far ahead":   {call(l.Cluster, 1_700_000_010_200, 200), errOtherTime},
		"from long ago":    {call(l.Cluster, 1_699_999_989_800, 200), errOtherTime},
	} {
		value, err := schemas.Marshal(c.record)
		if err != nil {
			t.Fatal(err)
		}
		at, err := f.boundaryOf(value, appended)
		if !errors.Is(err, c.want) || err == nil && at != 1_700_000_010_000 {
			t.Errorf("%s: %d, %v, want %v", name, at, err, c.want)
		}
	}
}

// Where nobody calls, nothing is published, and the log says why.
func TestNoTriggers(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.Agent.Sampling = "triggered"
		l.startBroker(t, t.TempDir())
		_, logged, stop := l.simulate(t, 1)
		retry.Pause(t.Context(), 5*time.Second)
		stop()
		if n := logged.Count("nobody calls for samples"); n != 1 {
			t.Errorf("it was logged %d times:\n%s", n, logged)
		}
	})
}

// A trigger that waited while the agent did other work is left out, and the newest replaces it.
func TestTriggerThatWaited(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) { // a pause of the machine would make the last one late too
		l.Agent.Sampling = "triggered"
		f := l.newFleet(t, []member{{"sim0001", &simulated{node: "sim0001"}}}, slog.New(slog.DiscardHandler))
		now := time.Now()
		f.call(trigger{1000, now.Add(-time.Hour)})
		f.call(trigger{2000, now.Add(-l.Interval)})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if m, ok := f.nextTrigger(ctx, 0); ok {
			t.Errorf("%+v", m)
		}
		f.call(trigger{3000, time.Now()})
		if m, ok := f.nextTrigger(t.Context(), 0); !ok || m.boundary != 3000 || !m.called {
			t.Errorf("%+v %v", m, ok)
		}
	})
}

// A call for a boundary that was sampled, or that later ones followed, is a copy: a client sent it again, or two
// balancers called. It must not cost the intervals beside it. One of long ago is of a balancer whose clock was set.
func TestALateCopyOfATriggerCallsForNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.Agent.Sampling = "triggered"
		f := l.newFleet(t, []member{{"sim0001", &simulated{node: "sim0001"}}}, slog.New(slog.DiscardHandler))
		last := boundaryAfter(f.now(), l.Interval)
		slack := config.Slack(l.Interval).Milliseconds()
		for before, want := range map[int64]bool{
			-l.Interval.Milliseconds(): true, 0: false, l.Interval.Milliseconds(): false, slack: false, slack + 1: true,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			f.call(trigger{last - before, f.now()})
			if _, got := f.nextTrigger(ctx, last); got != want {
				t.Errorf("a call for %d ms before the last: %v", before, got)
			}
			cancel()
		}
	})
}
