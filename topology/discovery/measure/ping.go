package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Ping describes the measurement of a pair.
type Ping struct {
	Size    int // of a message in bytes, without the headers of UDP and IP: minSize to maxSize
	Trips   int // least round trips of a batch. A batch lasts at least ten ticks of the clock, too.
	Batches int // at most. A quarter of them, and at least five, are enough if they agree within 2 %.
}

// DefaultPing is the default measurement of a pair. It takes at most 40·21 round trips: 8 ms if one takes 10 µs.
var DefaultPing = Ping{Size: 64, Trips: 20, Batches: 40}

// Check returns an error that names the field that is out of range.
func (g Ping) Check() error {
	switch {
	case g.Size < minSize || g.Size > maxSize:
		return fmt.Errorf("a message of %d bytes: must be %d to %d", g.Size, minSize, maxSize)
	case g.Trips < 1 || g.Trips > maxTrips:
		return fmt.Errorf("%d round trips in a batch: must be 1 to %d", g.Trips, maxTrips)
	case g.Batches < 1 || g.Batches > maxBatches:
		return fmt.Errorf("%d batches: must be 1 to %d", g.Batches, maxBatches)
	}
	return nil
}

// Bounds of a ping's settings, and of its duration.
const (
	maxTrips   = 10_000
	maxBatches = 10_000
	ticks      = 10 // of the clock, at least, in a batch

	// A pair is settled when a quarter of its batches, and at least five, are within 2 % of the fastest.
	agreeing      = 4
	leastAgreeing = 5
	agreement     = .02

	openTries = 6
	firstWait = 20 * time.Millisecond // for a grant; each attempt waits twice as long as the previous one: 1.3 s in all
	lostAfter = 20 * time.Millisecond // a pong that is later counts as lost
	maxLost   = 8                     // then the pair is given up
	longest   = 5 * time.Second       // of the batches, without the pauses that the limits want

	maxDrained   = 1024 // packets that are answered between two looks at the clock
	spinsPerLook = 64   // at the clock, in the measured path
)

// sample is the result of pings to one peer.
type sample struct {
	LeastUs  float64 `json:"least_us"`  // one way, of the fastest batch. NaN: the peer never answered
	MedianUs float64 `json:"median_us"` // of all batches
	Batches  int     `json:"batches"`   // that were complete
	Lost     int     `json:"lost"`      // packets
	TickUs   float64 `json:"tick_us"`   // step of the latencies: the clock's step, over all ways of a batch
}

var noSample = sample{LeastUs: math.NaN(), MedianUs: math.NaN()}

// order is a ping that the thread does.
type order struct {
	Ping

	to     netip.AddrPort
	key    []byte          // of the other peer
	ctx    context.Context //nolint:containedctx // it crosses to the thread
	sample sample
	done   chan struct{}
}

// Ping measures the latency to another peer, which answers to its own key. If it does not answer, the latency is NaN
// after 1.3 s, without an error. It returns an error if the address or the ping is not valid, the peer is closed, or
// the context ends. Pings of one peer wait for each other.
func (p *peer) Ping(ctx context.Context, to netip.AddrPort, key []byte, ping Ping) (sample, error) {
	if err := ping.Check(); err != nil {
		return noSample, err
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if !to.IsValid() || to.Port() == 0 {
		return noSample, fmt.Errorf("pinging %v: a valid address and port are needed", to)
	}
	if to.Addr().Is6() && !p.six {
		return noSample, fmt.Errorf("pinging %v: this peer listens at an IPv4 address, %v", to, p.address())
	}
	o := &order{Ping: ping, to: to, key: key, ctx: ctx, sample: noSample, done: make(chan struct{})}
	if err := p.ask(ctx, o); err != nil {
		return noSample, err
	}
	return o.sample, ctx.Err()
}

// run does an order in the thread of a peer.
func (o *order) run(p *peer) {
	to := p.sockaddr(o.to)
	granted, ok := o.open(p, to)
	if !ok {
		return
	}
	packet := newPing(o.Size, granted)
	g := pinger{peer: p, order: o, to: to, packet: packet, tick: clockTick()}
	g.measure()
}

// ended reports whether an order is not to go on.
func (o *order) ended(p *peer) bool {
	select {
	case <-o.ctx.Done():
		return true
	case <-p.closing:
		return true
	default:
		return false
	}
}

// open asks for a token until it is granted, or gives up after openTries attempts. Meanwhile this peer answers others.
func (o *order) open(p *peer, to unix.Sockaddr) (token, bool) {
	wait := firstWait
	for range openTries {
		nonce := newToken()
		p.send(newOpen(o.key, nonce), to)
		granted := token{}
		ok := p.attend(o, wait, func(packet []byte, from netip.AddrPort) (found bool) {
			if from == o.to {
				granted, found = grantOf(o.key, packet, nonce)
			}
			return found
		})
		if ok {
			return granted, true
		}
		wait *= 2
	}
	return token{}, false
}

// attend waits for a time, or until found returns true for a packet. Other packets are answered meanwhile.
func (p *peer) attend(o *order, wait time.Duration, found func(packet []byte, from netip.AddrPort) bool) bool {
	until := time.Now().Add(wait)
	for left := wait; left > 0 && !o.ended(p); left = time.Until(until) {
		p.sleep(min(left, 50*time.Millisecond))
		now := time.Now()
		for range maxDrained {
			packet, from := p.receive()
			if packet == nil {
				break
			}
			if found(packet, addressOf(from)) {
				return true
			}
			p.answers.reply(p, packet, from, now)
		}
	}
	return false
}

// pinger measures one pair.
type pinger struct {
	peer   *peer
	order  *order
	to     unix.Sockaddr
	packet []byte
	tick   time.Duration
	number uint64
	lost   int
}

// errLost ends a batch in which a packet was lost, or that takes too long.
var errLost = errors.New("a packet was lost")

// measure makes the batches of an order, and writes its sample.
func (g *pinger) measure() {
	o, p := g.order, g.peer
	trips := g.trips()
	var us []float64
	var spent time.Duration
	for tried := 0; len(us) < o.Batches && g.lost < maxLost && tried < 2*o.Batches && spent < longest; tried++ {
		if o.ended(p) || settled(us, max(leastAgreeing, o.Batches/agreeing)) {
			break
		}
		begun := time.Now()
		if took, err := g.batch(trips); err == nil {
			us = append(us, float64(took.Nanoseconds())/1e3/float64(2*trips))
		}
		busy := time.Since(begun)
		spent += busy
		p.attend(o, p.limits.pause(trips+1, busy+2*quiet), func([]byte, netip.AddrPort) bool { return false })
	}
	o.sample.Batches, o.sample.Lost = len(us), g.lost
	if len(us) == 0 {
		return
	}
	slices.Sort(us)
	o.sample.LeastUs = us[0]
	o.sample.MedianUs = (us[(len(us)-1)/2] + us[len(us)/2]) / 2
	o.sample.TickUs = float64(g.tick.Nanoseconds()) / 1e3 / float64(2*trips)
}

// settled reports whether as many batches as are asked for agree with the fastest. More would find nothing faster.
func settled(us []float64, wanted int) bool {
	if len(us) < wanted {
		return false
	}
	least, agree := slices.Min(us), 0
	for _, u := range us {
		if u <= least*(1+agreement) {
			agree++
		}
	}
	return agree >= wanted
}

// trips returns the number of round trips of a batch. A batch must last ten ticks of the clock, unless limits of the
// rate forbid it.
func (g *pinger) trips() int {
	trips := g.order.Trips
	if took, err := g.batch(1); err == nil && took > 0 {
		trips = max(trips, int(ticks*g.tick/took)+1)
	} else if err == nil {
		trips = max(trips, ticks) // the clock did not move
	}
	if g.peer.limits.PacketsPerSecond > 0 {
		trips = min(trips, int(g.peer.limits.burst())/2)
	}
	return min(trips, maxTrips)
}

// batch makes one round trip that wakes the other peer, and then the round trips that count. It returns the duration of
// the latter.
func (g *pinger) batch(trips int) (time.Duration, error) {
	if !g.trip() {
		return 0, errLost
	}
	begun := time.Now()
	for i := range trips {
		if !g.trip() || i%256 == 255 && time.Since(begun) > longest {
			return 0, errLost
		}
	}
	return time.Since(begun), nil
}

// trip sends a ping and spins until its pong is there. It returns false if the pong is late. Others are answered: they
// may measure this peer in the same round.
func (g *pinger) trip() bool {
	g.number++
	setNumber(g.packet, g.number)
	g.peer.send(g.packet, g.to)
	var until time.Time
	for spins := 1; ; spins++ {
		packet, from := g.peer.receive()
		switch {
		case packet == nil:
		case kindOf(packet) != kindPong:
			g.peer.answers.reply(g.peer, packet, from, time.Now())
		case number(packet) == g.number && tokenOf(packet) == tokenOf(g.packet) && len(packet) == len(g.packet):
			return true
		}
		if spins%spinsPerLook == 0 { // reading the clock takes time
			now := time.Now()
			if until.IsZero() {
				until = now.Add(lostAfter)
			}
			if now.After(until) {
				g.lost++
				return false
			}
		}
	}
}

// clockTick returns the step of the clock: the least that two readings differ by.
func clockTick() time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 16 {
		begun := time.Now()
		var passed time.Duration
		for passed == 0 {
			passed = time.Since(begun)
		}
		least = min(least, passed)
	}
	return least
}

// packets returns how many packets each of two nodes sends at most in a ping.
func (g Ping) packets() int { return openTries + (g.Batches+1)*(g.Trips+1) }
