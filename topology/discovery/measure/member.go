package measure

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// Member is a node that takes part in a measurement.
type Member struct {
	Coordinator string // TCP address, host and port
	Secret      []byte
	Name        string
	Listen      string // UDP address for pings. Without a host, the address that the node connects from.
	Limits      Limits
	Transfers   bool // throughputs are measured too, by TCP at the same port. Limits do not bound them.
}

// Join takes part in a measurement until the coordinator ends it. It tries again until the context of joining ends if
// nobody listens yet. It returns an error if the coordinator refuses this node, or is gone.
func (m Member) Join(ctx context.Context, patience time.Duration) error {
	if len(m.Secret) < leastSecret {
		return errSecret
	}
	conn, err := m.dial(ctx, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := m.serve(ctx, newLink(conn, fromMember)); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("measuring for %s: %w", m.Coordinator, err)
	}
	return nil
}

// dial connects to the coordinator, which may start later.
func (m Member) dial(ctx context.Context, patience time.Duration) (net.Conn, error) {
	until := time.Now().Add(patience)
	for {
		conn, err := (&net.Dialer{Timeout: handshakeWait}).DialContext(ctx, "tcp", m.Coordinator)
		if err == nil {
			return conn, nil
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return nil, fmt.Errorf("no coordinator: %w", err)
		}
		wait := time.NewTimer(200 * time.Millisecond)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// serve does the handshake, starts a peer, and does the coordinator's commands.
func (m Member) serve(ctx context.Context, l *link) error {
	_ = l.conn.SetDeadline(time.Now().Add(handshakeWait))
	if err := l.introduce(m.Secret, m.Name); err != nil {
		return fmt.Errorf("the handshake: %w", err)
	}
	var first command
	if err := l.read(&first); err != nil {
		return fmt.Errorf("the handshake, which ends if the secrets differ: %w", err)
	}
	_ = l.conn.SetDeadline(time.Time{})
	peer, sink, err := m.listen(sessionKey(m.Secret, first.Session))
	if err != nil {
		return err
	}
	defer peer.Close()
	if sink != nil {
		defer sink.Close()
	}
	if err := l.write(arrival{peer.announced(), m.Limits}); err != nil {
		return err
	}
	atOnce := make(chan struct{}, maxCommands)
	for {
		var c command
		if err := l.read(&c); err != nil {
			return err
		}
		if c.End {
			return nil
		}
		if c.Transfer != nil && !m.Transfers {
			c.Transfer = nil // which gets an empty answer
		}
		if c.Refused != "" {
			return fmt.Errorf("it refuses this node: %s", c.Refused)
		}
		select {
		case atOnce <- struct{}{}:
		default:
			return fmt.Errorf("it gives more than %d commands at once", maxCommands)
		}
		go func() {
			_ = l.write(peer.do(ctx, c, sessionKey(m.Secret, c.Session)))
			<-atOnce
		}()
	}
}

// listen starts a peer, and a sink of transfers at the same port. If any port will do, it tries several, because a port
// that is free for UDP may be taken for TCP. Without a sink the transfers of this node fail.
func (m Member) listen(key []byte) (*peer, *sink, error) {
	_, port, _ := net.SplitHostPort(m.Listen)
	for tries := 1; ; tries++ {
		peer, err := Listen(m.Listen, key, m.Limits)
		if err != nil || !m.Transfers {
			return peer, nil, err
		}
		s, err := newSink(peer.address(), peer.key)
		if err == nil || port != "0" || tries == 10 {
			return peer, s, nil
		}
		_ = peer.Close()
	}
}

// announced returns the address of a peer as a member announces it: without a host if the peer listens at all
// addresses.
func (p *peer) announced() string {
	a := p.address()
	if a.Addr().IsUnspecified() {
		return ":" + strconv.Itoa(int(a.Port()))
	}
	return a.String()
}

// sessionKey returns the key of a member, which signs all messages to it. A node that knows the secret, but not the
// member's session, is a stranger.
func sessionKey(secret []byte, session string) []byte { return derive(secret, "session", session) }

// do does one command, with the key of the other node.
func (p *peer) do(ctx context.Context, c command, key []byte) answer {
	a := answer{ID: c.ID}
	to, err := netip.ParseAddrPort(c.To)
	if err == nil && c.Transfer != nil {
		if rate, err := sendTransfer(ctx, to, key, *c.Transfer); err == nil {
			a.Rate = rate
		}
		return a
	}
	if err != nil || c.Ping == nil {
		return a
	}
	sample, err := p.Ping(ctx, to, key, *c.Ping)
	if err == nil && sample.Batches > 0 {
		a.LeastUs, a.MedianUs, a.TickUs = sample.LeastUs, sample.MedianUs, sample.TickUs
	}
	return a
}
