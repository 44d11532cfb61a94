package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
