package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/weirhpc/weir/naming"
)

func (r *Rendezvous) accept() {
	for {
		conn, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example too many open files: the time limit of the strangers frees some soon
			wait := time.NewTimer(10 * time.Millisecond)
			<-wait.C
			continue
		}
		go r.meet(conn)
	}
}

// meet does the handshake with a connection, and then takes its answers. It ends a connection that does not know the
// secret, which is nobody's business.
func (r *Rendezvous) meet(conn net.Conn) {
	defer conn.Close()
	if !r.strangers.enter(conn) {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(handshakeWait))
	l := newLink(conn, fromCoordinator)
	who, err := l.admit(r.meeting.Secret)
	r.strangers.leave(conn)
	if err != nil || !r.comers.enter(conn) {
		return
	}
	m, err := r.welcome(l, who.Name)
	r.comers.leave(conn)
	if err != nil {
		_ = l.tell(command{Refused: err.Error()}, time.Second)
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	select {
	case r.joined <- struct{}{}:
	default:
	}
	r.take(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(m)
}

// welcome makes a connection that knows the secret a member.
func (r *Rendezvous) welcome(l *link, name string) (*member, error) {
	m := &member{link: l, name: name, session: newNonce(), waiting: map[uint64]chan answer{}}
	if err := l.write(command{Session: m.session}); err != nil {
		return nil, err
	}
	var at arrival
	if err := l.read(&at); err != nil {
		return nil, err
	}
	if err := at.Limits.Check(); err != nil {
		return nil, err
	}
	m.limits = at.Limits
	from, here := sourceOf(l.conn)
	return m, r.admit(m, from, here, at.Address)
}

// admit makes a member of who comes from an address, and answers pings at an address.
func (r *Rendezvous) admit(m *member, from netip.Addr, here bool, at string) error {
	if err := r.mayCome(m.name, from, here); err != nil {
		return err
	}
	known, err := r.lookup(m.name)
	if err == nil {
		m.address, err = peerAddress(from, at, known)
	}
	if err == nil {
		err = r.add(m, from, here, known)
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.claims.release(m.name, from)
	}
	return err
}

// mayCome returns an error for a name that cannot take part from any address.
func (r *Rendezvous) mayCome(name string, from netip.Addr, here bool) error {
	if !naming.Valid(name) {
		return fmt.Errorf("the name %.40q: must be 1 to %d of the characters A-Z a-z 0-9 . _ : -", name,
			naming.MaxBytes)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return errors.New("the measurement is over")
	case r.called != nil && !r.called[name]:
		return fmt.Errorf("%s is not among the nodes that were called", name)
	case r.names != nil && !slices.Contains(r.names, name):
		return fmt.Errorf("%s came too late: the measurement began without it", name)
	case here:
		return nil // several processes of this host may take part
	}
	err := r.claims.pin(name, from)
	if err != nil {
		r.note(fmt.Sprintf("%v claims to be more nodes than one: it was refused but as node %s", from,
			r.claims.pinned[from]))
	}
	return err
}

// lookup returns the addresses of a name. The addresses of a claimed name are not looked up again.
func (r *Rendezvous) lookup(name string) ([]netip.Addr, error) {
	if r.meeting.Lookup == nil {
		return nil, nil
	}
	r.mu.Lock()
	first, is := r.claims.names[name]
	r.mu.Unlock()
	if is {
		return first.known, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupWait)
	defer cancel()
	known, err := r.meeting.Lookup(ctx, name)
	if err != nil {
		err = fmt.Errorf("node %s was refused: %w", name, err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.note(err.Error())
	}
	return known, err
}

// add makes a connection a member, if its name is its own.
func (r *Rendezvous) add(m *member, from netip.Addr, here bool, known []netip.Addr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("the measurement is over")
	}
	if r.names != nil && !slices.Contains(r.names, m.name) {
		return fmt.Errorf("%s came too late: the measurement began without it", m.name)
	}
	if !here { // a claim of the same address may have been released meanwhile
		if err := r.claims.pin(m.name, from); err != nil {
			return err
		}
	}
	contested, err := r.claims.stake(m.name, from, here, known)
	switch {
	case contested:
		r.dismiss(m.name, err.Error())
		return err
	case err != nil:
		r.note(err.Error())
		return err
	case r.members[m.name] != nil:
		return fmt.Errorf("a node %s is there already: start one process on each node, or use --name", m.name)
	case len(r.members) >= MaxMembers:
		return fmt.Errorf("more than %d nodes came", MaxMembers)
	}
	r.members[m.name] = m
	return nil
}

// sourceOf returns the address from which a connection comes, and whether it is one of this host.
func sourceOf(conn net.Conn) (from netip.Addr, here bool) {
	from = hostOf(conn.RemoteAddr())
	return from, from.IsLoopback() || from == hostOf(conn.LocalAddr())
}

// hostOf returns the IP address of a TCP address.
func hostOf(a net.Addr) netip.Addr {
	if tcp, is := a.(*net.TCPAddr); is {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// peerAddress returns a member's address for pings. Without a host it is the host that its connection comes from. Any
// other host must be a known address of this node.
func peerAddress(from netip.Addr, said string, known []netip.Addr) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(said)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("the address %.60q for pings: %w", said, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return netip.AddrPort{}, fmt.Errorf("the address %.60q for pings: must be an IP address and a port", said)
	}
	if host == "" {
		return netip.AddrPortFrom(from, uint16(number)), nil
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("the address %.60q for pings: must be an IP address and a port", said)
	}
	if address = address.Unmap(); address != from && !slices.Contains(known, address) {
		return netip.AddrPort{}, fmt.Errorf("pings shall go to %v, which is not known as an address of this node: its "+
			"connection comes from %v; list both with --hosts", address, from)
	}
	return netip.AddrPortFrom(address, uint16(number)), nil
}

// take passes the answers of a member to the waiting callers, until its connection ends. It ends the connection if
// there are more answers than commands.
func (r *Rendezvous) take(m *member) {
	for {
		var a answer
		if err := m.read(&a); err != nil {
			return
		}
		r.mu.Lock()
		m.unheard--
		if said := m.waiting[a.ID]; said != nil {
			delete(m.waiting, a.ID)
			said <- a
		}
		unasked := m.unheard < 0
		r.mu.Unlock()
		if unasked {
			return
		}
	}
}

// forget removes a member that is gone, and wakes the callers that wait for it. The caller holds the mutex.
func (r *Rendezvous) forget(m *member) {
	if r.members[m.name] == m {
		delete(r.members, m.name)
	}
	for id, said := range m.waiting {
		delete(m.waiting, id)
		close(said)
	}
}
