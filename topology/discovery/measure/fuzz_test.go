package measure

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// No packet is answered that is not made with the key or a token, and none makes the peer fail.
func FuzzPacket(f *testing.F) {
	f.Add(newOpen([]byte("0123456789abcdeX"), token{1}))
	f.Add(newPing(64, token{}))
	f.Add(newGrant(testKey, token{}, token{}))
	f.Add([]byte(protocol))
	f.Fuzz(func(t *testing.T, packet []byte) {
		now := time.Now()
		p := &peer{fd: -1, key: testKey, answers: serving{
			grants: map[netip.AddrPort]*grant{}, nonces: map[token]struct{}{}, opens: newBucket(1, 1, now),
		}}
		from := &unix.SockaddrInet4{Port: 7, Addr: [4]byte{127, 0, 0, 1}}
		p.answers.grants[addressOf(from)] = &grant{token: newToken(), until: now.Add(time.Hour)}
		if p.answers.reply(p, bytes.Clone(packet), from, now) {
			t.Errorf("%q was answered", packet)
		}
		if _, ok := grantOf(newToken().bytes(), packet, token{}); ok {
			t.Errorf("%q is a grant of a random key", packet)
		}
	})
}

func (t token) bytes() []byte { return t[:] }

// A peer answers an open message once, and pings that carry its token, from the same address alone.
func TestReply(t *testing.T) {
	now := time.Now()
	p := &peer{fd: -1, key: testKey, limits: Limits{PacketsPerSecond: 10}, answers: serving{
		grants: map[netip.AddrPort]*grant{}, nonces: map[token]struct{}{}, opens: newBucket(9, 9, now),
		packets: newBucket(10, 3, now),
	}}
	here := &unix.SockaddrInet4{Port: 7, Addr: [4]byte{127, 0, 0, 1}}
	elsewhere := &unix.SockaddrInet4{Port: 8, Addr: [4]byte{127, 0, 0, 1}}
	open := newOpen(testKey, newToken())
	if !p.answers.reply(p, open, here, now) || p.answers.reply(p, open, elsewhere, now) {
		t.Error("an open message is answered once")
	}
	granted := p.answers.grants[addressOf(here)].token
	ping := func(from unix.Sockaddr, now time.Time) bool {
		return p.answers.reply(p, newPing(64, granted), from, now)
	}
	if ping(elsewhere, now) {
		t.Error("a token was good for another address")
	}
	for range 3 {
		if !ping(here, now) {
			t.Error("a ping was not answered")
		}
	}
	if ping(here, now) {
		t.Error("more pings than the limit were answered")
	}
	if !ping(here, now.Add(time.Second)) {
		t.Error("a ping was not answered when the limit allowed it again")
	}
	if ping(here, now.Add(time.Second+2*tokenLife)) {
		t.Error("a token lived too long")
	}
}

// No bytes of a connection make the coordinator or a member fail, and none pass for a message.
func FuzzLink(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte(`{"name":"a","nonce":"00000000000000000000000000000000","mac":"00"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, b := net.Pipe()
		defer b.Close()
		go func() {
			_, _ = a.Write(text)
			_ = a.Close()
		}()
		l := newLink(readOnly{b}, fromCoordinator)
		if who, err := l.admit(testSecret); err == nil {
			t.Errorf("%q was admitted as %v", text, who)
		}
	})
}

// readOnly is a connection that takes what is written and forgets it.
type readOnly struct{ net.Conn }

func (readOnly) Write(p []byte) (int, error) { return io.Discard.Write(p) }

func TestLimits(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		limits Limits
		want   time.Duration
	}{
		{Limits{}, 0},
		{Limits{PacketsPerSecond: 21}, second - 10*time.Millisecond},
		{Limits{Share: .01}, 990 * time.Millisecond},
		{Limits{PacketsPerSecond: 21, Share: .001}, 9990 * time.Millisecond},
	} {
		if got := c.limits.pause(21, 10*time.Millisecond); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("%+v: a batch of 21 packets in 10 ms is followed by %v, want %v", c.limits, got, c.want)
		}
	}
}
