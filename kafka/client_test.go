package kafka

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestBackoffIsBounded(t *testing.T) {
	for tries := range 100 {
		if d := retry.Backoff(tries, 5*time.Second); d < 125*time.Millisecond || d > 5*time.Second {
			t.Fatalf("try %d waits %v", tries, d)
		}
	}
}

func TestClientOptsNameWhatIsMissing(t *testing.T) {
	c := config.Default()
	if _, err := ClientOpts(context.Background(), c); !errors.Is(err, ErrNoBrokers) {
		t.Error(err)
	}
	c.Kafka.Brokers = []string{"h:1"}
	c.Kafka.TLS = config.TLS{Enabled: true, CAFile: write(t, "no certificate")}
	if _, err := ClientOpts(context.Background(), c); err == nil || !strings.Contains(err.Error(), "ca_file") {
		t.Error(err)
	}
	c.Kafka.TLS = config.TLS{}
	c.Kafka.SASL = config.SASL{Mechanism: config.ScramSHA256, User: "u", PasswordFile: "/nowhere"}
	if _, err := ClientOpts(context.Background(), c); err == nil || !strings.Contains(err.Error(), "password_file") {
		t.Error(err)
	}
	c.Kafka.SASL.PasswordFile = write(t, "secret\n")
	if _, err := ClientOpts(context.Background(), c); err != nil {
		t.Error(err)
	}
}
