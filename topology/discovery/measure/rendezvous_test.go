package measure

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

var testSecret = []byte("a secret of more than 16 bytes")

// A rendezvous of n members, and a function that ends one of them.
func gather(t *testing.T, n int) (r *Rendezvous, leave []context.CancelFunc, ended chan error) {
	t.Helper()
	return gatherLike(t, Member{}, n)
}

// gatherLike is gather, of members with the settings of one. Others may come first.
func gatherLike(
	t *testing.T, like Member, n int, others ...func(r *Rendezvous),
) (r *Rendezvous, leave []context.CancelFunc, ended chan error) {
	t.Helper()
	ping := Ping{Size: 64, Trips: 5, Batches: 3}
	r, err := Coordinate(Meeting{Address: "127.0.0.1:0", Secret: testSecret, Ping: ping})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	for _, come := range others {
		come(r)
	}
	ended = make(chan error, n)
	for i := range n {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		leave = append(leave, cancel)
		m := like
		m.Coordinator, m.Secret, m.Name, m.Listen = r.Address(), testSecret, "n"+strconv.Itoa(i), "127.0.0.1:0"
		go func() { ended <- m.Join(ctx, 10*time.Second) }()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := r.Gather(ctx, n+len(others)); err != nil {
		t.Fatal(err)
	}
	return r, leave, ended
}

func TestRendezvous(t *testing.T) {
	r, leave, ended := gather(t, 11)
	if got := strings.Join(r.Names(), " "); got != "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10" {
		t.Errorf("nodes are %s", got)
	}
	round := []latency.Pair{{A: 0, B: 1}, {A: 2, B: 3}}
	us, err := r.Measure(t.Context(), round)
	if err != nil {
		t.Fatal(err)
	}
	for i, u := range us {
		if !(u > 0 && u < 1e6) {
			t.Errorf("pair %v took %v us", round[i], u)
		}
	}
	if r.TickUs() <= 0 {
		t.Error("no member told the step of its clock")
	}

	// A member that is gone makes its pairs NaN, and nothing else.
	leave[0]()
	<-ended
	for r.Came() == 11 {
		time.Sleep(time.Millisecond)
	}
	us, err = r.Measure(t.Context(), round)
	if err != nil || !math.IsNaN(us[0]) || !(us[1] > 0) {
		t.Errorf("without n0: %v, %v: want NaN and a latency", us, err)
	}
	_ = r.Close()
	for range 10 {
		if err := <-ended; err != nil {
			t.Errorf("a member of a measurement that ended returned %v", err)
		}
	}
}

// TestMemberKeepsItsLimits: a member that measures latencies alone sends no transfer, which its limits would not bound.
func TestMemberKeepsItsLimits(t *testing.T) {
	r, _, _ := gather(t, 2)
	rates, err := r.MeasureThroughput(t.Context(), []latency.Pair{{A: 0, B: 1}}, latency.Transfer{Bytes: 1 << 20})
	if err != nil || !math.IsNaN(rates[0]) {
		t.Errorf("%v MB/s, %v", rates, err)
	}
}

// TestMemberLeavesAFlood: a coordinator cannot fill the memory of a node with commands.
func TestMemberLeavesAFlood(t *testing.T) {
	r, _, ended := gather(t, 2)
	for range 50 * maxCommands {
		go r.have(t.Context(), "n0", "n1", command{Ping: &Ping{Size: 64, Trips: 1000, Batches: 100}},
			func(Limits) time.Duration { return time.Minute })
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "commands at once") {
		t.Errorf("a member that was flooded returned %v", err)
	}
}

// TestSettle: who came takes part, and nobody else.
func TestSettle(t *testing.T) {
	r, leave, ended := gather(t, 3)
	leave[1]()
	<-ended
	for r.Came() == 3 {
		time.Sleep(time.Millisecond)
	}
	if n := r.Settle(); n != 2 || strings.Join(r.Names(), " ") != "n0 n2" {
		t.Errorf("%d settled: %v", n, r.Names())
	}
	late := Member{Coordinator: r.Address(), Secret: testSecret, Name: "n9", Listen: "127.0.0.1:0"}
	if err := late.Join(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "too late") {
		t.Errorf("a late member: %v", err)
	}
}

// Connections that do not know the secret neither take part nor hinder those that do.
func TestRendezvousStrangers(t *testing.T) {
	r, _, _ := gather(t, 2)
	for _, text := range []string{
		"", "GET / HTTP/1.1\r\n\r\n", "{}\n", "null\n", strings.Repeat("x", 2*maxLine),
		`{"name":"n7","nonce":"` + newNonce() + `","mac":"00"}` + "\n",
	} {
		conn, err := net.Dial("tcp", r.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text)
	}
	other := []byte("another secret of 16 bytes")
	m := Member{Coordinator: r.Address(), Secret: other, Name: "n2", Listen: "127.0.0.1:0"}
	if err := m.Join(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "secrets differ") {
		t.Errorf("a member with another secret: %v", err)
	}
	if n := r.Came(); n != 2 {
		t.Errorf("%d members, want 2", n)
	}
	if us, err := r.Measure(t.Context(), []latency.Pair{{A: 0, B: 1}}); err != nil || !(us[0] > 0) {
		t.Errorf("beside strangers: %v, %v", us, err)
	}
}

func TestRendezvousRefuses(t *testing.T) {
	r, _, _ := gather(t, 2)
	for name, want := range map[string]string{"n1": "there already", "n3": "too late", "a b": "of the characters"} {
		m := Member{Coordinator: r.Address(), Secret: testSecret, Name: name, Listen: "127.0.0.1:0"}
		if err := m.Join(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: want %q", name, err, want)
		}
	}
	if _, err := Coordinate(Meeting{Address: "127.0.0.1:0", Secret: []byte("short"), Ping: DefaultPing}); err == nil {
		t.Error("a short secret was taken")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Gather(ctx, 3); err == nil || !strings.Contains(err.Error(), "2 of 3") {
		t.Errorf("a member that does not come: %v", err)
	}
}

// A message that was changed, repeated or sent back is refused.
func TestLinkRefusesForgeries(t *testing.T) {
	for name, forge := range map[string]func(line string) string{
		"changed":   func(line string) string { return strings.Replace(line, "true", "null", 1) },
		"repeated":  func(line string) string { return line + line },
		"unsigned":  func(line string) string { return line[65:] },
		"no line":   func(string) string { return "\n" },
		"too long":  func(line string) string { return line + strings.Repeat("x", maxLine+1) },
		"truncated": func(line string) string { return line[:70] + "\n" },
	} {
		a, b := net.Pipe()
		from, to := newLink(a, fromCoordinator), newLink(b, fromMember)
		from.key, to.key = testKey, testKey
		body := `{"end":true}`
		line := from.mac(fromCoordinator, 0, body) + " " + body + "\n"
		go func() {
			_, _ = io.WriteString(a, forge(line))
			_ = a.Close()
		}()
		var c command
		err := to.read(&c)
		if err == nil && name != "changed" {
			err = to.read(&c)
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		_ = b.Close()
	}
}
