package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirhpc/weir/topology/latency"
)

const (
	// maxStrangers bounds the connections that have not shown yet that they know the secret. The oldest goes first.
	maxStrangers = 1024

	// maxCommands bounds what a member does at once. Rounds give it one command; late ones may be left over.
	maxCommands = 64

	// answerWait is how long a member may be late with its answer, over what the measurement itself may take.
	answerWait = 10 * time.Second

	// leastSecret is the least length of a secret in bytes.
	leastSecret = 16
)

// MaxMembers bounds who takes part.
const MaxMembers = 100_000

// errSecret is returned for a secret that could be guessed.
var errSecret = fmt.Errorf("the secret is shorter than %d bytes: write one with head -c 32 /dev/urandom | base64",
	leastSecret)

// command is what the coordinator has a member do.
type command struct {
	ID       uint64            `json:"id,omitempty"`
	To       string            `json:"to,omitempty"` // address and port of the other node
	Ping     *Ping             `json:"ping,omitempty"`
	Transfer *latency.Transfer `json:"transfer,omitempty"`
	Session  string            `json:"session,omitempty"` // of the first command: the session's key is made of it
	Refused  string            `json:"refused,omitempty"` // why the member may not take part
	End      bool              `json:"end,omitempty"`     // everything is measured
}

// arrival is a member's answer to the session.
type arrival struct {
	Address string `json:"address"` // where it answers pings. Without a host, it is where its connection comes from.
	Limits  Limits `json:"limits"`
}

// answer is what a member says to a command. Nothing but the number: the other node did not answer.
type answer struct {
	ID       uint64  `json:"id"`
	LeastUs  float64 `json:"least_us,omitempty"`
	MedianUs float64 `json:"median_us,omitempty"`
	TickUs   float64 `json:"tick_us,omitempty"`
	Rate     float64 `json:"rate,omitempty"` // in MB/s
}

// Rendezvous coordinates members that measure each other. It is a latency.Measurer and a latency.ThroughputMeasurer.
type Rendezvous struct {
	listener net.Listener
	secret   []byte
	session  string
	ping     Ping
	joined   chan struct{} // wakes who waits for members

	mu        sync.Mutex
	limits    Limits // the strictest of any member: they tell how long an answer may take
	members   map[string]*member
	strangers []net.Conn // oldest first
	names     []string   // once they are settled
	next      uint64
	tickUs    float64
	closed    bool
}

type member struct {
	*link

	name    string
	address netip.AddrPort
	waiting map[uint64]chan answer // under the mutex of the rendezvous
}

// Coordinate listens at a TCP address for members that know the secret. The ping is that of each member. Members keep
// limits of their own; these and the ones given tell how long an answer may take. It returns an error if the address
// cannot be used, or the secret is shorter than 16 bytes.
func Coordinate(address string, secret []byte, ping Ping, limits Limits) (*Rendezvous, error) {
	if len(secret) < leastSecret {
		return nil, errSecret
	}
	if err := errors.Join(ping.Check(), limits.Check()); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("waiting for members: %w", err)
	}
	r := &Rendezvous{
		listener: listener, secret: secret, session: newNonce(), ping: ping, limits: limits,
		joined: make(chan struct{}, 1), members: map[string]*member{},
	}
	go r.accept()
	return r, nil
}

// Address returns where the coordinator listens.
func (r *Rendezvous) Address() string { return r.listener.Addr().String() }

// Came returns how many members there are.
func (r *Rendezvous) Came() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.members)
}

// Settle takes those who came as all who take part, and returns how many they are. Nobody joins afterwards.
func (r *Rendezvous) Settle() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = slices.SortedFunc(maps.Keys(r.members), compareNames)
	return len(r.names)
}

// Gather waits until there are n members. It returns an error that names the number of those who came if the context
// ends before. Nobody joins afterwards, but a member that lost its connection may come back.
func (r *Rendezvous) Gather(ctx context.Context, n int) error {
	if n < 2 || n > MaxMembers {
		return fmt.Errorf("%d nodes: must be 2 to %d", n, MaxMembers)
	}
	for {
		r.mu.Lock()
		came := len(r.members)
		if came >= n {
			r.names = slices.SortedFunc(maps.Keys(r.members), compareNames)
		}
		r.mu.Unlock()
		if came >= n {
			return nil
		}
		select {
		case <-r.joined:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes came to %s: %w", came, n, r.Address(), ctx.Err())
		}
	}
}

// compareNames sorts n2 before n10.
func compareNames(a, b string) int {
	prefix := func(s string) (string, int) {
		text := strings.TrimRight(s, "0123456789")
		n, err := strconv.Atoi(s[len(text):])
		if err != nil {
			return s, -1
		}
		return text, n
	}
	textA, numberA := prefix(a)
	textB, numberB := prefix(b)
	if textA != textB {
		return strings.Compare(textA, textB)
	}
	if numberA != numberB {
		return numberA - numberB
	}
	return strings.Compare(a, b)
}

// Names returns the names of the members, once they are gathered.
func (r *Rendezvous) Names() []string { return r.names }

// PacketsPerPair returns how many packets each of two nodes sends while they are measured.
func (r *Rendezvous) PacketsPerPair() int { return r.ping.packets() }

// TickUs returns the coarsest step of the measured latencies in microseconds, as far as members told it.
func (r *Rendezvous) TickUs() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tickUs
}

// Measure measures the pairs of a round at the same time. One node of each pair pings the other. The least of its
// batches counts: what disturbs a batch only makes it slower.
func (r *Rendezvous) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	us := make([]float64, len(round))
	r.mu.Lock()
	longest := r.limits.longestPing(r.ping)
	r.mu.Unlock()
	err := r.each(ctx, round, longest, func(int) command {
		return command{Ping: &r.ping}
	}, func(i int, a answer) {
		us[i] = positive(a.LeastUs)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tickUs = max(r.tickUs, a.TickUs)
	})
	return us, err
}

// positive returns NaN for what is no measured value.
func positive(value float64) float64 {
	if !(value > 0) || math.IsInf(value, 0) {
		return math.NaN()
	}
	return value
}

// each gives a command to the first node of each pair of a round, and waits for the answers. A member that is gone or
// late gives an empty answer.
func (r *Rendezvous) each(
	ctx context.Context, round []latency.Pair, longest time.Duration, of func(i int) command, got func(i int, a answer),
) error {
	ctx, cancel := context.WithTimeout(ctx, longest+answerWait)
	defer cancel()
	var wait sync.WaitGroup
	for i, pair := range round {
		wait.Go(func() { got(i, r.have(ctx, r.names[pair.A], r.names[pair.B], of(i))) })
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// have gives a member a command about another one, and returns the answer.
func (r *Rendezvous) have(ctx context.Context, name, other string, c command) answer {
	r.mu.Lock()
	m, to := r.members[name], r.members[other]
	if m == nil || to == nil {
		r.mu.Unlock()
		return answer{}
	}
	r.next++
	c.ID, c.To = r.next, to.address.String()
	said := make(chan answer, 1)
	m.waiting[c.ID] = said
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(m.waiting, c.ID)
	}()
	if m.write(c) != nil {
		return answer{}
	}
	select {
	case a := <-said: // closed if the member is gone
		return a
	case <-ctx.Done():
		return answer{}
	}
}

// Close tells the members that everything is measured.
func (r *Rendezvous) Close() error {
	r.mu.Lock()
	r.closed = true
	members := slices.Collect(maps.Values(r.members))
	for _, c := range r.strangers {
		_ = c.Close()
	}
	r.mu.Unlock()
	for _, m := range members {
		_ = m.conn.SetWriteDeadline(time.Now().Add(time.Second))
		_ = m.write(command{End: true})
		_ = m.conn.Close()
	}
	return r.listener.Close()
}

func (r *Rendezvous) accept() {
	for {
		conn, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, say: the strangers' wait ends soon
			wait := time.NewTimer(10 * time.Millisecond)
			<-wait.C
			continue
		}
		if !r.admitted(conn) {
			_ = conn.Close()
			continue
		}
		go r.meet(conn)
	}
}

// admitted notes a connection of which nothing is known yet.
func (r *Rendezvous) admitted(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if len(r.strangers) >= maxStrangers {
		_ = r.strangers[0].Close()
		r.strangers = r.strangers[1:]
	}
	r.strangers = append(r.strangers, conn)
	return true
}

// meet does the handshake with a connection, and then takes its answers. It ends a connection that does not know the
// secret, which is nobody's business.
func (r *Rendezvous) meet(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(handshakeWait))
	l := newLink(conn, fromCoordinator)
	who, err := l.admit(r.secret)
	r.mu.Lock()
	r.strangers = slices.DeleteFunc(r.strangers, func(c net.Conn) bool { return c == conn })
	r.mu.Unlock()
	if err != nil || l.write(command{Session: r.session}) != nil {
		return
	}
	var at arrival
	if l.read(&at) != nil {
		return
	}
	m, err := r.add(l, who.Name, at)
	if err != nil {
		_ = l.write(command{Refused: err.Error()})
		return
	}
	_ = conn.SetDeadline(time.Time{})
	select {
	case r.joined <- struct{}{}:
	default:
	}
	r.take(m)
	r.remove(m)
}

// add makes a connection a member. A name that is there already is refused: two processes run on one node.
func (r *Rendezvous) add(l *link, name string, at arrival) (*member, error) {
	address, err := peerAddress(l.conn, at.Address)
	if err := errors.Join(err, at.Limits.Check()); err != nil {
		return nil, err
	}
	if name == "" || len(name) > 255 || strings.ContainsAny(name, ", \t\r\n#\"") {
		return nil, fmt.Errorf("the name %.40q: must be 1 to 255 characters, without blank, comma, quote and #", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, errors.New("the measurement is over")
	case r.members[name] != nil:
		return nil, fmt.Errorf("a node %s is there already: start one process on each node, or use --name", name)
	case r.names != nil && !slices.Contains(r.names, name):
		return nil, fmt.Errorf("%s came too late: the measurement began without it", name)
	case len(r.members) >= MaxMembers:
		return nil, fmt.Errorf("more than %d nodes came", MaxMembers)
	}
	m := &member{link: l, name: name, address: address, waiting: map[uint64]chan answer{}}
	r.members[name] = m
	r.limits = r.limits.stricter(at.Limits)
	return m, nil
}

// peerAddress returns where a member answers pings. Without a host it is where its connection comes from.
func peerAddress(conn net.Conn, said string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(said)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("the address %.60q for pings: %w", said, err)
	}
	if host == "" {
		if host, _, err = net.SplitHostPort(conn.RemoteAddr().String()); err != nil {
			return netip.AddrPort{}, fmt.Errorf("the address %v of a member: %w", conn.RemoteAddr(), err)
		}
	}
	address, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err != nil || address.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("the address %.60q for pings: must be an IP address and a port", said)
	}
	return netip.AddrPortFrom(address.Addr().Unmap(), address.Port()), nil
}

// take hands the answers of a member to those who wait for them, until its connection ends.
func (r *Rendezvous) take(m *member) {
	for {
		var a answer
		if err := m.read(&a); err != nil {
			return
		}
		r.mu.Lock()
		if said := m.waiting[a.ID]; said != nil {
			delete(m.waiting, a.ID)
			said <- a
		}
		r.mu.Unlock()
	}
}

// remove forgets a member that is gone, and answers those who wait for it.
func (r *Rendezvous) remove(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, m.name)
	for id, said := range m.waiting {
		delete(m.waiting, id)
		close(said)
	}
}

// Member is a node that takes part in a measurement.
type Member struct {
	Coordinator string // TCP address, host and port
	Secret      []byte
	Name        string
	Listen      string // UDP address for pings. Without a host, the node is pinged where it connects from.
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
	peer, sink, err := m.listen(derive(m.Secret, "session", first.Session))
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
			_ = l.write(peer.do(ctx, c))
			<-atOnce
		}()
	}
}

// listen starts a peer, and a sink of transfers at the same port. Where any port will do, it tries several: one that is
// free for UDP may be taken for TCP. Without a sink the transfers of this node fail.
func (m Member) listen(key []byte) (*Peer, *sink, error) {
	_, port, _ := net.SplitHostPort(m.Listen)
	for tries := 1; ; tries++ {
		peer, err := Listen(m.Listen, key, m.Limits)
		if err != nil || !m.Transfers {
			return peer, nil, err
		}
		s, err := newSink(peer.Address(), peer.key)
		if err == nil || port != "0" || tries == 10 {
			return peer, s, nil
		}
		_ = peer.Close()
	}
}

// announced returns the address of a peer as a member tells it: without a host if it listens at all of them.
func (p *Peer) announced() string {
	a := p.Address()
	if a.Addr().IsUnspecified() {
		return ":" + strconv.Itoa(int(a.Port()))
	}
	return a.String()
}

// do does one command.
func (p *Peer) do(ctx context.Context, c command) answer {
	a := answer{ID: c.ID}
	to, err := netip.ParseAddrPort(c.To)
	if err == nil && c.Transfer != nil {
		if rate, err := sendTransfer(ctx, to, p.key, *c.Transfer); err == nil {
			a.Rate = rate
		}
		return a
	}
	if err != nil || c.Ping == nil {
		return a
	}
	sample, err := p.Ping(ctx, to, *c.Ping)
	if err == nil && sample.Batches > 0 {
		a.LeastUs, a.MedianUs, a.TickUs = sample.LeastUs, sample.MedianUs, sample.TickUs
	}
	return a
}
