package kafka

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestBrokerThatComesAndGoes: a listener that accepts every other connection must not fill the log.
func TestBrokerThatComesAndGoes(t *testing.T) {
	var logged strings.Builder
	b := NewBrokers(slog.New(slog.NewTextHandler(&logged, nil)))
	broker := kgo.BrokerMetadata{Host: "127.0.0.1", Port: 9092}
	refused := &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092},
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
	for range 100 {
		b.OnBrokerConnect(broker, time.Second, nil, refused)
		if !b.Away() {
			t.Fatal("a broker that refuses is not away")
		}
		b.OnBrokerConnect(broker, time.Second, nil, nil)
		if b.Away() {
			t.Fatal("a broker that answers is away")
		}
	}
	gone, back := strings.Count(logged.String(), "no connection to broker"), strings.Count(logged.String(), "is back")
	const mostLines = 12 // of one trouble within ten minutes
	if gone == 0 || gone > mostLines || back != gone {
		t.Errorf("100 outages within a moment: %d lines that it is away, %d that it is back", gone, back)
	}
}
