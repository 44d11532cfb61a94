package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// come joins a rendezvous from an address of the loopback, by hand. It returns the link of the member, and its session.
func come(t *testing.T, r *Rendezvous, from, name string, at arrival) (l *link, session string) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	l = newLink(conn, fromMember)
	var first command
	err = errors.Join(l.introduce(r.meeting.Secret, name), l.read(&first), l.write(at))
	if err != nil {
		t.Fatal(err)
	}
	return l, first.Session
}

// refusal returns why a member is refused.
func refusal(l *link) string {
	var c command
	_ = l.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if err := l.read(&c); err != nil {
		return err.Error()
	}
	return c.Refused
}

func isMember(r *Rendezvous, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members[name] != nil
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestOneMemberHoldsUpNobody: a member that claims to have strict limits, and answers nothing, does not make the others
// wait for as long as these allow. It is not waited for in each round until the end, either.
func TestOneMemberHoldsUpNobody(t *testing.T) {
	r, _, _ := gatherLike(t, Member{}, 3, func(r *Rendezvous) {
		r.patience.most = 4 * time.Second
		come(t, r, "127.0.0.1", "mute", arrival{"127.0.0.1:9", Limits{Share: .0001}})
	})
	if got := r.Names(); !slices.Equal(got, []string{"mute", "n0", "n1", "n2"}) {
		t.Fatal(got)
	}
	longest := func(l Limits) time.Duration {
		if l.Share > 0 {
			return 28 * time.Hour
		}
		return 5 * time.Second
	}
	answered := 0
	for i, round := range slices.Repeat([][]latency.Pair{
		{{A: 0, B: 1}, {A: 2, B: 3}}, {{A: 0, B: 2}, {A: 1, B: 3}}, {{A: 0, B: 3}, {A: 1, B: 2}},
	}, 4) {
		begun := time.Now()
		err := r.each(t.Context(), round, func(l Limits) time.Duration { return longest(l) / 10 },
			func(int) command { return command{Ping: &r.meeting.Ping} },
			func(_ int, a answer, _ time.Duration) {
				if a.ID > 0 {
					answered++
				}
			})
		if took := time.Since(begun); err != nil || took > 20*time.Second {
			t.Fatalf("round %d took %v, %v", i, took, err)
		}
	}
	if isMember(r, "mute") || !isMember(r, "n0") || !isMember(r, "n1") || !isMember(r, "n2") {
		t.Errorf("%d members are left: want all but the mute one; %q", r.Came(), r.Warnings())
	}
	if w := strings.Join(r.Warnings(), "\n"); !strings.Contains(w, "node mute was given up") {
		t.Errorf("the warnings are %q", w)
	}
	if answered != 12 {
		t.Errorf("%d of 12 pairs of the others were answered", answered)
	}
	again, _ := come(t, r, "127.0.0.1", "mute", arrival{"127.0.0.1:9", Limits{}})
	if why := refusal(again); !strings.Contains(why, "given up") {
		t.Errorf("a node that was given up comes again: %q", why)
	}
}

// TestPatience: a member that is late in each round is given up, and none of its partners. The limits of most nodes are
// usual.
func TestPatience(t *testing.T) {
	p := newPatience(time.Hour)
	if got := p.wait(28*time.Hour, 16*time.Second); got != 61*time.Second {
		t.Errorf("a pair is waited for %v", got)
	}
	if got := p.wait(12*time.Second, 16*time.Second); got != 12*time.Second {
		t.Errorf("a fast pair is waited for %v", got)
	}
	var late []string
	rounds := 0
	for ; len(late) == 0 && rounds < 100; rounds++ {
		partner := fmt.Sprintf("n%d", rounds%3)
		late = p.blame([]pairTime{{"bad", partner, 61 * time.Second}, {"a", "b", time.Second}, {"c", "d", time.Second}})
	}
	if !slices.Equal(late, []string{"bad"}) || rounds != 7 {
		t.Errorf("%v were given up after %d rounds", late, rounds)
	}
	if late := p.blame([]pairTime{{"bad", "a", 61 * time.Second}}); late != nil {
		t.Errorf("%v were given up again", late)
	}
	all := []Limits{{Share: .1}, {PacketsPerSecond: 5, Share: .1}, {Share: .0001}}
	if got := medianLimits(all); got != (Limits{Share: .1}) {
		t.Errorf("usual limits of %v: %v", all, got)
	}
	if got := medianLimits(nil); got != (Limits{}) {
		t.Errorf("usual limits of nobody: %v", got)
	}
}

// TestPartnerIsNotGivenUp: a pair may be measured several times in a row, and a long transfer may be waited for far
// longer than it takes. A member that holds up its partner all this time is given up, and the partner is not.
func TestPartnerIsNotGivenUp(t *testing.T) {
	for _, c := range []struct{ rounds, took time.Duration }{{12, 61 * time.Second}, {1, 17 * time.Minute}} {
		p := newPatience(time.Hour)
		var late []string
		for partner := 0; len(late) == 0 && partner < 100; partner++ {
			for range c.rounds {
				late = append(late, p.blame([]pairTime{
					{"bad", fmt.Sprintf("n%d", partner), c.took}, {"a", "b", time.Second}, {"c", "d", time.Second},
				})...)
			}
		}
		if !slices.Equal(late, []string{"bad"}) {
			t.Errorf("%d times in a row for %v: %v were given up", c.rounds, c.took, late)
		}
	}
}

// TestNameIsContested: a name that two addresses claim belongs to neither, and the report lists both.
func TestNameIsContested(t *testing.T) {
	r, _, _ := gather(t, 2)
	thief, _ := come(t, r, "127.0.0.2", "n1", arrival{"127.0.0.2:9", Limits{}})
	if why := refusal(thief); !strings.Contains(why, "127.0.0.1 and 127.0.0.2 both claim to be node n1") {
		t.Errorf("the second was refused by %q", why)
	}
	if isMember(r, "n1") || !isMember(r, "n0") {
		t.Errorf("n1 takes part: %t, n0: %t", isMember(r, "n1"), isMember(r, "n0"))
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], "conflict") {
		t.Errorf("the warnings are %q", w)
	}
	again, _ := come(t, r, "127.0.0.1", "n1", arrival{"127.0.0.1:9", Limits{}})
	if why := refusal(again); !strings.Contains(why, "conflict") {
		t.Errorf("the first was let in again: %q", why)
	}
}

// TestNameHasAnAddress: a name with known addresses goes only to a node at one of them. Pings go to one of them, too.
func TestNameHasAnAddress(t *testing.T) {
	const hosts = "# a comment\n127.0.0.3 n0 # another\n10.9.9.9 n0-fast n0\n\n127.0.0.4\tn1\n"
	lookup, err := ReadHosts(strings.NewReader(hosts))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Coordinate(Meeting{Address: "127.0.0.1:0", Secret: testSecret, Ping: DefaultPing, Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, c := range []struct{ from, name, at, want string }{
		{"127.0.0.4", "n0", ":9", "its addresses are [127.0.0.3 10.9.9.9]"},
		{"127.0.0.3", "n2", ":9", "--hosts does not list it"},
		{"127.0.0.3", "n0", "10.9.9.8:9", "not known as an address"},
		{"127.0.0.3", "n0", "nohost:9", "must be an IP address"},
		{"127.0.0.3", "n0", "127.0.0.3:0", "must be an IP address"},
		{"127.0.0.3", "n0", "", "for pings"},
	} {
		l, _ := come(t, r, c.from, c.name, arrival{c.at, Limits{}})
		if why := refusal(l); !strings.Contains(why, c.want) {
			t.Errorf("%+v: %q", c, why)
		}
	}
	come(t, r, "127.0.0.3", "n0", arrival{"10.9.9.9:9", Limits{}})
	eventually(t, "the owner of a name has it", func() bool { return isMember(r, "n0") })
	l, _ := come(t, r, "127.0.0.4", "n0", arrival{":9", Limits{}})
	if why := refusal(l); !strings.Contains(why, "refused") || !isMember(r, "n0") {
		t.Errorf("another node: %q; the owner is there: %t", why, isMember(r, "n0"))
	}
	for _, text := range []string{"nohost n1", "127.0.0.1 a/b", "1.2.3.4 " + strings.Repeat("x", 1<<17)} {
		if _, err := ReadHosts(strings.NewReader(text)); err == nil {
			t.Errorf("%.40q was read", text)
		}
	}
}

// TestAddressHasOneName: an address of another host claims one name, and no other one for the rest of the measurement.
func TestAddressHasOneName(t *testing.T) {
	r, err := Coordinate(Meeting{
		Address: "127.0.0.1:0", Secret: testSecret, Ping: DefaultPing, Nodes: []string{"n1", "n2", "n3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	bad, good := netip.MustParseAddr("10.0.0.66"), netip.MustParseAddr("10.0.0.2")
	if err := r.mayCome("n1", bad, false); err != nil {
		t.Error(err)
	}
	for i := range 50 {
		if err := r.mayCome("n2", bad, false); err == nil || !strings.Contains(err.Error(), "is node n1 already") {
			t.Errorf("claim %d: %v", i, err)
		}
	}
	if err := r.mayCome("n2", good, false); err != nil {
		t.Errorf("the owner of n2: %v", err)
	}
	err = r.mayCome("n4", netip.MustParseAddr("10.0.0.4"), false)
	if err == nil || !strings.Contains(err.Error(), "called") {
		t.Errorf("a node that was not called: %v", err)
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], "10.0.0.66 claims") {
		t.Errorf("the warnings are %q", w)
	}
}

// TestRefusedAddressesKeepNobodyOut: a node with a whole network of addresses, which claims the names of others with
// them, takes no places. An address that has a name, or contests one, has no second try.
func TestRefusedAddressesKeepNobodyOut(t *testing.T) {
	lookup := func(_ context.Context, name string) ([]netip.Addr, error) {
		if name == "nowhere" {
			return nil, errNotListed
		}
		return map[string][]netip.Addr{"n1": {netip.MustParseAddr("10.0.0.1")}}[name], nil
	}
	r, err := Coordinate(Meeting{Address: "127.0.0.1:0", Secret: testSecret, Ping: DefaultPing, Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	claim := func(name, from, at string) error {
		c := &addressed{from: from}
		return r.admit(&member{link: newLink(c, fromCoordinator), name: name}, netip.MustParseAddr(from), false, at)
	}
	if err := errors.Join(claim("own", "10.0.0.7", ":1"), claim("x", "10.0.0.8", ":1")); err != nil {
		t.Fatal(err)
	}
	if err := claim("x", "10.0.0.9", ":1"); err == nil || !strings.Contains(err.Error(), "both claim") {
		t.Fatal(err)
	}
	for i := range 50 {
		from := fmt.Sprintf("fd00::%x", i)
		for _, c := range [][2]string{{"n1", ":1"}, {"nowhere", ":1"}, {"y", "no address"}, {"x", ":1"}} {
			if claim(c[0], from, c[1]) == nil {
				t.Errorf("%v is %s", from, c[0])
			}
		}
	}
	for _, from := range []string{"10.0.0.7", "10.0.0.8", "10.0.0.9"} {
		if err := claim("z", from, ":1"); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("a second try of %s: %v", from, err)
		}
	}
	if n := len(r.claims.pinned); n != 3 || len(r.claims.names) != 2 {
		t.Errorf("%d addresses and names %v are kept", n, r.claims.names)
	}
}

// TestNotesThatAreTooMany: notes beyond the limit are counted, and a node that causes many of them hides no note of
// another.
func TestNotesThatAreTooMany(t *testing.T) {
	r := Rendezvous{claims: newClaims()}
	for i := range maxNotes + 7 {
		r.note(fmt.Sprint("note ", i))
	}
	w := r.Warnings()
	if len(w) != maxNotes+1 || !strings.HasPrefix(w[maxNotes], "7 further") {
		t.Errorf("%d warnings, the last is %q", len(w), w[len(w)-1])
	}
}

// TestSecretIsNotEnough: a node that knows the secret of the measurement, and takes no part, gets no answer from a
// member. Each member has a key of its own.
func TestSecretIsNotEnough(t *testing.T) {
	r, _, _ := gather(t, 2)
	l, session := come(t, r, "127.0.0.1", "n9", arrival{"127.0.0.1:9", Limits{}})
	if why := refusal(l); !strings.Contains(why, "too late") {
		t.Fatal(why)
	}
	r.mu.Lock()
	at, own := r.members["n1"].address, r.members["n1"].session
	r.mu.Unlock()
	for _, c := range []struct {
		session string
		answers bool
	}{{session, false}, {own, true}} {
		p, key := listen(t, testKey, Limits{}), sessionKey(testSecret, c.session)
		if s, err := p.Ping(t.Context(), at, key, r.meeting.Ping); err != nil || (s.Batches+s.Lost > 0) != c.answers {
			t.Errorf("with session %s: %+v, %v: want an answer: %t", c.session, s, err, c.answers)
		}
	}
}

// TestMemberThatTalksUnasked is left: more answers than commands fill nobody's time.
func TestMemberThatTalksUnasked(t *testing.T) {
	r, err := Coordinate(Meeting{Address: "127.0.0.1:0", Secret: testSecret, Ping: DefaultPing})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l, _ := come(t, r, "127.0.0.1", "n0", arrival{"127.0.0.1:9", Limits{}})
	eventually(t, "it takes part", func() bool { return isMember(r, "n0") })
	_ = l.write(answer{ID: 1, LeastUs: 1})
	eventually(t, "it is left", func() bool { return !isMember(r, "n0") })
}

// TestPlausible: no member reports a value that its answer disproves, and none makes the clock of all others coarse.
func TestPlausible(t *testing.T) {
	for us, want := range map[float64]bool{
		1: true, 2000: true, 2001: false, 0: false, -1: false, 1e-9: false, 1e300: false, math.Inf(1): false,
	} {
		if got := latencyOf(answer{LeastUs: us}, 2*time.Millisecond); math.IsNaN(got) == want {
			t.Errorf("%v us in an answer after 2 ms: %v", us, got)
		}
	}
	for rate, want := range map[float64]bool{1: true, .4: false, 0: false, -1: false, 1e300: false, 2e6: true} {
		got := rateOf(answer{Rate: rate}, latency.Transfer{Bytes: 1e6}, 2*time.Second)
		if math.IsNaN(got) == want {
			t.Errorf("%v MB/s in an answer after 2 s: %v", rate, got)
		}
	}
	r := Rendezvous{ticks: map[string]float64{"a": .01, "b": .02, "c": .01, "bad": 1e6}}
	if got := r.TickUs(); got != .02 {
		t.Errorf("the step of the clock is %v us", got)
	}
}

// TestLobby: connections without a word go, the oldest of one address first.
func TestLobby(t *testing.T) {
	l := lobby{most: 4, each: 2}
	var all []*addressed
	enter := func(from string) {
		c := &addressed{from: from}
		all = append(all, c)
		if !l.enter(c) {
			t.Error("the lobby is closed")
		}
	}
	for _, from := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"} {
		enter(from)
	}
	open := func() (text string) {
		for _, c := range all {
			text += map[bool]string{true: "-", false: "o"}[c.closed]
		}
		return text
	}
	if got := open(); got != "o-ooo" {
		t.Errorf("with two of one address: %s", got)
	}
	enter("10.0.0.4")
	if got := open(); got != "--oooo" {
		t.Errorf("with four: %s", got)
	}
	l.leave(all[2])
	l.close()
	if got := open(); got != "--o---" || l.enter(all[0]) {
		t.Errorf("closed: %s", got)
	}
}

// addressed is a connection that comes from an address, and discards writes.
type addressed struct {
	net.Conn
	from   string
	input  io.Reader
	closed bool
}

func (a *addressed) Close() error                     { a.closed = true; return nil }
func (a *addressed) Write(p []byte) (int, error)      { return len(p), nil }
func (a *addressed) Read(p []byte) (int, error)       { return a.input.Read(p) }
func (a *addressed) SetDeadline(time.Time) error      { return nil }
func (a *addressed) SetReadDeadline(time.Time) error  { return nil }
func (a *addressed) SetWriteDeadline(time.Time) error { return nil }
func (a *addressed) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }
func (a *addressed) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.ParseIP(a.from), Port: 2} }

// FuzzMember: the coordinator continues after any report of a member that knows the secret. It accepts no address of
// another node, and no impossible value.
func FuzzMember(f *testing.F) {
	f.Add("n1", `{"address":":7118","limits":{"share":0.1}}`, `{"id":1,"least_us":1.5,"tick_us":0.1}`)
	f.Add("n1", `{"address":"10.0.0.9:7118"}`, `{"id":1,"least_us":1e300,"rate":1e300}`)
	f.Add("a b", `{"limits":{"packets_per_second":-1}}`, `{}`)
	f.Fuzz(func(t *testing.T, name, at, said string) {
		r := &Rendezvous{
			meeting: Meeting{Secret: testSecret}, claims: newClaims(), patience: newPatience(0),
			members: map[string]*member{}, ticks: map[string]float64{},
		}
		conn := &addressed{from: "10.0.0.2"}
		l := newLink(conn, fromCoordinator)
		l.key = testKey
		var lines bytes.Buffer
		for i, body := range []string{at, said} {
			if !strings.Contains(body, "\n") {
				fmt.Fprintf(&lines, "%s %s\n", l.mac(fromMember, uint64(i), body), body)
			}
		}
		conn.input = &lines
		l.reader.Reset(conn)
		m, err := r.welcome(l, name)
		if err != nil {
			if len(r.members) > 0 {
				t.Errorf("%q was refused, and is a member: %v", name, err)
			}
			return
		}
		if m.address.Addr().String() != "10.0.0.2" || m.address.Port() == 0 {
			t.Errorf("pings go to %v", m.address)
		}
		waiting := make(chan answer, 1)
		m.waiting[1], m.unheard = waiting, 1
		r.take(m)
		select {
		case a := <-waiting:
			us, rate := latencyOf(a, time.Second), rateOf(a, latency.Transfer{Bytes: 1}, time.Second)
			if us < leastUs || us > 1e6 || rate < 1e-6 || rate > mostRate {
				t.Errorf("%v us and %v MB/s were taken", us, rate)
			}
		default:
		}
	})
}

// FuzzHosts: only addresses and names are taken from a file with any contents.
func FuzzHosts(f *testing.F) {
	f.Add("10.0.0.1 n1 n1-fast # one\n::1 n2\n")
	f.Fuzz(func(t *testing.T, text string) {
		lookup, err := ReadHosts(strings.NewReader(text))
		if err != nil {
			return
		}
		for name := range strings.FieldsSeq(text) {
			known, err := lookup(context.Background(), name)
			if err == nil && (len(known) == 0 || slices.Contains(known, netip.Addr{})) {
				t.Errorf("%q is at %v", name, known)
			}
		}
	})
}

// FuzzCommand: a member accepts any command of a coordinator without failing, and pings only valid addresses.
func FuzzCommand(f *testing.F) {
	f.Add(`{"id":1,"to":"10.0.0.1:1","ping":{"Size":64,"Trips":1,"Batches":1},"session":"s"}`)
	f.Add(`{"to":"nohost:99999","transfer":{"Bytes":-1}}`)
	f.Fuzz(func(t *testing.T, body string) {
		var c command
		if json.Unmarshal([]byte(body), &c) != nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nothing is sent
		p := &peer{six: true, orders: make(chan *order), closing: make(chan struct{})}
		if a := p.do(ctx, c, testKey); a.ID != c.ID || a.LeastUs != 0 || a.Rate != 0 {
			t.Errorf("%q gives %+v", body, a)
		}
	})
}
