package config

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Brokers is a hook of Kafka clients that says once that a broker cannot be reached, and once that it can again. The client
// itself tries for ever, and silently: a wrong password or certificate shows nowhere else. Clients may share one.
type Brokers struct {
	log  *slog.Logger
	mu   sync.Mutex
	away map[string]bool // by address
}

var _ kgo.HookBrokerConnect = (*Brokers)(nil)

// NewBrokers returns a hook that writes to log.
func NewBrokers(log *slog.Logger) *Brokers { return &Brokers{log: log, away: map[string]bool{}} }

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (b *Brokers) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	address := net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port)))
	b.mu.Lock()
	defer b.mu.Unlock()
	switch was := b.away[address]; {
	case err != nil && !was:
		b.log.Warn("broker away, waiting for it", "broker", address, "err", err)
	case err == nil && was:
		b.log.Info("broker is back", "broker", address)
	}
	b.away[address] = err != nil
}

// Away reports whether any broker could not be reached when it was last tried.
func (b *Brokers) Away() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, away := range b.away {
		if away {
			return true
		}
	}
	return false
}
