package measure

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// lobby holds the connections without any rights yet. Their number is limited, in all and per address. If it is
// exceeded, the oldest leaves, so that silent connections keep nobody out.
type lobby struct {
	most, each int

	mu     sync.Mutex
	guests []guest // oldest first
	closed bool
}

type guest struct {
	conn net.Conn
	from netip.Addr
}

// enter notes a connection. It returns false if the lobby was closed.
func (l *lobby) enter(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	from, same, oldest := hostOf(conn.RemoteAddr()), 0, 0
	for i, g := range slices.Backward(l.guests) {
		if g.from == from {
			same, oldest = same+1, i
		}
	}
	switch {
	case same >= l.each:
		l.remove(oldest)
	case len(l.guests) >= l.most:
		l.remove(0)
	}
	l.guests = append(l.guests, guest{conn, from})
	return true
}

// remove closes and forgets a connection.
func (l *lobby) remove(i int) {
	_ = l.guests[i].conn.Close()
	l.guests = slices.Delete(l.guests, i, i+1)
}

// leave forgets a connection, which goes on.
func (l *lobby) leave(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guests = slices.DeleteFunc(l.guests, func(g guest) bool { return g.conn == conn })
}

// close closes all connections. None enters afterwards.
func (l *lobby) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for len(l.guests) > 0 {
		l.remove(len(l.guests) - 1)
	}
}
