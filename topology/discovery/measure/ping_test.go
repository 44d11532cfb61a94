package measure

import (
	"context"
	"math"
	"net"
	"net/netip"
	"testing"
	"time"
)

var testKey = []byte("0123456789abcdef")

func listen(t *testing.T, key []byte, limits Limits) *peer {
	t.Helper()
	p, err := Listen("127.0.0.1:0", key, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestPing(t *testing.T) {
	a, b := listen(t, testKey, Limits{}), listen(t, testKey, Limits{})
	for _, size := range []int{minSize, 64, 1400, maxSize} {
		s, err := a.Ping(t.Context(), b.address(), testKey, Ping{Size: size, Trips: 10, Batches: 5})
		if err != nil {
			t.Fatal(err)
		}
		if !(s.LeastUs > 0 && s.LeastUs <= s.MedianUs && s.Batches > 0) {
			t.Errorf("%d bytes: %+v: want a latency above 0", size, s)
		}
		t.Logf("%d bytes: %+v", size, s)
	}
	s, err := b.Ping(t.Context(), a.address(), testKey, Ping{Size: 64, Trips: 10, Batches: 5})
	if err != nil || s.Batches == 0 {
		t.Errorf("the other way: %+v, %v", s, err)
	}
}

// Two nodes that ping each other at the same time answer each other.
func TestPingBothAtOnce(t *testing.T) {
	a, b := listen(t, testKey, Limits{}), listen(t, testKey, Limits{})
	other := make(chan sample)
	ping := Ping{Size: 64, Trips: 10, Batches: 10}
	go func() {
		s, _ := b.Ping(context.Background(), a.address(), testKey, ping)
		other <- s
	}()
	s, err := a.Ping(t.Context(), b.address(), testKey, ping)
	if err != nil {
		t.Fatal(err)
	}
	if o := <-other; s.Batches == 0 || o.Batches == 0 {
		t.Errorf("%+v and %+v: one of them was not answered", s, o)
	}
}

func TestPingNobody(t *testing.T) {
	a := listen(t, testKey, Limits{})
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stranger := listen(t, []byte("another key, another session"), Limits{})
	address, _ := netip.ParseAddrPort(silent.LocalAddr().String())
	for name, to := range map[string]netip.AddrPort{"silent": address, "of another session": stranger.address()} {
		begun := time.Now()
		s, err := a.Ping(t.Context(), to, testKey, DefaultPing)
		if err != nil || !math.IsNaN(s.LeastUs) || !math.IsNaN(s.MedianUs) {
			t.Errorf("a peer that is %s: %+v, %v: want NaN and no error", name, s, err)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("a peer that is %s took %v", name, took)
		}
	}
}

func TestPingEnds(t *testing.T) {
	a := listen(t, testKey, Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	nobody := netip.MustParseAddrPort("127.0.0.1:9")
	if _, err := a.Ping(ctx, nobody, testKey, DefaultPing); err == nil {
		t.Error("a ping of a context that ended returned no error")
	}
	_ = a.Close()
	if _, err := a.Ping(t.Context(), nobody, testKey, DefaultPing); err == nil {
		t.Error("a closed peer pinged")
	}
}

func TestListenRefuses(t *testing.T) {
	for name, listen := range map[string]func() (*peer, error){
		"a short key":   func() (*peer, error) { return Listen("127.0.0.1:0", []byte("short"), Limits{}) },
		"a bad address": func() (*peer, error) { return Listen("127.0.0.1:notaport", testKey, Limits{}) },
		"a bad share":   func() (*peer, error) { return Listen("127.0.0.1:0", testKey, Limits{Share: 2}) },
		"a bad rate":    func() (*peer, error) { return Listen("127.0.0.1:0", testKey, Limits{PacketsPerSecond: -1}) },
	} {
		if p, err := listen(); err == nil {
			_ = p.Close()
			t.Errorf("%s was taken", name)
		}
	}
}
