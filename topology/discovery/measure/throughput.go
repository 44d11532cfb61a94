package measure

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

const (
	// mostTransfer bounds a pair's transfer in one direction, in bytes.
	mostTransfer = 1 << 40

	// transferPause is how long a transfer may stand still.
	transferPause = 10 * time.Second

	// slowestRate bounds the wait for a transfer, in bytes a second.
	slowestRate = 1 << 20

	// Connections to a node that send. A round gives it one.
	maxTransfers = 16

	// Connections to a node that have not shown yet that they know its key.
	maxUnsigned, maxUnsignedEach = 64, 16

	// transferBuffer is the size of one read or write, in bytes.
	transferBuffer = 256 << 10
)

// errTransfer is returned for a transfer that a node does not want.
var errTransfer = fmt.Errorf("a transfer must have 1 to %d bytes, and know the session's key", int64(mostTransfer))

// openLength is the length in bytes of a sender's first message. It consists of a MAC over the receiver's nonce and the
// rest, the number of bytes, and 1 for both directions.
const openLength = 32 + 8 + 1

// readOpenTransfer reads a sender's first message. It returns an error if the key did not sign it.
func readOpenTransfer(r io.Reader, key []byte, nonce string) (latency.Transfer, error) {
	var message [openLength]byte
	if _, err := io.ReadFull(r, message[:]); err != nil {
		return latency.Transfer{}, fmt.Errorf("a transfer's first message: %w", err)
	}
	if !hmac.Equal(message[:32], derive(key, "transfer", nonce, string(message[32:]))) {
		return latency.Transfer{}, errTransfer
	}
	bytes := binary.BigEndian.Uint64(message[32:])
	if bytes < 1 || bytes > mostTransfer {
		return latency.Transfer{}, errTransfer
	}
	return latency.Transfer{Bytes: int64(bytes), Both: message[40] == 1}, nil
}

// signTransfer returns the sender's first message.
func signTransfer(key []byte, nonce string, transfer latency.Transfer) []byte {
	rest := binary.BigEndian.AppendUint64(nil, uint64(transfer.Bytes)) //nolint:gosec // it is not negative
	if transfer.Both {
		rest = append(rest, 1)
	} else {
		rest = append(rest, 0)
	}
	return append(derive(key, "transfer", nonce, string(rest)), rest...)
}

// sink receives transfers at the TCP port of the same number as a peer's UDP port.
type sink struct {
	listener  net.Listener
	key       []byte
	strangers lobby
	senders   lobby
}

// newSink starts a sink. It returns an error if the port is taken.
func newSink(address netip.AddrPort, key []byte) (*sink, error) {
	listener, err := net.Listen("tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("receiving transfers: %w", err)
	}
	s := &sink{
		listener: listener, key: key,
		strangers: lobby{most: maxUnsigned, each: maxUnsignedEach}, senders: lobby{most: maxTransfers, each: 1},
	}
	go s.run()
	return s, nil
}

// Close ends the sink. Transfers under way end when they stand still.
func (s *sink) Close() error { return s.listener.Close() }

func (s *sink) run() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			wait := time.NewTimer(10 * time.Millisecond)
			<-wait.C
			continue
		}
		go func() {
			defer conn.Close()
			_ = s.receive(conn)
		}()
	}
}

// receive takes one transfer, and writes one byte after the last has arrived.
func (s *sink) receive(conn net.Conn) error {
	transfer, err := s.greet(conn)
	if err != nil {
		return err
	}
	s.senders.enter(conn)
	defer s.senders.leave(conn)
	if err := carry(conn, transfer.Bytes, transfer.Both, true); err != nil {
		return err
	}
	_, err = conn.Write([]byte{1})
	return err
}

// greet returns the transfer that a connection wants, if it knows the key.
func (s *sink) greet(conn net.Conn) (latency.Transfer, error) {
	s.strangers.enter(conn)
	defer s.strangers.leave(conn)
	_ = conn.SetDeadline(time.Now().Add(transferPause))
	nonce := newNonce()
	if _, err := io.WriteString(conn, nonce); err != nil {
		return latency.Transfer{}, err
	}
	return readOpenTransfer(conn, s.key, nonce)
}

// carry receives or sends bytes, or both at the same time. It returns the error of the side that fails first.
func carry(conn net.Conn, bytes int64, both, receiver bool) error {
	var halves []func() error
	if both || receiver {
		halves = append(halves, func() error { return take(conn, bytes) })
	}
	if both || !receiver {
		halves = append(halves, func() error { return give(conn, bytes) })
	}
	failed := make(chan error, len(halves))
	for _, half := range halves {
		go func() { failed <- half() }()
	}
	for range halves {
		if err := <-failed; err != nil {
			_ = conn.Close() // the other half ends too
			return err
		}
	}
	return nil
}

// take reads bytes and drops them.
func take(conn net.Conn, bytes int64) error {
	buffer := make([]byte, transferBuffer)
	for bytes > 0 {
		_ = conn.SetReadDeadline(time.Now().Add(transferPause))
		n, err := conn.Read(buffer[:min(bytes, transferBuffer)])
		if bytes -= int64(n); err != nil && bytes > 0 {
			return fmt.Errorf("receiving a transfer: %w", err)
		}
	}
	return nil
}

// give writes bytes.
func give(conn net.Conn, bytes int64) error {
	buffer := make([]byte, transferBuffer)
	for bytes > 0 {
		_ = conn.SetWriteDeadline(time.Now().Add(transferPause))
		n, err := conn.Write(buffer[:min(bytes, transferBuffer)])
		if bytes -= int64(n); err != nil {
			return fmt.Errorf("sending a transfer: %w", err)
		}
	}
	return nil
}

// sendTransfer sends to the sink of another node. It returns the rate of one direction in MB/s, from the first byte to
// the confirmation that the last has arrived.
func sendTransfer(ctx context.Context, to netip.AddrPort, key []byte, transfer latency.Transfer) (float64, error) {
	if transfer.Bytes < 1 || transfer.Bytes > mostTransfer {
		return math.NaN(), errTransfer
	}
	conn, err := (&net.Dialer{Timeout: transferPause}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return math.NaN(), fmt.Errorf("a transfer to %v: %w", to, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(transferPause))
	nonce := make([]byte, len(newNonce()))
	if _, err := io.ReadFull(conn, nonce); err != nil {
		return math.NaN(), fmt.Errorf("a transfer to %v: %w", to, err)
	}
	begin := time.Now()
	if _, err := conn.Write(signTransfer(key, string(nonce), transfer)); err != nil {
		return math.NaN(), fmt.Errorf("a transfer to %v: %w", to, err)
	}
	if err := carry(conn, transfer.Bytes, transfer.Both, false); err != nil {
		return math.NaN(), err
	}
	_ = conn.SetReadDeadline(time.Now().Add(transferPause))
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return math.NaN(), fmt.Errorf("a transfer to %v: %w", to, err)
	}
	return float64(transfer.Bytes) / time.Since(begin).Seconds() / 1e6, nil
}

// MeasureThroughput lets the pairs of a round send at the same time, over TCP. The first node of each pair connects to
// the second. If a transfer fails, or stands still for ten seconds, the pair's rate is NaN.
func (r *Rendezvous) MeasureThroughput(
	ctx context.Context, round []latency.Pair, transfer latency.Transfer,
) ([]float64, error) {
	if transfer.Bytes < 1 || transfer.Bytes > mostTransfer {
		return nil, errTransfer
	}
	rates := make([]float64, len(round))
	longest := transferPause + time.Duration(transfer.Bytes/slowestRate)*time.Second + answerWait
	err := r.each(ctx, round, func(Limits) time.Duration { return longest }, func(int) command {
		return command{Transfer: &transfer}
	}, func(i int, a answer, took time.Duration) { rates[i] = rateOf(a, transfer, took) })
	return rates, err
}

// rateOf returns the rate of an answer in MB/s. It is NaN for a rate that cannot be: the answer itself came sooner.
func rateOf(a answer, transfer latency.Transfer, took time.Duration) float64 {
	if !(a.Rate <= mostRate && a.Rate*1e6*took.Seconds() >= float64(transfer.Bytes)) {
		return math.NaN()
	}
	return a.Rate
}
