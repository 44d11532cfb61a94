package topics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
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

// TestUnreachableNamesARemedy that fits: the embedded broker is only proposed where it would be asked.
func TestUnreachableNamesARemedy(t *testing.T) {
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for _, c := range []struct {
		brokers string
		err     error
		says    string
	}{
		{"localhost:9092", refused, "Start `weir up`"},
		{"127.0.0.1:9092,[::1]:9092,127.9.9.9:1", refused, "Start `weir up`"},
		{"localhost:9092,k1.example.org:9092", refused, "check kafka.brokers, and that Kafka runs there"},
		{"10.0.0.1:9092", refused, "check kafka.brokers, and that Kafka runs there"},
		{"localhost.example.org:9092", refused, "check kafka.brokers, and that Kafka runs there"},
		{"10.0.0.1:9092", context.DeadlineExceeded, "the firewall"},
		{"localhost:9092", errors.New("odd"), "check kafka.brokers, and that Kafka runs there"},
	} {
		cfg := config.Default()
		cfg.Kafka.Brokers = strings.Split(c.brokers, ",")
		err := unreachable(cfg, c.err)
		if !errors.Is(err, errUnreachable) || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), c.brokers) {
			t.Errorf("%s, %v: %v, want %q", c.brokers, c.err, err, c.says)
		}
		if strings.Contains(err.Error(), "weir up") != strings.Contains(c.says, "weir up") {
			t.Errorf("%s, %v: %v", c.brokers, c.err, err)
		}
	}
}

// TestAbsentIsWhatCannotBeRead, and nothing else.
func TestAbsentIsWhatCannotBeRead(t *testing.T) {
	cfg := config.Default()
	there := kadm.PartitionDetails{0: {}}
	for name, c := range map[string]struct {
		topic string
		d     kadm.TopicDetail
		want  error // nil: it can be read
	}{
		"there":            {"weir.counters", kadm.TopicDetail{Partitions: there}, nil},
		"another's, there": {"weir.mine", kadm.TopicDetail{Partitions: there}, nil},
		"not there": {
			"weir.counters",
			kadm.TopicDetail{Err: kerr.UnknownTopicOrPartition},
			kafka.ErrNoPartition,
		},
		"without a partition":     {"weir.jobs", kadm.TopicDetail{}, kafka.ErrNoPartition},
		"another's, not there":    {"weir.mine", kadm.TopicDetail{Err: kerr.UnknownTopicOrPartition}, errNoTopic},
		"with the prefix of ours": {"weir.weir.jobs", kadm.TopicDetail{}, errNoTopic},
		"not to be read": {
			"weir.jobs",
			kadm.TopicDetail{Err: kerr.TopicAuthorizationFailed, Partitions: there},
			kerr.TopicAuthorizationFailed,
		},
		"without a leader": {
			"weir.jobs",
			kadm.TopicDetail{Err: kerr.LeaderNotAvailable},
			kerr.LeaderNotAvailable,
		},
	} {
		err := absent(cfg, c.topic, c.d)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.topic) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
