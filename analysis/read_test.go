package analysis

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// TestTailNamesUserAndRemedy: whoever may not read a topic learns as whom they asked, and which permission is missing.
// Kafka says the same of a topic that is not there.
func TestTailNamesUserAndRemedy(t *testing.T) {
	broker := kafkatest.Broker(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("SCRAM-SHA-512", "ada", "secret"))
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Kafka.Brokers = broker.ListenAddrs()
	cfg.Kafka.SASL = config.SASL{Mechanism: "SCRAM-SHA-512", User: "ada", PasswordFile: password}
	for _, topic := range []string{"nope", "counters"} {
		err := Tail(t.Context(), cfg, topic, false, func(TailRecord) bool { return false })
		if err == nil {
			t.Fatalf("%s is shown", topic)
		}
		for _, part := range []string{
			"weir." + topic, "user ada", "permission on the topic is missing", cfg.Kafka.Brokers[0],
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
	}
}

// TestAbsentTopicIsNamed: a topic of weir's is made by a command; for another there is a list.
func TestAbsentTopicIsNamed(t *testing.T) {
	broker := kafkatest.Broker(t)
	cfg := config.Default()
	cfg.Kafka.Brokers = broker.ListenAddrs()
	for topic, says := range map[string]string{
		"counters": "`weir topics create` makes what is missing", "nope": "weir has counters, routes,",
		"weir.nope":               `"weir.nope"`,
		strings.Repeat("x", 1000): "weir has counters",
	} {
		err := Tail(t.Context(), cfg, topic, false, func(TailRecord) bool { return false })
		if err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), cfg.Kafka.Brokers[0]) || len(err.Error()) > 400 {
			t.Errorf("%.20s: %v, want a short line with %q", topic, err, says)
		}
	}
}

// TestEndedReadsSaySo: a client that closes with its caller is no fault of Kafka, and nothing else is hidden.
func TestEndedReadsSaySo(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ended(over, kgo.ErrClientClosed); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, err := range []error{nil, errNoTopic} {
		if got := ended(over, err); !errors.Is(got, err) || errors.Is(got, context.Canceled) {
			t.Errorf("%v of %v", got, err)
		}
	}
	if err := ended(t.Context(), kgo.ErrClientClosed); errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
