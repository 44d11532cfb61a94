package measure

import (
	"bytes"
	"io"
	"math"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// TestRendezvousThroughput: pairs send in one direction or both, and a pair of a node that is gone is NaN.
func TestRendezvousThroughput(t *testing.T) {
	r, leave, ended := gatherLike(t, Member{Transfers: true}, 4)
	round := []latency.Pair{{A: 0, B: 1}, {A: 2, B: 3}}
	for _, both := range []bool{false, true} {
		rates, err := r.MeasureThroughput(t.Context(), round, latency.Transfer{Bytes: 4_000_000, Both: both})
		if err != nil {
			t.Fatal(err)
		}
		for i, rate := range rates {
			if !(rate > .1 && rate < 1e6) {
				t.Errorf("pair %v, both %v: %v MB/s", round[i], both, rate)
			}
		}
	}
	leave[1]()
	<-ended
	for r.Came() == 4 {
		time.Sleep(time.Millisecond)
	}
	rates, err := r.MeasureThroughput(t.Context(), round, latency.Transfer{Bytes: 1000})
	if err != nil || !math.IsNaN(rates[0]) || !(rates[1] > 0) {
		t.Errorf("without n1: %v, %v: want NaN and a rate", rates, err)
	}
	for _, bytes := range []int64{0, -1, mostTransfer + 1} {
		if _, err := r.MeasureThroughput(t.Context(), round, latency.Transfer{Bytes: bytes}); err == nil {
			t.Errorf("%d bytes were sent", bytes)
		}
	}
}

// TestTransferWithoutKey: a connection that does not know the key sends nothing that is taken.
func TestTransferWithoutKey(t *testing.T) {
	s, err := newSink(netip.MustParseAddrPort("127.0.0.1:0"), testSecret)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	address, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal(s.listener.Addr())
	}
	transfer := latency.Transfer{Bytes: 100_000}
	if rate, err := sendTransfer(t.Context(), address.AddrPort(), []byte("another secret, 16+"), transfer); err == nil {
		t.Errorf("a stranger sent at %v MB/s", rate)
	}
	if rate, err := sendTransfer(t.Context(), address.AddrPort(), testSecret, transfer); err != nil || !(rate > 0) {
		t.Errorf("%v MB/s, %v", rate, err)
	}
}

// TestIdleConnectionsHinderNoTransfer: a stranger without a key who stays connected takes no place.
func TestIdleConnectionsHinderNoTransfer(t *testing.T) {
	s, err := newSink(netip.MustParseAddrPort("127.0.0.1:0"), testSecret)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 200 {
		conn, err := net.Dial("tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, len(newNonce()))) // it is served
	}
	to := netip.MustParseAddrPort(s.listener.Addr().String())
	rate, err := sendTransfer(t.Context(), to, testSecret, latency.Transfer{Bytes: 100_000})
	if err != nil || !(rate > 0) {
		t.Errorf("%v MB/s, %v", rate, err)
	}
}

// TestTransferCountsWhatArrives: the rate is not that of what only fills the buffers of the sender.
func TestTransferCountsWhatArrives(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const pause = 300 * time.Millisecond
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		nonce := newNonce()
		_, _ = io.WriteString(conn, nonce)
		transfer, err := readOpenTransfer(conn, testSecret, nonce)
		if err != nil {
			return
		}
		time.Sleep(pause)
		_ = carry(conn, transfer.Bytes, false, true)
		_, _ = conn.Write([]byte{1})
	}()
	address, _ := listener.Addr().(*net.TCPAddr)
	rate, err := sendTransfer(t.Context(), address.AddrPort(), testSecret, latency.Transfer{Bytes: 1000})
	if most := 1000 / pause.Seconds() / 1e6; err != nil || !(rate > 0 && rate <= most) {
		t.Errorf("%v MB/s, %v, want at most %v", rate, err, most)
	}
}

// FuzzOpenTransfer: only what the key signed is a transfer, and no other bytes do harm.
func FuzzOpenTransfer(f *testing.F) {
	signed := signTransfer(testSecret, "nonce", latency.Transfer{Bytes: 5, Both: true})
	f.Add(signed)
	f.Add(signed[:openLength-1])
	f.Add(make([]byte, openLength))
	f.Fuzz(func(t *testing.T, message []byte) {
		transfer, err := readOpenTransfer(bytes.NewReader(message), testSecret, "nonce")
		if err == nil && !bytes.Equal(message[:openLength], signTransfer(testSecret, "nonce", transfer)) {
			t.Errorf("%x was taken as %v", message, transfer)
		}
	})
}
