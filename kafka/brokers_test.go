package kafka

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestBrokerThatComesAndGoes: a listener that accepts every other connection must not fill the log.
func TestBrokerThatComesAndGoes(t *testing.T) {
	var logged strings.Builder
	b := NewBrokers(slog.New(slog.NewTextHandler(&logged, nil)))
	broker := kgo.BrokerMetadata{Host: "127.0.0.1", Port: 9092}
	for range 100 {
		b.OnBrokerConnect(broker, time.Second, nil, refusedBy("127.0.0.1:9092"))
		if !b.Away() {
			t.Fatal("a broker that refuses is not away")
		}
		b.OnBrokerConnect(broker, time.Second, nil, nil)
		if b.Away() {
			t.Fatal("a broker that answers is away")
		}
	}
	gone, back := strings.Count(logged.String(), "no connection to broker"), strings.Count(logged.String(), "is back")
	if gone == 0 || gone > maxLines || back != gone {
		t.Errorf("100 outages within a moment: %d lines that it is away, %d that it is back", gone, back)
	}
}
