package producers

import (
	"context"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
)

const (
	// askEvery is the number of intervals between two questions for the broker's time.
	askEvery = 4
	// askWithin bounds that time if intervals are long, because two clocks drift apart meanwhile.
	askWithin = 2 * time.Minute
	// drift is how fast two clocks may part, in seconds a second. Linux lets NTP slew a clock by 500 ppm at most, and a
	// quartz alone is within 100 ppm.
	drift = 500e-6
	// maxExchanges bounds the memory: it is the number of exchanges in the window.
	maxExchanges = config.Outage / askEvery
)

// exchange is one look at the broker's clock. The broker appended a record at brokerMs, which is the time of its clock
// in whole milliseconds, rounded down. By this host's monotonic clock that was between sent and back.
type exchange struct {
	sent, back time.Duration
	brokerMs   int64
}

// between returns the bounds of this host's monotonic clock minus the broker's at the time now, in microseconds. It is
// not ok without an exchange within the window.
//
// A record is not appended before it is sent, nor after the broker has answered. So each exchange bounds the difference
// from both sides, and the difference is in all of these bounds. The quickest exchanges give the tightest bounds, as
// the lower envelope of append - sent. Drift widens a bound with its age. If two bounds exclude each other, the
// broker's clock was set, or another broker answered. The newer bounds are right then.
func between(known []exchange, now, window time.Duration) (lo, hi int64, ok bool) {
	lo, hi = math.MinInt64, math.MaxInt64
	for i := len(known) - 1; i >= 0; i-- {
		e := known[i]
		if now-e.back > window {
			continue
		}
		drifted := int64(math.Ceil(float64((now - e.sent).Microseconds()) * drift))
		low := max(lo, e.sent.Microseconds()-1000*(e.brokerMs+1)-drifted)
		high := min(hi, e.back.Microseconds()+1-1000*e.brokerMs+drifted)
		if low > high {
			break
		}
		lo, hi, ok = low, high, true
	}
	return lo, hi, ok
}

// hostClock is the clock of a node, and its known distance from the broker's. The fleet's mutex guards all of it except
// read and began.
type hostClock struct {
	read   func() time.Time // wall and monotonic time
	began  time.Time        // the origin of the monotonic time
	known  []exchange       // oldest first
	asked  time.Time        // when the last question left; zero: never
	asking bool
}

// steady is the monotonic time of t.
func (c *hostClock) steady(t time.Time) time.Duration { return t.Sub(c.began) }

// offset returns the lead of the wall clock over the broker's at t, and the largest error of that.
func (c *hostClock) offset(t time.Time, window time.Duration) (offset, bound time.Duration, ok bool) {
	return ahead(c.known, t.UnixMicro(), c.steady(t), window)
}

// ahead returns the offset at an instant at which the wall clock shows wall, in microseconds, and the monotonic clock
// shows now. The bounds refer to the monotonic clock, so a step of the wall clock shows at once and does not invalidate
// them.
func ahead(known []exchange, wall int64, now, window time.Duration) (offset, bound time.Duration, ok bool) {
	lo, hi, ok := between(known, now, window)
	if !ok {
		return 0, 0, false
	}
	off := wall - now.Microseconds() + lo + (hi-lo)/2
	return time.Duration(off) * time.Microsecond, time.Duration((hi-lo+1)/2) * time.Microsecond, true
}

// due reports whether it is time to ask for the broker's time, and notes that it is done.
func (c *hostClock) due(now time.Time, interval time.Duration) bool {
	pause := interval
	if len(c.known) > 0 {
		pause = max(interval, min(askEvery*interval, askWithin))
	}
	if c.asking || !c.asked.IsZero() && now.Sub(c.asked) < pause-interval/2 {
		return false
	}
	c.asking, c.asked = true, now
	return true
}

// add remembers an exchange.
func (c *hostClock) add(e exchange) {
	if len(c.known) == maxExchanges {
		c.known = append(c.known[:0], c.known[1:]...)
	}
	c.known = append(c.known, e)
}

// clockWindow is the largest age of an exchange. It equals the longest outage that an agent catches up.
func (f *fleet) clockWindow() time.Duration { return config.Outage * f.cfg.Interval }

// lookAtClock asks the broker, now and then, when it appended a record that it has just acknowledged. The client does
// not pass on that time from the broker's answer. So the publisher asks for the latest time of append in the partition,
// which belongs to this record or to a later one.
func (p *publisher) lookAtClock(r *kgo.Record, sent time.Time) {
	p.mu.Lock()
	due := p.clock.due(p.now(), p.cfg.Interval)
	p.mu.Unlock()
	if !due {
		return
	}
	partition, offset := r.Partition, r.Offset
	p.waits.Go(func() {
		brokerMs, ok := p.latestAppend(partition, offset)
		back := p.now()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.clock.asking = false
		if ok {
			p.clock.add(exchange{p.clock.steady(sent), p.clock.steady(back), brokerMs})
		}
	})
}

// latestAppend returns the latest time of append in a partition, if a record at offset or behind it has this time. An
// earlier record with a later time was appended before the broker's clock was set back, and proves nothing.
func (p *publisher) latestAppend(partition int32, offset int64) (ms int64, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), p.patience()) // the client's end ends it, too
	defer cancel()
	leader, _, err := p.client.PartitionLeader(p.topic, partition)
	if err != nil || leader < 0 {
		return 0, false
	}
	const latest = -3 // KIP-734
	of := kmsg.NewListOffsetsRequestTopicPartition()
	of.Partition, of.Timestamp = partition, latest
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = p.topic, append(topic.Partitions, of)
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.Topics = -1, append(req.Topics, topic)
	answer, err := p.client.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return 0, false // the publisher logs brokers that are away; the next record asks again
	}
	got, isOffsets := answer.(*kmsg.ListOffsetsResponse)
	if !isOffsets || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
		return 0, false
	}
	at := got.Topics[0].Partitions[0]
	return at.Timestamp, at.ErrorCode == 0 && at.Timestamp > 0 && at.Offset >= offset
}
