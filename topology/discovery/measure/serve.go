package measure

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A token is refused tokenLife after its last ping. A pair is measured in less.
	tokenLife = time.Minute

	// Nodes that were granted a token at the same time. Rounds give a node one partner.
	maxGrants = 1024

	// Repeated open messages are refused. A session needs one for each pair of nodes that meet. Only a node that tries
	// to block this one sends so many more, and then all are forgotten.
	maxNonces = 1 << 17

	// opensPerSecond bounds the hashing that foreign packets can cause: a hash takes about 1 µs.
	opensPerSecond = 5000

	// A node that got a ping spins this long for the next one. Then it sleeps until a packet wakes it.
	quiet = 200 * time.Microsecond

	// shareWindow is how long a node may be busy without a pause: this, times its share.
	shareWindow = time.Second

	// minKey is the least length of a key in bytes.
	minKey = 16
)

// errClosed is returned by a peer that was closed.
var errClosed = errors.New("this peer is closed")

// peer measures latencies to other peers, and answers peers that know its key. It has one UDP socket and one thread.
// The thread sleeps until there is work. Then it spins, since waking up takes longer than the latency of a switch.
type peer struct {
	conn   *net.UDPConn
	fd     int // of conn
	six    bool
	wake   [2]int // a pipe that ends the sleep of the thread
	key    []byte
	limits Limits
	cpus   []int

	orders  chan *order
	closing chan struct{}
	closed  chan struct{}
	once    sync.Once
	pipe    sync.Mutex // held while wake is written to or closed
	gone    bool       // wake is closed

	answers serving
	buffer  []byte
}

// serving is a peer's state about the nodes that it answers.
type serving struct {
	grants  map[netip.AddrPort]*grant
	nonces  map[token]struct{}
	opens   bucket
	packets bucket
	busy    bucket // seconds of CPU
}

type grant struct {
	token token
	until time.Time
}

// Listen starts a peer at a UDP address, such as ":7117" or "10.0.0.1:0". Its key consists of at least 16 random bytes,
// for this session alone. It returns an error if the address cannot be used, or a limit or the key is out of range.
func Listen(address string, key []byte, limits Limits) (*peer, error) {
	if len(key) < minKey {
		return nil, fmt.Errorf("a key of %d bytes: at least %d random ones are needed", len(key), minKey)
	}
	if err := limits.Check(); err != nil {
		return nil, err
	}
	cpus, err := Affinity()
	if err != nil {
		return nil, err
	}
	local, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("the address %q to answer pings at: %w", address, err)
	}
	conn, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, fmt.Errorf("answering pings: %w", err)
	}
	now := time.Now()
	p := &peer{
		conn: conn, key: key, limits: limits, cpus: cpus,
		orders: make(chan *order, 1), closing: make(chan struct{}), closed: make(chan struct{}),
		buffer: make([]byte, maxSize+1),
		answers: serving{
			grants: map[netip.AddrPort]*grant{}, nonces: map[token]struct{}{},
			opens:   newBucket(opensPerSecond, opensPerSecond, now),
			packets: newBucket(limits.PacketsPerSecond, limits.burst(), now),
			busy:    newBucket(limits.Share, limits.Share*shareWindow.Seconds(), now),
		},
	}
	if err := p.prepare(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go p.run()
	return p, nil
}

// prepare finds the descriptor of the socket, and makes the pipe.
func (p *peer) prepare() error {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("answering pings: %w", err)
	}
	var family error
	err = raw.Control(func(fd uintptr) {
		p.fd = int(fd)
		var local unix.Sockaddr
		local, family = unix.Getsockname(p.fd)
		_, p.six = local.(*unix.SockaddrInet6)
	})
	if err := errors.Join(err, family); err != nil {
		return fmt.Errorf("answering pings: %w", err)
	}
	if err := unix.Pipe2(p.wake[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("a pipe to wake the measuring thread: %w", err)
	}
	return nil
}

// address returns the address of this peer.
func (p *peer) address() netip.AddrPort {
	address, _ := p.conn.LocalAddr().(*net.UDPAddr)
	return netip.AddrPortFrom(address.AddrPort().Addr().Unmap(), address.AddrPort().Port())
}

// Close ends the peer. A ping under way ends with an error.
func (p *peer) Close() error {
	p.once.Do(func() {
		close(p.closing)
		p.rouse()
	})
	<-p.closed
	return nil
}

// rouse ends the sleep of the thread. A full pipe will end it too.
func (p *peer) rouse() {
	p.pipe.Lock()
	defer p.pipe.Unlock()
	if !p.gone {
		_, _ = unix.Write(p.wake[1], []byte{0})
	}
}

// release gives back the socket and the pipe.
func (p *peer) release() {
	p.pipe.Lock()
	defer p.pipe.Unlock()
	_ = p.conn.Close()
	_, _ = unix.Close(p.wake[0]), unix.Close(p.wake[1])
	p.gone = true
}

// ask passes an order to the thread, and waits until it is done.
func (p *peer) ask(ctx context.Context, o *order) error {
	select {
	case p.orders <- o:
	case <-p.closing:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	p.rouse()
	select {
	case <-o.done:
		return nil
	case <-p.closed:
		return errClosed
	}
}

// run is the thread.
func (p *peer) run() {
	defer close(p.closed)
	defer p.release()
	p.pin(false)
	for {
		select {
		case <-p.closing:
			return
		case o := <-p.orders:
			p.pin(true)
			o.run(p)
			close(o.done)
			p.pin(false)
		default:
			p.sleep(-1)
			p.serve()
		}
	}
}

// pin binds the thread to one processor, and to another one for its own pings. So two peers of one host that measure
// each other do not share a processor. The last processors are taken, since interrupts go to the first. A thread that
// may not be bound goes on without.
func (p *peer) pin(pings bool) {
	last := len(p.cpus) - 1
	if !pings {
		last = max(0, last-1)
	}
	_ = pin(p.cpus[last])
}

// sleep waits for a packet or a new order, but not longer than a time unless that is negative.
func (p *peer) sleep(longest time.Duration) {
	var timeout *unix.Timespec
	if longest >= 0 {
		t := unix.NsecToTimespec(longest.Nanoseconds())
		timeout = &t
	}
	wait := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}, {Fd: int32(p.wake[0]), Events: unix.POLLIN}}
	_, _ = unix.Ppoll(wait, timeout, nil) // an error wakes up, as a signal does
	var roused [64]byte
	_, _ = unix.Read(p.wake[0], roused[:])
}

// rest pauses without an answer to anybody.
func (p *peer) rest(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.closing:
	}
}

// serve answers packets until none came for a while, or until an order waits.
func (p *peer) serve() {
	begun := time.Now()
	now, last := begun, begun
	for now.Sub(last) < quiet && len(p.orders) == 0 {
		packet, from := p.receive()
		now = time.Now()
		if packet != nil && p.answers.reply(p, packet, from, now) {
			last = now
		} else if p.limits.Share > 0 && now.Sub(begun) > time.Millisecond {
			break // so that the share is counted
		}
	}
	if p.limits.Share > 0 {
		if pause := p.answers.busy.owe(now.Sub(begun).Seconds(), now); pause > 0 {
			p.rest(pause)
		}
	}
}

// receive returns a packet if there is one. It is valid until the next one.
func (p *peer) receive() (packet []byte, from unix.Sockaddr) {
	n, from, err := unix.Recvfrom(p.fd, p.buffer, unix.MSG_DONTWAIT)
	if err != nil || n > maxSize {
		return nil, nil
	}
	return p.buffer[:n], from
}

// send sends a packet if the kernel takes it now. A packet that it refuses counts as lost, as any other.
func (p *peer) send(packet []byte, to unix.Sockaddr) {
	_ = unix.Sendto(p.fd, packet, unix.MSG_DONTWAIT, to)
}

// reply answers an open message or a ping. It returns false if the packet is not for it, or is not answered. A sender
// without the key gets no answer.
func (s *serving) reply(p *peer, packet []byte, from unix.Sockaddr, now time.Time) bool {
	address := addressOf(from)
	switch kindOf(packet) {
	case kindPing:
		g := s.grants[address]
		if g == nil || subtle.ConstantTimeCompare(g.token[:], packet[nonceAt:numberAt]) != 1 || now.After(g.until) {
			return false
		}
		if p.limits.PacketsPerSecond > 0 && !s.packets.take(1, now) {
			return false
		}
		g.until = now.Add(tokenLife)
		packet[kindAt] = kindPong
		p.send(packet, from)
		return true
	case kindOpen:
		if !s.opens.take(1, now) || !signed(p.key, packet, openSize) {
			return false
		}
		granted, ok := s.open(address, tokenOf(packet), now)
		if ok {
			p.send(newGrant(p.key, tokenOf(packet), granted), from)
		}
		return ok
	}
	return false
}

// open grants a token to an address. It refuses an open message that was seen before, and to grant too many.
func (s *serving) open(address netip.AddrPort, nonce token, now time.Time) (token, bool) {
	if _, seen := s.nonces[nonce]; seen {
		return token{}, false
	}
	if len(s.nonces) >= maxNonces {
		clear(s.nonces)
	}
	if len(s.grants) >= maxGrants {
		for a, g := range s.grants {
			if now.After(g.until) {
				delete(s.grants, a)
			}
		}
		if len(s.grants) >= maxGrants {
			return token{}, false
		}
	}
	s.nonces[nonce] = struct{}{}
	g := &grant{token: newToken(), until: now.Add(tokenLife)}
	s.grants[address] = g
	return g.token, true
}

func newToken() (t token) {
	_, _ = rand.Read(t[:]) // never returns an error
	return t
}

// addressOf converts an address of the kernel to Go's type, with IPv4 as such.
func addressOf(from unix.Sockaddr) netip.AddrPort {
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// sockaddr returns an address as the kernel wants it for this socket.
func (p *peer) sockaddr(to netip.AddrPort) unix.Sockaddr {
	if p.six {
		return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().Unmap().As4()}
}
