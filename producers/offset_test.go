package producers

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// One exchange, by hand. The host's monotonic clock is at 10.000 s when it sends and at 10.040 s when the answer is
// back. The broker's clock was at 1.015 s, and somewhere in the millisecond behind it. So the difference is between
// 10.000 - 1.016 = 8.984 s and 10.040 - 1.015 = 9.025 s.
//
// At 20 s the exchange is 10 s old, and 500 ppm are 5 ms on either side.
func TestOneExchange(t *testing.T) {
	const ms = int64(1000) // microseconds
	known := []exchange{{10_000 * time.Millisecond, 10_040 * time.Millisecond, 1015}}
	for _, c := range []struct {
		now    time.Duration
		lo, hi int64
	}{
		{10_000 * time.Millisecond, 8984 * ms, 9025 * ms},
		{20_000 * time.Millisecond, 8979 * ms, 9030 * ms},
	} {
		lo, hi, ok := between(known, c.now, time.Minute)
		if !ok || lo != c.lo || (hi-c.hi)/2 != 0 { // the end of the round trip is rounded up by a microsecond
			t.Errorf("at %v: [%d, %d] %v, want [%d, %d]", c.now, lo, hi, ok, c.lo, c.hi)
		}
	}
	if _, _, ok := between(known, 70_041*time.Millisecond, time.Minute); ok {
		t.Error("an exchange of more than a minute ago still counts")
	}
	if _, _, ok := between(nil, 0, time.Minute); ok {
		t.Error("nothing is known, and there is an offset")
	}
}

// The quickest exchange bounds the offset, whichever side another was slow on.
func TestLowerEnvelope(t *testing.T) {
	at := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	known := []exchange{
		{at(0), at(1000), 900},     // slow to the broker: the difference is between -901 and 100 ms
		{at(2000), at(3000), 2010}, // slow to answer: between -11 and 990 ms
	}
	lo, hi, ok := between(known, at(3000), time.Minute)
	// The first is three seconds old and the second one second: 1.5 ms and 0.5 ms of drift.
	if !ok || lo != -11_500 || hi-101_500 > 1 || hi < 101_500 {
		t.Errorf("[%d, %d] %v", lo, hi, ok)
	}
}

// TestOffsetIsWithinItsBounds tries clocks of any offset, with any drift that NTP allows, and any transits. The true
// difference is always within the bounds, also while records wait, and after an outage.
func TestOffsetIsWithinItsBounds(t *testing.T) {
	for seed := range uint64(kafkatest.Cases(20_000, 2000)) {
		rng := rand.New(rand.NewPCG(seed, 15))
		truth := (rng.Float64() - 0.5) * 7.2e9 // microseconds, up to an hour
		host := rng.Float64() * 1e12           // monotonic time, microseconds
		interval := math.Exp(rng.Float64()*6) * 1e6
		window := 64 * time.Duration(interval) * time.Microsecond
		broker := func() float64 { return host - truth }
		pass := func(us float64) { // the host's clock goes on, and drifts against the broker's
			for us > 0 {
				step := min(us, interval*rng.Float64()+1)
				truth += step * (rng.Float64()*2 - 1) * 499e-6
				host, us = host+step, us-step
			}
		}
		transit := func() float64 { return rng.ExpFloat64() * math.Pow(10, 1+5*rng.Float64()) }
		duration := func(us float64) time.Duration { return time.Duration(us * 1000) }
		c := hostClock{}
		for range 40 {
			pass(interval * rng.Float64() * 4)
			var e exchange
			e.sent = duration(host)
			pass(transit())
			e.brokerMs = int64(math.Floor(broker() / 1000))
			pass(transit())
			e.back = duration(host)
			c.add(e)
			if rng.IntN(8) == 0 {
				pass(interval * 30 * rng.Float64()) // the brokers are away
			}
			lo, hi, ok := between(c.known, duration(host), window)
			aged := duration(host)-e.back > window
			if ok == aged || ok && (truth < float64(lo)-1 || truth > float64(hi)+1) { // float64 counts hours to 0.1 us
				t.Fatalf("seed %d: the offset is %.0f us, the bounds are [%d, %d] %v", seed, truth, lo, hi, ok)
			}
		}
		if len(c.known) != maxExchanges {
			t.Fatalf("%d exchanges are kept", len(c.known))
		}
	}
}

// A broker whose clock is 3 s behind takes over the partition. What was known of the old one excludes what is new, so
// the new one counts at once.
func TestOffsetFromAnotherBroker(t *testing.T) {
	var known []exchange
	for i := range 5 {
		s := time.Duration(i) * time.Second
		known = append(known, exchange{s, s + 4*time.Millisecond, s.Milliseconds() + 2})
	}
	s := 5 * time.Second
	known = append(known, exchange{s, s + 4*time.Millisecond, s.Milliseconds() - 2998})
	lo, hi, ok := between(known, s+4*time.Millisecond, time.Minute)
	if !ok || lo > 3_000_000 || hi < 3_000_000 || hi-lo > 10_000 {
		t.Errorf("[%d, %d] us %v, the host is 3 s ahead of the new broker", lo, hi, ok)
	}
}

// A step of the wall clock shows at once, without a new exchange. The monotonic clock began 100 s before the broker's
// showed 1,000 s. The wall clock is right, and is then set 9 s ahead.
func TestStepOfTheWallClock(t *testing.T) {
	known := []exchange{{100 * time.Second, 100*time.Second + 2*time.Millisecond, 1_000_001}}
	for step, want := range map[int64]time.Duration{
		0: 0, 9_000_000: 9 * time.Second, -250_000: -250 * time.Millisecond,
	} {
		wall := int64(1_001_000_000) // a second later
		got, bound, ok := ahead(known, wall+step, 101*time.Second, time.Minute)
		// The round trip took 2 ms and a millisecond is unknown: 1.5 ms on each side. A second of drift adds 0.5 ms.
		if !ok || (got-want).Abs() > bound || bound > 2100*time.Microsecond {
			t.Errorf("after a step of %d us: %v +- %v %v, want %v", step, got, bound, ok, want)
		}
	}
}

// A node whose clock is 9 s ahead, one that is 3 s behind and one that is right measure this, by the broker's clock.
// Until the first record is acknowledged they know nothing, and the metrics are absent.
func TestNodesMeasureTheirClocks(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": 9 * time.Second, "behind": -3 * time.Second, "right": 0} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				kafka.StampArrival(l.startBroker(t, t.TempDir()))
				l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1})
				n := member{"sim0001", &simulated{node: "sim0001", tellsClock: true}}
				f := l.newFleet(t, []member{n}, slog.New(slog.DiscardHandler))
				f.setClock(func() time.Time { return time.Now().Add(off) })
				stop := start(t, &kafkatest.Log{}, f.serve)
				all := l.gather(t, func(all []counter) bool { return from(all, "sim0001") >= 12 })
				stop()
				expectClock(t, all, off)
			})
		})
	}
}

func expectClock(t *testing.T, all []counter, off time.Duration) {
	t.Helper()
	known := 0
	for i, c := range all {
		b, ok := c.record.(*schemas.CounterBatch)
		if !ok {
			continue
		}
		values := map[string]float64{}
		for _, m := range b.Metrics {
			if m.Scope == schemas.ScopeNode {
				values[m.Name] = m.Values[0]
			}
		}
		offset, ok := values[schemas.MetricClockOffset]
		if !ok {
			if i > 3 {
				t.Errorf("record %d has no offset", i)
			}
			continue
		}
		known++
		bound := values[schemas.MetricClockBound]
		if math.Abs(offset-float64(off.Microseconds())) > bound || bound > 20_000 {
			t.Errorf("record %d: the clock is off by %v us, measured %v +- %v", i, off.Microseconds(), offset, bound)
		}
		in := 0.0
		if off == 0 {
			in = 1
		}
		if values[schemas.MetricInWindow] != in {
			t.Errorf("record %d of a clock that is off by %v: in the window %v", i, off, values[schemas.MetricInWindow])
		}
	}
	if known < 5 {
		t.Errorf("%d records of %d have an offset", known, len(all))
	}
	if b, ok := all[0].record.(*schemas.CounterBatch); ok {
		for _, m := range b.Metrics {
			if m.Name == schemas.MetricClockOffset {
				t.Error("the first record has an offset, and nothing was acknowledged before it")
			}
		}
	}
}

// The broker's clock was an hour ahead when it appended an earlier record. Until it has caught up, the latest time of
// the partition is no witness, and the node says nothing of its clock.
func TestBrokerWhoseClockWasSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.startBroker(t, t.TempDir()) // it keeps the times of producers
		l.plan(t, &schemas.Route{Node: "sim0001", Epoch: 1})
		early := &kgo.Record{
			Topic: l.Prefix + schemas.TopicCounters, Value: []byte("x"), Timestamp: time.Now().Add(time.Hour),
		}
		cl := l.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := cl.ProduceSync(t.Context(), early).FirstErr(); err != nil {
			t.Fatal(err)
		}
		n := member{"sim0001", &simulated{node: "sim0001", tellsClock: true}}
		f := l.newFleet(t, []member{n}, slog.New(slog.DiscardHandler))
		stop := start(t, &kafkatest.Log{}, f.serve)
		retry.Pause(t.Context(), 3*time.Second)
		stop()
		if f.clock.asked.IsZero() || len(f.clock.known) > 0 {
			t.Errorf("asked at %v, and learnt %v", f.clock.asked, f.clock.known)
		}
	})
}
