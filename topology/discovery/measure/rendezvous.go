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

	"github.com/weirhpc/weir/naming"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

const (
	// Connections that have not shown yet that they know the secret. Nodes come by one each.
	maxStrangers = 1024
	maxEach      = 64 // from one address, before and after it is known that they know it

	// maxCommands bounds the commands of a member at one time. Rounds give it one; late ones may be left over.
	maxCommands = 64

	// answerWait is how late a member's answer may be, beyond the longest duration of the measurement.
	answerWait = 10 * time.Second

	// leastSecret is the least length of a secret in bytes.
	leastSecret = 16

	// lookupWait bounds the lookup of the address of a node's name.
	lookupWait = 5 * time.Second

	// maxNotes bounds the notes of a rendezvous. A note reports a node that was refused or given up.
	maxNotes = 100
)

// MaxMembers bounds who takes part.
const MaxMembers = 100_000

// errSecret is returned for a secret that could be guessed.
var errSecret = fmt.Errorf("the secret is shorter than %d bytes: write one with head -c 32 /dev/urandom | base64",
	leastSecret)

// command is the coordinator's request to a member.
type command struct {
	ID       uint64            `json:"id,omitempty"`
	To       string            `json:"to,omitempty"` // address and port of the other node
	Ping     *Ping             `json:"ping,omitempty"`
	Transfer *latency.Transfer `json:"transfer,omitempty"`
	Session  string            `json:"session,omitempty"` // of the other node; first, of the member itself
	Refused  string            `json:"refused,omitempty"` // why the member may not take part
	End      bool              `json:"end,omitempty"`     // everything is measured
}

// arrival is a member's answer to the session.
type arrival struct {
	Address string `json:"address"` // address for pings. Without a host, the host that its connection comes from.
	Limits  Limits `json:"limits"`
}

// answer is a member's answer to a command. If only the number is set, the other node did not answer.
type answer struct {
	ID       uint64  `json:"id"`
	LeastUs  float64 `json:"least_us,omitempty"`
	MedianUs float64 `json:"median_us,omitempty"`
	TickUs   float64 `json:"tick_us,omitempty"`
	Rate     float64 `json:"rate,omitempty"` // in MB/s
}

// Meeting contains the settings of a rendezvous.
type Meeting struct {
	Address string // TCP address of the coordinator
	Secret  []byte
	Ping    Ping     // of each member
	Limits  Limits   // known limits of all members; each member enforces its own as well
	Nodes   []string // who may take part; nil: everybody who knows the secret
	Lookup  Lookup   // of the addresses of nodes; nil: none is known

	// Longest is how long the whole measurement may take. The others wait for one member for a tenth of it. 0: an hour.
	Longest time.Duration
}

// Lookup returns the addresses of a node. It returns none if nobody knows which node this name belongs to, and an error
// for a name that may not take part.
type Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// Rendezvous coordinates members that measure each other. It is a latency.Measurer and a latency.ThroughputMeasurer.
//
// All members know one secret. So the secret does not prove a member's name: its address does.
type Rendezvous struct {
	meeting   Meeting
	called    map[string]bool // nil: everybody
	listener  net.Listener
	joined    chan struct{} // wakes the goroutine that waits for members
	strangers lobby         // connections of which nothing is known
	comers    lobby         // connections that know the secret but are no members yet

	mu       sync.Mutex
	claims   claims
	patience patience
	members  map[string]*member
	names    []string // once they are settled
	next     uint64
	ticks    map[string]float64 // the step of each member's latencies
	notes    []string
	unnoted  int // notes that were too many
	closed   bool
}

type member struct {
	*link

	name    string
	address netip.AddrPort
	limits  Limits
	session string                 // the coordinator passes it on to the nodes that ping this member
	unheard int                    // commands without an answer
	waiting map[uint64]chan answer // under the mutex of the rendezvous, as unheard
}

// Coordinate listens for members that know the secret. It returns an error if the address cannot be used, or the secret
// is shorter than 16 bytes.
func Coordinate(m Meeting) (*Rendezvous, error) {
	if len(m.Secret) < leastSecret {
		return nil, errSecret
	}
	if err := errors.Join(m.Ping.Check(), m.Limits.Check()); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", m.Address)
	if err != nil {
		return nil, fmt.Errorf("waiting for members: %w", err)
	}
	r := &Rendezvous{
		meeting: m, listener: listener,
		joined: make(chan struct{}, 1), members: map[string]*member{}, ticks: map[string]float64{},
		strangers: lobby{most: maxStrangers, each: maxEach}, comers: lobby{most: MaxMembers, each: maxEach},
		claims: newClaims(), patience: newPatience(m.Longest),
	}
	if m.Nodes != nil {
		r.called = map[string]bool{}
	}
	for _, name := range m.Nodes {
		r.called[name] = true
	}
	go r.accept()
	return r, nil
}

// Address returns the address of the coordinator.
func (r *Rendezvous) Address() string { return r.listener.Addr().String() }

// Came returns how many members there are.
func (r *Rendezvous) Came() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.members)
}

// Settle closes the membership, and returns the number of members. Nobody joins afterwards.
func (r *Rendezvous) Settle() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = slices.SortedFunc(maps.Keys(r.members), compareNames)
	return len(r.names)
}

// Gather waits until there are n members. If the context ends before, it returns an error with the number of members so
// far. Nobody joins afterwards, but a member that lost its connection may come back.
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
func (r *Rendezvous) PacketsPerPair() int { return r.meeting.Ping.packets() }

// TickUs returns the step of the measured latencies in microseconds: the median of the members' steps, which no single
// member makes coarser.
func (r *Rendezvous) TickUs() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ticks) == 0 {
		return 0
	}
	ticks := slices.Sorted(maps.Values(r.ticks))
	return ticks[len(ticks)/2]
}

// Warnings returns the nodes that were refused or given up, with the reasons.
func (r *Rendezvous) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := slices.Clone(r.notes)
	if r.unnoted > 0 {
		w = append(w, fmt.Sprintf("%d further times a node was refused or given up", r.unnoted))
	}
	var unknown []string
	for name := range r.members {
		if r.claims.names[name].unknown() {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.SortFunc(unknown, compareNames)
		w = append(w, fmt.Sprintf("this host knows no address of %d of %d nodes: another node can take such a name "+
			"before its owner comes: %s", len(unknown), len(r.members), shorten(unknown)))
	}
	return w
}

// note keeps a note once.
func (r *Rendezvous) note(text string) {
	switch {
	case slices.Contains(r.notes, text):
	case len(r.notes) < maxNotes:
		r.notes = append(r.notes, text)
	default:
		r.unnoted++
	}
}

// Measure measures the pairs of a round at the same time. One node of each pair pings the other. The fastest of its
// batches counts, because a disturbance only makes a batch slower.
func (r *Rendezvous) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	us := make([]float64, len(round))
	longest := func(l Limits) time.Duration { return l.longestPing(r.meeting.Ping) + answerWait }
	err := r.each(ctx, round, longest, func(int) command {
		return command{Ping: &r.meeting.Ping}
	}, func(i int, a answer, took time.Duration) {
		us[i] = latencyOf(a, took)
		r.mu.Lock()
		defer r.mu.Unlock()
		name := r.names[round[i].A]
		if tick := min(a.TickUs, us[i]); tick > r.ticks[name] {
			r.ticks[name] = tick
		}
	})
	return us, err
}

// Bounds of values that a member may report. No node and no clock goes beyond them.
const (
	leastUs  = .001
	mostRate = 1e9 // in MB/s
)

// latencyOf returns the latency of an answer. It is NaN for a value that cannot be: the answer itself took longer.
func latencyOf(a answer, took time.Duration) float64 {
	if !(a.LeastUs >= leastUs && a.LeastUs <= float64(took.Nanoseconds())/1e3) {
		return math.NaN()
	}
	return a.LeastUs
}

// each gives a command to the first node of each pair of a round, and waits for the answers. A member that is gone or
// late gives an empty answer. Longest returns how long an answer may take under some limits. The limits of one member
// count for its own pairs alone.
func (r *Rendezvous) each(
	ctx context.Context, round []latency.Pair, longest func(Limits) time.Duration,
	of func(i int) command, got func(i int, a answer, took time.Duration),
) error {
	r.mu.Lock()
	usual := longest(r.usual())
	r.mu.Unlock()
	took := make([]time.Duration, len(round))
	var wait sync.WaitGroup
	for i, pair := range round {
		wait.Go(func() {
			begun := time.Now()
			a, asked := r.have(ctx, r.names[pair.A], r.names[pair.B], of(i), func(l Limits) time.Duration {
				return r.patience.wait(longest(l), usual)
			})
			if asked {
				took[i] = time.Since(begun)
			}
			got(i, a, took[i])
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.blame(round, took)
	return nil
}

// usual returns the limits that most members have.
func (r *Rendezvous) usual() Limits {
	var all []Limits
	for _, m := range r.members {
		all = append(all, m.limits)
	}
	return medianLimits(all).stricter(r.meeting.Limits)
}

// blame gives up the members that have held up the others for too long.
func (r *Rendezvous) blame(round []latency.Pair, took []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pairs []pairTime
	for i, p := range round {
		if took[i] > 0 {
			pairs = append(pairs, pairTime{r.names[p.A], r.names[p.B], took[i]})
		}
	}
	for _, name := range r.patience.blame(pairs) {
		r.dismiss(name, fmt.Sprintf("node %s was given up: the others waited for it for %v in all", name,
			r.patience.held[name].Round(time.Second)))
	}
}

// dismiss ends a member for good. The caller holds the mutex.
func (r *Rendezvous) dismiss(name, why string) {
	r.note(why)
	r.claims.refuse(name, why)
	m := r.members[name]
	if m == nil {
		return
	}
	r.forget(m)
	go func() { // which may take a while
		_ = m.tell(command{Refused: why}, time.Second)
		_ = m.conn.Close()
	}()
}

// have gives a member a command about another one, and returns the answer. It returns false if one of them is gone.
func (r *Rendezvous) have(
	ctx context.Context, name, other string, c command, wait func(Limits) time.Duration,
) (answer, bool) {
	r.mu.Lock()
	m, to := r.members[name], r.members[other]
	if m == nil || to == nil {
		r.mu.Unlock()
		return answer{}, false
	}
	limits := m.limits.stricter(to.limits).stricter(r.meeting.Limits)
	r.next++
	c.ID, c.To, c.Session = r.next, to.address.String(), to.session
	said := make(chan answer, 1)
	m.waiting[c.ID] = said
	m.unheard++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(m.waiting, c.ID)
	}()
	ctx, cancel := context.WithTimeout(ctx, wait(limits))
	defer cancel()
	if m.tell(c, answerWait) != nil {
		_ = m.conn.Close() // it does not read
		return answer{}, true
	}
	select {
	case a := <-said: // closed if the member is gone
		return a, true
	case <-ctx.Done():
		return answer{}, true
	}
}

// Close notifies the members that everything is measured.
func (r *Rendezvous) Close() error {
	r.mu.Lock()
	r.closed = true
	members := slices.Collect(maps.Values(r.members))
	r.mu.Unlock()
	r.strangers.close()
	r.comers.close()
	for _, m := range members {
		_ = m.tell(command{End: true}, time.Second)
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
